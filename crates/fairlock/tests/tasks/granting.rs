//! A lock that grants, as most locks of tasks do: a release gives the lock to the future that has waited longest, whether or
//! not it is polled. The negative control of what is said about futures that nobody polls.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use fairlock::MutexAsyncExt;

/// A lock that tasks take. Its guard may be held across an `.await`.
pub(crate) trait Lock: Default + Send + Sync + 'static {
    type Guard: Send + 'static;
    type Taken: Future<Output = Self::Guard> + Send + 'static;

    fn take(self: &Arc<Self>) -> Self::Taken;
}

// ---- ours ----

/// Ours.
#[derive(Default)]
pub(crate) struct Offering(fairlock::Mutex<()>);

/// Releases it.
pub(crate) struct Offered(Arc<Offering>);

impl Drop for Offered {
    fn drop(&mut self) {
        // SAFETY: it stands for the guard that was forgotten.
        unsafe { self.0.0.force_unlock() };
    }
}

impl Lock for Offering {
    type Guard = Offered;
    type Taken = Pin<Box<dyn Future<Output = Offered> + Send>>;

    fn take(self: &Arc<Self>) -> Self::Taken {
        let lock = self.clone();
        Box::pin(async move {
            let wait = lock.0.lock_async();
            // The guard is not `Send` without a feature.
            std::mem::forget(wait.await);
            Offered(lock)
        })
    }
}

/// Ours, with one permit.
pub(crate) struct Permits(fairlock::Semaphore);

impl Default for Permits {
    fn default() -> Self {
        Self(fairlock::Semaphore::new(1))
    }
}

/// Gives it back.
pub(crate) struct Permit(Arc<Permits>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.release(1);
    }
}

impl Lock for Permits {
    type Guard = Permit;
    type Taken = Pin<Box<dyn Future<Output = Permit> + Send>>;

    fn take(self: &Arc<Self>) -> Self::Taken {
        let permits = self.clone();
        Box::pin(async move {
            std::mem::forget(permits.0.acquire_async().await);
            Permit(permits)
        })
    }
}

// ---- the control ----

/// Grants.
#[derive(Default)]
pub(crate) struct Granting(Mutex<State>);

#[derive(Default)]
struct State {
    is_held: bool,
    tickets: u64,
    waiters: VecDeque<(u64, Waker)>,
    granted: Vec<u64>,
}

/// Releases it.
pub(crate) struct Granted(Arc<Granting>);

pub(crate) struct Grant(Arc<Granting>, Option<u64>);

impl Granting {
    fn release(&self) {
        let mut state = self.0.lock().unwrap();
        match state.waiters.pop_front() {
            Some((ticket, waker)) => {
                state.granted.push(ticket);
                drop(state);
                waker.wake();
            }
            None => state.is_held = false,
        }
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Future for Grant {
    type Output = Granted;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Granted> {
        let lock = self.0.clone();
        let mut state = lock.0.lock().unwrap();
        let is_granted = match self.1 {
            None => !std::mem::replace(&mut state.is_held, true),
            Some(own) => {
                let before = state.granted.len();
                state.granted.retain(|&ticket| ticket != own);
                state.granted.len() < before
            }
        };
        if is_granted {
            self.1 = None;
            drop(state);
            return Poll::Ready(Granted(lock));
        }
        if self.1.is_none() {
            state.tickets += 1;
            let ticket = state.tickets;
            state.waiters.push_back((ticket, context.waker().clone()));
            self.1 = Some(ticket);
        }
        Poll::Pending
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let Some(own) = self.1 else { return };
        let mut state = self.0.0.lock().unwrap();
        state.waiters.retain(|(ticket, _)| *ticket != own);
        let is_granted = state.granted.contains(&own);
        state.granted.retain(|&ticket| ticket != own);
        drop(state);
        if is_granted {
            self.0.release();
        }
    }
}

impl Lock for Granting {
    type Guard = Granted;
    type Taken = Grant;

    fn take(self: &Arc<Self>) -> Grant {
        Grant(self.clone(), None)
    }
}
