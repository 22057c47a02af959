//! Tasks that wait for a lock: futures of the locks with data, and of the semaphore.
//!
//! The locks are the same as those of threads: tasks and threads wait in one queue, with one bound. The traits
//! `MutexAsyncExt` and [`RwLockAsyncExt`] add `lock_async`, `read_async`, `upgradable_read_async` and `write_async`; a
//! semaphore has `acquire_async` and `acquire_many_async`,
//! and a condition variable `wait_async` and `wait_while_async`. They run on any executor.
//!
//! # Fairness
//!
//! A lock is offered to a task, and never granted: the task takes it when it is polled. A task that is woken and not polled
//! for 1 ms is passed by those behind it, and keeps its place for the time when it is polled; the next time it has twice as long as
//! it took to come, at most 32 ms. So a future that
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
//! # Deadlines and tokens
//!
//! `lock_async_with`, `read_async_with`, `upgradable_read_async_with`, `write_async_with`, `acquire_many_async_with` and
//! [`Condvar::wait_async_with`](crate::Condvar::wait_async_with) take a [`Wait`](crate::Wait), as the methods of threads do, and return
//! what it returns there: the timeout of a runtime is not needed. A timeout begins at the first poll that has to wait. No signal
//! ends the wait of a task.
//!
//! The thread that ends offers wakes the task at its deadline, or when its token is cancelled (also by a signal handler). Where a
//! platform has none, the task looks when it is polled.
//! ```
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
//! #             return output;
//! #         }
//! #     }
//! # }
//! use std::time::Duration;
//!
//! use fairlock::{CancelToken, Mutex, MutexAsyncExt, Wait, WaitError};
//!
//! static CACHE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
//! static SHUTDOWN: CancelToken = CancelToken::new_const();
//!
//! async fn add(value: u32) -> Result<(), WaitError> {
//!     let wait = Wait::within(Duration::from_millis(5)).cancellable(&SHUTDOWN);
//!     CACHE.lock_async_with(wait).await?.push(value);
//!     Ok(())
//! }
//!
//! assert_eq!(block_on(add(1)), Ok(()));
//! let in_the_way = CACHE.lock();
//! assert_eq!(block_on(add(2)), Err(WaitError::TimedOut));
//! SHUTDOWN.cancel();
//! assert_eq!(block_on(add(2)), Err(WaitError::Cancelled));
//! # drop(in_the_way);
//! ```
//!
//! # Guards across an `.await`
//!
//! A guard may be held across an `.await`. A task that may move to another thread needs the feature `send_guard` for that.
//!
//! # A blocking call inside a runtime
//!
//! `lock`, `read`, `write` and [`Condvar::wait`](crate::Condvar::wait) may be called from a task. They do not panic: they block the
//! runtime's thread until the lock is had, so all tasks of that thread wait, too. If a task of that thread is offered the lock
//! meanwhile, the offer goes on after 1 ms: the blocked thread takes the lock, and nothing stands still. But if a task
//! *holds* the lock across an `.await`, and no other thread of the runtime can poll it, the thread is blocked for ever. So
//! wait by `.await` in a task; otherwise use `try_lock`, or call `lock` in the runtime's place for blocking work (such
//! as tokio's `spawn_blocking`).
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
pub use crate::lock::LimitedFuture;
use crate::lock::{GivesUp, RawRwLock, Waiting, not_too_many};
use crate::platform::{ConstZero, PooledPlatform};
use crate::wait::{Access, Wait, WaitError};

#[cfg(all(feature = "std", not(fairlock_loom)))]
mod condvar;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod mutex;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use condvar::{WaitFuture, WaitWhileFuture, WaitWithFuture};
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use mutex::*;

#[cfg(any(feature = "std", fairlock_loom))]
pub use crate::semaphore::AcquireFuture;

pub(crate) mod sealed {
    use core::pin::Pin;
    use core::task::{Context, Poll};

    use crate::deadlock::HeldAs;
    use crate::wait::WaitError;

    /// A lock that tasks wait for. A future of it calls these for one mode.
    #[allow(private_interfaces, reason = "nobody else can name the trait")]
    pub trait Sealed {
        /// What the future has of its wait.
        type Waiting<'a>
        where
            Self: 'a;

        /// Of a future that is just made.
        #[track_caller]
        fn waiting(&self) -> Self::Waiting<'_>;

        /// Takes the lock, or waits for it, as the future is polled.
        fn poll_for<'a>(
            &'a self,
            waiting: Pin<&mut Self::Waiting<'a>>,
            mode: HeldAs,
            context: &Context<'_>,
            over: &dyn Fn() -> Option<WaitError>,
        ) -> Poll<Result<(), WaitError>>;

        /// As [`GivesUp::give_up`](crate::lock::GivesUp::give_up).
        fn give_up(waiting: Pin<&mut Self::Waiting<'_>>);

        /// A task has taken the lock, which `deadlock_detection` notes.
        fn acquired(&self, mode: HeldAs);
    }
}

/// The raw reader/writer locks of this crate that tasks can wait for: [`RawRwLock`], also with a name (`stats::Named`).
/// Nobody else can implement it.
pub trait RawRwLockAsync: lock_api::RawRwLockUpgrade + sealed::Sealed {
    /// The platform that the lock is on.
    type On: PooledPlatform;
}

impl<P: PooledPlatform> sealed::Sealed for RawRwLock<P> {
    type Waiting<'a> = Waiting<'a, Self>;

    #[inline(always)]
    fn waiting(&self) -> Waiting<'_, Self> {
        Waiting::new()
    }

    #[inline(always)]
    #[allow(private_interfaces, reason = "as there")]
    fn poll_for<'a>(
        &'a self,
        waiting: Pin<&mut Waiting<'a, Self>>,
        mode: HeldAs,
        context: &Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<(), WaitError>> {
        let access = match mode {
            HeldAs::Shared | HeldAs::Recursive => Access::Shared,
            HeldAs::Upgradable => Access::Upgradable,
            HeldAs::Exclusive => Access::Exclusive,
        };
        waiting.poll(self, access, context, over)
    }

    fn give_up(waiting: Pin<&mut Waiting<'_, Self>>) {
        waiting.give_up();
    }

    #[inline(always)]
    #[allow(private_interfaces, reason = "as there")]
    fn acquired(&self, mode: HeldAs) {
        deadlock::acquired(self.id(), mode);
    }
}

impl<P: PooledPlatform<AtomicU64: ConstZero>> RawRwLockAsync for RawRwLock<P> {
    type On = P;
}

/// A future of a lock with data, which takes the raw lock and makes the guard.
macro_rules! typed_future {
    ($(#[$doc:meta])* $future:ident of $lock:ident on $raw:ident: $guard:ident by $make:ident, $mode:ident) => {
        $(#[$doc])*
        #[must_use = "it takes the lock when it is polled"]
        pub struct $future<'a, R: $raw + 'a, T: ?Sized> {
            wait: R::Waiting<'a>,
            lock: &'a $lock<R, T>,
        }

        impl<'a, R: $raw + 'a, T: ?Sized> $future<'a, R, T> {
            #[inline(always)]
            fn wait(self: Pin<&mut Self>) -> Pin<&mut R::Waiting<'a>> {
                // SAFETY: it is pinned, as the whole is.
                unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
            }
        }

        impl<'a, R: $raw + 'a, T: ?Sized> Future for $future<'a, R, T> {
            type Output = $guard<'a, R, T>;

            #[inline]
            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<$guard<'a, R, T>> {
                self.try_poll(context, &|| None).map(not_too_many)
            }
        }

        impl<'a, R: $raw + 'a, T: ?Sized> GivesUp for $future<'a, R, T> {
            type Output = $guard<'a, R, T>;

            #[inline]
            fn try_poll(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                over: &dyn Fn() -> Option<WaitError>,
            ) -> Poll<Result<$guard<'a, R, T>, WaitError>> {
                let lock = self.lock;
                // SAFETY: a lock that is taken is not released here.
                let raw = unsafe { lock.raw() };
                raw.poll_for(self.wait(), HeldAs::$mode, context, over).map_ok(|()| {
                    raw.acquired(HeldAs::$mode);
                    // SAFETY: the lock was just taken in this way, for this guard alone.
                    unsafe { lock.$make() }
                })
            }

            fn give_up(self: Pin<&mut Self>) {
                R::give_up(self.wait());
            }
        }

        impl<'a, R: $raw + 'a, T: ?Sized> fmt::Debug for $future<'a, R, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).finish_non_exhaustive()
            }
        }
    };
}
#[cfg(all(feature = "std", not(fairlock_loom)))]
use typed_future;

typed_future! {
    /// Takes a lock for reading: see [`RwLockAsyncExt::read_async`].
    ReadFuture of TypedRwLock on RawRwLockAsync: ReadGuard by make_read_guard_unchecked, Shared
}
typed_future! {
    /// Takes a lock for reading, as the only reader that may become the writer: see
    /// [`RwLockAsyncExt::upgradable_read_async`].
    UpgradableReadFuture of TypedRwLock on RawRwLockAsync: UpgradableReadGuard by make_upgradable_guard_unchecked, Upgradable
}
typed_future! {
    /// Takes a lock for writing: see [`RwLockAsyncExt::write_async`].
    WriteFuture of TypedRwLock on RawRwLockAsync: WriteGuard by make_write_guard_unchecked, Exclusive
}

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
pub trait RwLockAsyncExt<R: RawRwLockAsync, T: ?Sized> {
    /// Takes the lock for reading.
    ///
    /// # Panics
    /// The future panics where [`read`](lock_api::RwLock::read) does.
    #[track_caller]
    fn read_async(&self) -> ReadFuture<'_, R, T>;

    /// Takes the lock for reading, as the only reader that may
    /// [become](lock_api::RwLockUpgradableReadGuard::upgrade) the writer. (The upgrade itself blocks the thread, until the
    /// readers inside have left.)
    ///
    /// # Panics
    /// As [`read_async`](Self::read_async).
    #[track_caller]
    fn upgradable_read_async(&self) -> UpgradableReadFuture<'_, R, T>;

    /// Takes the lock for writing.
    #[track_caller]
    fn write_async(&self) -> WriteFuture<'_, R, T>;

    /// Takes the lock for reading; gives up as `wait` says: see [`future`](self#deadlines-and-tokens).
    #[track_caller]
    fn read_async_with<'a>(
        &'a self,
        wait: Wait<'a, R::On>,
    ) -> LimitedFuture<'a, R::On, ReadFuture<'a, R, T>> {
        LimitedFuture::new(self.read_async(), wait)
    }

    /// As [`upgradable_read_async`](Self::upgradable_read_async); gives up as `wait` says.
    #[track_caller]
    fn upgradable_read_async_with<'a>(
        &'a self,
        wait: Wait<'a, R::On>,
    ) -> LimitedFuture<'a, R::On, UpgradableReadFuture<'a, R, T>> {
        LimitedFuture::new(self.upgradable_read_async(), wait)
    }

    /// Takes the lock for writing; gives up as `wait` says.
    #[track_caller]
    fn write_async_with<'a>(
        &'a self,
        wait: Wait<'a, R::On>,
    ) -> LimitedFuture<'a, R::On, WriteFuture<'a, R, T>> {
        LimitedFuture::new(self.write_async(), wait)
    }
}

impl<R: RawRwLockAsync, T: ?Sized> RwLockAsyncExt<R, T> for TypedRwLock<R, T> {
    #[inline]
    #[track_caller]
    fn read_async(&self) -> ReadFuture<'_, R, T> {
        // SAFETY: a lock that is taken is not released here.
        ReadFuture { wait: unsafe { self.raw() }.waiting(), lock: self }
    }

    #[inline]
    #[track_caller]
    fn upgradable_read_async(&self) -> UpgradableReadFuture<'_, R, T> {
        // SAFETY: as above.
        UpgradableReadFuture { wait: unsafe { self.raw() }.waiting(), lock: self }
    }

    #[inline]
    #[track_caller]
    fn write_async(&self) -> WriteFuture<'_, R, T> {
        // SAFETY: as above.
        WriteFuture { wait: unsafe { self.raw() }.waiting(), lock: self }
    }
}
