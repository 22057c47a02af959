//! The typed reader/writer lock, through `lock_api`.

use core::time::Duration;

use lock_api::{GuardSend, RwLock as TypedLock, RwLockReadGuard as ReadGuard};
use lock_api::{RawRwLock as RawLock, RwLockWriteGuard as WriteGuard};

use crate::events::EventCounts;
use crate::platform::{ConstZero, Platform};
use crate::rwsem::{Policy, RwSem};
use crate::wait::{self, WaitError};

#[cfg(any(feature = "std", loom))]
mod native {
    use crate::platform::Native;
    use crate::rwsem::RwSem;

    /// The raw reader/writer lock of this platform, without data.
    ///
    /// It implements `lock_api`'s `RawRwLock`, `RawRwLockFair`,
    /// `RawRwLockDowngrade` and `RawRwLockTimed`.
    pub type RawRwLock = RwSem<Native>;

    /// A sleeping reader/writer lock that starves nobody.
    ///
    /// Any number of readers hold it together, or one writer alone. Every wait
    /// is bounded, on both sides: no stream of readers keeps a writer out, no
    /// stream of writers a reader, and no running thread keeps taking it from
    /// those that sleep. It is `lock_api`'s `RwLock`, so code that is generic
    /// over `lock_api` takes it, and coming from `parking_lot` means changing
    /// one `use` line. What `lock_api` lacks is in
    /// [`RwLockExt`](crate::RwLockExt): waits that a signal or a token ends,
    /// errors that say why a wait ended, recursive reads, policies, counters.
    ///
    /// ```
    /// use fairlock::RwLock;
    ///
    /// static LIMITS: RwLock<(u32, u32)> = RwLock::new((0, 10));
    ///
    /// LIMITS.write().1 = 20;
    /// let limits = LIMITS.read();
    /// assert_eq!(*limits, (0, 20));
    /// ```
    ///
    /// # When it blocks
    ///
    /// `read` blocks while a writer holds the lock, or while the turn is
    /// somebody else's; `write` blocks while anybody holds it, likewise. The
    /// `try_` methods never block; `try_read` fails while anybody is queued,
    /// even if readers hold the lock. Blocked threads sleep, after at most a
    /// short spin. `downgrade` and the release of a guard wait for no holder.
    ///
    /// # Fairness
    ///
    /// Promised, with [`Policy::DEFAULT`](crate::Policy::DEFAULT):
    ///
    /// * The two sides take turns while both wait. Within a side a waiter is
    ///   granted the lock in order of arrival, but for two exceptions: it may be
    ///   passed over, at most twice, for one that can run sooner; and readers
    ///   join those inside as they come to run.
    /// * A turn (*tenure*) lasts as long as `handoff_after` (4 ms) divided by
    ///   the number of threads that want the lock, but not less than the measured
    ///   cost of a handoff divided by `handoff_budget` (10 %): fairness may not
    ///   cost more than that share of the time. So a wait is at most the sum of
    ///   (*tenure* + *handoff*) over the grants ahead, and whatever time the
    ///   holder itself spends in its last section; see
    ///   [`planned_wait_ns`](crate::rwsem::RwSem::planned_wait_ns).
    ///
    /// Not promised: order between readers and writers, order among threads
    /// that are not queued yet, equal shares (the thread whose turn it is may
    /// take the lock many times), priority inheritance, and anything about the
    /// time the system takes to run a thread that was granted the lock. The
    /// other presets of [`Policy`](crate::Policy) promise less; `UNFAIR`
    /// promises nothing and starves.
    ///
    /// # Fork
    ///
    /// A child made by `fork` has only the thread that called it. A lock with
    /// waiters at that moment is lost to the child: its release would grant it to
    /// a thread that is not there. As with any lock, fork without threads, or use
    /// nothing but `exec` in the child.
    ///
    /// # Deadlocks
    ///
    /// A thread that holds the lock and asks for it again waits for itself:
    /// for ever with `write`; with `read` as soon as somebody else is queued.
    /// Use [`read_recursive`](crate::RwLockExt::read_recursive) where a thread
    /// may hold a read guard already.
    ///
    /// # Panics
    ///
    /// Locking does not panic. A panic while a guard is alive releases the
    /// lock as the guard is dropped; there is no poisoning, as in
    /// `parking_lot`, so the next holder sees the data as the panic left it.
    /// A guard that is forgotten keeps the lock held for good. Guards may be
    /// sent to other threads and dropped there.
    ///
    /// # Where it comes from
    ///
    /// One atomic word with reader count and flags, stealing, and handoff to
    /// the longest waiter follow the Linux kernel's rw_semaphore and public
    /// proposals for it (see [`rwsem`](crate::rwsem)); turns with a budget are
    /// this crate's.
    pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
    /// Shared access to the value of a [`RwLock`]; releases it when dropped.
    pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
    /// Exclusive access to the value of a [`RwLock`]; releases it when
    /// dropped. [`downgrade`](lock_api::RwLockWriteGuard::downgrade) turns it
    /// into a read guard without a gap.
    pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
    /// A [`RwLockReadGuard`] for a part of the value.
    ///
    /// ```
    /// use fairlock::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// let name: MappedRwLockReadGuard<'_, &str> =
    ///     RwLockReadGuard::map(lock.read(), |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// ```
    pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
    /// A [`RwLockWriteGuard`] for a part of the value.
    pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
    /// Ends waits from outside; see [`wait::CancelToken`](crate::wait::CancelToken).
    pub type CancelToken = crate::wait::CancelToken<Native>;
}
#[cfg(any(feature = "std", loom))]
pub use native::*;

/// What a [`RwLock`](TypedLock) of this crate can do beyond `lock_api`.
///
/// A wait that can end without the lock returns a [`WaitError`] that says why.
/// All of them are *cancel safe*: a wait that ends without the lock leaves no
/// trace, and never the lock itself; whoever was behind it in the queue moves
/// up. A wait that is granted the lock and ended at the same instant keeps
/// the lock and returns the guard. A lock that can be had at once is taken
/// without a look at the deadline or the token.
///
/// Implemented on every [`Platform`] whose atomics can be constants.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::{RwLock, RwLockExt, WaitError};
///
/// let lock = RwLock::new(7);
/// let writer = lock.write();
/// let in_vain = lock.read_for(Duration::from_millis(1));
/// assert_eq!(in_vain.err(), Some(WaitError::TimedOut));
/// drop(writer);
/// assert_eq!(*lock.read_for(Duration::ZERO)?, 7);
/// # Ok::<(), WaitError>(())
/// ```
pub trait RwLockExt<P: Platform, T: ?Sized>
where
    RwSem<P>: RawLock,
{
    /// A free lock that follows `policy`.
    ///
    /// For a `static`, which needs a `const`, put the raw lock in by hand:
    ///
    /// ```
    /// use fairlock::{Policy, RawRwLock, RwLock, RwLockExt};
    ///
    /// static LOG: RwLock<Vec<u8>> =
    ///     RwLock::from_raw(RawRwLock::with_policy(Policy::WRITER_PHASE), Vec::new());
    ///
    /// let lock = RwLock::with_policy(Policy::WRITER_PHASE, 1);
    /// assert_eq!(lock.policy(), LOG.policy());
    /// ```
    fn with_policy(policy: Policy, value: T) -> Self
    where
        T: Sized;

    /// The policy this lock was made with.
    fn policy(&self) -> &Policy;

    /// Whether a thread is queued for the lock at this instant.
    fn has_waiters(&self) -> bool;

    /// Counts this lock's [events](crate::events) in `counts` too, or no
    /// longer. Several locks may share them.
    fn set_events(&self, counts: Option<&'static EventCounts>);

    /// Takes the lock for reading; gives up after `timeout`, of any length.
    /// Zero waits for nobody.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `timeout` has passed.
    fn read_for(&self, timeout: Duration) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for writing; gives up after `timeout`, of any length.
    /// Zero waits for nobody.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `timeout` has passed.
    fn write_for(&self, timeout: Duration) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for reading; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `deadline`.
    #[cfg(feature = "std")]
    fn read_until(
        &self,
        deadline: std::time::Instant,
    ) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for writing; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `deadline`.
    #[cfg(feature = "std")]
    fn write_until(
        &self,
        deadline: std::time::Instant,
    ) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for reading; gives up when a signal handler has run in
    /// this thread, with or without `SA_RESTART`.
    ///
    /// Only a handler that runs while the thread sleeps ends the wait: one
    /// that ran just before is not noticed. Who must not miss it cancels a
    /// token instead, or sends the signal again. On platforms that cannot tell
    /// (all but Linux) this is `read`.
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted).
    fn read_interruptible(&self) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for writing; gives up when a signal handler has run in
    /// this thread. As [`read_interruptible`](Self::read_interruptible).
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted).
    fn write_interruptible(&self) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for reading; gives up when `token` is cancelled.
    ///
    /// ```
    /// use fairlock::{CancelToken, RwLock, RwLockExt, WaitError};
    ///
    /// let (lock, stop) = (RwLock::new(()), CancelToken::new());
    /// let writer = lock.write();
    /// std::thread::scope(|s| {
    ///     let reader = s.spawn(|| lock.read_cancellable(&stop).map(drop));
    ///     stop.cancel();
    ///     assert_eq!(reader.join().unwrap(), Err(WaitError::Cancelled));
    /// });
    /// ```
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled); at once if `token` was cancelled
    /// before and the lock cannot be had without waiting.
    fn read_cancellable(
        &self,
        token: &wait::CancelToken<P>,
    ) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for writing; gives up when `token` is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled); at once if `token` was cancelled
    /// before and the lock cannot be had without waiting.
    fn write_cancellable(
        &self,
        token: &wait::CancelToken<P>,
    ) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError>;

    /// Takes the lock for reading, past all waiters if readers hold it
    /// already: for a thread that may hold a read guard of this lock itself.
    ///
    /// Readers that never let go at the same time can starve a writer this
    /// way; use it only where it is needed. A thread that holds the *write*
    /// guard waits for itself for ever.
    fn read_recursive(&self) -> ReadGuard<'_, RwSem<P>, T>;

    /// As [`read_recursive`](Self::read_recursive), without waiting: `None` if
    /// that would be needed.
    fn try_read_recursive(&self) -> Option<ReadGuard<'_, RwSem<P>, T>>;
}

impl<P: Platform, T: ?Sized> RwLockExt<P, T> for TypedLock<RwSem<P>, T>
where
    RwSem<P>: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    fn with_policy(policy: Policy, value: T) -> Self
    where
        T: Sized,
    {
        Self::from_raw(RwSem::new(policy), value)
    }

    fn policy(&self) -> &Policy {
        sem(self).policy()
    }

    fn has_waiters(&self) -> bool {
        sem(self).has_waiters()
    }

    fn set_events(&self, counts: Option<&'static EventCounts>) {
        sem(self).set_events(counts);
    }

    fn read_for(&self, timeout: Duration) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError> {
        read_guard(self, |sem| read_for(sem, timeout))
    }

    fn write_for(&self, timeout: Duration) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError> {
        write_guard(self, |sem| write_for(sem, timeout))
    }

    #[cfg(feature = "std")]
    fn read_until(
        &self,
        deadline: std::time::Instant,
    ) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError> {
        read_guard(self, |sem| read_for(sem, time_until(deadline)))
    }

    #[cfg(feature = "std")]
    fn write_until(
        &self,
        deadline: std::time::Instant,
    ) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError> {
        write_guard(self, |sem| write_for(sem, time_until(deadline)))
    }

    fn read_interruptible(&self) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError> {
        read_guard(self, RwSem::read_interruptible)
    }

    fn write_interruptible(&self) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError> {
        write_guard(self, RwSem::write_interruptible)
    }

    fn read_cancellable(
        &self,
        token: &wait::CancelToken<P>,
    ) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError> {
        read_guard(self, |sem| sem.read_cancellable(token))
    }

    fn write_cancellable(
        &self,
        token: &wait::CancelToken<P>,
    ) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError> {
        write_guard(self, |sem| sem.write_cancellable(token))
    }

    fn read_recursive(&self) -> ReadGuard<'_, RwSem<P>, T> {
        sem(self).read_recursive();
        // SAFETY: the lock was just taken for reading, for this guard alone.
        unsafe { self.make_read_guard_unchecked(GuardSend::new()) }
    }

    fn try_read_recursive(&self) -> Option<ReadGuard<'_, RwSem<P>, T>> {
        sem(self).try_read_recursive().then(|| {
            // SAFETY: the lock was just taken for reading, for this guard alone.
            unsafe { self.make_read_guard_unchecked(GuardSend::new()) }
        })
    }
}

/// The lock inside: to look at it, or to take it for a guard.
fn sem<P: Platform, T: ?Sized>(lock: &TypedLock<RwSem<P>, T>) -> &RwSem<P>
where
    RwSem<P>: RawLock,
{
    // SAFETY: nothing in this file releases a lock that a live guard holds.
    unsafe { lock.raw() }
}

/// The guard of the read lock that `take` takes.
#[inline]
fn read_guard<P: Platform, T: ?Sized>(
    lock: &TypedLock<RwSem<P>, T>,
    take: impl FnOnce(&RwSem<P>) -> Result<(), WaitError>,
) -> Result<ReadGuard<'_, RwSem<P>, T>, WaitError>
where
    RwSem<P>: RawLock<SharedGuard = GuardSend>,
{
    take(sem(lock))?;
    // SAFETY: `take` took the lock for reading, for this guard alone.
    Ok(unsafe { lock.make_read_guard_unchecked(GuardSend::new()) })
}

/// The guard of the write lock that `take` takes.
#[inline]
fn write_guard<P: Platform, T: ?Sized>(
    lock: &TypedLock<RwSem<P>, T>,
    take: impl FnOnce(&RwSem<P>) -> Result<(), WaitError>,
) -> Result<WriteGuard<'_, RwSem<P>, T>, WaitError>
where
    RwSem<P>: RawLock<ExclusiveGuard = GuardSend>,
{
    take(sem(lock))?;
    // SAFETY: `take` took the lock for writing, for this guard alone.
    Ok(unsafe { lock.make_write_guard_unchecked(GuardSend::new()) })
}

// A lock that is free is taken without a look at the clock.
fn read_for<P: Platform>(sem: &RwSem<P>, timeout: Duration) -> Result<(), WaitError> {
    if sem.try_read() { Ok(()) } else { sem.read_until(deadline::<P>(timeout)) }
}

fn write_for<P: Platform>(sem: &RwSem<P>, timeout: Duration) -> Result<(), WaitError> {
    if sem.try_write() { Ok(()) } else { sem.write_until(deadline::<P>(timeout)) }
}

/// When `timeout` ends, on the platform's clock. What lies beyond the clock's
/// range (centuries) is its last instant.
fn deadline<P: Platform>(timeout: Duration) -> u64 {
    P::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}

/// The two clocks may differ, but not in how long is left.
#[cfg(feature = "std")]
fn time_until(deadline: std::time::Instant) -> Duration {
    deadline.saturating_duration_since(std::time::Instant::now())
}

// SAFETY: `RwSem` excludes writers from everybody and readers from writers;
// acquisitions are Acquire and releases Release (see `rwsem::word`). A guard
// that is forgotten leaves the lock held. A lock that is held and has no
// waiters is not pointed to by anybody, so its owner may move or drop it.
unsafe impl<P: Platform> RawLock for RwSem<P>
where
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
    P::AtomicU64: ConstZero,
{
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self::with_policy(Policy::DEFAULT);
    type SharedGuard = GuardSend;
    type ExclusiveGuard = GuardSend;

    #[inline]
    fn lock_shared(&self) -> GuardSend {
        self.read();
        GuardSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardSend> {
        self.try_read().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a read acquisition.
        unsafe { self.unlock_read() }
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardSend {
        self.write();
        GuardSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardSend> {
        self.try_write().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a write acquisition.
        unsafe { self.unlock_write() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        RwSem::is_locked(self)
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.is_write_locked()
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl<P: Platform> lock_api::RawRwLockFair for RwSem<P>
where
    Self: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    unsafe fn unlock_shared_fair(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a read acquisition.
        unsafe { self.unlock_read_fair() }
    }

    unsafe fn unlock_exclusive_fair(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a write acquisition.
        unsafe { self.unlock_write_fair() }
    }
}

// SAFETY: as for `RawRwLock`; the downgrade is one step in the word, so no
// writer gets in between, and it releases what was written.
unsafe impl<P: Platform> lock_api::RawRwLockDowngrade for RwSem<P>
where
    Self: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    unsafe fn downgrade(&self, guard: GuardSend) -> GuardSend {
        // SAFETY: the guard stands for a write acquisition.
        unsafe { RwSem::downgrade(self) };
        guard
    }
}

// SAFETY: as for `RawRwLock`.
#[cfg(feature = "std")]
unsafe impl<P: Platform> lock_api::RawRwLockTimed for RwSem<P>
where
    Self: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    type Duration = Duration;
    type Instant = std::time::Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardSend> {
        read_for(self, timeout).is_ok().then(GuardSend::new)
    }

    fn try_lock_shared_until(&self, deadline: std::time::Instant) -> Option<GuardSend> {
        self.try_lock_shared_for(time_until(deadline))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardSend> {
        write_for(self, timeout).is_ok().then(GuardSend::new)
    }

    fn try_lock_exclusive_until(&self, deadline: std::time::Instant) -> Option<GuardSend> {
        self.try_lock_exclusive_for(time_until(deadline))
    }
}
