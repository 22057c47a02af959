//! Tasks that wait for locks with a name: counted and timed as threads are.

use core::fmt;
use core::future::Future;
use core::marker::PhantomPinned;
use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::named::Named;
use super::place::{Place, Want};
use super::record::{Record, TaskWait};
use super::semaphore::{Permit, Semaphore};
use crate::Wait;
use crate::deadlock::{self, HeldAs};
use crate::future::{RawMutexAsync, RawRwLockAsync, sealed};
use crate::lock::{GivesUp, LimitedFuture, Waiting, not_too_many};
use crate::platform::Native;
use crate::wait::WaitError;

/// Another wait of a task, `W`, counted.
pub struct Counted<'a, W> {
    wait: W,
    counts: Counts<'a>,
}

/// What is known of the task.
struct Counts<'a> {
    at: Place,
    stage: Stage<'a>,
    _pinned: PhantomPinned,
}

enum Stage<'a> {
    New,
    /// The wait is listed there. It stays where it is, as the future is pinned.
    Waits(&'a Record, TaskWait),
    Ended,
}

impl<'a> Counts<'a> {
    /// The task, which is polled, waits.
    ///
    /// # Safety
    /// This stays where it is until it is dropped.
    unsafe fn waits(&mut self, record: Option<&'a Record>, want: Want) {
        if let (Some(record), Stage::New) = (record, &self.stage) {
            self.stage = Stage::Waits(record, record.begin_task(want, self.at));
            // Not by `&mut`: that would be the only reference to it.
            if let Stage::Waits(_, wait) = &self.stage {
                // SAFETY: the caller's promise; it is ended before it is dropped.
                unsafe { record.list_task(wait) };
            }
        } else if let Stage::Waits(_, wait) = &self.stage {
            wait.note.polled();
        }
    }

    fn ended(&mut self, record: Option<&'a Record>, want: Want, taken: bool) {
        if let (Some(record), Stage::New) = (record, &self.stage) {
            record.attempt(want, self.at, || taken);
        }
        self.end(taken);
    }

    /// It waits no longer.
    fn end(&mut self, taken: bool) {
        if let Stage::Waits(record, wait) = &self.stage {
            // SAFETY: it is listed, as that is the stage.
            unsafe { record.end_task(wait, taken) };
        }
        self.stage = Stage::Ended;
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl<W> Counted<'_, W> {
    fn wait(self: Pin<&mut Self>) -> Pin<&mut W> {
        // SAFETY: it is pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }

    /// Gives up by `give_up`.
    fn give_up(mut self: Pin<&mut Self>, give_up: impl FnOnce(Pin<&mut W>)) {
        give_up(self.as_mut().wait());
        // SAFETY: only `counts` is changed through it, which nobody pins.
        unsafe { self.get_unchecked_mut() }.counts.end(false);
    }
}

impl<R> Named<R> {
    #[track_caller]
    fn counted<W>(&self, wait: W) -> Counted<'_, W> {
        let at = Place::Line(Location::caller());
        Counted { wait, counts: Counts { at, stage: Stage::New, _pinned: PhantomPinned } }
    }

    /// Polls the wait by `poll`.
    fn poll_counted<'a, W>(
        &'a self,
        mut counted: Pin<&mut Counted<'a, W>>,
        want: Want,
        poll: impl FnOnce(&'a R, Pin<&mut W>) -> Poll<Result<(), WaitError>>,
    ) -> Poll<Result<(), WaitError>> {
        let polled = poll(self.inner(), counted.as_mut().wait());
        // SAFETY: only `counts` is changed through it, which nobody pins.
        let counts = unsafe { &mut counted.get_unchecked_mut().counts };
        match &polled {
            Poll::Ready(taken) => counts.ended(self.record(), want, taken.is_ok()),
            // SAFETY: it is pinned.
            Poll::Pending => unsafe { counts.waits(self.record(), want) },
        }
        polled
    }
}

impl<R: sealed::Sealed> sealed::Sealed for Named<R> {
    type Waiting<'a>
        = Counted<'a, R::Waiting<'a>>
    where
        R: 'a;

    #[track_caller]
    fn waiting(&self) -> Self::Waiting<'_> {
        self.counted(self.inner().waiting())
    }

    #[allow(private_interfaces, reason = "as there")]
    fn poll_for<'a>(
        &'a self,
        waiting: Pin<&mut Self::Waiting<'a>>,
        mode: HeldAs,
        context: &Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<(), WaitError>> {
        let want = match mode {
            HeldAs::Shared => Want::Read,
            HeldAs::Recursive => Want::Recursive,
            HeldAs::Upgradable => Want::Upgradable,
            HeldAs::Exclusive => Want::Write,
        };
        let poll = |inner: &'a R, wait: Pin<&mut _>| inner.poll_for(wait, mode, context, over);
        self.poll_counted(waiting, want, poll)
    }

    fn give_up(waiting: Pin<&mut Self::Waiting<'_>>) {
        waiting.give_up(R::give_up);
    }

    #[allow(private_interfaces, reason = "as there")]
    fn acquired(&self, mode: HeldAs) {
        deadlock::named(self.name(), || self.inner().acquired(mode));
    }
}

impl<R: RawMutexAsync> RawMutexAsync for Named<R> {}

impl<R: RawRwLockAsync> RawRwLockAsync for Named<R> {
    type On = R::On;
}

/// Takes permits of a [`Semaphore`] with a name: see [`Semaphore::acquire_async`].
#[must_use = "it takes permits when it is polled"]
pub struct PermitFuture<'a> {
    wait: Counted<'a, Waiting<'a, crate::Semaphore>>,
    semaphore: &'a Semaphore,
    count: u32,
}

impl<'a> PermitFuture<'a> {
    fn wait(self: Pin<&mut Self>) -> Pin<&mut Counted<'a, Waiting<'a, crate::Semaphore>>> {
        // SAFETY: it is pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl<'a> GivesUp for PermitFuture<'a> {
    type Output = Permit<'a>;

    fn try_poll(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<Permit<'a>, WaitError>> {
        let (semaphore, count) = (self.semaphore, self.count);
        let poll = |inner, wait: Pin<&mut Waiting<'a, _>>| wait.poll(inner, count, context, over);
        let polled = semaphore.poll_counted(self.wait(), Want::Permits, poll);
        polled.map_ok(|()| Permit { semaphore, count })
    }

    fn give_up(self: Pin<&mut Self>) {
        self.wait().give_up(Waiting::give_up);
    }
}

impl<'a> Future for PermitFuture<'a> {
    type Output = Permit<'a>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        self.try_poll(context, &|| None).map(not_too_many)
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
        PermitFuture { wait: self.counted(Waiting::new()), semaphore: self, count }
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
