//! What `lock_api` lacks, as one extension trait.

use core::time::Duration;

use lock_api::{RawRwLock as RawLock, RwLockWriteGuard as WriteGuard};
use lock_api::{RwLock as TypedLock, RwLockReadGuard as ReadGuard};

use crate::GuardMarker;
use crate::deadlock::{self, HeldAs, Noted};
use crate::events::EventCounts;
use crate::lock::{Policy, RawRwLock};
use crate::platform::Platform;
use crate::platform::PooledPlatform;
use crate::published::{self, RwSem as Published};
use crate::wait::{CancelToken, Wait, WaitError};

/// What a [`RwLock`](TypedLock) of this crate can do beyond `lock_api`.
///
/// Its waits can end without the lock, and then return a [`WaitError`] that says why: see [`Wait`].
/// Such a wait leaves nothing behind in the lock or its queue. A wait that is granted the lock at
/// the instant at which it would end keeps the lock.
///
/// If `read` would panic, methods that read fail immediately with
/// [`TooManyReaders`](WaitError::TooManyReaders).
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
pub trait RwLockExt<R: RawRwLockExt, T: ?Sized> {
    /// A free lock that follows `policy`.
    ///
    /// For a `static`, which needs a `const`, put the raw lock in by hand:
    ///
    /// ```
    /// use fairlock::{Policy, RawRwLock, RwLock, RwLockExt};
    ///
    /// const RANKED: Policy = Policy::DEFAULT.with_priorities();
    /// static LOG: RwLock<Vec<u8>> = RwLock::from_raw(RawRwLock::with_policy(RANKED), Vec::new());
    ///
    /// let lock = RwLock::with_policy(RANKED, 1);
    /// assert_eq!(lock.policy(), LOG.policy());
    /// ```
    fn with_policy(policy: R::Policy, value: T) -> Self
    where
        T: Sized;

    /// The policy this lock was made with.
    fn policy(&self) -> R::Policy;

    /// Whether a thread is queued for the lock at this instant.
    fn has_waiters(&self) -> bool;

    /// Counts this lock's [events](crate::events) in `counts` too; with `None`, no longer. Several
    /// locks may share one `counts`.
    fn set_events(&self, counts: Option<&'static EventCounts>);

    /// Takes the lock for reading; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says.
    #[track_caller]
    fn read_with(&self, wait: Wait<'_, R::Platform>) -> Result<ReadGuard<'_, R, T>, WaitError>;

    /// Takes the lock for writing; gives up as `wait` says.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fairlock::{CancelToken, RwLock, RwLockExt, Wait, WaitError};
    ///
    /// let (lock, stop) = (RwLock::new(()), CancelToken::new());
    /// let reader = lock.read();
    /// let wait = Wait::within(Duration::from_millis(1)).cancellable(&stop);
    /// assert_eq!(lock.write_with(wait).err(), Some(WaitError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// As `wait` says.
    #[track_caller]
    fn write_with(&self, wait: Wait<'_, R::Platform>) -> Result<WriteGuard<'_, R, T>, WaitError>;

    /// Takes the lock for reading; gives up after `timeout`, as [`Wait::within`].
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `timeout` has passed.
    #[track_caller]
    fn read_for(&self, timeout: Duration) -> Result<ReadGuard<'_, R, T>, WaitError> {
        self.read_with(Wait::within(timeout))
    }

    /// Takes the lock for writing; gives up after `timeout`, as [`Wait::within`].
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `timeout` has passed.
    #[track_caller]
    fn write_for(&self, timeout: Duration) -> Result<WriteGuard<'_, R, T>, WaitError> {
        self.write_with(Wait::within(timeout))
    }

    /// Takes the lock for reading; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `deadline`.
    #[cfg(feature = "std")]
    #[track_caller]
    fn read_until(&self, deadline: std::time::Instant) -> Result<ReadGuard<'_, R, T>, WaitError> {
        self.read_with(Wait::until(deadline))
    }

    /// Takes the lock for writing; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `deadline`.
    #[cfg(feature = "std")]
    #[track_caller]
    fn write_until(&self, deadline: std::time::Instant) -> Result<WriteGuard<'_, R, T>, WaitError> {
        self.write_with(Wait::until(deadline))
    }

    /// Takes the lock for reading; gives up when a signal handler runs in this thread while it
    /// sleeps, as [`Wait::interruptible`].
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted).
    #[track_caller]
    fn read_interruptible(&self) -> Result<ReadGuard<'_, R, T>, WaitError> {
        self.read_with(Wait::FOREVER.interruptible())
    }

    /// Takes the lock for writing; gives up when a signal handler runs in this thread while it
    /// sleeps, as [`Wait::interruptible`].
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted).
    #[track_caller]
    fn write_interruptible(&self) -> Result<WriteGuard<'_, R, T>, WaitError> {
        self.write_with(Wait::FOREVER.interruptible())
    }

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
    /// [`Cancelled`](WaitError::Cancelled); immediately if `token` was cancelled before and the lock
    /// cannot be taken without waiting.
    #[track_caller]
    fn read_cancellable(
        &self,
        token: &CancelToken<R::Platform>,
    ) -> Result<ReadGuard<'_, R, T>, WaitError> {
        self.read_with(Wait::FOREVER.cancellable(token))
    }

    /// Takes the lock for writing; gives up when `token` is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled); immediately if `token` was cancelled before and the lock
    /// cannot be taken without waiting.
    #[track_caller]
    fn write_cancellable(
        &self,
        token: &CancelToken<R::Platform>,
    ) -> Result<WriteGuard<'_, R, T>, WaitError> {
        self.write_with(Wait::FOREVER.cancellable(token))
    }

    /// As [`read_recursive`](TypedLock::read_recursive); gives up as `wait` says.
    ///
    /// If readers already hold the lock, both go past all waiters: use them in a thread that may
    /// already hold a read guard of this lock. Readers that overlap without a gap can starve a
    /// writer in this way. A thread that holds the *write* guard deadlocks.
    ///
    /// # Errors
    /// As `wait` says.
    #[track_caller]
    fn read_recursive_with(
        &self,
        wait: Wait<'_, R::Platform>,
    ) -> Result<ReadGuard<'_, R, T>, WaitError>;
}

impl<R: RawRwLockExt, T: ?Sized> RwLockExt<R, T> for TypedLock<R, T> {
    fn with_policy(policy: R::Policy, value: T) -> Self
    where
        T: Sized,
    {
        Self::from_raw(R::with_policy(policy), value)
    }

    fn policy(&self) -> R::Policy {
        raw(self).policy()
    }

    fn has_waiters(&self) -> bool {
        raw(self).has_waiters()
    }

    fn set_events(&self, counts: Option<&'static EventCounts>) {
        raw(self).set_events(counts);
    }

    #[track_caller]
    fn read_with(&self, wait: Wait<'_, R::Platform>) -> Result<ReadGuard<'_, R, T>, WaitError> {
        raw(self).read_with(wait)?;
        // SAFETY: the lock was just taken for reading, for this guard alone.
        Ok(unsafe { self.make_read_guard_unchecked() })
    }

    #[track_caller]
    fn write_with(&self, wait: Wait<'_, R::Platform>) -> Result<WriteGuard<'_, R, T>, WaitError> {
        raw(self).write_with(wait)?;
        // SAFETY: the lock was just taken for writing, for this guard alone.
        Ok(unsafe { self.make_write_guard_unchecked() })
    }

    #[track_caller]
    fn read_recursive_with(
        &self,
        wait: Wait<'_, R::Platform>,
    ) -> Result<ReadGuard<'_, R, T>, WaitError> {
        raw(self).read_recursive_with(wait)?;
        // SAFETY: the lock was just taken for reading, for this guard alone.
        Ok(unsafe { self.make_read_guard_unchecked() })
    }
}

/// The raw lock inside: to look at it, or to take it for a guard.
fn raw<R: RawRwLockExt, T: ?Sized>(lock: &TypedLock<R, T>) -> &R {
    // SAFETY: nothing in this file releases a lock that a live guard holds.
    unsafe { lock.raw() }
}

/// The raw locks of this crate, as [`RwLockExt`] needs them: [`RawRwLock`](crate::RawRwLock) and
/// [`published::RwSem`], also with a name (`stats::Named`). Nobody else can implement it.
pub trait RawRwLockExt: RawLock<GuardMarker = GuardMarker> + sealed::Sealed {
    /// The platform that the lock is on.
    type Platform: Platform;
    /// What says which thread goes next.
    type Policy;
    #[doc(hidden)]
    fn with_policy(policy: Self::Policy) -> Self;
    #[doc(hidden)]
    fn policy(&self) -> Self::Policy;
    #[doc(hidden)]
    fn has_waiters(&self) -> bool;
    #[doc(hidden)]
    fn set_events(&self, counts: Option<&'static EventCounts>);
    #[doc(hidden)]
    #[track_caller]
    fn read_with(&self, wait: Wait<'_, Self::Platform>) -> Result<(), WaitError>;
    #[doc(hidden)]
    #[track_caller]
    fn write_with(&self, wait: Wait<'_, Self::Platform>) -> Result<(), WaitError>;
    #[doc(hidden)]
    #[track_caller]
    fn read_recursive_with(&self, wait: Wait<'_, Self::Platform>) -> Result<(), WaitError>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Implements the trait by the lock's methods of the same names.
macro_rules! raw_rwlock_ext {
    ($lock:ident on $platform:ident by $policy:ty) => {
        impl<P: $platform> sealed::Sealed for $lock<P> {}

        impl<P: $platform> RawRwLockExt for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            type Platform = P;
            type Policy = $policy;

            fn with_policy(policy: $policy) -> Self {
                $lock::new(policy)
            }

            fn policy(&self) -> $policy {
                $lock::policy(self)
            }

            fn has_waiters(&self) -> bool {
                $lock::has_waiters(self)
            }

            fn set_events(&self, counts: Option<&'static EventCounts>) {
                $lock::set_events(self, counts);
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
                let take = || $lock::read_with(self, wait);
                deadlock::acquire_with(self.id(), HeldAs::Shared, wait.can_end(), take)
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn write_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
                let take = || $lock::write_with(self, wait);
                deadlock::acquire_with(self.id(), HeldAs::Exclusive, wait.can_end(), take)
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn read_recursive_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
                let take = || $lock::read_recursive_with(self, wait);
                deadlock::acquire_with(self.id(), HeldAs::Recursive, wait.can_end(), take)
            }
        }
    };
}

raw_rwlock_ext!(Published on Platform by published::Policy);
raw_rwlock_ext!(RawRwLock on PooledPlatform by Policy);
