//! The reader/writer lock of eight bytes. Its word is described in `word`.
//!
//! Orderings: entering is an Acquire and leaving a Release, so one section happens before the next.
//! A section inside the thin lock happens before those in the slot: the exchange that installs the
//! slot acquires what came before it, and whoever follows the name acquires that. The lock becomes
//! thin by a release, of a thread that has acquired the full lock alone.

mod nascent_word;
mod slow;
mod upgrade;
mod visible;
mod word;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::inflate::{AtomicOf, Codec, Inflates, SlotOf};
use super::marks;
use crate::events::EventCounts;
use crate::platform::{ConstZero, PooledPlatform};
use crate::rwsem::{PastQueue, Policy, RwSem};
use crate::wait::{Access, Thread, Wait, WaitError};
pub(super) use word::RwWord;

/// A sleeping reader/writer lock of eight bytes, without data. See [`RwLock`](crate::RwLock), the one
/// with data, for what it promises and when it blocks, and [`RwSem`] for the forms in which its
/// methods come.
///
/// While threads wait, it is an [`RwSem`] from a pool. A policy other than the default one, and
/// [events](crate::events), are kept there: such a lock has its `RwSem` from its first use until it
/// is dropped. If a lock is dropped while it is held (by a forgotten guard), its `RwSem` is lost.
pub struct ThinRwSem<P: PooledPlatform> {
    word: AtomicOf<RwWord, P::AtomicU64>,
}

impl<P: PooledPlatform> ThinRwSem<P> {
    /// A free lock that follows `policy`. An `aim` or a `handoff_after` of more than nine hours is
    /// shortened to nine hours.
    pub fn new(policy: Policy) -> Self {
        Self { word: AtomicOf::new(nascent_word::word(policy)) }
    }

    /// A free lock that follows the default policy.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self { word: AtomicOf::new_const() }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P: PooledPlatform<AtomicU64 = AtomicU64>,
    {
        Self { word: AtomicOf::of(AtomicU64::new(nascent_word::word(policy).0)) }
    }

    /// The policy this lock was made with.
    pub fn policy(&self) -> &Policy {
        if !self.load().keeps_full() {
            return &Policy::DEFAULT;
        }
        self.on_full(RwSem::policy)
    }

    /// Counts this lock's [events](crate::events::Event) in `counts` too; with `None`, no longer.
    /// Several locks may share one `counts`. From then on the lock stays inflated.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.on_full(|sem| {
            sem.set_events(counts);
            // The slot is pinned, so the word names it now and later.
            self.word.stick();
        });
    }

    // ---- read ----

    /// Takes the lock for reading; blocks until it has it.
    ///
    /// # Panics
    /// If there are [`TooManyReaders`](WaitError::TooManyReaders).
    #[inline]
    pub fn read(&self) {
        let at_once = match marks::find::<P, _>(self) {
            None => self.read_thin(RwWord::FREE),
            Some((me, mark)) => match self.visible_at(me, mark, false) {
                Some((word, place)) => self.show(me, word, place),
                None => self.read_again(me, mark),
            },
        };
        if !at_once && !self.read_full_at_once() {
            self.enter_for_ever(Access::Shared, false);
        }
    }

    /// Takes the lock for reading if that needs no waiting. Never blocks. It may also fail at the moment
    /// when another thread begins to wait, if only readers are inside.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read(&self) -> bool {
        self.at_once(Access::Shared) || self.try_enter(Access::Shared, false)
    }

    /// Takes the lock for reading; gives up as `wait` says.
    #[inline]
    pub fn read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.enter_with(Access::Shared, false, wait)
    }

    /// Enters a thin lock in this way, if nothing is in the way (for one that is no mere reader:
    /// if nobody is inside), and nobody else comes at the same time.
    #[inline(always)]
    fn at_once(&self, access: Access) -> bool {
        let word = match marks::find::<P, _>(self) {
            None => RwWord::FREE,
            Some((me, mark)) => {
                let visible = self.visible_at(me, mark, false).filter(|_| access == Access::Shared);
                if visible.is_some_and(|(word, place)| self.show(me, word, place)) {
                    return true;
                }
                self.expected()
            }
        };
        match access {
            Access::Shared => self.read_thin(word),
            _ => word == RwWord::FREE && self.enter_free(access),
        }
    }

    /// As [`at_once`](Self::at_once), for reading; the word is expected to be `word`.
    #[inline(always)]
    fn read_thin(&self, word: RwWord) -> bool {
        // Acquire: owns the lock on success (rule 3).
        let count =
            |word: RwWord| self.word.exchange(word, word.taken(Access::Shared), Ordering::Acquire);
        word.is_open_to_readers()
            && match count(word) {
                Ok(()) => true,
                Err(word) => word.is_open_to_readers() && count(word).is_ok(),
            }
    }

    /// Enters an inflated lock as a reader, if nothing is in the way but those that wait.
    #[inline(never)] // or it would be in every caller's loop
    fn read_full_at_once(&self) -> bool {
        self.full_at_once(Access::Shared, RwSem::read_past_queue)
    }

    /// Gives up the lock held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        if let Some((me, mark)) = marks::find::<P, _>(self) {
            return match self.visible_at(me, mark, true) {
                Some((_, place)) => self.hide(me, place),
                None => self.leave_marked_as_reader(mark),
            };
        }
        // Release: what was read under the lock stays before the next writer.
        if self.word.exchange(RwWord::READ, RwWord::FREE, Ordering::Release).is_err() {
            self.leave(Access::Shared, false);
        }
    }

    /// Takes the lock for reading even past waiting writers if readers hold it
    /// already; else like [`read`](Self::read). For a thread that may hold it.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    pub fn read_recursive(&self) {
        if !self.at_once(Access::Shared) {
            self.enter_for_ever(Access::Shared, true);
        }
    }

    /// As [`read_recursive`](Self::read_recursive), without waiting; false if the lock
    /// is [saturated](Self::is_saturated), too.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read_recursive(&self) -> bool {
        self.at_once(Access::Shared) || self.try_enter(Access::Shared, true)
    }

    /// As [`read_recursive`](Self::read_recursive); gives up as `wait` says.
    pub fn read_recursive_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.enter_with(Access::Shared, true, wait)
    }

    // ---- write ----

    /// Takes the lock for writing; blocks until it has it.
    #[inline]
    pub fn write(&self) {
        let at_once = match marks::find::<P, _>(self) {
            None => self.enter_free(Access::Exclusive),
            Some((me, mark)) => self.write_again(me, mark),
        };
        if !at_once && !self.write_full_at_once() {
            self.enter_for_ever(Access::Exclusive, false);
        }
    }

    /// Takes the lock for writing if that needs no waiting. Never blocks. It may also fail at the moment
    /// when another thread begins to wait.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_write(&self) -> bool {
        self.at_once(Access::Exclusive) || self.try_enter(Access::Exclusive, false)
    }

    /// Takes the lock for writing; gives up as `wait` says.
    #[inline]
    pub fn write_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.enter_with(Access::Exclusive, false, wait)
    }

    /// Enters a free thin lock.
    #[inline(always)]
    fn enter_free(&self, access: Access) -> bool {
        // Acquire: as in `read_thin`.
        self.word.exchange(RwWord::FREE, RwWord::FREE.taken(access), Ordering::Acquire).is_ok()
    }

    /// Enters an inflated lock as a writer, if nobody is inside.
    #[inline(never)]
    fn write_full_at_once(&self) -> bool {
        self.full_at_once(Access::Exclusive, RwSem::write_past_queue)
    }

    /// One attempt of `take` at the full lock.
    ///
    /// It needs no frame on the stack: all calls are its last step.
    #[inline(always)]
    fn full_at_once(
        &self,
        access: Access,
        take: impl for<'a> Fn(&'a RwSem<P>, &Thread<P>) -> Option<PastQueue<'a, P>>,
    ) -> bool {
        let Some(me) = marks::known::<P>() else { return false };
        let word = self.load();
        if !word.is_inflated() {
            return false;
        }
        let slot = self.slot(word);
        let Some(taken) = take(&slot.full, me) else { return false };
        self.entered(word, slot, access, taken.found_free(), || {
            self.remember(me, word, slot);
            taken.note(me);
            true
        })
    }

    /// Gives up the lock held for writing. It does not touch the lock any more once another thread can
    /// have it, so the next owner may free the lock even before this returns.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        if let Some((me, mark)) = marks::find::<P, _>(self) {
            return self.leave_marked(me, mark);
        }
        // Release: what was written is seen by whoever takes the lock next.
        if let Err(word) = self.word.exchange(RwWord::WRITTEN, RwWord::FREE, Ordering::Release) {
            self.leave_full(word, Access::Exclusive, false);
        }
    }

    /// Turns the lock held for writing into one held for reading, with no gap in which another
    /// writer could get in, and lets queued readers in beside the caller. Never blocks.
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, for reading.
    pub unsafe fn downgrade(&self) {
        // Release: the readers let in see what was written.
        if let Err(word) = self.word.exchange(RwWord::WRITTEN, RwWord::READ, Ordering::Release) {
            // SAFETY: the caller's promise; a holder's slot stays.
            unsafe { self.slot(word).full.downgrade() }
        }
    }

    /// Gives up the lock held for writing, to the queue if anyone waits: nobody
    /// gets in before the waiter whose turn it is.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_write_fair(&self) {
        self.leave(Access::Exclusive, true);
    }

    /// Gives up the lock held for reading; if anyone waits, nobody gets in
    /// before the waiter whose turn it is. Other readers inside stay inside.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    pub unsafe fn unlock_read_fair(&self) {
        self.leave(Access::Shared, true);
    }

    // ---- looking ----

    /// Whether anyone holds the lock at this instant.
    pub fn is_locked(&self) -> bool {
        let is_held = |word: RwWord| {
            if word.is_visible() { Self::is_read_visibly(word) } else { word.is_held() }
        };
        self.look(is_held, RwSem::is_locked)
    }

    /// Whether a writer holds the lock at this instant.
    pub fn is_write_locked(&self) -> bool {
        self.look(RwWord::is_written, RwSem::is_write_locked)
    }

    /// Whether a thread is queued at this instant.
    pub fn has_waiters(&self) -> bool {
        self.look(|_| false, RwSem::has_waiters)
    }

    /// As [`RwSem::is_saturated`].
    pub fn is_saturated(&self) -> bool {
        self.look(RwWord::is_full, RwSem::is_saturated)
    }

    /// As [`RwSem::planned_wait_ns`].
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> Option<u64> {
        self.on_full(|sem| sem.planned_wait_ns(grants_ahead))
    }

    /// Whether the lock is an [`RwSem`] of the pool at this instant.
    #[doc(hidden)]
    pub fn is_inflated(&self) -> bool {
        self.load().is_inflated()
    }

    /// Whether the lock keeps its full one, once it is used, until it is dropped.
    pub fn keeps_full(&self) -> bool {
        self.load().keeps_full()
    }

    /// `count` more readers hold this lock, which nobody else uses.
    ///
    /// # Safety
    /// No writer holds the lock, and those counted already leave room for these.
    #[doc(hidden)]
    pub unsafe fn adopt_readers(&self, count: usize) {
        let word = self.load();
        if word.is_thin() && !word.is_watched() {
            self.word.add_readers(count);
        } else {
            // SAFETY: the caller's promise.
            self.on_full(|sem| unsafe { sem.adopt_readers(count) });
        }
    }

    /// The calling thread, `me`, has the full lock, or is about to wait for it.
    #[inline(always)]
    fn remember(&self, me: &Thread<P>, word: RwWord, slot: &'static SlotOf<Self>) {
        marks::mark(me, self, slot, slot.seems_calm(word.name()));
    }

    /// The word of the lock, of which the thread remembers that it is inflated or visible: all read it then, and
    /// nobody should take the line.
    #[inline(always)]
    fn expected(&self) -> RwWord {
        let word = self.load();
        if !word.is_inflated() && !word.is_visible() {
            marks::unmark::<P, _>(self);
        }
        word
    }
}

impl<P: PooledPlatform> fmt::Debug for ThinRwSem<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThinRwSem")
            .field("locked", &self.is_locked())
            .field("write_locked", &self.is_write_locked())
            .field("waiters", &self.has_waiters())
            .field("inflated", &self.is_inflated())
            .field("visible", &self.shows_readers())
            .finish()
    }
}
