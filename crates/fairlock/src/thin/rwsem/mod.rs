//! The reader/writer lock of eight bytes. Its word is in [`word`].
//!
//! Orderings: entering is an Acquire and leaving a Release, so one section happens before the next.
//! A section inside the thin lock happens before those in the slot: the exchange that installs the
//! slot acquires the former, and a thread that follows the name acquires that exchange. The lock
//! becomes thin by a release of a thread that has acquired the full lock alone.

#[cfg(all(test, feature = "std", not(any(fairlock_loom, miri))))]
mod interrupted_test;
mod upgrade;
mod visible;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::inflate::{AtomicOf, Codec, Inflates, PinOf, SlotOf, Slots, leave_other};
use super::local::Mark;
use super::marks;
use super::word::{self, Holder, RwWord};
use crate::deadlock::{Id, Noted};
use crate::events::EventCounts;
use crate::platform::{ConstZero, PooledPlatform};
use crate::rwsem::{Again, PastQueue, Policy, RwSem, Turns, Word};
use crate::wait::{Access, LOOK_NS, Thread, Wait, WaitContext, WaitError};

/// A sleeping reader/writer lock of eight bytes, without data. See [`RwLock`](crate::RwLock), the one
/// with data, for what it promises and when it blocks, and [`RwSem`] for the forms in which its
/// methods come.
///
/// While threads wait, it is an [`RwSem`] from a pool. A policy other than the default one, and
/// [events](crate::events), are kept there: such a lock has its `RwSem` from its first use until it
/// is dropped. If a lock is dropped while it is held (by a forgotten guard), its `RwSem` is lost.
pub struct ThinRwSem<P: PooledPlatform> {
    word: AtomicOf<RwWord, P::AtomicU64>,
    id: Id,
}

impl<P: PooledPlatform> Noted for ThinRwSem<P> {
    #[inline]
    fn id(&self) -> &Id {
        &self.id
    }
}

impl<P: PooledPlatform> ThinRwSem<P> {
    /// A free lock that follows `policy`. An `aim` of more than nine hours is
    /// shortened to nine hours.
    pub fn new(policy: Policy) -> Self {
        Self { word: AtomicOf::new(RwWord::following(policy)), id: Id::new() }
    }

    /// A free lock that follows the default policy.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self { word: AtomicOf::new_const(), id: Id::new() }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P: PooledPlatform<AtomicU64 = AtomicU64>,
    {
        let word = AtomicOf::of(AtomicU64::new(RwWord::following(policy).0));
        Self { word, id: Id::new() }
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
            // The slot is pinned, so the lock has it now and later.
            while !self.word.stick() {
                self.settled(self.load());
            }
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
            None => {
                self.enter_thin(RwWord::FREE, Access::Shared) || self.full_at_once(Access::Shared)
            }
            Some((me, mark)) => match self.visible_at(mark) {
                Some(word) => self.show(me, mark, word),
                None => self.read_marked(me, mark),
            },
        };
        if !at_once {
            self.enter_for_ever(Access::Shared, false);
        }
    }

    /// Takes the lock for reading if that needs no waiting. Never blocks. If only readers are
    /// inside, it may also fail at the moment when another thread begins to wait.
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

    /// Enters a thin lock in this way, if nothing is in the way (for a writer or upgradable reader:
    /// if nobody is inside), and no other thread comes at the same time.
    #[inline(always)]
    fn at_once(&self, access: Access) -> bool {
        let word = match marks::find::<P, _>(self) {
            None => RwWord::FREE,
            Some((me, mark)) => {
                let visible = self.visible_at(mark).filter(|_| access == Access::Shared);
                if visible.is_some_and(|word| self.show(me, mark, word)) {
                    return true;
                }
                self.expected()
            }
        };
        self.enter_thin(word, access)
    }

    /// As [`at_once`](Self::at_once); the word is expected to be `word`.
    #[inline(always)]
    fn enter_thin(&self, word: RwWord, access: Access) -> bool {
        // Acquire: owns the lock on success (rule 3).
        let take = |word: RwWord| self.word.exchange(word, word.taken(access), Ordering::Acquire);
        if access != Access::Shared {
            return word == RwWord::FREE && take(word).is_ok();
        }
        word.is_open_to_readers()
            && match take(word) {
                Ok(()) => true,
                Err(word) => word.is_open_to_readers() && take(word).is_ok(),
            }
    }

    /// One attempt at the full lock of an inflated lock, by a thread that does not remember it, or was not its last
    /// writer: enters if only waiters are in the way.
    #[inline(never)] // or it would be in every caller's loop
    fn full_at_once(&self, access: Access) -> bool {
        let Some(me) = marks::known::<P>() else { return false };
        let word = self.load();
        if !word.is_inflated() {
            return false;
        }
        let slot = self.slot(word);
        self.note_past_queue(me, word, slot, slot.full.past_queue(me, access))
    }

    /// Gives up the lock held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        if let Some((me, mark)) = marks::find::<P, _>(self) {
            return match self.visible_at(mark) {
                Some(word) if self.hide(me, mark, word, self.place(word)) => {}
                Some(_) => self.leave(Access::Shared, false),
                None => self.leave_marked_as_reader(mark),
            };
        }
        // Release: what was read under the lock stays before the next writer.
        if self.word.exchange(RwWord::READ, RwWord::FREE, Ordering::Release).is_err() {
            self.leave(Access::Shared, false);
        }
    }

    /// Takes the lock for reading, even past waiting writers if readers already hold it; otherwise
    /// like [`read`](Self::read). For a thread that may already hold the lock.
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
            None => {
                self.enter_thin(RwWord::FREE, Access::Exclusive)
                    || self.full_at_once(Access::Exclusive)
            }
            Some((me, mark)) => self.write_marked(me, mark),
        };
        if !at_once {
            self.enter_for_ever(Access::Exclusive, false);
        }
    }

    /// Takes the lock for writing if that needs no waiting. Never blocks, but in a signal handler: there it may
    /// wait for memory that the interrupted thread has locked, if the readers of the lock are visible. It may also
    /// fail at the moment when another thread begins to wait.
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

    /// The calling thread, `me`, has tried to take the full lock that `word` named past its queue.
    #[inline(always)]
    fn note_past_queue(
        &self,
        me: &Thread<P>,
        word: RwWord,
        slot: &'static SlotOf<Self>,
        taken: Option<PastQueue<'_, P>>,
    ) -> bool {
        let Some(taken) = taken else { return false };
        if !self.entered(word, slot, taken.access, taken.found_free()) {
            return false;
        }
        let found = (taken.before.readers(), taken.found_free());
        self.remember(me, word, slot, taken.access, found);
        taken.note(me);
        true
    }

    /// Releases the lock held for writing. The call does not touch the lock after another thread
    /// can acquire it, so the next owner may free the lock even before the call returns.
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

    /// Releases the lock held for writing, to the queue if anyone waits: nobody gets in before the
    /// waiter whose turn it is.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_write_fair(&self) {
        self.leave(Access::Exclusive, true);
    }

    /// Releases the lock held for reading; if anyone waits, nobody gets in before the waiter whose
    /// turn it is. Other readers stay inside.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    pub unsafe fn unlock_read_fair(&self) {
        self.leave(Access::Shared, true);
    }

    // ---- looking ----

    /// Whether anyone holds the lock at this instant.
    pub fn is_locked(&self) -> bool {
        loop {
            let word = self.load();
            if !word.is_visible() {
                // If it is visible by now, some reader was inside.
                return self.look(|word| word.is_visible() || word.is_held(), RwSem::is_locked);
            }
            let is_read = self.is_read_visibly(word);
            if self.names(word) {
                return is_read;
            }
        }
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
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
        self.on_full(|sem| sem.planned_wait_ns(grants_ahead))
    }

    /// Whether the lock is an [`RwSem`] of the pool at this instant.
    #[doc(hidden)]
    pub fn is_inflated(&self) -> bool {
        self.full_of(self.load()).is_some()
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

    /// The calling thread, `me`, has the full lock in this way, beside so many readers, and found it free or not; or is
    /// about to wait for it.
    #[inline(always)]
    fn remember(
        &self,
        me: &Thread<P>,
        word: RwWord,
        slot: &'static SlotOf<Self>,
        access: Access,
        (others, found_free): (usize, bool),
    ) {
        let mark = marks::mark(me, self, slot);
        let looks = slot.seems_uncontended(word.name());
        match access {
            Access::Shared => mark.note_read(others, found_free, looks),
            _ => {
                slot.full.is_read_no_longer();
                mark.looks.set(looks);
            }
        }
    }

    /// The slot of an inflated lock, or of one that is visible and full.
    fn full_of(&self, word: RwWord) -> Option<&'static SlotOf<Self>> {
        if word.is_inflated() { Some(self.slot(word)) } else { self.kept(word) }
    }

    /// The word of a lock that the thread remembers as inflated or visible: all threads read such a
    /// word, so none should take its line.
    #[inline(always)]
    fn expected(&self) -> RwWord {
        let word = self.load();
        if !word.is_inflated() && !word.is_visible() {
            marks::unmark::<P, _>(self);
        }
        word
    }
}

// ---- the slow path: where one exchange of the word does not do ----

/// How often a thread tries before it concludes that the word is crowded, and a full lock's
/// `fetch_add` is better. In attempts; compared with those of this call.
const ATTEMPTS: u32 = 4;

/// The result of an attempt to enter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Entered,
    /// Somebody is in the way, in a thin lock.
    Taken,
    /// Somebody is in the way, in an inflated lock.
    TakenElsewhere,
    /// Other threads changed the word repeatedly.
    Crowded,
    /// One more reader cannot be counted, in a thin lock.
    Full,
    /// The lock has to be inflated.
    Uninit,
}

impl<P: PooledPlatform> ThinRwSem<P> {
    #[cold]
    fn enter_for_ever(&self, access: Access, again: bool) {
        if let Err(error) = self.enter(access, again, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// Enters; gives up as `wait` says.
    #[inline(always)]
    fn enter_with(&self, access: Access, again: bool, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.at_once(access) { Ok(()) } else { self.enter(access, again, &wait.begin()) }
    }

    /// The slow way in. `again`: beside readers, even past waiting writers.
    #[inline(never)] // its frame is large
    fn enter(
        &self,
        access: Access,
        again: bool,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let mut looks = 0;
        if access == Access::Shared {
            self.revoke_if_others_are_in_the_way();
        }
        loop {
            let awake = |sem: &RwSem<P>| {
                let taken =
                    if again { sem.try_read_recursive() } else { sem.take_awake(access, context) };
                taken.then_some(()).ok_or(false)
            };
            match self.attempt(access, false, awake) {
                Entry::Entered => return Ok(()),
                Entry::Full => return Err(WaitError::TooManyReaders),
                Entry::Taken if looks < context.most_looks(0) => {
                    let done = |word: RwWord| !word.is_taken(access);
                    P::spin_until(&self.word.0, LOOK_NS << looks, |bits| done(RwWord::of(bits)));
                    looks += 1;
                }
                Entry::Taken | Entry::TakenElsewhere => break,
                Entry::Crowded if access == Access::Shared && self.watches_crowd() => P::pause(),
                // More threads come at once than exchanges can serve. If the lock has become
                // visible since, it stays so.
                Entry::Crowded => _ = self.inflate(self.load()),
                // The lock has another policy.
                Entry::Uninit => _ = self.inflated(),
            }
        }
        self.on_full(|sem| match again {
            true => sem.read_recursive_with(context.into()),
            false => sem.take_asleep(access, context),
        })
    }

    /// Enters without waiting; only an uninitialised lock is inflated for that.
    fn try_enter(&self, access: Access, again: bool) -> bool {
        loop {
            match self.attempt(access, true, |sem| sem.try_take(access, again)) {
                Entry::Entered => return true,
                Entry::Taken | Entry::TakenElsewhere | Entry::Full => return false,
                // The other threads got on, so this is lock-free.
                Entry::Crowded => {}
                Entry::Uninit => self.on_full(|_| ()),
            }
        }
    }

    /// Enters if that needs no waiting. `full` attempts to take a full lock; if it fails, it
    /// returns whether a seal was in the way. `is_uncontended` says whether that lock was free if
    /// the attempt succeeds.
    #[inline(always)]
    fn attempt(
        &self,
        access: Access,
        is_uncontended: bool,
        full: impl Fn(&RwSem<P>) -> Result<(), bool>,
    ) -> Entry {
        let mut word = self.load();
        for _ in 0..ATTEMPTS {
            if word.is_inflated() {
                let slot = self.slot(word);
                match full(&slot.full) {
                    Ok(()) if self.entered(word, slot, access, is_uncontended) => {
                        self.remember(P::thread(), word, slot, access, (0, is_uncontended));
                        return Entry::Entered;
                    }
                    Err(true) => self.open(word),
                    Err(false) if self.names(word) => return Entry::TakenElsewhere,
                    _ => {}
                }
                word = self.load();
                continue;
            }
            if word.is_uninit() {
                return Entry::Uninit;
            }
            if word.is_visible() {
                if self.enter_visible(word, access) {
                    return Entry::Entered;
                }
                word = self.load();
                continue;
            }
            if word.is_taken(access) {
                return Entry::Taken;
            }
            if word.is_full() {
                return Entry::Full;
            }
            match self.word.exchange(word, word.taken_if_watched(access), Ordering::Acquire) {
                Ok(()) => {
                    marks::unmark::<P, _>(self);
                    if word.is_watched() && access == Access::Shared {
                        self.watch(word);
                    }
                    return Entry::Entered;
                }
                Err(now) => word = now,
            }
        }
        Entry::Crowded
    }

    /// Leaves the thin lock, or the full one; `fair`: to the queue, if anyone waits.
    #[cold]
    fn leave(&self, access: Access, fair: bool) {
        let mut word = self.load();
        while !word.is_inflated() {
            if word.is_visible() {
                if access != Access::Shared {
                    word = self.settled(word);
                    continue;
                }
                if self.try_leave_visible(word) {
                    return;
                }
                word = self.load();
                continue;
            }
            // The lock may not be touched after the exchange. If this is not the last reader,
            // others share the line.
            if access == Access::Shared && word.readers() > 1 && P::begins_watch() {
                word = self.begin_watch(word);
                continue;
            }
            // Release: as on the fast path.
            match self.word.exchange(word, word.left(access), Ordering::Release) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
        if access == Access::Shared {
            self.watch_full(word);
        }
        self.leave_full(word, access, fair);
    }
}

// ---- marked: a thread that remembers the full lock ----
//
// Most acquisitions and releases of a busy lock are those of such a thread. The path is short: the thread
// [remembers](marks) the lock's slot, and few conditions are checked. What follows an acquisition prolongs the section,
// and what precedes a release gives the next thread the lock later: both were measured (docs/decisions.md).

/// What a thread remembers of a lock: the slot, and the full lock in it.
type Marked<P> = (&'static SlotOf<ThinRwSem<P>>, &'static Turns<P>);

impl<P: PooledPlatform> ThinRwSem<P> {
    /// The slot that the thread remembers, if the lock still has it, and not for good: a lock with
    /// another policy, or with events, always takes the long way.
    #[inline(always)]
    fn marked_slot(&self, mark: &Mark<P>) -> Option<Marked<P>> {
        let slot = mark.slot().filter(|slot| self.load() == RwWord::inflated(slot.name))?;
        Some((slot, slot.full.turns()))
    }

    /// The calling thread, `me`, takes the lock for writing past the queue, if it remembers the lock's slot. Or
    /// it takes the thin lock.
    #[inline(never)] // or it would be in every caller's loop
    fn write_marked(&self, me: &Thread<P>, mark: &Mark<P>) -> bool {
        let Some((slot, lock)) = self.marked_slot(mark) else {
            return self.at_once(Access::Exclusive);
        };
        if let Some(again) = lock.take_again(me, Access::Exclusive) {
            return self.note_again(me, mark, slot, again);
        }
        self.full_at_once(Access::Exclusive)
    }

    /// As [`write_marked`](Self::write_marked), for reading. What is rare is a tail call, so it needs no frame on the
    /// stack.
    #[inline(never)]
    fn read_marked(&self, me: &Thread<P>, mark: &Mark<P>) -> bool {
        let Some((slot, lock)) = self.marked_slot(mark) else { return self.read_unmarked() };
        if lock.holder().is_awaited() {
            return self.read_awaited(me, mark, slot, None);
        }
        let word = RwWord::inflated(slot.name);
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = lock.word.enter(Access::Shared, Ordering::Acquire);
        if !before.is_open_to_new_readers() || !self.names(word) {
            return self.read_awaited(me, mark, slot, Some(before));
        }
        // Nothing is stored in the lock: that would take its line from other readers.
        let looks = slot.is_one_of_many(word.name());
        mark.note_read(before.readers(), before == Word::FREE, looks);
        PastQueue { lock, access: Access::Shared, before }.note(me);
        true
    }

    #[inline(never)]
    fn read_unmarked(&self) -> bool {
        self.enter_thin(self.expected(), Access::Shared)
    }

    /// As [`read_marked`](Self::read_marked), if something is in the way, or somebody waits.
    /// `before` is the word before this thread was counted as a reader, if it already is.
    #[inline(never)]
    fn read_awaited(
        &self,
        me: &Thread<P>,
        mark: &Mark<P>,
        slot: &'static SlotOf<Self>,
        before: Option<Word>,
    ) -> bool {
        let lock = slot.full.turns();
        let again = if before.is_none() { lock.take_again(me, Access::Shared) } else { None };
        if let Some(again) = again {
            return self.note_again(me, mark, slot, again);
        }
        // Acquire: as in `read_marked`.
        let before = before.unwrap_or_else(|| lock.word.enter(Access::Shared, Ordering::Acquire));
        let Some(taken) = lock.stay_past_queue(me, before) else { return false };
        let word = RwWord::inflated(slot.name);
        if !self.names(word) {
            leave_other::<Self>(slot, Access::Shared);
            return false;
        }
        mark.note_read(before.readers(), false, slot.is_one_of_many(word.name()));
        taken.note(me);
        true
    }

    /// The calling thread, `me`, has taken the full lock that it remembers `again`, if that is this lock's.
    #[inline(always)]
    fn note_again(
        &self,
        me: &Thread<P>,
        mark: &Mark<P>,
        slot: &'static SlotOf<Self>,
        again: Again<'_, P>,
    ) -> bool {
        if !self.names(RwWord::inflated(slot.name)) {
            leave_other::<Self>(slot, again.access);
            return false;
        }
        // Somebody waits, and decides when it leaves.
        mark.looks.set(false);
        again.note(me);
        true
    }

    /// The calling thread, `me`, leaves the lock as a writer.
    #[inline(never)]
    fn leave_marked(&self, me: &Thread<P>, mark: &Mark<P>) {
        match self.marked_slot(mark) {
            Some((_, lock)) if !mark.looks.get() && lock.leave_written(me) => {}
            _ => self.leave(Access::Exclusive, false),
        }
    }

    /// The calling thread leaves the lock as a reader.
    #[inline(never)]
    fn leave_marked_as_reader(&self, mark: &Mark<P>) {
        match self.marked_slot(mark) {
            // Without looking at the lock first: that would fetch its line twice, to read it and to
            // write it.
            // SAFETY: the caller is a reader inside.
            Some((_, lock)) if !mark.looks.get() => unsafe { lock.unlock_read() },
            _ => self.leave(Access::Shared, false),
        }
    }
}

// ---- thin to full, and back: what [`Inflates`] leaves to the lock ----

impl<P: PooledPlatform> ThinRwSem<P> {
    /// Runs `f` on the full lock, which stays this lock's meanwhile.
    pub(crate) fn on_full<R>(&self, f: impl FnOnce(&'static RwSem<P>) -> R) -> R {
        loop {
            let word = self.inflated();
            if word.is_permanent() {
                return f(&self.slot(word).full);
            }
            let pin = match self.pin(word) {
                Ok(Some(pin)) => pin,
                Ok(None) => continue,
                Err((by, pin)) => {
                    self.finish(word, by, &pin);
                    P::pause();
                    continue;
                }
            };
            let slot = pin.slot();
            slot.full.word.unseal();
            slot.note(false);
            self.remember(P::thread(), word, slot, Access::Exclusive, (0, false));
            return f(&slot.full);
        }
    }

    /// The word of the lock, which had this one, once that is not visible.
    fn settled(&self, mut word: RwWord) -> RwWord {
        while word.is_visible() {
            self.revoke(word, 0);
            word = self.load();
        }
        word
    }

    /// Inflates the lock if it is not inflated; returns its word.
    #[inline(never)] // its frame is large
    fn inflated(&self) -> RwWord {
        loop {
            let word = self.settled(self.load());
            if word.is_inflated() {
                return word;
            }
            if !word.is_uninit() {
                // Not to be looked at again: it may be thin by then.
                match self.inflate(word) {
                    Ok(word) => return word,
                    Err(_) => continue,
                }
            }
            let slot = P::rwsem_slots().take_for(word.policy());
            let new = RwWord::inflated(slot.name).permanent();
            // Acquire and Release: as in `inflate`.
            if self.word.exchange(word, new, Ordering::AcqRel).is_ok() {
                return new;
            }
            P::rwsem_slots().set_aside(slot);
        }
    }

    /// A seal kept the caller out of the lock, which was inflated, with this word: takes the seal
    /// off.
    #[cold]
    fn open(&self, word: RwWord) {
        match self.pin(word) {
            Ok(Some(pin)) => pin.slot().full.word.unseal(),
            Ok(None) => {}
            Err((by, pin)) => self.finish(word, by, &pin),
        }
    }

    /// The slot of the lock, which was inflated, with this word, is closed. If it was closed for
    /// this lock, makes the lock thin on behalf of the thread that closed the slot, which the word
    /// then counts.
    fn finish(&self, word: RwWord, by: Holder, pin: &PinOf<Self>) {
        let slot = pin.slot();
        // Without a seal, others read beside the reader that closed the slot; that reader will find
        // them, and opens the slot again. A seal seen then belongs to another thread, which cannot
        // close the slot. So look at the slot after the seal.
        let is_closed = || slot.full.word.is_sealed(by.is_some()) && slot.pins.is_closed();
        if !word.is_permanent() && (by == Some(Access::Exclusive) || is_closed()) {
            let now = by.map_or(RwWord::FREE, |access| RwWord::FREE.taken(access));
            // Acquire and Release: threads that come now see what was done before the slot was
            // closed.
            _ = self.word.exchange(word, now, Ordering::AcqRel);
        }
    }

    /// Gives the full lock back to the pool, unless somebody holds the lock or waits for it, or it
    /// [keeps](Self::keeps_full) its full lock. Returns whether it has none now. Other threads may
    /// use the lock meanwhile.
    pub fn trim(&self) -> bool {
        let mut word = self.load();
        if self.kept(word).is_some() {
            word = self.settled(word);
        }
        if word.is_inflated() && !word.is_permanent() {
            if let Ok(Some(pin)) = self.pin(word) {
                pin.slot().full.word.unseal();
                _ = self.deflate(word, pin.slot(), None);
            }
        }
        !self.is_inflated()
    }
}

impl<P: PooledPlatform> Inflates for ThinRwSem<P> {
    type P = P;
    type Word = RwWord;
    type Atomic = P::AtomicU64;
    type Full = RwSem<P>;

    #[inline(always)]
    fn slots() -> &'static Slots<P, RwSem<P>> {
        P::rwsem_slots()
    }

    #[inline(always)]
    fn word(&self) -> &AtomicOf<RwWord, P::AtomicU64> {
        &self.word
    }

    #[inline(always)]
    fn tells_holders(word: RwWord) -> bool {
        !word.is_visible()
    }

    fn adopt(full: &RwSem<P>, word: RwWord) {
        if word.is_written() {
            full.word.adopt_sealed_writer();
        } else {
            // SAFETY: nobody holds a sealed lock; a thread that is late counts itself for a moment only.
            unsafe { full.adopt_readers(word.readers()) };
            if word.is_upgradable() {
                full.word.adopt_upgradable();
            }
        }
    }

    fn disown(full: &RwSem<P>, word: RwWord) {
        if word.is_written() {
            full.word.seal();
        } else {
            full.word.disown_readers(word.readers());
            if word.is_upgradable() {
                full.word.disown_upgradable();
            }
        }
    }

    #[inline(always)]
    unsafe fn release(full: &RwSem<P>, access: Access, fair: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            match (access, fair) {
                (Access::Shared, false) => full.unlock_read(),
                (Access::Shared, true) => full.unlock_read_fair(),
                (Access::Upgradable, false) => full.unlock_upgradable(),
                (Access::Upgradable, true) => full.unlock_upgradable_fair(),
                (Access::Exclusive, false) => full.unlock_write(),
                (Access::Exclusive, true) => full.unlock_write_fair(),
            }
        }
    }

    fn make_thin(&self, word: RwWord, by: Holder) -> bool {
        marks::unmark::<P, _>(self);
        match self.word.exchange(word, RwWord::FREE, Ordering::Release) {
            Ok(()) => true,
            // Somebody has made it permanent.
            Err(now) if now.is_as(word) => false,
            // Somebody who came too late has made it thin: see `finish`.
            Err(_) => {
                by.into_iter().for_each(|access| self.leave(access, false));
                true
            }
        }
    }
}

impl<P: PooledPlatform> Drop for ThinRwSem<P> {
    fn drop(&mut self) {
        self.forget_readers();
        if self.kept(self.load()).is_some() {
            self.settled(self.load());
        }
        self.give_up();
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

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::platform::{Native, System};
    use crate::rwsem::{Policy, READERS_LIMIT};
    use crate::thin::local::{ENOUGH, LAST_PERIOD};
    use crate::wait::Wait;

    type Lock = ThinRwSem<Native>;

    /// The calling thread takes the lock twice, each time while it is inflated.
    fn use_inflated(lock: &Lock) {
        lock.inflated();
        for _ in 0..2 {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
        assert!(marks::find::<Native, _>(lock).is_some(), "the thread remembers it");
    }

    /// As by a thread that gave up before it came so far.
    #[test]
    fn a_lock_that_nobody_has_used_since_it_was_inflated_is_trimmed() {
        let lock = Lock::new_const();
        assert!(lock.inflate(lock.load()).is_ok());
        assert!(lock.is_inflated() && lock.trim() && !lock.is_inflated());
    }

    /// A thread remembers a lock by its address. Another lock may be there by now, and the slot
    /// another lock's, which somebody holds.
    #[test]
    fn what_a_thread_remembers_of_a_lock_that_is_no_more_leads_to_no_other() {
        for policy in [Policy::DEFAULT, Policy::DEFAULT.with_priorities()] {
            let mut place = Lock::new(policy);
            use_inflated(&place);
            place = Lock::new_const();
            let others = [(); 40].map(|()| Lock::new(policy));
            // On another thread: this one would remember what it finds.
            thread::scope(|s| {
                s.spawn(|| {
                    others.iter().for_each(Lock::write);
                    place.write();
                });
            });
            for other in &others {
                other.slot(other.inflated()).full.seem_busy();
            }
            // SAFETY: taken for this.
            unsafe { place.unlock_write() };
            assert!(!place.is_locked());
            place.write();
            assert!(place.is_write_locked());
            assert!(others.iter().all(|other| other.is_write_locked() && !other.try_write()));
            // Their queues are empty: nobody may wait for them, or trim them.
            core::mem::forget(others);
        }
    }

    /// A reader finds the slot that it remembers named by the lock, and is preempted until another lock has it.
    #[test]
    fn a_reader_that_comes_to_the_slot_of_another_lock_leaves_it() {
        let [lock, other] = [(); 2].map(|()| Lock::new_const());
        use_inflated(&other);
        use_inflated(&lock);
        let (me, mark) = marks::find::<Native, _>(&lock).expect("the thread remembers it");
        for (named, reads) in [(&lock, true), (&other, false)] {
            let slot = named.slot(named.inflated());
            let address = slot.full.word.address();
            me.tenure.ages.note(address, 5_000_000, Native::now());
            assert_eq!(lock.read_awaited(me, mark, slot, None), reads);
            assert_eq!(me.tenure.ages.at(address).is_none(), reads);
            assert_eq!((lock.is_locked(), other.is_locked()), (reads, false));
            if reads {
                // SAFETY: just taken.
                unsafe { lock.unlock_read() };
            }
        }
    }

    /// The waiter that is next is late, as it gets no CPU: a reader that comes again gives its own up,
    /// also one that would not wait for ever.
    #[test]
    fn a_reader_that_comes_again_gives_way() {
        type Way = (fn(&Lock), bool);
        let ways: [Way; 4] = [
            (Lock::read, true),
            (|lock| lock.read_with(Wait::FOREVER).expect("it is free"), true),
            (|lock| lock.read_with(Wait::until_nanos(u64::MAX)).expect("it is free"), true),
            (|lock| lock.read_with(Wait::until_nanos(0)).expect("it is free"), false), // its CPU may come back late
        ];
        let me = Native::thread();
        for (number, (read, gives_way)) in ways.into_iter().enumerate() {
            let lock = Lock::new_const();
            use_inflated(&lock);
            let full = &lock.slot(lock.inflated()).full;
            full.seem_busy();
            me.tenure.gives_way.set(full.word.address());
            me.tenure.gives_way_again.set(0);
            read(&lock);
            // Only this is left: if the thread was away for long, the waiter is late once more.
            assert_eq!(me.tenure.gives_way_again.get() != 0, gives_way, "way {number}");
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
            // Its queue is empty: nobody may trim it, or come to it once more.
            core::mem::forget(lock);
        }
    }

    /// A thread that takes the lock again for writing counts as one that writes.
    #[test]
    fn a_writer_that_comes_again_has_written() {
        let lock = Lock::new_const();
        use_inflated(&lock);
        lock.slot(lock.inflated()).full.seem_busy();
        let me = Native::thread();
        me.tenure.writes(0);
        lock.write();
        assert!(!me.tenure.wrote(0));
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
        // Its queue is empty: nobody may trim it.
        core::mem::forget(lock);
    }

    /// A thread that takes the lock again and again leaves it inflated only while somebody waits; one that remembers it
    /// and reads, for some time longer.
    #[test]
    fn a_lock_that_nobody_waits_for_becomes_thin() {
        let lock = Lock::new_const();
        let write = || {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        };
        let read = || {
            lock.read();
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        };
        let write_fair = || {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write_fair() };
        };
        for visit in [&write as &dyn Fn(), &read, &write_fair] {
            use_inflated(&lock);
            assert!(lock.is_inflated());
            (0..LAST_PERIOD + ENOUGH).for_each(|_| visit());
            assert!(!lock.is_inflated());
        }
    }

    /// Its events would not be counted any more.
    #[test]
    fn a_lock_that_counts_events_stays_inflated_however_long_nobody_waits() {
        let lock = Lock::new_const();
        lock.set_events(None);
        for _ in 0..2 {
            lock.write();
            lock.slot(lock.load()).full.uncontended.seems_enough();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
        assert!(lock.is_inflated() && !lock.trim());
    }

    /// A thread finds the slot closed by a reader whose seal was taken off, and is stopped until the next reader
    /// has sealed it. That one finds the slot pinned, and leaves it with the lock.
    #[test]
    fn who_comes_too_late_for_one_reader_makes_the_lock_thin_for_no_other() {
        let lock = Lock::new_const();
        let full = lock.on_full(core::convert::identity);
        lock.read();
        let word = lock.load();
        let slot = lock.slot(word);
        // SAFETY: held for reading.
        let seals = || assert!(unsafe { full.word.seal_alone(Access::Shared) });
        seals();
        lock.open(word);
        assert!(slot.pins.close(Some(Access::Shared)) && !full.word.is_sealed(true));
        let Err((by, pin)) = slot.pin() else { panic!("the slot is closed") };
        slot.pins.reopen();
        seals();
        lock.finish(word, by, &pin);
        assert!(!slot.pins.close(Some(Access::Shared)) && lock.names(word));
        full.word.unseal();
        drop(pin);
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        assert!(!lock.is_locked());
    }

    /// The calling thread reads the lock, and has sealed it as one that leaves does; the slot is pinned.
    fn sealed_by_a_reader(lock: &Lock) -> (RwWord, &'static RwSem<Native>, PinOf<Lock>) {
        let full = lock.on_full(core::convert::identity);
        let word = lock.load();
        let Ok(Some(pin)) = lock.pin(word) else { panic!("nobody closes the slot") };
        lock.read();
        // SAFETY: held for reading.
        assert!(unsafe { full.word.seal_alone(Access::Shared) });
        (word, full, pin)
    }

    /// A reader that leaves has sealed the lock at that instant.
    #[test]
    fn who_trims_the_lock_takes_no_readers_seal_for_its_own() {
        let lock = Lock::new_const();
        let (word, full, pin) = sealed_by_a_reader(&lock);
        assert!(!lock.deflate(word, pin.slot(), None) && lock.names(word));
        full.word.unseal();
        drop(pin);
        assert!(matches!(lock.pin(word), Ok(Some(_))), "the slot is not closed");
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        assert!(!lock.is_locked());
    }

    /// A thread that waits has pinned the slot.
    #[test]
    fn a_reader_that_leaves_the_lock_inflated_leaves_no_seal() {
        let lock = Lock::new_const();
        let (word, full, pin) = sealed_by_a_reader(&lock);
        assert!(!lock.deflate(word, pin.slot(), Some(Access::Shared)) && lock.names(word));
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        assert!(!full.snapshot().sealed);
        drop(pin);
    }

    /// It concludes from a thin word that too many come at once, and is preempted before it inflates the lock.
    #[test]
    fn who_inflates_a_thin_lock_late_leaves_a_visible_one_as_it_is() {
        let lock = Lock::new_const();
        let thin = lock.load();
        if Native::has_process_barrier() {
            assert!(lock.show_readers() && lock.inflate(thin).is_err());
            assert!(lock.inflate(lock.load()).is_err() && lock.shows_readers());
        }
    }

    /// A thread that comes to wait may be preempted between its two steps for as long as it likes.
    #[test]
    fn a_seal_is_no_holder() {
        let lock = ThinRwSem::<Native>::new_const;
        let free = lock();
        free.inflated();
        assert!(!free.is_locked() && !free.is_write_locked());

        let read = lock();
        read.read();
        read.inflated();
        assert!(read.is_locked() && !read.is_write_locked());

        let written = lock();
        written.write();
        written.inflated();
        assert!(written.is_locked() && written.is_write_locked());
    }

    /// It has been preempted in between, or is stopped.
    #[test]
    fn nobody_waits_for_a_thread_that_has_closed_the_slot() {
        let lock = Lock::new_const();
        let full = lock.on_full(core::convert::identity);
        lock.read();
        let word = lock.load();
        // SAFETY: held for reading.
        assert!(unsafe { full.word.seal_alone(Access::Shared) });
        assert!(lock.slot(word).pins.close(Some(Access::Shared)));
        assert_eq!(lock.write_with(Wait::until_nanos(0)), Err(WaitError::TimedOut));
        assert!(!lock.names(word) && lock.is_locked() && !lock.is_write_locked());
        // It goes on, finds that the lock is thin, and leaves that.
        assert!(lock.make_thin(word, Some(Access::Shared)));
        assert!(!lock.is_locked() && lock.try_write());
    }

    /// By another thread that sets the lock's events meanwhile.
    #[test]
    fn a_lock_that_was_made_permanent_as_it_was_trimmed_has_no_seal() {
        let lock = Lock::new_const();
        lock.on_full(|_| ());
        let word = lock.load();
        let Ok(Some(pin)) = lock.pin(word) else { panic!("nobody closes the slot") };
        assert!(lock.word.stick());
        assert!(!lock.deflate(word, pin.slot(), None));
        drop(pin);
        assert!(lock.slot(word).pin().is_ok(), "the slot is not closed");
        // A mere try would take the seal off.
        assert_eq!(lock.write_with(Wait::until_nanos(0)), Ok(()));
    }

    #[test]
    fn locks_with_a_policy_have_full_ones_of_their_own() {
        let locks = [(); 3].map(|()| Lock::new(Policy::DEFAULT.with_priorities()));
        for lock in &locks {
            assert!(lock.try_write());
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
        assert!(locks.iter().all(Lock::try_write));
    }

    #[test]
    fn who_comes_too_late_to_inflate_a_lock_loses_no_slot() {
        const TIMES: u32 = 20_000;
        let made = || Native::rwsem_slots().made();
        let lock = Lock::new_const();
        let inflated = lock.inflated();
        let before = made();
        for _ in 0..TIMES {
            assert_eq!(lock.inflate(inflated), Err(inflated), "it is already");
        }
        assert!(made() - before < TIMES);
    }

    /// An age ends with any acquisition.
    #[test]
    fn an_age_ends_where_a_thread_takes_the_lock_past_its_queue() {
        let lock = Lock::new_const();
        use_inflated(&lock);
        let full = &lock.slot(lock.inflated()).full;
        let ages = &Native::thread().tenure.ages;
        ages.note(full.word.address(), 5_000_000, Native::now());
        lock.write();
        assert!(ages.at(full.word.address()).is_none());
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
    }

    #[test]
    fn an_upgrade_needs_no_waiting_where_nobody_else_is_inside() {
        for inflates in [false, true] {
            let lock = Lock::new_const();
            lock.upgradable_read();
            if inflates {
                lock.inflated();
            }
            assert!(lock.try_read());
            // SAFETY: held upgradably, and for reading.
            unsafe {
                assert!(!lock.try_upgrade());
                lock.unlock_read();
                assert!(lock.try_upgrade() && lock.is_write_locked());
                assert_eq!(lock.is_inflated(), inflates);
                lock.unlock_write();
            }
        }
    }

    #[test]
    fn only_a_lock_with_as_many_readers_as_can_be_is_saturated() {
        for (inflates, watches) in [(false, false), (false, true), (true, false)] {
            let lock = Lock::new_const();
            if inflates {
                lock.inflated();
            }
            lock.read();
            if watches {
                lock.begin_watch(lock.load());
            }
            assert!(!lock.is_saturated());
            // SAFETY: there is room for them.
            unsafe { lock.adopt_readers(READERS_LIMIT - 1) };
            assert!(lock.is_saturated() && !lock.try_read());
            core::mem::forget(lock);
        }
    }

    /// The thread that gives it up is not the one that reads.
    #[test]
    fn a_visible_reader_may_be_given_up_by_another_thread() {
        let lock = Lock::new_const();
        if lock.show_readers() {
            thread::scope(|s| {
                s.spawn(|| lock.read());
            });
            assert!(lock.is_locked() && lock.shows_readers());
            // SAFETY: taken by that thread.
            unsafe { lock.unlock_read() };
            assert!(!lock.is_locked() && lock.try_write());
        }
    }

    /// Two visible locks have one mark, and the thread reads them by turns. An attempt, as a signal handler makes it, takes no
    /// full lock for that.
    #[test]
    fn a_lock_whose_mark_is_anothers_again_and_again_is_visible_no_longer_once_a_thread_may_wait() {
        let lock = Lock::new_const();
        if lock.show_readers() {
            let address = core::ptr::from_ref(&lock).addr();
            let mark = Native::thread().marks.of(address);
            let stays_visible = |read: &dyn Fn()| {
                (0..ENOUGH).all(|_| {
                    mark.what.set(0);
                    mark.set_lock(address + 8);
                    read();
                    // SAFETY: just taken.
                    unsafe { lock.unlock_read() };
                    lock.shows_readers()
                })
            };
            assert!(stays_visible(&|| assert!(lock.try_read())));
            assert!(!stays_visible(&|| lock.read()) && !lock.is_locked());
        }
    }

    /// The thread shows one of its readers, and the word counts the others.
    #[test]
    fn a_lock_with_as_many_readers_as_its_word_counts_is_visible_no_longer() {
        let lock = Lock::new_const();
        if lock.show_readers() {
            lock.read();
            let before = lock.load();
            let mut full = before;
            while !full.has_no_room() {
                full = full.taken(Access::Shared);
            }
            assert!(lock.word.exchange(before, full, Ordering::Relaxed).is_ok());
            assert!(!lock.enter_visible(full, Access::Shared));
            assert!(!lock.shows_readers() && lock.is_locked());
            core::mem::forget(lock);
        }
    }

    /// A thread shows no more than a few locks at once.
    #[test]
    fn a_lock_that_is_dropped_is_shown_by_no_reader() {
        let lock = Lock::new_const();
        if lock.show_readers() {
            lock.read();
            let (me, name) = (Native::thread(), lock.load().shown());
            assert!(me.shown.find(name).is_some());
            drop(lock);
            assert!(me.shown.find(name).is_none());
        }
    }

    #[test]
    fn a_watched_lock_that_is_read_often_becomes_visible_once_it_has_not_been_written_for_long() {
        let lock = Lock::new_const();
        lock.read();
        let word = lock.begin_watch(lock.load());
        if word.is_watched() {
            let address = core::ptr::from_ref(&lock).addr();
            let mark = Native::thread().marks.of(address);
            let reads = |reads| {
                mark.what.set(0);
                mark.set_lock(address);
                mark.watched.set(word.number());
                mark.reads.set(reads);
                lock.watch(word);
                lock.shows_readers()
            };
            assert!(!reads(0));
            fairlock_testing::until(|| reads(ENOUGH));
        }
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        assert!(!lock.is_locked());
    }

    /// The lock has the slot still.
    #[test]
    fn who_comes_too_late_to_revoke_a_full_lock_gives_its_slot_to_no_other() {
        let [lock, other] = [(); 2].map(|()| Lock::new_const());
        lock.inflated();
        if lock.show_readers() {
            let word = lock.load();
            assert!(lock.kept(word).is_some() && lock.revoke(word, 0));
            assert!(!lock.revoke(word, 0));
            assert_ne!(lock.inflated().name(), other.inflated().name());
        }
    }
}
