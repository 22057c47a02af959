//! The typed condition variable, with the methods of `parking_lot`'s, and more.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use lock_api::MutexGuard;

use super::WordCondvar;
use crate::deadlock;
use crate::mutex::RawMutexExt;
use crate::platform::Native;
use crate::wait::WaitError;
use crate::{CancelToken, RawMutex, Wait};

/// The condition variable of [`RawMutex`], used without a guard.
pub(crate) struct RawCondvar(WordCondvar<Native>);

impl RawCondvar {
    pub(crate) const fn new() -> Self {
        Self(WordCondvar::new_const())
    }

    pub(crate) fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    pub(crate) fn notify_all(&self) -> usize {
        self.0.notify_all()
    }

    #[cfg(feature = "async")]
    pub(crate) fn word(&self) -> &WordCondvar<Native> {
        &self.0
    }

    /// # Safety
    /// The caller holds the mutex, and uses nothing that it guards before this returns.
    pub(crate) unsafe fn wait(&self, mutex: &RawMutex) {
        // SAFETY: the caller's promise.
        deadlock::acquire_again(mutex.id(), || unsafe { self.0.wait(mutex.raw()) });
    }

    /// # Safety
    /// As [`wait`](Self::wait).
    pub(crate) unsafe fn wait_with(
        &self,
        mutex: &RawMutex,
        wait: Wait<'_>,
    ) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        deadlock::acquire_again(mutex.id(), || unsafe { self.0.wait_with(mutex.raw(), wait) })
    }
}

/// Whether a timed wait ended by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait timed out.
    #[inline]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable for [`Mutex`](crate::Mutex), with or without a [name](crate::stats::Mutex):
/// first come, first notified.
///
/// Threads are notified in the order in which they began to wait. A notified thread is woken, and
/// holds the mutex again when its wait returns. It takes the mutex like any other thread that comes
/// at that time, after it has yielded to the holder for at most 0.1 ms. If the mutex is held at the
/// moment of the notification, and threads have waited for the mutex lately, a sleeping thread is
/// instead queued at the mutex while it sleeps, and a release wakes it. Either way another thread
/// may have changed the condition first, so the notified thread must check it again (`wait_while`
/// does). Once queued at the mutex, a thread is overtaken no more than [`Mutex`](crate::Mutex)
/// says.
///
/// There are no spurious wake-ups. A wait that ends by its deadline or by a token consumes no
/// notification. Threads may wait at one condition variable with different mutexes at the same
/// time. No method panics.
///
/// `notify_one` and `notify_all` do not block. `notify_all` itself wakes two of the threads that it
/// notifies. Each woken thread wakes the next one (two of them wake two each), when it finds the
/// mutex free or holds it, or after 0.1 ms. So a thread that gets no CPU delays no other, as long
/// as one of the woken threads runs. If none does, each later wait of the notifying thread wakes
/// the next one, too, and its next `notify_all` wakes all. If notifications lately came within 50
/// µs, a waiting thread may stay awake for that long before it sleeps; meanwhile it yields its CPU
/// to any other thread that wants it.
///
/// A condition variable takes 24 bytes. With the feature `async`, tasks wait, too, in the same queue:
/// `wait_async`.
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
pub struct Condvar(pub(crate) RawCondvar);

// The guide says so.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Condvar>() == 24);

impl Condvar {
    /// A condition variable that nobody waits for.
    #[inline]
    pub const fn new() -> Self {
        Self(RawCondvar::new())
    }

    /// Notifies the thread or task that has waited longest. Returns whether there was one.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    /// Notifies all threads and tasks that wait. Returns how many there were.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.0.notify_all()
    }

    /// Releases the mutex, waits for a notification, and takes the mutex again.
    #[inline]
    pub fn wait<R: RawMutexExt, T: ?Sized>(&self, guard: &mut MutexGuard<'_, R, T>) {
        // SAFETY: a look at the lock releases nothing.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        let pause = mutex.pause();
        // SAFETY: the guard, which nobody else uses meanwhile, holds the mutex.
        unsafe { self.0.wait(mutex.unnamed()) };
        R::resume(pause);
    }

    /// As [`wait`](Self::wait), but at most until `deadline`; then it takes the mutex again, which
    /// may take longer.
    #[inline]
    pub fn wait_until<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_with(guard, Wait::until(deadline)).is_err())
    }

    /// As [`wait`](Self::wait), but at most for `timeout`; then it takes the mutex again, which may
    /// take longer.
    #[inline]
    pub fn wait_for<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_with(guard, Wait::within(timeout)).is_err())
    }

    /// Waits again and again, while `condition` holds.
    #[inline]
    pub fn wait_while<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// As [`wait_while`](Self::wait_while), until `deadline` at most. It has timed out if the
    /// condition still holds.
    #[inline]
    pub fn wait_while_until<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while condition(&mut **guard) {
            if result.timed_out() {
                return result;
            }
            result = self.wait_until(guard, deadline);
        }
        WaitTimeoutResult(false)
    }

    /// As [`wait_while_until`](Self::wait_while_until), for `timeout` at most.
    #[inline]
    pub fn wait_while_for<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.wait_while_until(guard, condition, deadline),
            // The deadline is beyond the clock's range: wait for ever.
            None => {
                self.wait_while(guard, condition);
                WaitTimeoutResult(false)
            }
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Condvar { .. }")
    }
}

/// What a [`Condvar`] can do beyond `lock_api`.
///
/// These waits are *cancel safe*: a wait that ends without a notification consumes none, and the
/// mutex is held again in any case.
pub trait CondvarExt {
    /// Waits for a notification; gives up as `wait` says. When it returns the mutex is held again,
    /// whatever the result.
    ///
    /// # Errors
    /// As `wait` says: it was not notified.
    fn wait_with<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
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
    fn wait_cancellable<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
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
    fn wait_interruptible<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
    ) -> Result<(), WaitError> {
        self.wait_with(guard, Wait::FOREVER.interruptible())
    }
}

impl CondvarExt for Condvar {
    fn wait_with<R: RawMutexExt, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        wait: Wait<'_>,
    ) -> Result<(), WaitError> {
        // SAFETY: a look at the lock releases nothing.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        let pause = mutex.pause();
        // SAFETY: the guard holds the mutex, and nobody looks at what that guards before the wait
        // returns, as the guard is borrowed.
        let notified = unsafe { self.0.wait_with(mutex.unnamed(), wait) };
        R::resume(pause);
        notified
    }
}
