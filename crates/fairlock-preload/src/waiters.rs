//! The waiters of condition variables: in the order in which they came, but for priorities.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | WAITING | in a queue | a holder of the queue's lock |
//! | FOLLOWS | notified; in the chain of one that was woken | that one, once it has the mutex |
//! | WOKEN | notified; takes the mutex by itself | nobody: final |
//!
//! Of several waiters that are notified at once, and wait with the same mutex, one is woken. The
//! others sleep on, in a chain: each wakes the next when it has the mutex, which is when the next
//! can use a CPU. So there is no herd at the mutex.
//!
//! *Awake.* Where threads wait for each other by turns the notification comes sooner than a sleep
//! could pay. So a waiter spins for a moment first; and if nobody was in the queue before it, gives
//! way for a moment more. Each as long as that has lately been worth it. A waiter with a real-time
//! priority does not give way: nobody below it would get the CPU.
//!
//! *No notification is lost.* A waiter queues before it lets the mutex go. A waiter that gives up
//! takes itself out, under the queue's lock. If it is not in the queue any more it was notified:
//! what ended its wait came too late.
//!
//! *Frames.* A waiter is in the stack frame of its wait, which is not left before the waiter is
//! WOKEN, or has taken itself out. So WOKEN is the last thing that is stored there; its parker,
//! which is never freed, is read before that. A thread that notifies does not touch the condition
//! variable after that: the program may have freed it.

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
    /// The addresses of the condition variable and of the mutex that it waits with.
    cond: usize,
    mutex: usize,
    priority: u8,
    thread: &'static Thread<P>,
    /// It gives way before it sleeps. Set in the queue, under its lock.
    yields: Cell<bool>,
    /// Used in the queue, under its lock.
    prev: Cell<*const Waiter<P>>,
    /// Used in the queue, or in the chain.
    next: Cell<*const Waiter<P>>,
    /// Once it is woken: the first waiter that follows it.
    followers: Cell<*const Waiter<P>>,
    state: P::AtomicU32,
}

/// Waiters of any number of condition variables. Used under a lock that belongs to whoever has the
/// queue.
pub(crate) struct Queue<P: Platform> {
    first: *const Waiter<P>,
    last: *const Waiter<P>,
}

// SAFETY: waiters stay in their frames while they are in the queue, whichever thread has the lock.
unsafe impl<P: Platform> Send for Queue<P> {}

impl<P: Platform> Waiter<P> {
    pub(crate) fn new(cond: usize, mutex: usize, priority: u8) -> Self {
        Self {
            cond,
            mutex,
            priority,
            thread: P::thread(),
            yields: Cell::new(false),
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            followers: Cell::new(ptr::null()),
            state: P::AtomicU32::new(WAITING),
        }
    }

    /// Sleeps until notified, and then until woken; or until `gives_up` says so, or the deadline
    /// has passed. In the latter cases the waiter is still in its queue, or was notified since.
    pub(crate) fn sleep(
        &self,
        deadline: Option<u64>,
        gives_up: impl Fn() -> bool,
    ) -> Result<(), WaitError> {
        Thread::<P>::stay_awake(&self.state, WOKEN, deadline, self.yields.get());
        loop {
            // Acquire: sees its followers, and what came before the notification.
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

    /// The waiter has the mutex: wakes the next one that follows it.
    pub(crate) fn pass_on(&self) {
        // SAFETY: the follower waits until it is woken, here.
        if let Some(next) = unsafe { self.followers.get().as_ref() } {
            wake(next, next.next.get());
        }
    }
}

/// Wakes a waiter that is in no queue; `followers` follow it.
fn wake<P: Platform>(waiter: &Waiter<P>, followers: *const Waiter<P>) {
    waiter.followers.set(followers);
    let thread = waiter.thread;
    // Release: the followers are seen. The frame may be gone from here on.
    waiter.state.store(WOKEN, Ordering::Release);
    thread.unpark();
}

/// Waiters that were notified and are to be woken once the queue's lock was released.
pub(crate) struct Notified<P: Platform>(*const Waiter<P>);

impl<P: Platform> Notified<P> {
    pub(crate) fn is_nobody(&self) -> bool {
        self.0.is_null()
    }

    /// Wakes the first of each mutex; the others follow it.
    pub(crate) fn wake(self) {
        let mut rest = self.0;
        // SAFETY: they wait until they are woken, here or by the waiter that they follow.
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

/// The end of a chain that is being made.
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

    /// Adds a waiter, behind all that do not have a lower priority.
    ///
    /// # Safety
    /// The waiter stays where it is until it was woken or [gave up](Self::give_up).
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

    /// Takes out the waiter that has waited longest for a condition variable.
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

    /// Takes out all waiters of a condition variable.
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

    /// Takes the waiter out: false if it was notified.
    pub(crate) fn give_up(&mut self, waiter: &Waiter<P>) -> bool {
        // Relaxed: under the lock.
        let waits = waiter.state.load(Ordering::Relaxed) == WAITING;
        if waits {
            self.remove(waiter);
        }
        waits
    }

    /// The first waiter of a condition variable, from `next` on.
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

    /// Takes out a waiter that is notified, or gives up.
    fn remove(&mut self, waiter: &Waiter<P>) {
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        self.link(prev, next, next, prev);
        // Relaxed: read under the lock; a read without it leads to no more than another look.
        waiter.state.store(FOLLOWS, Ordering::Relaxed);
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
