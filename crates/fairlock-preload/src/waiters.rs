//! The waiters of condition variables: in the order in which they came, but for priorities.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | WAITING | in the queue | a holder of the queue's lock, or the waiter |
//! | LEAVES | gave up, and is about to take itself out of the queue | nobody: final |
//! | NOTIFIED | out of the queue, and about to be woken | the thread that notified |
//! | WOKEN | takes the mutex | nobody: final |
//!
//! All that are notified at once are woken at once, by the thread that notifies: a waiter may not
//! run for long, or wait in a signal handler for another waiter.
//!
//! *Awake.* Where threads wait for each other by turns the notification comes sooner than a sleep
//! could pay. So a waiter spins for a moment first; and if nobody was in the queue before it, gives
//! way for a moment more. Each as long as that has lately been worth it. A waiter with a real-time
//! priority does not give way: nobody below it would get the CPU.
//!
//! *No notification is lost.* A waiter queues before it lets the mutex go. Whether it gives up or is
//! notified is decided in its state. A waiter that is notified does not touch the queue any more,
//! which the program may have freed. One that leaves goes to the queue once more: whoever destroys
//! the queue waits for that.
//!
//! *Frames.* A waiter is in the stack frame of its wait, which is not left before the waiter is
//! WOKEN, or has taken itself out. So WOKEN is the last thing that is stored there; its parker,
//! which is never freed, is read before that.

#[cfg(all(test, fairlock_loom))]
mod waiters_loom;

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};
use fairlock::wait::{Thread, WaitError};

const WAITING: u32 = 0;
const LEAVES: u32 = 1;
const NOTIFIED: u32 = 2;
const WOKEN: u32 = 3;

pub(crate) struct Waiter<P: Platform> {
    priority: u8,
    thread: &'static Thread<P>,
    /// It gives way before it sleeps. Set in the queue, under its lock.
    yields: Cell<bool>,
    /// Used in the queue, under its lock.
    prev: Cell<*const Waiter<P>>,
    /// Used in the queue, or by the thread that notifies.
    next: Cell<*const Waiter<P>>,
    state: P::AtomicU32,
}

/// The waiters of a condition variable. Used under a lock that belongs to whoever has the queue.
pub(crate) struct Queue<P: Platform> {
    first: *const Waiter<P>,
    last: *const Waiter<P>,
}

// SAFETY: waiters stay in their frames while they are in the queue, whichever thread has the lock.
unsafe impl<P: Platform> Send for Queue<P> {}

impl<P: Platform> Waiter<P> {
    pub(crate) fn new(priority: u8) -> Self {
        Self {
            priority,
            thread: P::thread(),
            yields: Cell::new(false),
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            state: P::AtomicU32::new(WAITING),
        }
    }

    /// Sleeps until woken; or until `gives_up` says so, or the deadline
    /// has passed. In the latter cases the waiter is still in its queue, or was notified since.
    pub(crate) fn sleep(
        &self,
        deadline: Option<u64>,
        gives_up: impl Fn() -> bool,
    ) -> Result<(), WaitError> {
        Thread::<P>::stay_awake(&self.state, WOKEN, deadline, self.yields.get());
        loop {
            // Acquire: sees what came before the notification.
            let state = self.state.load(Ordering::Acquire);
            match (state, deadline) {
                (WOKEN, _) => return Ok(()),
                (WAITING, _) if gives_up() => return Err(WaitError::Cancelled),
                (WAITING, Some(deadline)) => {
                    if P::now() >= deadline {
                        return Err(WaitError::TimedOut);
                    }
                    Thread::<P>::park_until(deadline);
                }
                _ => Thread::<P>::park(),
            }
        }
    }

    /// Ends the wait: false if the waiter was notified, and sleeps until it is woken. Otherwise the
    /// caller has to [take it out](Queue::take_out).
    pub(crate) fn leaves(&self) -> bool {
        self.decide(LEAVES)
    }

    /// Relaxed: what comes with a notification is seen when the waiter is woken.
    fn decide(&self, next: u32) -> bool {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.state.compare_exchange(WAITING, next, success, failure).is_ok()
    }
}

/// Waiters that were notified and are to be woken once the queue's lock was released.
pub(crate) struct Notified<P: Platform>(*const Waiter<P>);

impl<P: Platform> Notified<P> {
    #[inline(never)]
    pub(crate) fn wake(self) {
        let mut next = self.0;
        // SAFETY: they wait until they are woken, here.
        while let Some(waiter) = unsafe { next.as_ref() } {
            next = waiter.next.get();
            let thread = waiter.thread;
            // Release: what came before the notification is seen. The frame may be gone from here
            // on.
            waiter.state.store(WOKEN, Ordering::Release);
            thread.unpark();
        }
    }
}

impl<P: Platform> Queue<P> {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null(), last: ptr::null() }
    }

    /// Adds a waiter, behind all that do not have a lower priority.
    ///
    /// # Safety
    /// The waiter stays where it is until it was woken or [taken out](Self::take_out).
    pub(crate) unsafe fn push(&mut self, waiter: &Waiter<P>) {
        let mut prev = self.last;
        // SAFETY: waiters in the queue are in their frames.
        while let Some(other) = unsafe { prev.as_ref() }.filter(|w| w.priority < waiter.priority) {
            prev = other.prev.get();
        }
        // SAFETY: as above.
        let next = unsafe { prev.as_ref() }.map_or(self.first, |prev| prev.next.get());
        waiter.prev.set(prev);
        waiter.next.set(next);
        waiter.yields.set(prev.is_null() && waiter.priority == 0);
        self.link(prev, waiter, next, waiter);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Notifies, and takes out, up to `most` waiters, first those that have waited longest. Those that leave
    /// are no waiters any more.
    pub(crate) fn notify(&mut self, most: usize) -> Notified<P> {
        let mut notified = Notified(ptr::null());
        let mut last = None::<&Waiter<P>>;
        let (mut next, mut left) = (self.first, most);
        // SAFETY: in the queue, so in its frame, which it does not leave before it was woken.
        while let Some(waiter) = unsafe { next.as_ref() }.filter(|_| left > 0) {
            next = waiter.next.get();
            if !waiter.decide(NOTIFIED) {
                continue;
            }
            left -= 1;
            self.take_out(waiter);
            waiter.next.set(ptr::null());
            match last.replace(waiter) {
                Some(last) => last.next.set(waiter),
                None => notified = Notified(waiter),
            }
        }
        notified
    }

    /// Whether somebody is about to take itself out.
    pub(crate) fn somebody_leaves(&self) -> bool {
        let mut next = self.first;
        // SAFETY: as above.
        while let Some(waiter) = unsafe { next.as_ref() } {
            // Relaxed: under the lock; who leaves is in the queue until it has had that.
            if waiter.state.load(Ordering::Relaxed) == LEAVES {
                return true;
            }
            next = waiter.next.get();
        }
        false
    }

    /// Takes out a waiter that is notified, or [leaves](Waiter::leaves).
    pub(crate) fn take_out(&mut self, waiter: &Waiter<P>) {
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        self.link(prev, next, next, prev);
    }

    /// Puts `after` behind `prev`, and `before` before `next`.
    fn link(
        &mut self,
        prev: *const Waiter<P>,
        after: *const Waiter<P>,
        next: *const Waiter<P>,
        before: *const Waiter<P>,
    ) {
        // SAFETY: waiters in the queue are in their frames.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(after),
            None => self.first = after,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(before),
            None => self.last = before,
        }
    }
}
