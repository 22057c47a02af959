//! The typed mutex, through `lock_api`, and what that lacks.

use core::time::Duration;
use std::time::Instant;

use crate::deadlock::{self, HeldAs, Id};
use crate::guard::note_attempt;
use crate::lock;
use crate::platform::Native;
use crate::wait::WaitError;
use crate::{CancelToken, GuardMarker, Wait};

/// The raw mutex: a [`lock::RawMutex`] on this platform. 8 bytes.
///
/// It implements `lock_api`'s `RawMutex`, `RawMutexTimed` and `RawMutexFair`. A fair release gives
/// the lock to the waiter whose turn it is, before any thread that comes later.
#[derive(Debug)]
pub struct RawMutex(lock::RawMutex<Native>, Id);

// Stated above.
const _: () = assert!(size_of::<RawMutex>() == 8 + size_of::<Id>());

/// A sleeping mutex that starves nobody, and is fast with more threads than CPUs.
///
/// # Fairness
///
/// The same as for an [`RwLock`](crate::RwLock) with the default policy that is only written.
/// Nobody sleeps at a free lock. For a while (a *tenure*) any running thread may take a free lock;
/// then the lock goes to the queue, in order of arrival.
///
/// A queued thread waits for at most the sum of (*tenure* + *handoff*) over the threads ahead of
/// it, plus the time that holders spend in their last sections. [`MutexExt::planned_wait_ns`]
/// returns the first part. The bound counts from when the thread is queued. It also holds for all
/// timed attempts of a thread together, whatever it does in between, at up to eight locks at a
/// time.
///
/// A thread that repeatedly wants a mutex back soon after releasing it, and finds it held, pauses
/// for 16 microseconds before it queues: at most once in a wait, and only if nobody is queued.
/// Meanwhile the data that the mutex guards stays in the caches of one CPU.
///
/// Not promised: order among threads that are not queued yet, equal shares, and priority
/// inheritance.
///
/// # When it blocks
///
/// `lock` blocks while another thread holds the mutex, or while it is another thread's turn. The
/// thread spins for some microseconds, and then sleeps. A wait can end at a deadline
/// (`try_lock_for`, `try_lock_until`), by a signal, or by a token ([`MutexExt`]). A thread that
/// locks a mutex that it already holds deadlocks.
///
/// # Panics
///
/// No method panics; if the system has no memory for the queue, threads look at the mutex from time to time. A panic while a guard is alive releases the mutex when it drops the guard;
/// it is never poisoned. A guard is not `Send`, unless the feature `send_guard` is on. A forgotten
/// guard keeps the mutex locked for ever.
///
/// # Fork
///
/// As for an [`RwLock`](crate::RwLock#fork).
///
/// ```
/// static COUNT: fairlock::Mutex<u32> = fairlock::Mutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`]; releases it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A [`MutexGuard`] for a part of the value.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

impl RawMutex {
    /// Whether a thread waits for the lock.
    pub fn is_contended(&self) -> bool {
        self.0.is_contended()
    }

    /// Whether the lock has a slot of the pool at this instant.
    #[doc(hidden)]
    pub fn has_slot(&self) -> bool {
        self.0.has_slot()
    }

    pub(crate) fn raw(&self) -> &lock::RawMutex<Native> {
        &self.0
    }

    #[inline]
    pub(crate) fn id(&self) -> &Id {
        &self.1
    }
}

/// The raw mutexes of this crate, as [`MutexExt`] and [`Condvar`](crate::Condvar) need them:
/// [`RawMutex`], also with a [name](crate::stats::Named). Nobody else can implement it.
pub trait RawMutexExt: lock_api::RawMutex + sealed::Sealed {
    #[doc(hidden)]
    #[track_caller]
    fn lock_with(&self, wait: Wait<'_>) -> Result<(), WaitError>;
    #[doc(hidden)]
    fn planned_wait_ns(&self, waiters_ahead: usize) -> u64;
    /// What is noted while the holder is without the lock, for a condition variable.
    #[doc(hidden)]
    type Pause<'a>
    where
        Self: 'a;
    /// The holder is about to release the lock, and to take it again.
    #[doc(hidden)]
    fn pause(&self) -> Self::Pause<'_>;
    /// It has taken it again.
    #[doc(hidden)]
    fn resume(pause: Self::Pause<'_>);
    #[doc(hidden)]
    fn unnamed(&self) -> &RawMutex;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for RawMutex {}

impl RawMutexExt for RawMutex {
    #[inline]
    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn lock_with(&self, wait: Wait<'_>) -> Result<(), WaitError> {
        let take = || self.0.lock_with(wait);
        deadlock::acquire_with(self.id(), HeldAs::Exclusive, wait.can_end(), take)
    }

    fn planned_wait_ns(&self, waiters_ahead: usize) -> u64 {
        self.0.planned_wait_ns(waiters_ahead)
    }

    type Pause<'a> = ();

    #[inline(always)]
    fn pause(&self) {}

    #[inline(always)]
    fn resume((): ()) {}

    #[inline(always)]
    fn unnamed(&self) -> &RawMutex {
        self
    }
}

// SAFETY: one holder at a time (see `lock`); nothing in a lock without
// waiters points into it or names its holder, so it may be moved, dropped, or
// released by another thread.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self(lock::RawMutex::new_const(), Id::new());
    type GuardMarker = GuardMarker;

    #[inline]
    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn lock(&self) {
        let attempt = || self.0.try_lock();
        deadlock::acquire(self.id(), HeldAs::Exclusive, attempt, || self.0.lock());
    }

    #[inline]
    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn try_lock(&self) -> bool {
        note_attempt(self.id(), HeldAs::Exclusive, self.0.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self) {
        deadlock::releases(self.id(), HeldAs::Exclusive);
        // SAFETY: the guard proves that the lock is held.
        unsafe { self.0.unlock() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as for `RawMutex`.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self) {
        deadlock::releases(self.id(), HeldAs::Exclusive);
        // SAFETY: the guard proves that the lock is held.
        unsafe { self.0.unlock_fair() }
    }
}

// SAFETY: as for `RawMutex`.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.lock_with(Wait::within(timeout)).is_ok()
    }

    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.lock_with(Wait::until(deadline)).is_ok()
    }
}

/// What a [`Mutex`] can do beyond `lock_api`.
///
/// Its waits can end without the lock, and then return a [`WaitError`] that says why: see
/// [`wait::Wait`](crate::wait::Wait). Such a wait leaves nothing behind in the mutex or its queue.
/// A wait that is granted the mutex at the instant at which it would end keeps the mutex.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::{Mutex, MutexExt, WaitError};
///
/// let mutex = Mutex::new(7);
/// let guard = mutex.lock();
/// let in_vain = mutex.lock_for(Duration::from_millis(1));
/// assert_eq!(in_vain.err(), Some(WaitError::TimedOut));
/// drop(guard);
/// assert_eq!(*mutex.lock_for(Duration::ZERO)?, 7);
/// # Ok::<(), WaitError>(())
/// ```
pub trait MutexExt<R: RawMutexExt, T: ?Sized> {
    /// Takes the lock; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says.
    #[track_caller]
    fn lock_with(&self, wait: Wait<'_>) -> Result<lock_api::MutexGuard<'_, R, T>, WaitError>;

    /// Takes the lock; gives up after `timeout`, as [`Wait::within`].
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `timeout` has passed.
    #[track_caller]
    fn lock_for(&self, timeout: Duration) -> Result<lock_api::MutexGuard<'_, R, T>, WaitError> {
        self.lock_with(Wait::within(timeout))
    }

    /// Takes the lock; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `deadline`.
    #[track_caller]
    fn lock_until(&self, deadline: Instant) -> Result<lock_api::MutexGuard<'_, R, T>, WaitError> {
        self.lock_with(Wait::until(deadline))
    }

    /// Takes the lock; gives up when a signal handler runs in this thread while it sleeps, as
    /// [`Wait::interruptible`].
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted).
    #[track_caller]
    fn lock_interruptible(&self) -> Result<lock_api::MutexGuard<'_, R, T>, WaitError> {
        self.lock_with(Wait::FOREVER.interruptible())
    }

    /// Takes the lock; gives up when `token` is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled); immediately if `token` was cancelled before and the lock is
    /// not free.
    #[track_caller]
    fn lock_cancellable(
        &self,
        token: &CancelToken,
    ) -> Result<lock_api::MutexGuard<'_, R, T>, WaitError> {
        self.lock_with(Wait::FOREVER.cancellable(token))
    }

    /// The bound, in nanoseconds, on the wait of a thread that is queued behind `waiters_ahead`
    /// others. It follows from what the lock has measured so far, and does not include the time
    /// that holders spend in their last sections. See also
    /// [`RawRwLock::planned_wait_ns`](crate::lock::RawRwLock::planned_wait_ns).
    fn planned_wait_ns(&self, waiters_ahead: usize) -> u64;
}

impl<R: RawMutexExt, T: ?Sized> MutexExt<R, T> for lock_api::Mutex<R, T> {
    #[inline]
    #[track_caller]
    fn lock_with(&self, wait: Wait<'_>) -> Result<lock_api::MutexGuard<'_, R, T>, WaitError> {
        // SAFETY: a lock that is taken is not released here.
        unsafe { self.raw() }.lock_with(wait)?;
        // SAFETY: it was just taken, for this guard alone.
        Ok(unsafe { self.make_guard_unchecked() })
    }

    fn planned_wait_ns(&self, waiters_ahead: usize) -> u64 {
        // SAFETY: a look releases nothing.
        unsafe { self.raw() }.planned_wait_ns(waiters_ahead)
    }
}
