//! The futures that take the locks without data.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Raw;
use super::limit::{GivesUp, LimitedFuture};
use super::mutex::{RawMutex, Two};
use super::raw::SlotOf;
use super::rwlock::RawRwLock;
use super::slot::PooledPlatform;
use super::task::{Task, TaskLock, Waiting};
use super::turn::Turns;
use super::word::Word;
use super::words::{One, Words};
use crate::wait::{Access, Wait, WaitError, Waiter};

/// What is the same for both locks.
macro_rules! lock_of_tasks {
    () => {
        fn line(&self, slot: &'static SlotOf<Self::W>) -> Self::Line<'_> {
            Turns { lock: TaskLock::raw(self), slot }
        }

        fn waiter(access: Access, task: Task<P>) -> Waiter<P> {
            task.waiter(access)
        }

        fn enter_odd(&self, word: Word, access: Access) -> bool {
            TaskLock::raw(self).0.enter_odd(word, access)
        }

        fn enter_past_queue(&self, access: Access) -> bool {
            TaskLock::raw(self).enter_past_queue(access)
        }

        fn is_full(&self, access: Access) -> bool {
            access != Access::Exclusive && TaskLock::raw(self).load().is_full()
        }
    };
}

impl<P: PooledPlatform> TaskLock for RawMutex<P> {
    type W = Two<P>;
    type Request = Access;
    type Line<'a> = Turns<'a, Two<P>>;

    fn raw(&self) -> &Raw<Two<P>> {
        RawMutex::raw(self)
    }

    lock_of_tasks!();

    #[inline(always)]
    fn enter_at_once(&self, _: Access) -> bool {
        self.enter()
    }

    fn try_enter(&self, _: Access) -> bool {
        self.try_lock()
    }
}

impl<P: PooledPlatform> TaskLock for RawRwLock<P> {
    type W = One<P>;
    type Request = Access;
    type Line<'a> = Turns<'a, One<P>>;

    fn raw(&self) -> &Raw<One<P>> {
        &self.raw
    }

    lock_of_tasks!();

    #[inline(always)]
    fn enter_at_once(&self, access: Access) -> bool {
        access == Access::Shared && self.read_shown()
            || self.words().take(Word::FREE, access).is_ok()
    }

    fn try_enter(&self, access: Access) -> bool {
        RawRwLock::try_enter(self, access)
    }
}

/// Of a future that nothing ends.
#[inline(always)]
pub(crate) fn not_too_many<T>(result: Result<T, WaitError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

macro_rules! raw_future {
    ($(#[$doc:meta])* $future:ident of $lock:ident) => {
        $(#[$doc])*
        #[must_use = "it takes the lock when it is polled"]
        pub struct $future<'a, P: PooledPlatform> {
            wait: Waiting<'a, $lock<P>>,
            lock: &'a $lock<P>,
            access: Access,
        }

        impl<'a, P: PooledPlatform> $future<'a, P> {
            #[inline(always)]
            fn new(lock: &'a $lock<P>, access: Access) -> Self {
                Self { wait: Waiting::new(), lock, access }
            }

            #[inline(always)]
            fn wait(self: Pin<&mut Self>) -> Pin<&mut Waiting<'a, $lock<P>>> {
                // SAFETY: it is pinned, as the whole is.
                unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
            }
        }

        impl<P: PooledPlatform> Future for $future<'_, P> {
            type Output = ();

            #[inline(always)]
            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
                self.try_poll(context, &|| None).map(not_too_many)
            }
        }

        impl<P: PooledPlatform> GivesUp for $future<'_, P> {
            type Output = ();

            #[inline(always)]
            fn try_poll(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                over: &dyn Fn() -> Option<WaitError>,
            ) -> Poll<Result<(), WaitError>> {
                let (lock, access) = (self.lock, self.access);
                self.wait().poll(lock, access, context, over)
            }

            fn give_up(self: Pin<&mut Self>) {
                self.wait().give_up();
            }
        }

        impl<P: PooledPlatform> fmt::Debug for $future<'_, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).finish_non_exhaustive()
            }
        }
    };
}

raw_future! {
    /// Takes a [`RawMutex`]: see [`RawMutex::lock_async`].
    RawLockFuture of RawMutex
}
raw_future! {
    /// Takes a [`RawRwLock`]: see [`RawRwLock::read_async`].
    RawRwLockFuture of RawRwLock
}

impl<P: PooledPlatform> RawMutex<P> {
    /// As [`lock`](Self::lock), for a task: the future is ready when the task holds the lock, which then somebody has to
    /// [unlock](Self::unlock). A future that is dropped before leaves nothing behind.
    #[inline]
    pub fn lock_async(&self) -> RawLockFuture<'_, P> {
        RawLockFuture::new(self, Access::Exclusive)
    }

    /// As [`lock_with`](Self::lock_with), for a task: as [`lock_async`](Self::lock_async), but gives up as `wait` says.
    #[inline]
    pub fn lock_async_with<'a>(
        &'a self,
        wait: Wait<'a, P>,
    ) -> LimitedFuture<'a, P, RawLockFuture<'a, P>> {
        LimitedFuture::new(self.lock_async(), wait)
    }
}

impl<P: PooledPlatform> RawRwLock<P> {
    /// As [`read`](Self::read), for a task: the future is ready when the task holds the lock, which then somebody has to
    /// [unlock](Self::unlock_read). A future that is dropped before leaves nothing behind.
    ///
    /// # Panics
    /// The future panics if there are [`TooManyReaders`](crate::WaitError::TooManyReaders).
    #[inline]
    pub fn read_async(&self) -> RawRwLockFuture<'_, P> {
        RawRwLockFuture::new(self, Access::Shared)
    }

    /// As [`upgradable_read`](Self::upgradable_read), for a task: as [`read_async`](Self::read_async).
    ///
    /// # Panics
    /// As [`read_async`](Self::read_async).
    #[inline]
    pub fn upgradable_read_async(&self) -> RawRwLockFuture<'_, P> {
        RawRwLockFuture::new(self, Access::Upgradable)
    }

    /// As [`write`](Self::write), for a task: as [`read_async`](Self::read_async), without a panic.
    #[inline]
    pub fn write_async(&self) -> RawRwLockFuture<'_, P> {
        RawRwLockFuture::new(self, Access::Exclusive)
    }
}
