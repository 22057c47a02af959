//! The futures of the mutex with data.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::deadlock::{self, HeldAs};
use crate::lock::RawLockFuture;
use crate::platform::Native;
use crate::{Mutex, MutexGuard};

/// Takes a [`Mutex`]: see [`MutexAsyncExt::lock_async`].
#[must_use = "it takes the lock when it is polled"]
pub struct LockFuture<'a, T: ?Sized> {
    wait: RawLockFuture<'a, Native>,
    mutex: &'a Mutex<T>,
}

impl<'a, T: ?Sized> Future for LockFuture<'a, T> {
    type Output = MutexGuard<'a, T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MutexGuard<'a, T>> {
        let mutex = self.mutex;
        // SAFETY: `wait` is pinned, as the whole is.
        let wait = unsafe { self.map_unchecked_mut(|this| &mut this.wait) };
        wait.poll(context).map(|()| {
            // SAFETY: a look at the lock releases nothing.
            deadlock::acquired(unsafe { mutex.raw() }.id(), HeldAs::Exclusive);
            // SAFETY: the lock was just taken, for this guard alone.
            unsafe { mutex.make_guard_unchecked() }
        })
    }
}

impl<T: ?Sized> fmt::Debug for LockFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}

/// Tasks wait for a [`Mutex`], beside threads: see [`future`](crate::future).
///
/// ```
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
/// #             return output;
/// #         }
/// #     }
/// # }
/// use fairlock::{Mutex, MutexAsyncExt};
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
///
/// block_on(async { *COUNT.lock_async().await += 1 });
/// // A thread, at the same mutex.
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub trait MutexAsyncExt<T: ?Sized> {
    /// Takes the lock.
    fn lock_async(&self) -> LockFuture<'_, T>;
}

impl<T: ?Sized> MutexAsyncExt<T> for Mutex<T> {
    #[inline]
    fn lock_async(&self) -> LockFuture<'_, T> {
        // SAFETY: a lock that is taken is not released here.
        LockFuture { wait: unsafe { self.raw() }.raw().lock_async(), mutex: self }
    }
}
