//! The sleeping reader/writer lock (proposals 1, 2 and 5).
//!
//! Read top-down: the lock and its fast paths are here; `slow` has the slow ways in and out. Each
//! of those turns to one of two disciplines, in folders of their own: `tenure` (the default) and
//! `published`. `queued` is what the queue lock guards in both, `yields` what both measure a lock
//! by. `downgrade` turns a writer into a reader, `upgrade` a reader into a writer, and `recursive`
//! lets a reader in again. `priority` has what real-time threads are owed, `pooled` what a lock of a
//! pool needs, which thin locks have one after the other, and `hidden` what other crates of ours
//! need. Comments cite the rules of `docs/rules.md`.

mod discipline;
mod downgrade;
#[cfg(all(test, fairlock_loom))]
mod full_loom;
mod hidden;
#[cfg(all(test, fairlock_loom))]
mod loom_tests;
mod policy;
#[cfg(any(feature = "std", fairlock_loom))]
mod pooled;
mod priority;
mod published;
mod queued;
mod recursive;
mod slow;
mod tenure;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests;
mod upgrade;
mod word;
mod yields;

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use discipline::with_view;
#[doc(hidden)]
pub use hidden::Snapshot;
pub use policy::{Discipline, Percent, Policy, PublishedPolicy, ReaderSpin, TenurePolicy};
#[cfg(any(feature = "std", fairlock_loom))]
#[doc(hidden)]
pub use pooled::Calm;
pub(crate) use published::PublishedLocal;
use queued::LockedQueue;
pub(crate) use tenure::TenureLocal;
#[cfg(any(feature = "std", fairlock_loom))]
pub(crate) use tenure::{Again, PastQueue, YIELDS, yield_to_others};
use word::AtomicWord;
#[cfg(any(feature = "std", fairlock_loom))]
pub(crate) use word::READERS_LIMIT;
use word::Word;

use crate::events::{self, EventCounts};
use crate::may_dangle::MayDangle;
use crate::platform::{ConstZero, Platform};
use crate::wait::{Access, Wait, WaitError};

/// How long who is next watches the lock before it sleeps: a waiter that has just been told so or
/// woken, and an upgrader, while readers are inside. In ns; compared with the time since it was
/// told, woken, or began to drain the lock.
const WATCH_NS: u64 = 10_000;

/// A sleeping reader/writer lock without data. See [`RwLock`](crate::RwLock), the one with data, for
/// what it promises and when it blocks.
///
/// A method that takes the lock comes in several forms:
///
/// | form | ends without the lock |
/// |---|---|
/// | `write` | never; `read` and `read_recursive` panic if no more readers can be counted |
/// | `try_write` | with `false`, at once |
/// | `write_with` | as its [`Wait`] says; the methods that read, also with [`TooManyReaders`](WaitError::TooManyReaders) |
pub struct RwSem<P: Platform>(MayDangle<Parts<P>>);

/// What a lock consists of. The first cache line has the word, and what is touched with it; `favour`
/// and `holder` have lines of their own; the queue lock is in none of those.
#[doc(hidden)]
#[repr(C, align(64))]
pub struct Parts<P: Platform> {
    /// The state: see [`word`].
    pub(crate) word: AtomicWord<P>,
    /// Of the published discipline, as are `favour` and `spinners`. Written by who has just written the
    /// word.
    owner: published::Owner<P>,
    /// For a lock of a pool: how often it was free of late.
    #[cfg(any(feature = "std", fairlock_loom))]
    pub(crate) calm: Calm,
    events: events::Sink,
    policy: Policy,
    favour: published::Favour<P>,
    /// Of tenure: who took the lock past the queue last.
    holder: tenure::Holder<P>,
    queue: LockedQueue<P>,
    spinners: published::Spinners<P>,
}

impl<P: Platform> RwSem<P> {
    /// Whether it is so on this platform.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    pub(crate) const IS_IN_LINES: bool = {
        use core::mem::offset_of;
        const LINE: usize = 64;
        offset_of!(Parts<P>, word) == 0
            && offset_of!(Parts<P>, policy) + size_of::<Policy>() <= LINE
            && offset_of!(Parts<P>, favour) == LINE
            && offset_of!(Parts<P>, holder) == 2 * LINE
            && offset_of!(Parts<P>, queue) == 3 * LINE
    };
}

#[doc(hidden)] // its parts are its own
impl<P: Platform> Deref for RwSem<P> {
    type Target = Parts<P>;

    #[inline(always)]
    fn deref(&self) -> &Parts<P> {
        &self.0
    }
}

#[doc(hidden)]
impl<P: Platform> DerefMut for RwSem<P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Parts<P> {
        &mut self.0
    }
}

impl<P: Platform> RwSem<P> {
    /// A free lock that follows `policy`.
    pub fn new(policy: Policy) -> Self {
        Self(MayDangle::new(Parts {
            word: AtomicWord::new(Word::FREE),
            owner: published::Owner::new(),
            #[cfg(any(feature = "std", fairlock_loom))]
            calm: Calm::new(),
            events: events::Sink::new(),
            policy,
            favour: published::Favour::new(),
            holder: tenure::Holder::new(),
            queue: LockedQueue::new(),
            spinners: published::Spinners::new(),
        }))
    }

    /// As [`new`](Self::new), for statics, where the platform's atomics can be constants.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self(MayDangle::new(Parts {
            word: AtomicWord::new_const(),
            owner: published::Owner::new_const(),
            #[cfg(any(feature = "std", fairlock_loom))]
            calm: Calm::new(),
            events: events::Sink::new(),
            policy,
            favour: published::Favour::new_const(),
            holder: tenure::Holder::new_const(),
            queue: LockedQueue::new_const(),
            spinners: published::Spinners::new_const(),
        }))
    }

    /// The policy this lock was made with.
    pub const fn policy(&self) -> &Policy {
        &self.0.get().policy
    }

    /// Counts this lock's [events](events::Event) in `counts` too; with `None`, no longer. Several
    /// locks may share one `counts`.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.events.set(counts);
    }

    // ---- read ----

    /// Takes the lock for reading; blocks until it has it.
    ///
    /// # Panics
    /// If there are [`TooManyReaders`](WaitError::TooManyReaders).
    #[inline]
    pub fn read(&self) {
        if let Err(before) = self.read_fast() {
            self.read_slow_forever(before);
        }
    }

    /// Takes the lock for reading if that needs no waiting, and if it is not
    /// [saturated](Self::is_saturated). Leaves no trace in the word when it fails
    /// (rule 15).
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        self.word.take_while(word, Access::Shared, Word::is_open_to_readers).is_some()
            || self.policy.priorities() && self.try_read_past_writers()
    }

    /// Takes the lock for reading; gives up as `wait` says.
    #[inline]
    pub fn read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        match self.read_fast() {
            Ok(()) => Ok(()),
            Err(before) => self.read_slow(before, &wait.begin()),
        }
    }

    /// One atomic operation. When it fails, it returns the word it found and the reader stays
    /// counted: the slow path takes the count back, or keeps it if the reader may steal.
    #[inline(always)]
    fn read_fast(&self) -> Result<(), Word> {
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.enter(Access::Shared, Ordering::Acquire);
        if before.is_open_to_readers() { Ok(()) } else { Err(before) }
    }

    /// Gives up the lock held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        // Release: what was read under the lock stays before the next writer.
        let before = self.word.leave(Access::Shared, Ordering::Release);
        // Under tenure only a waiter that asked for it is woken, and a thread that upgrades, which
        // `WRITER_LOCKED` tells.
        if before.is_waited_for()
            && before.readers() == 1
            && with_view!(self, view => view.wakes_after(before))
        {
            self.read_release_slow(before);
        }
    }

    // ---- write ----

    /// Takes the lock for writing; blocks until it has it.
    #[inline]
    pub fn write(&self) {
        if let Err(word) = self.write_fast() {
            self.write_slow_forever(word);
        }
    }

    /// Takes the lock for writing if that needs no waiting.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_write(&self) -> bool {
        self.write_fast().is_ok()
    }

    /// Takes the lock for writing; gives up as `wait` says.
    #[inline]
    pub fn write_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        match self.write_fast() {
            Ok(()) => Ok(()),
            Err(word) => self.write_slow(word, &wait.begin()),
        }
    }

    /// One compare-exchange from 0. When it fails, it returns the word it found.
    #[inline(always)]
    fn write_fast(&self) -> Result<(), Word> {
        // Acquire: owns the lock on success (rule 3). Relaxed on failure: only
        // a hint for the slow path.
        self.word.compare_exchange(
            Word::FREE,
            Word::WRITTEN,
            Ordering::Acquire,
            Ordering::Relaxed,
        )?;
        with_view!(self, view => view.note_fast_write());
        Ok(())
    }

    /// Gives up the lock held for writing.
    ///
    /// Under tenure nothing touches the lock after another thread can have it, so the next owner
    /// may free its memory even before this returns. Readers, and the published discipline, let the
    /// lock go first and look for waiters afterwards.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        // Release: what was written is seen by whoever takes the lock next.
        // The load comes first, as an exchange that fails costs time. A load of the word, right
        // after the locked operation that took it, would cost time too: whether anybody waits is on
        // another line.
        if self.holder.is_awaited()
            || self
                .word
                .compare_exchange(Word::WRITTEN, Word::FREE, Ordering::Release, Ordering::Relaxed)
                .is_err()
        {
            self.write_release_slow();
        }
    }

    // ---- looking ----

    /// Whether anyone holds the lock at this instant.
    pub fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed).is_held()
    }

    /// Whether a writer holds the lock at this instant. A reader that upgrades is one when the other
    /// readers have left.
    pub fn is_write_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed).is_held_by_writer()
    }

    /// Whether a thread is queued at this instant.
    pub fn has_waiters(&self) -> bool {
        self.word.load(Ordering::Relaxed).has_waiters()
    }

    /// Whether the count of readers is full at this instant: 2^55 (2^23 where a pointer
    /// has 32 bits) hold the lock, or nearly as many and others are on their way in. No
    /// more get in.
    pub fn is_saturated(&self) -> bool {
        !self.word.load(Ordering::Relaxed).has_room()
    }

    /// Calls `f` with each queued thread: which way it wants the lock, its hint, and
    /// since when. `f` must not panic, and must not use this lock.
    #[cfg(feature = "alloc")]
    pub(crate) fn for_each_waiter(&self, mut f: impl FnMut(crate::wait::Kind, usize, u64)) {
        self.queue.with(|q| {
            q.waiters.iter().for_each(|w| f(w.kind, w.thread.hint(), w.arrived));
        });
    }

    /// The longest wait, in nanoseconds, that the lock plans for a waiter with
    /// `grants_ahead` grants, to either side, before its own, as measured up to
    /// now: the sum of (tenure + handoff + the times that a lock is kept for a thread that
    /// does not run) over them, for the case that nobody comes back, so that the queue gets
    /// shorter and each tenure longer.
    /// Sections longer than a tenure, and threads that the system does not run
    /// although they could, come on top. `None` under the published discipline,
    /// which plans nothing.
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> Option<u64> {
        Some(self.in_tenure()?.planned_wait_ns(grants_ahead))
    }
}

impl<P: Platform> fmt::Debug for RwSem<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("RwSem")
            .field("write_locked", &word.is_written())
            .field("readers", &word.readers())
            .field("waiters", &word.has_waiters())
            .field("policy", &self.policy)
            .finish()
    }
}
