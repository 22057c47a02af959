//! Those who wait for condition variables: in the order in which they came, but for priorities.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | WAITING | in a queue | a holder of the queue's lock |
//! | FOLLOWS | notified; in the chain of one that was woken | that one, once it has the mutex |
//! | WOKEN | notified; takes the mutex by itself | nobody: final |
//!
//! Of several that are notified at once, and wait with the same mutex, one is woken. The others
//! sleep on, in a chain: each wakes the next when it has the mutex, which is when that one can do
//! with a CPU, and not before. So there is no herd at the mutex.
//!
//! *No notification is lost.* A waiter queues before it lets the mutex go. One that gives up
//! takes itself out, under the queue's lock; if it is not in the queue any more it was notified:
//! what ended its wait came too late.
//!
//! *Frames.* A waiter is in the frame of its wait, which is not left before it is WOKEN, or has
//! taken itself out. So WOKEN is the last thing that is stored there, and its parker, which is
//! never freed, is known before. Whoever notifies does not touch the condition variable after
//! that: the program may have freed it.

#[cfg(all(test, fairlock_loom))]
mod waiters_loom;

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};
use fairlock::wait::{Thread, WaitError};

const WAITING: u32 = 0;
const FOLLOWS: u32 = 1;
const WOKEN: u32 = 2;

pub(crate) struct Waiter<P: Platform> {
    /// The addresses of what it waits for, and with.
    cond: usize,
    mutex: usize,
    priority: u8,
    thread: &'static Thread<P>,
    /// In the queue, under its lock.
    prev: Cell<*const Waiter<P>>,
    /// In the queue, or the chain.
    next: Cell<*const Waiter<P>>,
    /// For who is woken: the first that follows.
    followers: Cell<*const Waiter<P>>,
    state: P::AtomicU32,
}

/// Waiters of any number of condition variables. Under a lock of whoever has it.
pub(crate) struct Queue<P: Platform> {
    first: *const Waiter<P>,
    last: *const Waiter<P>,
}

// SAFETY: its waiters stay in their frames while they are in it, whichever thread has the lock.
unsafe impl<P: Platform> Send for Queue<P> {}

impl<P: Platform> Waiter<P> {
    pub(crate) fn new(cond: usize, mutex: usize, priority: u8) -> Self {
        Self {
            cond,
            mutex,
            priority,
            thread: P::thread(),
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            followers: Cell::new(ptr::null()),
            state: P::AtomicU32::new(WAITING),
        }
    }

    /// Sleeps until notified, and then until woken; or until `gives_up` says so, or the deadline
    /// has passed: then the waiter is still in its queue, or was notified since.
    pub(crate) fn sleep(
        &self,
        deadline: Option<u64>,
        gives_up: impl Fn() -> bool,
    ) -> Result<(), WaitError> {
        loop {
            // Acquire: its followers; and what came before the notification.
            let state = self.state.load(Ordering::Acquire);
            match (state, deadline) {
                (WOKEN, _) => return Ok(()),
                (WAITING, _) if gives_up() => return Err(WaitError::Cancelled),
                (WAITING, Some(deadline)) => {
                    if P::now() >= deadline {
                        return Err(WaitError::TimedOut);
                    }
                    self.thread.park_until(deadline);
                }
                _ => self.thread.park(),
            }
        }
    }

    pub(crate) fn cond(&self) -> usize {
        self.cond
    }

    /// Has the mutex: wakes the next one that follows.
    pub(crate) fn pass_on(&self) {
        // SAFETY: it waits until it is woken, here.
        if let Some(next) = unsafe { self.followers.get().as_ref() } {
            wake(next, next.next.get());
        }
    }
}

/// Wakes a waiter that is in no queue, and whom these follow.
fn wake<P: Platform>(waiter: &Waiter<P>, followers: *const Waiter<P>) {
    waiter.followers.set(followers);
    let thread = waiter.thread;
    // Release: the followers. The frame may be gone from here on.
    waiter.state.store(WOKEN, Ordering::Release);
    thread.unpark();
}

/// Waiters that were notified and are to be woken, once the queue's lock was given up.
pub(crate) struct Notified<P: Platform>(*const Waiter<P>);

impl<P: Platform> Notified<P> {
    pub(crate) fn is_nobody(&self) -> bool {
        self.0.is_null()
    }

    /// Wakes the first of each mutex; the others follow it.
    pub(crate) fn wake(self) {
        let mut rest = self.0;
        // SAFETY: they wait until they are woken, here, or by the one that they follow.
        while let Some(first) = unsafe { rest.as_ref() } {
            rest = ptr::null();
            let (mut chain, mut others) = (Tail::new(first), None::<Tail<P>>);
            let mut next = first.next.get();
            // SAFETY: as above.
            while let Some(waiter) = unsafe { next.as_ref() } {
                next = waiter.next.get();
                if waiter.mutex == first.mutex {
                    chain.append(waiter);
                } else if let Some(others) = &mut others {
                    others.append(waiter);
                } else {
                    rest = waiter;
                    others = Some(Tail::new(waiter));
                }
            }
            chain.end();
            others.inspect(Tail::end);
            wake(first, first.next.get());
        }
    }
}

/// The end of a chain in the making.
struct Tail<'a, P: Platform>(&'a Waiter<P>);

impl<'a, P: Platform> Tail<'a, P> {
    fn new(first: &'a Waiter<P>) -> Self {
        Self(first)
    }

    fn append(&mut self, waiter: &'a Waiter<P>) {
        self.0.next.set(waiter);
        self.0 = waiter;
    }

    fn end(&self) {
        self.0.next.set(ptr::null());
    }
}

impl<P: Platform> Queue<P> {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null(), last: ptr::null() }
    }

    /// The waiter comes behind all that do not have a lower priority.
    ///
    /// # Safety
    /// It stays where it is until it was woken or [`given up`](Self::give_up).
    pub(crate) unsafe fn push(&mut self, waiter: &Waiter<P>) {
        let mut prev = self.last;
        // SAFETY: in the queue, so in their frames.
        while let Some(other) = unsafe { prev.as_ref() }.filter(|w| w.priority < waiter.priority) {
            prev = other.prev.get();
        }
        // SAFETY: as above.
        let next = unsafe { prev.as_ref() }.map_or(self.first, |prev| prev.next.get());
        waiter.prev.set(prev);
        waiter.next.set(next);
        self.link(prev, waiter, next, waiter);
    }

    /// Takes the waiter that waits longest for a condition variable out.
    pub(crate) fn notify_one(&mut self, cond: usize) -> Notified<P> {
        match self.find(self.first, cond) {
            Some(waiter) => {
                self.remove(waiter);
                waiter.next.set(ptr::null());
                Notified(waiter)
            }
            None => Notified(ptr::null()),
        }
    }

    /// Takes all of them out.
    pub(crate) fn notify_all(&mut self, cond: usize) -> Notified<P> {
        let mut chain = None::<Tail<P>>;
        let mut next = self.first;
        let mut first = ptr::null();
        while let Some(waiter) = self.find(next, cond) {
            next = waiter.next.get();
            self.remove(waiter);
            match &mut chain {
                Some(chain) => chain.append(waiter),
                None => {
                    first = ptr::from_ref(waiter);
                    chain = Some(Tail::new(waiter));
                }
            }
        }
        chain.inspect(Tail::end);
        Notified(first)
    }

    /// Takes it out: false if it was notified.
    pub(crate) fn give_up(&mut self, waiter: &Waiter<P>) -> bool {
        // Relaxed: under the lock.
        let waits = waiter.state.load(Ordering::Relaxed) == WAITING;
        if waits {
            self.remove(waiter);
        }
        waits
    }

    /// From `next` on.
    fn find<'a>(&self, mut next: *const Waiter<P>, cond: usize) -> Option<&'a Waiter<P>> {
        loop {
            // SAFETY: in the queue, so in its frame, which it does not leave before it was woken.
            let waiter = unsafe { next.as_ref() }?;
            if waiter.cond == cond {
                return Some(waiter);
            }
            next = waiter.next.get();
        }
    }

    /// A waiter is notified, or gives up.
    fn remove(&mut self, waiter: &Waiter<P>) {
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        self.link(prev, next, next, prev);
        // Relaxed: read under the lock, or for no more than another look.
        waiter.state.store(FOLLOWS, Ordering::Relaxed);
    }

    /// `after` is behind `prev`, and `before` before `next`.
    fn link(
        &mut self,
        prev: *const Waiter<P>,
        after: *const Waiter<P>,
        next: *const Waiter<P>,
        before: *const Waiter<P>,
    ) {
        // SAFETY: in the queue, so in their frames.
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
