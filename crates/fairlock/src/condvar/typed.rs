//! The typed condition variable, through `lock_api`, and what that lacks.

use core::time::Duration;
use std::time::Instant;

use super::ThinCondvar;
use crate::deadlock;
use crate::platform::Native;
use crate::wait::WaitError;
use crate::{CancelToken, GuardMarker, MutexGuard, RawMutex, Wait};

/// The raw condition variable. 24 bytes.
///
/// It implements `lock_api`'s `RawCondvar` and `RawCondvarTimed`. No wait ends without a reason,
/// and notifications are counted exactly.
#[derive(Debug)]
pub struct RawCondvar(ThinCondvar<Native>);

// Stated above.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<RawCondvar>() == 24);

/// A condition variable for [`Mutex`](crate::Mutex): first come, first notified.
///
/// Threads are notified in the order in which they began to wait. A thread that is notified is
/// woken, and holds the mutex again when its wait returns. It takes the mutex like any other thread
/// that comes at that time, after it has given way to the holder for at most 0.1 ms. If the mutex is
/// held at the moment of the notification, and others have waited for it lately, a thread that sleeps
/// is queued there asleep instead, and woken by a release at the latest. Either way another thread may
/// have taken what the notification was about, and the notified one has to look (`wait_while` does).
/// Once it is queued at the mutex, it is overtaken no more than [`Mutex`](crate::Mutex) says.
///
/// A wait never ends without a reason. A wait that ends by its deadline or by a token has used up no
/// notification. One condition variable may be waited at with several mutexes at the same time.
///
/// `notify_one` and `notify_all` do not block. Of the threads that `notify_all` notifies it wakes two.
/// Each thread that was woken wakes the next one that was not, and two of them wake two. It does so
/// when it finds the mutex free or has it, or after 0.1 ms. So a thread that gets no CPU delays no
/// other, as long as one of those that were woken runs. If none does, each later wait of the thread
/// that notified wakes the next one, too, and its next `notify_all` wakes all. A waiting thread may stay
/// awake for the first 50 µs if notifications came within that time lately; it gives its CPU to any
/// other thread that wants it.
///
/// ```
/// use fairlock::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         let mut ready = READY.lock();
///         CHANGED.wait_while(&mut ready, |ready| !*ready);
///     });
///     *READY.lock() = true;
///     CHANGED.notify_one();
/// });
/// ```
pub type Condvar = lock_api::Condvar<RawCondvar>;

pub use lock_api::WaitTimeoutResult;

// SAFETY: a waiter is queued before the mutex is let go (`condvar::waiters`), and holds
// it again when the wait returns; a `GuardMarker` holds no state.
unsafe impl lock_api::RawCondvar for RawCondvar {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self(ThinCondvar::new_const());
    type RawMutex = RawMutex;

    unsafe fn wait(&self, mutex: &RawMutex, _guard: &mut GuardMarker) {
        // SAFETY: the guard stands for an acquisition of the mutex.
        deadlock::acquire_again(mutex, || unsafe { self.0.wait(mutex.thin()) });
    }

    fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    fn notify_all(&self) -> usize {
        self.0.notify_all()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawCondvarTimed for RawCondvar {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Instant::now().checked_add(*timeout)
    }

    unsafe fn wait_until(
        &self,
        mutex: &RawMutex,
        guard: &mut GuardMarker,
        deadline: &Instant,
    ) -> bool {
        let timeout = deadline.saturating_duration_since(Instant::now());
        // SAFETY: the caller's promise.
        unsafe { self.wait_for(mutex, guard, &timeout) }
    }

    unsafe fn wait_for(
        &self,
        mutex: &RawMutex,
        _guard: &mut GuardMarker,
        timeout: &Duration,
    ) -> bool {
        // SAFETY: the guard stands for an acquisition of the mutex.
        let wait = || unsafe { self.0.wait_with(mutex.thin(), Wait::within(*timeout)) };
        deadlock::acquire_again(mutex, wait).is_err()
    }
}

/// What a [`Condvar`] can do beyond `lock_api`.
///
/// These waits are *cancel safe*: one that ends without a notification has used none up, and the
/// mutex is held again in any case.
pub trait CondvarExt {
    /// Waits for a notification; gives up as `wait` says. When it returns the mutex is held again,
    /// whatever the result.
    ///
    /// # Errors
    /// As `wait` says: it was not notified.
    fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        wait: Wait<'_>,
    ) -> Result<(), WaitError>;

    /// Waits for a notification; gives up when `token` is cancelled. When it returns the mutex is
    /// held again, whatever the result.
    ///
    /// ```
    /// use fairlock::{CancelToken, Condvar, CondvarExt, Mutex, WaitError};
    ///
    /// let (mutex, changed, stop) = (Mutex::new(()), Condvar::new(), CancelToken::new());
    /// std::thread::scope(|s| {
    ///     let waiter = s.spawn(|| changed.wait_cancellable(&mut mutex.lock(), &stop));
    ///     stop.cancel();
    ///     assert_eq!(waiter.join().unwrap(), Err(WaitError::Cancelled));
    /// });
    /// ```
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled): it was not notified.
    fn wait_cancellable<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        token: &CancelToken,
    ) -> Result<(), WaitError> {
        self.wait_with(guard, Wait::FOREVER.cancellable(token))
    }

    /// Waits for a notification; gives up when a signal handler runs in this thread while it
    /// sleeps, as [`Wait::interruptible`]. When it returns the mutex is held again, whatever the
    /// result.
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted): it was not notified.
    fn wait_interruptible<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
    ) -> Result<(), WaitError> {
        self.wait_with(guard, Wait::FOREVER.interruptible())
    }
}

impl CondvarExt for Condvar {
    fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        wait: Wait<'_>,
    ) -> Result<(), WaitError> {
        // SAFETY: the wait holds the mutex again when it returns, and nobody looks at what the
        // guard guards before that, as it is borrowed.
        unsafe {
            let mutex = MutexGuard::mutex(guard).raw();
            deadlock::acquire_again(mutex, || self.raw().0.wait_with(mutex.thin(), wait))
        }
    }
}
