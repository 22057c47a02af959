//! Tasks that wait for locks with a name: counted and timed as threads are.

use core::fmt;
use core::future::Future;
use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::named::Named;
use super::place::{Place, Want};
use super::record::{Record, TaskWait};
use super::semaphore::{Permit, Semaphore};
use crate::Wait;
use crate::deadlock::{self, HeldAs};
use crate::future::{AcquireFuture, RawMutexAsync, RawRwLockAsync, sealed};
use crate::lock::{GivesUp, LimitedFuture, not_too_many};
use crate::platform::Native;
use crate::wait::WaitError;

/// What another future takes, `F`, counted.
pub struct CountedFuture<'a, F> {
    wait: F,
    counts: Counts<'a>,
}

/// What is known of the task.
struct Counts<'a> {
    name: &'static str,
    /// None: statistics were off when the future was made.
    record: Option<&'a Record>,
    want: Want,
    at: Place,
    stage: Stage,
}

enum Stage {
    New,
    Waits(TaskWait),
    Ended,
}

impl Counts<'_> {
    fn began(&mut self) {
        if let (Some(record), Stage::New) = (self.record, &self.stage) {
            self.stage = Stage::Waits(record.begin_task());
        }
    }

    fn ended(&mut self, taken: bool) {
        let stage = core::mem::replace(&mut self.stage, Stage::Ended);
        let Some(record) = self.record else { return };
        match stage {
            Stage::New => _ = record.attempt(self.want, self.at, || taken),
            Stage::Waits(wait) => record.end_task(self.want, self.at, &wait, taken),
            Stage::Ended => {}
        }
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Waits(_)) {
            self.ended(false);
        }
    }
}

impl<F> CountedFuture<'_, F> {
    fn wait(self: Pin<&mut Self>) -> Pin<&mut F> {
        // SAFETY: it is pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }

    fn counts(self: Pin<&mut Self>) -> &mut Self {
        // SAFETY: only `counts` is changed through it, which nobody pins.
        unsafe { self.get_unchecked_mut() }
    }
}

impl<F: GivesUp> GivesUp for CountedFuture<'_, F> {
    type Output = F::Output;

    fn try_poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<F::Output, WaitError>> {
        let polled = self.as_mut().wait().try_poll(context);
        let counts = &mut self.counts().counts;
        match &polled {
            Poll::Ready(taken) => counts.ended(taken.is_ok()),
            Poll::Pending => counts.began(),
        }
        polled
    }

    fn give_up(mut self: Pin<&mut Self>) {
        self.as_mut().wait().give_up();
        self.counts().counts.ended(false);
    }
}

impl<F> fmt::Debug for CountedFuture<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedFuture").field("name", &self.counts.name).finish_non_exhaustive()
    }
}

impl<R> Named<R> {
    #[track_caller]
    fn counted<'a, F>(&'a self, want: Want, wait: F) -> CountedFuture<'a, F> {
        let (at, record) = (Place::Line(Location::caller()), self.record());
        let counts = Counts { name: self.name(), record, want, at, stage: Stage::New };
        CountedFuture { wait, counts }
    }
}

impl<R: sealed::Sealed> sealed::Sealed for Named<R> {
    #[allow(private_interfaces, reason = "as there")]
    fn acquired(&self, mode: HeldAs) {
        deadlock::named(self.name(), || self.inner().acquired(mode));
    }
}

impl<R: RawMutexAsync> RawMutexAsync for Named<R> {
    type Acquire<'a>
        = CountedFuture<'a, R::Acquire<'a>>
    where
        R: 'a;

    #[track_caller]
    fn lock_async(&self) -> Self::Acquire<'_> {
        self.counted(Want::Write, self.inner().lock_async())
    }
}

impl<R: RawRwLockAsync> RawRwLockAsync for Named<R> {
    type On = R::On;
    type Acquire<'a>
        = CountedFuture<'a, R::Acquire<'a>>
    where
        R: 'a;

    #[track_caller]
    fn read_async(&self) -> Self::Acquire<'_> {
        self.counted(Want::Read, self.inner().read_async())
    }

    #[track_caller]
    fn upgradable_read_async(&self) -> Self::Acquire<'_> {
        self.counted(Want::Upgradable, self.inner().upgradable_read_async())
    }

    #[track_caller]
    fn write_async(&self) -> Self::Acquire<'_> {
        self.counted(Want::Write, self.inner().write_async())
    }
}

/// Takes permits of a [`Semaphore`] with a name: see [`Semaphore::acquire_async`].
#[must_use = "it takes permits when it is polled"]
pub struct PermitFuture<'a> {
    wait: CountedFuture<'a, AcquireFuture<'a>>,
    semaphore: &'a Semaphore,
    count: u32,
}

impl<'a> PermitFuture<'a> {
    fn wait(self: Pin<&mut Self>) -> Pin<&mut CountedFuture<'a, AcquireFuture<'a>>> {
        // SAFETY: it is pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl<'a> GivesUp for PermitFuture<'a> {
    type Output = Permit<'a>;

    fn try_poll(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit<'a>, WaitError>> {
        let (semaphore, count) = (self.semaphore, self.count);
        self.wait().try_poll(context).map_ok(|permit| {
            core::mem::forget(permit);
            Permit { semaphore, count }
        })
    }

    fn give_up(self: Pin<&mut Self>) {
        self.wait().give_up();
    }
}

impl<'a> Future for PermitFuture<'a> {
    type Output = Permit<'a>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        self.try_poll(context).map(not_too_many)
    }
}

impl fmt::Debug for PermitFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitFuture").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Semaphore {
    /// As [`Semaphore::acquire_async`](crate::Semaphore::acquire_async).
    #[track_caller]
    pub fn acquire_async(&self) -> PermitFuture<'_> {
        self.acquire_many_async(1)
    }

    /// As [`Semaphore::acquire_many_async`](crate::Semaphore::acquire_many_async).
    #[track_caller]
    pub fn acquire_many_async(&self, count: u32) -> PermitFuture<'_> {
        let wait = self.counted(Want::Permits, self.inner().acquire_many_async(count));
        PermitFuture { wait, semaphore: self, count }
    }

    /// As [`Semaphore::acquire_many_async_with`](crate::Semaphore::acquire_many_async_with).
    #[track_caller]
    pub fn acquire_many_async_with<'a>(
        &'a self,
        count: u32,
        wait: Wait<'a>,
    ) -> LimitedFuture<'a, Native, PermitFuture<'a>> {
        LimitedFuture::new(self.acquire_many_async(count), wait)
    }
}
