//! Who is to be told and woken once the queue lock is free.
//!
//! A waiter that is granted the lock may return as soon as it is told, give the lock up,
//! and free it. So it is told last: not before whoever granted it has let the queue lock
//! go, and is done with the lock. Until then it is out of the queue, and the word says
//! that it owns the lock, so nobody else can.

use core::mem::MaybeUninit;

use super::{GRANTED, Thread, Waiter};
use crate::fault::{Fault, active};
use crate::platform::Platform;

/// Waiters to be told that they own the lock, and threads to wake.
pub(crate) struct WakeList<P: Platform> {
    len: usize,
    threads: [MaybeUninit<&'static Thread<P>>; MAX_WAKES],
    granted: Granted<P>,
}

/// Waiters that own the lock and are not told yet, each linked to the next one.
///
/// Invariant: they are out of the queue, and alive, as they wait for GRANTED, which
/// nobody else stores.
struct Granted<P: Platform> {
    first: *const Waiter<P>,
    last: *const Waiter<P>,
    len: usize,
    /// How many of them, from the first, are among the threads to wake.
    listed: usize,
}

impl<P: Platform> Granted<P> {
    const NONE: Self =
        Self { first: core::ptr::null(), last: core::ptr::null(), len: 0, listed: 0 };
}

/// Waiters woken by one release at most.
pub(crate) const MAX_WAKES: usize = 256;

impl<P: Platform> WakeList<P> {
    pub(crate) fn new() -> Self {
        let threads = [const { MaybeUninit::uninit() }; MAX_WAKES];
        Self { len: 0, threads, granted: Granted::NONE }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && self.granted.len == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == MAX_WAKES
    }

    /// Lists a thread; one too many is woken at once.
    pub(crate) fn push(&mut self, thread: &'static Thread<P>) {
        match self.threads.get_mut(self.len) {
            Some(place) => {
                place.write(thread);
                self.len += 1;
            }
            None => thread.parker.unpark(),
        }
    }

    /// Lists a waiter that owns the lock from now on. It must be out of the queue, and
    /// [`wake_all`](Self::wake_all) must follow.
    pub(super) fn grant(&mut self, waiter: &Waiter<P>) {
        if active(Fault::TellsTooSoon) {
            let thread = waiter.thread;
            waiter.set_state(GRANTED);
            return self.push(thread);
        }
        let granted = &mut self.granted;
        // SAFETY: alive (see the type).
        match unsafe { granted.last.as_ref() } {
            None => granted.first = waiter,
            // Mostly it is so already: they stood in the queue one behind the other.
            Some(last) if !core::ptr::eq(last.next.get(), waiter) => last.next.set(waiter),
            Some(_) => {}
        }
        granted.last = waiter;
        granted.len += 1;
        if self.len < MAX_WAKES && !active(Fault::WakesBeforeGrant) {
            granted.listed += 1;
            self.push(waiter.thread);
        }
    }

    /// Tells and wakes them all, which empties the list. From here on the lock may be gone:
    /// nothing in it is touched.
    ///
    /// The records of threads are never freed, so it does not matter that a thread may have
    /// returned from its wait, or ended, before it is woken.
    pub(crate) fn wake_all(&mut self) {
        self.tell_granted();
        let len = core::mem::take(&mut self.len);
        for thread in &self.threads[..len] {
            // SAFETY: the first `len` entries were written by `push`.
            unsafe { thread.assume_init() }.parker.unpark();
        }
    }

    /// Rule 1: all are told before the first is woken. Only those for whom there was no
    /// place are woken one by one.
    fn tell_granted(&mut self) {
        let granted = core::mem::replace(&mut self.granted, Granted::NONE);
        let mut next = granted.first;
        for told in 0..granted.len {
            // SAFETY: listed and not told yet, so alive (see `Granted`).
            let waiter = unsafe { &*next };
            let thread = waiter.thread;
            next = waiter.next.get();
            if active(Fault::WakesBeforeGrant) {
                thread.parker.unpark();
                waiter.set_state(GRANTED);
                continue;
            }
            waiter.set_state(GRANTED);
            if active(Fault::TouchesGranted) {
                waiter.state();
            }
            if told >= granted.listed {
                thread.parker.unpark();
            }
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, WaitOutcome};
    use crate::wait::{Kind, WAITING};

    #[test]
    fn all_are_told_last_and_woken_even_if_there_is_no_place_for_them() {
        let waiters: Vec<_> = (0..MAX_WAKES + 9)
            .map(|_| Waiter::new(Kind::Reader, Box::leak(Box::new(Thread::new())), 0, 0))
            .collect();
        let other = Box::leak(Box::new(Thread::<Native>::new()));
        let mut wakes = WakeList::new();
        wakes.push(other);
        waiters.iter().for_each(|waiter| waiter.grant(&mut wakes));
        assert!(waiters.iter().all(|waiter| waiter.state() == WAITING));
        wakes.wake_all();
        assert!(wakes.is_empty());
        let woken = |thread: &Thread<Native>| thread.parker.park(Some(0), false);
        for waiter in &waiters {
            assert_eq!((waiter.state(), woken(waiter.thread)), (GRANTED, WaitOutcome::Woken));
        }
        assert_eq!(woken(other), WaitOutcome::Woken);
        assert_eq!(woken(other), WaitOutcome::TimedOut, "once");
    }
}
