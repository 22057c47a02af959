//! The queue lock of Mellor-Crummey and Scott: in order of arrival, each waiter spinning on a node
//! in its own frame. Where threads outnumber CPUs, it is better if a waiter parks after a while,
//! and is kicked by the thread before it.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use super::{SPIN_NS, parked_at, spin_until};
use crate::locks::BenchLock;

/// `PARKS`: waiters park once they have spun for [`SPIN_NS`].
pub struct Mcs<P: Platform, const PARKS: bool> {
    /// The address of the last node in the queue, the holder's included; zero if
    /// the lock is free.
    tail: P::AtomicUsize,
}

/// A thread's place in the queue.
struct Node<P: Platform> {
    /// The address of the node behind this one, once that node's thread has stored it.
    next: P::AtomicUsize,
    /// [`WAITING`], or the address of its thread's record if that has parked;
    /// [`GRANTED`] once the thread before has released the lock.
    turn: P::AtomicUsize,
}

const WAITING: usize = 0;
const GRANTED: usize = 1;

impl<P: Platform> Node<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), turn: P::AtomicUsize::new(WAITING) }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// # Safety
    /// `address` is that of a node whose thread has not released the lock yet.
    unsafe fn at<'a>(address: usize) -> &'a Self {
        // SAFETY: a node stays where it is until its thread has released.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Waits for the thread before.
    #[inline(always)]
    fn wait<const PARKS: bool>(&self) {
        if !PARKS {
            spin_until::<P, _, _>(&self.turn, |turn| turn == GRANTED);
        } else if !P::spin_until(&self.turn, SPIN_NS, |turn: usize| turn == GRANTED) {
            self.park();
        }
    }

    #[cold]
    fn park(&self) {
        let thread = P::thread();
        let address = core::ptr::from_ref(thread).expose_provenance();
        // Release: publishes the record to the thread before. Acquire: in case that thread was
        // quicker.
        let mut turn =
            self.turn.compare_exchange(WAITING, address, Ordering::Release, Ordering::Acquire);
        while turn != Err(GRANTED) {
            thread.park();
            turn = Err(self.turn.load(Ordering::Acquire));
        }
    }

    /// Gives the turn to this node's thread; then the node may be gone.
    #[inline(always)]
    fn grant<const PARKS: bool>(&self) {
        // Release: the section happens before the next one.
        if !PARKS {
            return self.turn.store(GRANTED, Ordering::Release);
        }
        // Acquire: the record is seen.
        let turn = self.turn.swap(GRANTED, Ordering::AcqRel);
        if turn != WAITING {
            // SAFETY: the word holds nothing else then.
            unsafe { parked_at::<P>(turn) }.unpark();
        }
    }
}

/// Releases the lock when dropped, even by a panic: the node is in a frame that unwinding takes
/// away.
struct Held<'a, P: Platform, const PARKS: bool> {
    lock: &'a Mcs<P, PARKS>,
    node: &'a Node<P>,
}

impl<P: Platform, const PARKS: bool> Mcs<P, PARKS> {
    #[inline(always)]
    fn acquire<'a>(&'a self, node: &'a Node<P>) -> Held<'a, P, PARKS> {
        let address = core::ptr::from_ref(node).expose_provenance();
        // Acquire: from whoever left the lock free. Release: publishes the node to the next in
        // line.
        let before = self.tail.swap(address, Ordering::AcqRel);
        if before != 0 {
            // SAFETY: the thread before cannot release without `next`, which only this thread
            // stores: the queue does not end at its node.
            unsafe { Node::<P>::at(before) }.next.store(address, Ordering::Release);
            node.wait::<PARKS>();
        }
        Held { lock: self, node }
    }
}

impl<P: Platform, const PARKS: bool> Drop for Held<'_, P, PARKS> {
    #[inline(always)]
    fn drop(&mut self) {
        let mut next = self.node.next.load(Ordering::Acquire);
        if next == 0 {
            // Release: the section happens before the next one.
            let own = self.node.address();
            let last =
                self.lock.tail.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
            if last.is_ok() {
                return;
            }
            // Another thread has come, and is about to store its node.
            spin_until::<P, _, _>(&self.node.next, |next: usize| next != 0);
            next = self.node.next.load(Ordering::Acquire);
        }
        // SAFETY: the next thread waits for this; then its node may be gone.
        unsafe { Node::<P>::at(next) }.grant::<PARKS>();
    }
}

impl<P: Platform, const PARKS: bool> BenchLock for Mcs<P, PARKS> {
    fn create() -> Self {
        Self { tail: P::AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let node = Node::new();
        let _held = self.acquire(&node);
        section()
    }
}
