//! Tasks of models: each is polled by the thread that makes the visit.

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use loom::sync::atomic::AtomicU32;

use crate::platform::loom::Loom;
use crate::system::System;

const CALLED: u32 = 1;

/// Its waker.
pub(crate) struct Called(AtomicU32);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        // Release: what the one that wakes it did comes before the next poll. (Not a store: see `native::loom`.)
        self.0.swap(CALLED, Ordering::Release);
        Loom::wake_one(&self.0);
    }
}

/// A thread that polls futures of one task.
pub(crate) struct Task(pub(crate) Arc<Called>, pub(crate) Waker);

impl Task {
    pub(crate) fn new() -> Self {
        let called = Arc::new(Called(AtomicU32::new(0)));
        Self(called.clone(), called.into())
    }

    /// What the future returns, if it is ready.
    pub(crate) fn poll<F: Future>(&self, future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(&self.1)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Waits until the task is woken.
    pub(crate) fn until_called(&self) {
        let called = &self.0.0;
        // Acquire: as above.
        while called.swap(0, Ordering::Acquire) != CALLED {
            Loom::wait(called, 0, None, false);
        }
        // A task that is to be polled again lets others run.
        loom::thread::yield_now();
    }

    /// Polls the future until it is ready.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            if let Some(output) = self.poll(future.as_mut()) {
                return output;
            }
            self.until_called();
        }
    }

    /// Polls the future so often, unless it is ready before, and drops it.
    pub(crate) fn poll_and_drop<F: Future>(&self, future: F, polls: u32) -> bool {
        let mut future = pin!(future);
        for poll in 0..polls {
            if poll > 0 {
                self.until_called();
            }
            if self.poll(future.as_mut()).is_some() {
                return true;
            }
        }
        false
    }
}
