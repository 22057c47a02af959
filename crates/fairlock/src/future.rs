//! Tasks that wait for a lock: futures of the locks with data.
//!
//! The locks are the same as those of threads: tasks and threads wait in one queue, with one bound. The traits
//! `MutexAsyncExt` and [`RwLockAsyncExt`] add `lock_async`, `read_async`, `upgradable_read_async` and `write_async`.
//! They run on any executor.
//!
//! # Fairness
//!
//! A lock is offered to a task, and never granted: the task takes it when it is polled. A task that is woken and not polled
//! for 1 ms is passed by those behind it, and keeps its place for the time when it is polled. So a future that
//! nobody polls holds up nobody for longer than that. A task that is polled when it is woken waits no longer
//! than a thread would, plus the time that its runtime takes to poll it, once for each task ahead of it.
//!
//! With the feature `std`, a thread of this library ends offers that nobody takes, if nobody else comes to the
//! lock. It begins when the first task waits, and sleeps while no task has an offer. Without `std` the platform may start such
//! a thread ([`start_timer`](crate::platform::PooledPlatform::start_timer)); where it does not, an offer ends when a thread or
//! task comes to the lock, or another future of the same task is polled.
//!
//! # Cancellation
//!
//! All futures here are cancel safe: one that is dropped before it is ready leaves nothing behind, at whichever instant, and
//! hands an offer on to the waiter behind it. It loses its place in the queue. After a future was ready it stays pending.
//!
//! # Guards across an `.await`
//!
//! A guard may be held across an `.await`. A task that may move to another thread needs the feature `send_guard` for that.
//! A thread that waits for such a guard by `lock` blocks its runtime; if the runtime has no other thread, for ever. Do not
//! mix that up: tasks wait by `.await`.
//!
//! # Wakers
//!
//! Wakers are called while no lock of the queue is held, and may use the lock. A waker that panics is survived: after the
//! report of the panic the wake-up counts as done.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use lock_api::{
    RwLock as TypedRwLock, RwLockReadGuard as ReadGuard,
    RwLockUpgradableReadGuard as UpgradableReadGuard, RwLockWriteGuard as WriteGuard,
};

use crate::deadlock::{self, HeldAs, Noted};
use crate::lock::{RawRwLock, RawRwLockFuture};
use crate::platform::{ConstZero, PooledPlatform};

#[cfg(all(feature = "std", not(fairlock_loom)))]
mod mutex;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use mutex::*;

macro_rules! rwlock_future {
    ($(#[$doc:meta])* $future:ident, $guard:ident, $mode:ident) => {
        $(#[$doc])*
        #[must_use = "it takes the lock when it is polled"]
        pub struct $future<'a, P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> {
            wait: RawRwLockFuture<'a, P>,
            lock: &'a TypedRwLock<RawRwLock<P>, T>,
        }

        impl<'a, P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> Future for $future<'a, P, T> {
            type Output = $guard<'a, RawRwLock<P>, T>;

            #[inline]
            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                let lock = self.lock;
                // SAFETY: `wait` is pinned, as the whole is.
                let wait = unsafe { self.map_unchecked_mut(|this| &mut this.wait) };
                wait.poll(context).map(|()| {
                    // SAFETY: a look at the lock releases nothing.
                    deadlock::acquired(unsafe { lock.raw() }.id(), HeldAs::$mode);
                    // SAFETY: the lock was just taken in this way, for this guard alone.
                    unsafe { $guard::of(lock) }
                })
            }
        }

        impl<P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> fmt::Debug for $future<'_, P, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).finish_non_exhaustive()
            }
        }
    };
}

rwlock_future! {
    /// Takes a lock for reading: see [`RwLockAsyncExt::read_async`].
    ReadFuture, ReadGuard, Shared
}
rwlock_future! {
    /// Takes a lock for reading, as the only reader that may become the writer: see
    /// [`RwLockAsyncExt::upgradable_read_async`].
    UpgradableReadFuture, UpgradableReadGuard, Upgradable
}
rwlock_future! {
    /// Takes a lock for writing: see [`RwLockAsyncExt::write_async`].
    WriteFuture, WriteGuard, Exclusive
}

/// A guard of a lock that was taken.
trait Guard<'a, P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> {
    /// # Safety
    /// The lock is held in the way of this guard, and no other guard stands for that.
    unsafe fn of(lock: &'a TypedRwLock<RawRwLock<P>, T>) -> Self;
}

macro_rules! guard {
    ($guard:ident by $make:ident) => {
        impl<'a, P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> Guard<'a, P, T>
            for $guard<'a, RawRwLock<P>, T>
        {
            #[inline(always)]
            unsafe fn of(lock: &'a TypedRwLock<RawRwLock<P>, T>) -> Self {
                // SAFETY: the caller's promise.
                unsafe { lock.$make() }
            }
        }
    };
}

guard!(ReadGuard by make_read_guard_unchecked);
guard!(UpgradableReadGuard by make_upgradable_guard_unchecked);
guard!(WriteGuard by make_write_guard_unchecked);

/// Tasks wait for an [`RwLock`](crate::lock::RawRwLock) of this crate, beside threads: see [`future`](self).
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
/// use fairlock::{RwLock, RwLockAsyncExt};
///
/// static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// async fn add(name: &'static str) -> usize {
///     NAMES.write_async().await.push(name);
///     NAMES.read_async().await.len()
/// }
///
/// assert_eq!(block_on(add("task")), 1);
/// // A thread, at the same lock.
/// NAMES.write().push("thread");
/// assert_eq!(NAMES.read().len(), 2);
/// ```
pub trait RwLockAsyncExt<P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> {
    /// Takes the lock for reading.
    ///
    /// # Panics
    /// The future panics where [`read`](lock_api::RwLock::read) does.
    fn read_async(&self) -> ReadFuture<'_, P, T>;

    /// Takes the lock for reading, as the only reader that may
    /// [become](lock_api::RwLockUpgradableReadGuard::upgrade) the writer. (The upgrade itself blocks the thread, until the
    /// readers inside have left.)
    ///
    /// # Panics
    /// As [`read_async`](Self::read_async).
    fn upgradable_read_async(&self) -> UpgradableReadFuture<'_, P, T>;

    /// Takes the lock for writing.
    fn write_async(&self) -> WriteFuture<'_, P, T>;
}

impl<P: PooledPlatform<AtomicU64: ConstZero>, T: ?Sized> RwLockAsyncExt<P, T>
    for TypedRwLock<RawRwLock<P>, T>
{
    #[inline]
    fn read_async(&self) -> ReadFuture<'_, P, T> {
        // SAFETY: a lock that is taken is not released here.
        ReadFuture { wait: unsafe { self.raw() }.read_async(), lock: self }
    }

    #[inline]
    fn upgradable_read_async(&self) -> UpgradableReadFuture<'_, P, T> {
        // SAFETY: as above.
        UpgradableReadFuture { wait: unsafe { self.raw() }.upgradable_read_async(), lock: self }
    }

    #[inline]
    fn write_async(&self) -> WriteFuture<'_, P, T> {
        // SAFETY: as above.
        WriteFuture { wait: unsafe { self.raw() }.write_async(), lock: self }
    }
}
