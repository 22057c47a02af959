//! Tasks whose waits end: at a deadline, or by a token.
//!
//! A task that still waits when it is polled looks whether its wait has ended, and leaves as a future that is dropped does,
//! which hands on an offer. So a lock that is offered at the instant of the end is taken, or goes to another waiter. Until then
//! the [timer](super::offers) is to wake the task when its wait ends: see [`alarms`](super::alarms).

use core::fmt;
use core::future::Future;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::alarms::Alarm;
use super::slot::PooledPlatform;
use crate::wait::{Wait, WaitError};

/// The end of a task's wait.
pub(crate) struct Limit<'a, P: PooledPlatform> {
    wait: Wait<'a, P>,
    stage: Stage,
    alarm: Alarm,
    _pinned: PhantomPinned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The task did not have to wait yet.
    New,
    /// Its alarm is set, or was.
    Set,
    /// It waits no longer.
    Over,
}

// SAFETY: the alarm is changed under the lock of all alarms; its waker may be sent. A token may be shared.
unsafe impl<P: PooledPlatform> Send for Limit<'_, P> {}

impl<'a, P: PooledPlatform> Limit<'a, P> {
    pub(crate) fn new(wait: Wait<'a, P>) -> Self {
        Self { wait, stage: Stage::New, alarm: Alarm::new(), _pinned: PhantomPinned }
    }

    /// The task, which is polled, has to wait: returns why its wait has ended, if it has. Otherwise the task is woken when
    /// that ends. A timeout begins at the first call.
    pub(crate) fn ended(self: Pin<&mut Self>, context: &Context<'_>) -> Option<WaitError> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if this.stage == Stage::Over || !this.wait.can_end() {
            return None;
        }
        let wait = this.wait.begin();
        this.wait = Wait::from(&wait);
        if let Some(error) = wait.expired(P::now) {
            return Some(error);
        }
        let slots = P::slots();
        // No signal ends the wait of a task.
        if !slots.has_timer() || wait.deadline.is_none() && wait.cancel.is_none() {
            return None;
        }
        this.stage = Stage::Set;
        // Of the program: before anything is locked.
        let waker = context.waker().clone();
        // SAFETY: it is pinned, and disarmed before it is dropped.
        let is_cancelled = unsafe { slots.alarms.arm(&this.alarm, &wait, waker) };
        is_cancelled.then_some(WaitError::Cancelled)
    }

    /// The task waits no longer.
    pub(crate) fn lift(self: Pin<&mut Self>) {
        // SAFETY: nothing is moved out of it.
        unsafe { self.get_unchecked_mut() }.disarm();
    }

    fn disarm(&mut self) {
        if core::mem::replace(&mut self.stage, Stage::Over) == Stage::Set {
            P::slots().alarms.disarm(&self.alarm);
        }
    }
}

impl<P: PooledPlatform> Drop for Limit<'_, P> {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// A future of this crate that can end its wait.
pub trait GivesUp {
    /// What it waits for.
    type Output;

    /// As [`Future::poll`], but fails where that panics, and instead of queueing, if its wait is `over`.
    #[doc(hidden)]
    fn try_poll(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<Self::Output, WaitError>>;

    /// Leaves the queue, if it is there, without what it waits for; it stays pending.
    #[doc(hidden)]
    fn give_up(self: Pin<&mut Self>);
}

/// Waits for what another future waits for, `F`, until its [`Wait`] ends: see
/// [`future`](crate::future#deadlines-and-tokens).
#[must_use = "it waits when it is polled"]
pub struct LimitedFuture<'a, P: PooledPlatform, F> {
    future: F,
    limit: Limit<'a, P>,
}

impl<'a, P: PooledPlatform, F> LimitedFuture<'a, P, F> {
    #[inline]
    pub(crate) fn new(future: F, wait: Wait<'a, P>) -> Self {
        Self { future, limit: Limit::new(wait) }
    }
}

impl<P: PooledPlatform, F: GivesUp> Future for LimitedFuture<'_, P, F> {
    type Output = Result<F::Output, WaitError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of it; both are pinned, as the whole is.
        let (mut future, mut limit) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), Pin::new_unchecked(&mut this.limit))
        };
        let mut polled = future.as_mut().try_poll(context, &|| limit.wait.over(P::now));
        if polled.is_pending() {
            let Some(error) = limit.as_mut().ended(context) else { return Poll::Pending };
            future.give_up();
            polled = Poll::Ready(Err(error));
        }
        limit.lift();
        polled
    }
}

impl<P: PooledPlatform, F> fmt::Debug for LimitedFuture<'_, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedFuture").field("wait", &self.limit.wait).finish_non_exhaustive()
    }
}
