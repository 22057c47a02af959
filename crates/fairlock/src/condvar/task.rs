//! Tasks that wait for a notification: a task is a waiter whose frame is its future.
//!
//! Tasks and threads wait in one queue. What differs for a task:
//!
//! | state | meaning | changed by |
//! |---|---|---|
//! | WAITING | in the queue | a holder of the queue lock |
//! | NOTIFIED | by `notify_all`; still in the queue, with its waker | a holder of the queue lock |
//! | WOKEN | by `notify_all`, and out of the queue | nobody: final |
//! | OWES | by `notify_one`, and out of the queue | nobody: final |
//!
//! Then the task takes the mutex as `lock_async` does: it is offered the mutex, and never granted it.
//!
//! *No notification is lost.* A future that OWES and is dropped before it was ready notifies the next waiter in its
//! place. After `notify_all` that is not needed: all that waited were notified.
//!
//! *Frames.* Nobody touches a waiter that is out of the queue: its state, links and waker are used under the queue lock only, also by
//! the future itself. So a future may be dropped at any instant: it takes its waiter out.
//!
//! *Wakers* are called without the queue lock. `notify_all` cannot hold all of them together, as it allocates nothing. So tasks
//! that are NOTIFIED stay in the queue until their wakers are called, a few at a time. Invariant: they are in front of all that
//! are WAITING.

use core::fmt;
use core::future::Future;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};

use super::notified::{NOTIFIED, OWES, WAITING, WOKEN};
use super::waiters::{Waiter, WordCondvar};
use crate::lock::{PooledPlatform, RawMutex, Waiting, not_too_many};
use crate::platform::Atomic;
use crate::wait::{Access, FEW_WAKES, Task, survive};

/// Waits for a notification: see [`WordCondvar::wait_async`].
#[must_use = "it waits when it is polled; dropped before, it releases the mutex"]
pub struct RawWaitFuture<'a, P: PooledPlatform> {
    condvar: &'a WordCondvar<P>,
    mutex: &'a RawMutex<P>,
    stage: Stage,
    /// In the queue, while that is the stage, unless it was notified. It stays where it is, as the future is pinned.
    waiter: Option<Waiter<P>>,
    /// Takes the mutex again.
    takes: Waiting<'a, RawMutex<P>>,
    _pinned: PhantomPinned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was not polled, and holds the mutex.
    Holds,
    Waits,
    /// It was notified, together with all others or alone, or its wait has ended; and takes the mutex.
    Takes(Option<Notification>),
    /// It was ready.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notification {
    OfAll,
    OfOne,
}

// SAFETY: the waiter is changed under the queue lock; its waker may be sent. The record that it refers to is `Sync`. The
// mutex, which the future may hold, may be released by another thread.
unsafe impl<P: PooledPlatform> Send for RawWaitFuture<'_, P> {}

impl<P: PooledPlatform> WordCondvar<P> {
    /// As [`wait`](Self::wait), for a task: the first poll lets `mutex` go, and the future is ready when the task was notified and
    /// holds the mutex again. A future that is dropped before that does not hold the mutex; if it was notified alone, it notifies
    /// the next waiter in its place.
    ///
    /// # Safety
    /// The caller holds `mutex`, and leaves that to the future.
    pub unsafe fn wait_async<'a>(&'a self, mutex: &'a RawMutex<P>) -> RawWaitFuture<'a, P> {
        RawWaitFuture {
            condvar: self,
            mutex,
            stage: Stage::Holds,
            waiter: None,
            takes: Waiting::new(),
            _pinned: PhantomPinned,
        }
    }

    /// Calls the wakers of the tasks that are NOTIFIED.
    pub(super) fn wake_tasks(&self) {
        let mut is_last = false;
        while !is_last {
            let mut wakers = [const { None }; FEW_WAKES];
            self.locked(|| {
                for waker in &mut wakers {
                    let Some(first) = self.first_notified() else {
                        is_last = true;
                        return;
                    };
                    self.remove(first);
                    // Relaxed: under the queue lock, as all of a task.
                    first.notice.state.store(WOKEN, Ordering::Relaxed);
                    *waker = first.task.take_waker();
                }
            });
            wakers.into_iter().flatten().for_each(|waker| survive(|| waker.wake()));
        }
    }

    /// Under the queue lock: the first waiter, if it is a task that is NOTIFIED.
    fn first_notified(&self) -> Option<&Waiter<P>> {
        self.first().filter(|first| first.notice.state.load(Ordering::Relaxed) == NOTIFIED)
    }
}

impl<P: PooledPlatform> RawWaitFuture<'_, P> {
    /// It was not polled yet, and holds the mutex.
    #[cfg(all(feature = "std", not(fairlock_loom)))] // as below
    pub(crate) fn holds(&self) -> bool {
        self.stage == Stage::Holds
    }

    /// Waits no longer, if it was not polled yet: then the caller holds the mutex.
    #[cfg(all(feature = "std", not(fairlock_loom)))] // what has a guard
    pub(crate) fn take_back(self: Pin<&mut Self>) -> bool {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        let holds = this.stage == Stage::Holds;
        if holds {
            this.stage = Stage::Ended;
        }
        holds
    }

    /// Takes the mutex from here on, unless it was notified; returns whether it was not.
    #[cfg(all(feature = "std", not(fairlock_loom)))] // as above
    pub(crate) fn give_up(self: Pin<&mut Self>) -> bool {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if this.stage == Stage::Waits {
            this.stage = Stage::Takes(this.look(None));
        }
        this.stage == Stage::Takes(None)
    }

    /// Queues the waiter, and lets the mutex go.
    fn begin(&mut self, waker: Waker) {
        self.waiter = Some(Waiter::with_task(self.mutex, Task::polled_by(waker)));
        // Not by `&mut`: that would be the only reference to the waiter.
        let Some(waiter) = &self.waiter else { unreachable!("it was just made") };
        self.condvar.locked(|| self.condvar.push(waiter));
        self.stage = Stage::Waits;
        // SAFETY: the promise to `wait_async`; this is done once.
        unsafe { self.mutex.unlock() };
        P::thread().notified.wake_next_of_own();
    }

    /// What the waiter was notified by. If by nothing yet, the waiter has this waker from here on; without a waker, and if it
    /// was notified, it is out of the queue.
    fn look(&self, waker: Option<Waker>) -> Option<Notification> {
        let Some(waiter) = &self.waiter else { unreachable!("it waits without a waiter") };
        // What it returns is dropped without the queue lock.
        let (by, wakers) = self.condvar.locked(|| {
            // Relaxed, here and below: under the queue lock.
            let state = waiter.notice.state.load(Ordering::Relaxed);
            let by = match state {
                WAITING => None,
                OWES => Some(Notification::OfOne),
                _ => Some(Notification::OfAll),
            };
            match waker {
                Some(waker) if by.is_none() => (by, [waiter.task.polled(waker), None]),
                waker => {
                    if matches!(state, WAITING | NOTIFIED) {
                        self.condvar.remove(waiter);
                        waiter.notice.state.store(WOKEN, Ordering::Relaxed);
                    }
                    (by, [waiter.task.take_waker(), waker])
                }
            }
        });
        wakers.into_iter().for_each(|waker| survive(|| drop(waker)));
        by
    }
}

impl<P: PooledPlatform> Future for RawWaitFuture<'_, P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if this.stage == Stage::Holds {
            // Of the program: before anything is changed.
            this.begin(context.waker().clone());
            return Poll::Pending;
        }
        if this.stage == Stage::Waits {
            let by = this.look(Some(context.waker().clone()));
            if by.is_none() {
                return Poll::Pending;
            }
            this.stage = Stage::Takes(by);
        }
        if this.stage == Stage::Ended {
            return Poll::Pending;
        }
        // SAFETY: it is pinned, as the whole is.
        let takes = unsafe { Pin::new_unchecked(&mut this.takes) };
        let polled = takes.poll(this.mutex, Access::Exclusive, context, &|| None).map(not_too_many);
        if polled.is_ready() {
            this.stage = Stage::Ended;
        }
        polled
    }
}

impl<P: PooledPlatform> Drop for RawWaitFuture<'_, P> {
    fn drop(&mut self) {
        let by = match self.stage {
            // SAFETY: the promise to `wait_async`; this is done once.
            Stage::Holds => return unsafe { self.mutex.unlock() },
            Stage::Waits => self.look(None),
            Stage::Takes(by) => by,
            Stage::Ended => None,
        };
        if by == Some(Notification::OfOne) {
            self.condvar.notify_one();
        }
    }
}

impl<P: PooledPlatform> fmt::Debug for RawWaitFuture<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawWaitFuture").finish_non_exhaustive()
    }
}
