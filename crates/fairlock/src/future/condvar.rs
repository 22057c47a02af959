//! The future that waits for a notification.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use lock_api::{Mutex, MutexGuard};

use super::RawMutexAsync;
use crate::condvar::RawWaitFuture;
use crate::deadlock::{self, HeldAs};
use crate::lock::Limit;
use crate::platform::Native;
use crate::wait::WaitError;
use crate::{Condvar, RawMutex, Wait};

/// Waits for a notification, and takes the mutex again: see [`Condvar::wait_async`].
#[must_use = "it waits when it is polled; dropped before, it releases the mutex"]
pub struct WaitFuture<'a, T: ?Sized, R: RawMutexAsync + 'a = RawMutex> {
    wait: RawWaitFuture<'a, Native>,
    mutex: &'a Mutex<R, T>,
    /// While it is without the mutex.
    pause: Option<R::Pause<'a>>,
}

impl<'a, T: ?Sized, R: RawMutexAsync> WaitFuture<'a, T, R> {
    /// # Safety
    /// The future holds the mutex, and does not any more.
    unsafe fn guard(self: Pin<&mut Self>) -> MutexGuard<'a, R, T> {
        let mutex = self.mutex;
        // SAFETY: `pause` is not pinned.
        let pause = unsafe { self.get_unchecked_mut() }.pause.take();
        pause.into_iter().for_each(R::resume);
        // SAFETY: a look at the lock releases nothing.
        unsafe { mutex.raw() }.acquired(HeldAs::Exclusive);
        // SAFETY: the caller's promise.
        unsafe { mutex.make_guard_unchecked() }
    }

    fn wait(self: Pin<&mut Self>) -> Pin<&mut RawWaitFuture<'a, Native>> {
        // SAFETY: it is pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }

    /// The guard of a future that was not polled yet.
    fn take_back(mut self: Pin<&mut Self>) -> Option<MutexGuard<'a, R, T>> {
        // SAFETY: the future has held it, and does not any more.
        self.as_mut().wait().take_back().then(|| unsafe { self.guard() })
    }
}

impl<'a, T: ?Sized, R: RawMutexAsync> Future for WaitFuture<'a, T, R> {
    type Output = MutexGuard<'a, R, T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MutexGuard<'a, R, T>> {
        if self.wait.holds() {
            // SAFETY: `pause` is not pinned.
            let this = unsafe { self.as_mut().get_unchecked_mut() };
            // SAFETY: a look at the lock releases nothing.
            this.pause.get_or_insert_with(|| unsafe { this.mutex.raw() }.pause());
        }
        // SAFETY: taken by the poll that is ready.
        self.as_mut().wait().poll(context).map(|()| unsafe { self.guard() })
    }
}

impl<T: ?Sized, R: RawMutexAsync> Drop for WaitFuture<'_, T, R> {
    fn drop(&mut self) {
        // SAFETY: it is not moved any more.
        drop(unsafe { Pin::new_unchecked(self) }.take_back());
    }
}

impl<T: ?Sized, R: RawMutexAsync> fmt::Debug for WaitFuture<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFuture").finish_non_exhaustive()
    }
}

/// Waits for a notification until its [`Wait`] ends, and takes the mutex again: see [`Condvar::wait_async_with`].
#[must_use = "it waits when it is polled; dropped before, it releases the mutex"]
pub struct WaitWithFuture<'a, T: ?Sized, R: RawMutexAsync + 'a = RawMutex> {
    wait: WaitFuture<'a, T, R>,
    limit: Limit<'a, Native>,
    ended: Option<WaitError>,
}

impl<'a, T: ?Sized, R: RawMutexAsync> Future for WaitWithFuture<'a, T, R> {
    type Output = (MutexGuard<'a, R, T>, Result<(), WaitError>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of it; both are pinned, as the whole is.
        let (mut wait, mut limit, ended) = unsafe {
            let this = self.get_unchecked_mut();
            let wait = Pin::new_unchecked(&mut this.wait);
            (wait, Pin::new_unchecked(&mut this.limit), &mut this.ended)
        };
        let mut polled = wait.as_mut().poll(context);
        if polled.is_pending() {
            let Some(error) = limit.as_mut().ended(context) else { return Poll::Pending };
            *ended = wait.as_mut().wait().give_up().then_some(error);
            // It takes the mutex however long that takes.
            limit.as_mut().lift();
            polled = wait.poll(context);
        }
        polled.map(|guard| {
            limit.lift();
            (guard, ended.map_or(Ok(()), Err))
        })
    }
}

impl<T: ?Sized, R: RawMutexAsync> fmt::Debug for WaitWithFuture<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitWithFuture").finish_non_exhaustive()
    }
}

/// Waits while a condition holds: see [`Condvar::wait_while_async`].
#[must_use = "it waits when it is polled; dropped before, it releases the mutex"]
pub struct WaitWhileFuture<'a, T: ?Sized, F, R: RawMutexAsync + 'a = RawMutex> {
    condvar: &'a Condvar,
    wait: WaitFuture<'a, T, R>,
    condition: F,
}

impl<'a, T: ?Sized, F: FnMut(&mut T) -> bool, R: RawMutexAsync> Future
    for WaitWhileFuture<'a, T, F, R>
{
    type Output = MutexGuard<'a, R, T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MutexGuard<'a, R, T>> {
        // SAFETY: `wait` is not moved; nobody pins the condition.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is pinned, as the whole is.
        let mut wait = unsafe { Pin::new_unchecked(&mut this.wait) };
        let mut guard = match wait.as_mut().take_back() {
            Some(guard) => guard,
            None => ready!(wait.as_mut().poll(context)),
        };
        while (this.condition)(&mut guard) {
            wait.set(this.condvar.wait_async(guard));
            guard = ready!(wait.as_mut().poll(context));
        }
        Poll::Ready(guard)
    }
}

impl<T: ?Sized, F, R: RawMutexAsync> fmt::Debug for WaitWhileFuture<'_, T, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitWhileFuture").finish_non_exhaustive()
    }
}

impl Condvar {
    /// As [`wait`](Self::wait), for a task: the first poll releases the mutex, and the future is ready when the task was
    /// notified and holds the mutex again. It takes the mutex as [`lock_async`](crate::MutexAsyncExt::lock_async) does. Threads
    /// and tasks wait in one queue. Another thread or task may have changed the condition first, so check it again.
    ///
    /// The mutex may have a [name](crate::stats::Mutex). The future is `Send` where the data is: it holds no guard.
    ///
    /// # Cancel safety
    /// A future that is dropped before it is ready leaves nothing behind, and does not hold the mutex. If
    /// [`notify_one`](Self::notify_one) had notified it, the notification goes on to the waiter that has waited
    /// longest. But a future that is notified, and neither polled nor dropped, keeps its notification.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    ///
    /// use fairlock::{Condvar, Mutex};
    ///
    /// static COUNT: Mutex<u32> = Mutex::new(0);
    /// static CHANGED: Condvar = Condvar::new();
    ///
    /// let mut context = Context::from_waker(Waker::noop());
    /// let mut wait = pin!(CHANGED.wait_async(COUNT.lock()));
    /// assert!(wait.as_mut().poll(&mut context).is_pending());
    /// *COUNT.lock() += 1; // a thread
    /// assert!(CHANGED.notify_one());
    /// assert!(wait.poll(&mut context).map(|count| *count == 1).is_ready());
    /// ```
    pub fn wait_async<'a, T: ?Sized, R: RawMutexAsync>(
        &'a self,
        guard: MutexGuard<'a, R, T>,
    ) -> WaitFuture<'a, T, R> {
        let mutex = MutexGuard::mutex(&guard);
        core::mem::forget(guard);
        // SAFETY: the guard, which is gone, held the mutex.
        let raw = unsafe { mutex.raw() }.unnamed();
        // Here, on the thread that is known to hold it.
        deadlock::releases(raw.id(), HeldAs::Exclusive);
        // SAFETY: as above.
        WaitFuture { wait: unsafe { self.0.word().wait_async(raw.raw()) }, mutex, pause: None }
    }

    /// As [`wait_with`](crate::CondvarExt::wait_with), for a task: as [`wait_async`](Self::wait_async), but gives up as `wait`
    /// says. The mutex is held again, whatever the result; to take it may take longer.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// use fairlock::{CancelToken, Condvar, Mutex, Wait, WaitError};
    ///
    /// static COUNT: Mutex<u32> = Mutex::new(0);
    /// static CHANGED: Condvar = Condvar::new();
    /// static STOP: CancelToken = CancelToken::new_const();
    ///
    /// let mut context = Context::from_waker(Waker::noop());
    /// let wait = Wait::FOREVER.cancellable(&STOP);
    /// let mut wait = pin!(CHANGED.wait_async_with(COUNT.lock(), wait));
    /// assert!(wait.as_mut().poll(&mut context).is_pending());
    /// STOP.cancel();
    /// let Poll::Ready((count, ended)) = wait.poll(&mut context) else { unreachable!() };
    /// assert_eq!((*count, ended), (0, Err(WaitError::Cancelled)));
    /// ```
    pub fn wait_async_with<'a, T: ?Sized, R: RawMutexAsync>(
        &'a self,
        guard: MutexGuard<'a, R, T>,
        wait: Wait<'a>,
    ) -> WaitWithFuture<'a, T, R> {
        WaitWithFuture { wait: self.wait_async(guard), limit: Limit::new(wait), ended: None }
    }

    /// As [`wait_while`](Self::wait_while), for a task: waits again and again, while `condition` holds. The future is
    /// `Send` where the data and the condition are, as it holds no guard. (A loop over `wait_async` in an `async` block is not: the
    /// compiler does not see that. With the feature `send_guard` it is.)
    ///
    /// # Cancel safety
    /// As [`wait_async`](Self::wait_async).
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// use fairlock::{Condvar, Mutex, MutexAsyncExt};
    ///
    /// static READY: Mutex<bool> = Mutex::new(false);
    /// static CHANGED: Condvar = Condvar::new();
    ///
    /// async fn until_ready() {
    ///     drop(CHANGED.wait_while_async(READY.lock_async().await, |ready| !*ready).await);
    /// }
    ///
    /// let mut context = Context::from_waker(Waker::noop());
    /// let mut task = pin!(until_ready());
    /// assert!(task.as_mut().poll(&mut context).is_pending());
    /// *READY.lock() = true; // a thread
    /// assert!(CHANGED.notify_one());
    /// assert_eq!(task.poll(&mut context), Poll::Ready(()));
    /// ```
    pub fn wait_while_async<'a, T: ?Sized, F: FnMut(&mut T) -> bool, R: RawMutexAsync>(
        &'a self,
        guard: MutexGuard<'a, R, T>,
        condition: F,
    ) -> WaitWhileFuture<'a, T, F, R> {
        WaitWhileFuture { condvar: self, wait: self.wait_async(guard), condition }
    }
}
