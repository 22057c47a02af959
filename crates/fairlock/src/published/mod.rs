//! The reader/writer lock of the kernel proposals, as published: to reproduce what was published, and to
//! compare with. In a program, use [`crate::RwLock`], which bounds every wait.
//!
//! A [`Policy`] says which of the proposals a lock follows. It uses 320 bytes, and never moves anything to a pool.
//!
//! ```text
//! arrive   steal if nothing forbids it; spin if the policy says so; queue
//! release  let the lock go, then run the wake check
//! wake     a reader heads the queue: grant all readers, writers keep their place
//! check    a writer does: wake it; it takes the lock itself, or, past its
//!          deadline, sets HANDOFF, after which only the head gets in
//! ```
//!
//! Every release runs the wake check, and so does every thread that takes back a count that made
//! the lock look held, and every waiter that arrives or leaves (rules 2, 7, 8, 14 and 15). A
//! release never leaves the check to a spinner.
//!
//! Why no wake-up is lost: every change of the word is one atomic step, so all changes have one
//! order. The lock becomes free with somebody queued either by a step that finds `WAITERS`, whose
//! thread runs the check; or by a step before the one that set `WAITERS`, and then the check of the
//! waiter that set it comes afterwards.
//!
//! `WAITERS`, `HANDOFF` and `WRITER_PHASE` change under the queue lock only
//! (rule 4), but for the fair unlocks, which set `HANDOFF` in one step with
//! seeing `WAITERS`.
//!
//! | what | where |
//! |---|---|
//! | the bits, and their orderings | `word` |
//! | the fast paths | this file |
//! | who is granted, and the ways out | `grant` |
//! | stealing, and waiting | `wait` |
//! | optimistic spinning, and its queue | `spin`, `osq` |
//! | what spinners know of who is inside | `owner` |
//! | what testers look at | `hidden` |

mod grant;
mod hidden;
pub(crate) mod local;
mod osq;
mod owner;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod phase_tests;
mod policy;
#[cfg(all(test, fairlock_loom))]
mod published_loom;
mod queue;
mod spin;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
pub(crate) mod tests;
mod wait;
mod word;

use core::fmt;
use core::sync::atomic::Ordering;

#[doc(hidden)]
pub use hidden::Snapshot;
use owner::Owner;
pub use policy::{Policy, ReaderSpin};
use queue::LockedQueue;
use spin::Spinners;
use word::{AtomicWord, Flags, Word};

use crate::deadlock::{Id, Noted};
use crate::events::{self, Event, EventCounts};
use crate::platform::{ConstZero, Platform};
use crate::wait::{Access, Kind, Wait, WaitContext, WaitError};

/// The lock without data, on any [`Platform`].
///
/// A method that takes the lock comes in several forms:
///
/// | form | ends without the lock |
/// |---|---|
/// | `write` | never; `read` and `read_recursive` panic if no more readers can be counted |
/// | `try_write` | with `false`, without waiting |
/// | `write_with` | as its [`Wait`] says; the methods that read, also with [`TooManyReaders`](WaitError::TooManyReaders) |
// The first cache line has the word, and what is touched with it; the queue lock is in a line that spinners do
// not touch.
#[repr(C, align(64))]
pub struct RwSem<P: Platform> {
    /// The state: see [`word`].
    word: AtomicWord<P>,
    events: events::Sink,
    policy: Policy,
    /// Written by the thread that has just written the word.
    owner: Owner<P>,
    spinners: Spinners<P>,
    queue: LockedQueue<P>,
    id: Id,
}

impl<P: Platform> Noted for RwSem<P> {
    #[inline]
    fn id(&self) -> &Id {
        &self.id
    }
}

impl<P: Platform> RwSem<P> {
    /// A free lock that follows `policy`.
    pub fn new(policy: Policy) -> Self {
        Self {
            word: AtomicWord::default(),
            events: events::Sink::new(),
            policy,
            owner: Owner::default(),
            spinners: Spinners::default(),
            queue: LockedQueue::new(),
            id: Id::new(),
        }
    }

    /// As [`new`](Self::new), for statics, where the platform's atomics can be constants.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self {
            word: ConstZero::ZERO,
            events: events::Sink::new(),
            policy,
            owner: ConstZero::ZERO,
            spinners: ConstZero::ZERO,
            queue: LockedQueue::new_const(),
            id: Id::new(),
        }
    }

    /// The policy this lock was made with.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Counts this lock's [events](crate::events::Event) in `counts` too; with `None`, no longer. Several
    /// locks may share one `counts`.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.events.set(counts);
    }

    fn now(&self) -> Word {
        self.word.load(Ordering::Relaxed)
    }

    /// Whether anyone holds the lock at this instant.
    pub fn is_locked(&self) -> bool {
        !self.now().is_free()
    }

    /// Whether a writer holds the lock at this instant.
    pub fn is_write_locked(&self) -> bool {
        self.now().is_written()
    }

    /// Whether a thread is queued at this instant.
    pub fn has_waiters(&self) -> bool {
        self.now().has_waiters()
    }

    /// Whether the count of readers is full at this instant: 2^55 readers (2^23 with 32-bit
    /// pointers) hold the lock, or are on their way in. No more get in.
    pub fn is_saturated(&self) -> bool {
        !self.now().has_room()
    }

    // ---- in, to read ----

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
    /// [saturated](Self::is_saturated). Leaves no trace in the word when it fails (rule 15).
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read(&self) -> bool {
        self.word.take_while(self.now(), Kind::Reader, Word::is_open_to_readers)
    }

    /// Takes the lock for reading; gives up as `wait` says.
    #[inline]
    pub fn read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // As published: each reader counts itself first, also one that may give up.
        self.read_fast().or_else(|before| self.read_slow(before, &wait.begin()))
    }

    /// Takes the lock for reading, even past waiting writers if readers already hold it;
    /// otherwise like [`read`](Self::read). For a thread that may already hold the lock.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn read_recursive(&self) {
        if !self.try_read_recursive() {
            self.read();
        }
    }

    /// As [`read_recursive`](Self::read_recursive), without waiting; false if the lock
    /// is [saturated](Self::is_saturated), too.
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read_recursive(&self) -> bool {
        // Such a thread never waits here: it is counted, so no writer is inside.
        self.word.take_while(self.now(), Kind::Reader, Word::is_joinable) || self.try_read()
    }

    /// As [`read_recursive`](Self::read_recursive); gives up as `wait` says.
    pub fn read_recursive_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.try_read_recursive() { Ok(()) } else { self.read_with(wait) }
    }

    /// One atomic operation. When it fails, it returns the word it found and the reader stays
    /// counted: the slow path takes the count back, or keeps it if the reader may steal.
    #[inline(always)]
    fn read_fast(&self) -> Result<(), Word> {
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.enter(Ordering::Acquire);
        if before.is_open_to_readers() { Ok(()) } else { Err(before) }
    }

    #[cold]
    fn read_slow_forever(&self, before: Word) {
        if let Err(error) = self.read_slow(before, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// The fast path did not do: the reader is counted, and found the word as it was `before`.
    #[cold]
    fn read_slow(&self, before: Word, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if before.has_room() {
            self.steal_or_wait_to_read(context)?;
        }
        // This reader was counted, by itself or by its granter, without a look for room: may it stay?
        // Relaxed: this thread knows of its own count, so it sees the word with it.
        if before.has_room() && self.now().has_room() {
            return Ok(());
        }
        self.events.count(Event::fail(Kind::Reader));
        self.take_back_count();
        Err(WaitError::TooManyReaders)
    }

    fn steal_or_wait_to_read(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let me = P::thread();
        // The reader keeps its count if it could be added now. Acquire: then this thread owns the
        // lock (rule 3).
        let word = self.word.load(Ordering::Acquire);
        if word.without_reader().is_read_stealable() && self.readers_steal() {
            if word.has_waiters() {
                self.events.count(Event::ReadSteal);
                self.let_readers_join();
            }
            return Ok(());
        }
        self.take_back_count();
        if self.spin_for_read(me, context) {
            return Ok(());
        }
        self.wait(Access::Shared, me, context)
    }

    // ---- in, to write ----

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
        self.write_fast().or_else(|word| self.write_slow(word, &wait.begin()))
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
        self.owner.set(P::thread_hint());
        Ok(())
    }

    #[cold]
    fn write_slow_forever(&self, word: Word) {
        // Waiting for ever ends with the lock only.
        let _ = self.write_slow(word, &WaitContext::FOREVER);
    }

    #[cold]
    fn write_slow(&self, word: Word, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let me = P::thread();
        if self.steal_as_writer(word) {
            self.note_writer(me);
            return Ok(());
        }
        if self.spin_for_write(me, context) {
            self.note_writer(me);
            return Ok(());
        }
        self.wait(Access::Exclusive, me, context)
    }

    // ---- out ----

    /// Gives up the lock held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        // Release: what was read under the lock stays before the next writer.
        let before = self.word.leave(Ordering::Release);
        if before.readers() == 1 && before.has_waiters() {
            self.wake_after_release();
        }
    }

    /// Gives up the lock held for reading; if anyone waits, nobody gets in before the head of the
    /// queue. Other readers stay inside.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    pub unsafe fn unlock_read_fair(&self) {
        self.word.close();
        // SAFETY: the caller's promise.
        unsafe { self.unlock_read() }
    }

    /// Gives up the lock held for writing. Releases the lock first, and looks for waiters afterwards: the
    /// lock may not be freed before the call has returned.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        // Release: what was written is seen by the thread that takes the lock next.
        let exchanged = self.word.compare_exchange(
            Word::WRITTEN,
            Word::FREE,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if exchanged.is_err() {
            self.write_release();
        }
    }

    /// The writer leaves, and somebody is queued, or a reader is passing through.
    #[cold]
    #[inline(never)] // its frame is large
    fn write_release(&self) {
        if self.word.clear(Flags::WRITER_LOCKED, Ordering::Release).has_waiters() {
            self.wake_after_release();
        }
    }

    /// Gives up the lock held for writing, to the head of the queue if anyone waits: nobody gets in
    /// before it.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_write_fair(&self) {
        self.word.close();
        // SAFETY: the caller's promise.
        unsafe { self.unlock_write() }
    }

    /// Turns the lock held for writing into one held for reading, with no gap in which another
    /// writer could get in, and lets all queued readers in beside the caller, unless the lock is kept
    /// for a writer that was passed over for too long (`HANDOFF`, `WRITER_PHASE`). Never blocks.
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, for reading.
    pub unsafe fn downgrade(&self) {
        self.note_readers();
        // One step, so there is no gap. Release: the readers let in see what was written.
        if self.word.downgrade(Ordering::Release).has_waiters() {
            self.let_readers_join();
        }
    }
}

impl<P: Platform> fmt::Debug for RwSem<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.snapshot();
        f.debug_struct("RwSem")
            .field("write_locked", &now.writer)
            .field("readers", &now.readers)
            .field("waiters", &now.waiters)
            .field("policy", &self.policy())
            .finish()
    }
}

#[cfg(all(feature = "std", not(fairlock_loom)))]
mod native {
    use core::mem::offset_of;

    use super::{Owner, Spinners};
    use crate::deadlock::Id;
    use crate::platform::Native;

    /// The lock without data, on this platform.
    ///
    /// It implements `lock_api`'s `RawRwLock`, `RawRwLockFair`, `RawRwLockDowngrade`, `RawRwLockTimed` and
    /// `RawRwLockRecursive`; it has no upgradable reads.
    pub type RawRwLock = super::RwSem<Native>;

    /// A reader/writer lock that follows one of the kernel proposals.
    ///
    /// It blocks, and its guards and waits are, as those of [`crate::RwLock`]; also those of
    /// [`RwLockExt`](crate::RwLockExt). Its [`Policy`](super::Policy) says how long threads may wait, and whether they
    /// may starve.
    ///
    /// ```
    /// use fairlock::RwLockExt;
    /// use fairlock::published::{Policy, RwLock};
    ///
    /// let lock = RwLock::with_policy(Policy::WRITER_PHASE, 7);
    /// *lock.write() += 1;
    /// assert_eq!(*lock.read(), 8);
    /// ```
    pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
    /// Shared access to the value of a [`RwLock`]; releases it when dropped.
    pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
    /// Exclusive access to the value of a [`RwLock`]; releases it when dropped.
    pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
    /// A [`RwLockReadGuard`] for a part of the value.
    pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
    /// A [`RwLockWriteGuard`] for a part of the value.
    pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

    // As many bytes as the module says, and the parts are in the cache lines that they should be in.
    const _: () = {
        const LINE: usize = 64;
        type Of = RawRwLock;
        assert!(size_of::<Of>() == 5 * LINE || size_of::<Id>() > 0 || size_of::<usize>() < 8);
        assert!(offset_of!(Of, owner) + size_of::<Owner<Native>>() <= LINE);
        assert!(offset_of!(Of, spinners) == LINE);
        assert!(offset_of!(Of, queue) == LINE + size_of::<Spinners<Native>>());
    };
}

#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use native::*;
