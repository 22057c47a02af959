//! The futures of the mutex with data.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use lock_api::{Mutex as TypedMutex, MutexGuard as Guard};

use super::{sealed, typed_future};
use crate::deadlock::{self, HeldAs};
use crate::lock::{self, GivesUp, LimitedFuture, Waiting, not_too_many};
use crate::mutex::RawMutexExt;
use crate::platform::Native;
use crate::wait::{Access, WaitError};
use crate::{RawMutex, Wait};

/// The raw mutexes of this crate that tasks can wait for: [`RawMutex`], also with a [name](crate::stats::Named). Nobody else can
/// implement it.
pub trait RawMutexAsync: RawMutexExt + sealed::Sealed {}

impl sealed::Sealed for RawMutex {
    type Waiting<'a> = Waiting<'a, lock::RawMutex<Native>>;

    #[inline(always)]
    fn waiting(&self) -> Self::Waiting<'_> {
        Waiting::new()
    }

    #[inline(always)]
    #[allow(private_interfaces, reason = "as there")]
    fn poll_for<'a>(
        &'a self,
        waiting: Pin<&mut Self::Waiting<'a>>,
        _: HeldAs,
        context: &Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<(), WaitError>> {
        waiting.poll(self.raw(), Access::Exclusive, context, over)
    }

    fn give_up(waiting: Pin<&mut Self::Waiting<'_>>) {
        waiting.give_up();
    }

    #[inline(always)]
    #[allow(private_interfaces, reason = "as there")]
    fn acquired(&self, mode: HeldAs) {
        deadlock::acquired(self.id(), mode);
    }
}

impl RawMutexAsync for RawMutex {}

typed_future! {
    /// Takes a [`Mutex`](crate::Mutex): see [`MutexAsyncExt::lock_async`].
    LockFuture of TypedMutex on RawMutexAsync: Guard by make_guard_unchecked, Exclusive
}

/// Tasks wait for a [`Mutex`](crate::Mutex), also with a [name](crate::stats), beside threads: see [`future`](crate::future).
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
pub trait MutexAsyncExt<R: RawMutexAsync, T: ?Sized> {
    /// Takes the lock.
    #[track_caller]
    fn lock_async(&self) -> LockFuture<'_, R, T>;

    /// Takes the lock; gives up as `wait` says: see [`future`](crate::future#deadlines-and-tokens).
    #[track_caller]
    fn lock_async_with<'a>(
        &'a self,
        wait: Wait<'a>,
    ) -> LimitedFuture<'a, Native, LockFuture<'a, R, T>> {
        LimitedFuture::new(self.lock_async(), wait)
    }
}

impl<R: RawMutexAsync, T: ?Sized> MutexAsyncExt<R, T> for TypedMutex<R, T> {
    #[inline]
    #[track_caller]
    fn lock_async(&self) -> LockFuture<'_, R, T> {
        // SAFETY: a lock that is taken is not released here.
        LockFuture { wait: unsafe { self.raw() }.waiting(), lock: self }
    }
}
