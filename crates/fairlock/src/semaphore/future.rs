//! Tasks that wait for permits.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::line::{self, PermitLine};
use super::word::Permits;
use super::{Semaphore, SemaphorePermit};
use crate::lock::{GivesUp, LimitedFuture, Raw, Slot, Task, TaskLock, Waiting, Word, not_too_many};
use crate::platform::Native;
use crate::wait::{Wait, WaitError, Waiter};

impl TaskLock for Semaphore {
    type W = Permits;
    /// So many permits.
    type Request = u32;
    type Line<'a> = PermitLine<'a>;

    fn raw(&self) -> &Raw<Permits> {
        &self.raw
    }

    fn line(&self, slot: &'static Slot<Native>) -> PermitLine<'_> {
        PermitLine { semaphore: &self.raw, slot }
    }

    fn waiter(count: u32, task: Task<Native>) -> Waiter<Native> {
        line::waiter(count, task)
    }

    #[inline(always)]
    fn enter_at_once(&self, count: u32) -> bool {
        self.take(count)
    }

    fn enter_past_queue(&self, _: u32) -> bool {
        false
    }

    fn try_enter(&self, _: u32) -> bool {
        false
    }

    /// It has a slot, or none is to be had.
    fn enter_odd(&self, _: Word, _: u32) -> bool {
        false
    }

    fn is_full(&self, _: u32) -> bool {
        false
    }
}

/// Takes permits of a [`Semaphore`]: see [`Semaphore::acquire_async`].
#[must_use = "it takes permits when it is polled"]
pub struct AcquireFuture<'a> {
    wait: Waiting<'a, Semaphore>,
    semaphore: &'a Semaphore,
    count: u32,
}

impl<'a> Future for AcquireFuture<'a> {
    type Output = SemaphorePermit<'a>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SemaphorePermit<'a>> {
        self.try_poll(context, &|| None).map(not_too_many)
    }
}

impl<'a> AcquireFuture<'a> {
    fn wait(self: Pin<&mut Self>) -> Pin<&mut Waiting<'a, Semaphore>> {
        // SAFETY: it is pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl<'a> GivesUp for AcquireFuture<'a> {
    type Output = SemaphorePermit<'a>;

    #[inline]
    fn try_poll(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<SemaphorePermit<'a>, WaitError>> {
        let (semaphore, count) = (self.semaphore, self.count);
        let polled = self.wait().poll(semaphore, count, context, over);
        polled.map(|taken| taken.map(|()| SemaphorePermit { semaphore, count }))
    }

    fn give_up(self: Pin<&mut Self>) {
        self.wait().give_up();
    }
}

impl fmt::Debug for AcquireFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireFuture").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Semaphore {
    /// As [`acquire`](Self::acquire), for a task: see [`future`](crate::future).
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
    /// use fairlock::Semaphore;
    ///
    /// static CONNECTIONS: Semaphore = Semaphore::new(2);
    ///
    /// let one = block_on(CONNECTIONS.acquire_async());
    /// // A thread, at the same semaphore.
    /// let other = CONNECTIONS.acquire();
    /// assert!(CONNECTIONS.try_acquire().is_none());
    /// # drop((one, other));
    /// ```
    #[inline]
    pub fn acquire_async(&self) -> AcquireFuture<'_> {
        self.acquire_many_async(1)
    }

    /// As [`acquire_many`](Self::acquire_many), for a task: see [`future`](crate::future).
    #[inline]
    pub fn acquire_many_async(&self, count: u32) -> AcquireFuture<'_> {
        AcquireFuture { wait: Waiting::new(), semaphore: self, count }
    }

    /// As [`acquire_many_with`](Self::acquire_many_with), for a task: gives up as `wait` says; see
    /// [`future`](crate::future#deadlines-and-tokens).
    #[inline]
    pub fn acquire_many_async_with<'a>(
        &'a self,
        count: u32,
        wait: Wait<'a, Native>,
    ) -> LimitedFuture<'a, Native, AcquireFuture<'a>> {
        LimitedFuture::new(self.acquire_many_async(count), wait)
    }
}
