//! The queue lock of Mellor-Crummey and Scott: in order of arrival, each waiter spinning on a node
//! in its own frame. Where threads outnumber CPUs, it is better if a waiter parks after a while,
//! and is kicked by the thread before it.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform, Thread};

use super::{SPIN_NS, parked_at, spin_until};
use crate::locks::BenchLock;

/// How waiters of a queue wait.
pub trait Style: Send + Sync + 'static {
    /// Waiters park once they have spun for [`SPIN_NS`].
    const PARKS: bool;
}

/// Waiters spin, in order of arrival.
pub struct Spins;

/// Waiters park once they have spun for long, in order of arrival.
pub struct Parks;

impl Style for Spins {
    const PARKS: bool = false;
}

impl Style for Parks {
    const PARKS: bool = true;
}

pub struct Mcs<P: Platform, S: Style> {
    /// The address of the last node in the queue, the holder's included; zero if
    /// the lock is free.
    tail: P::AtomicUsize,
    style: PhantomData<S>,
}

/// A thread's place in the queue.
struct Node<P: Platform, S> {
    /// The address of the node behind this one, once that node's thread has stored it.
    next: P::AtomicUsize,
    /// [`WAITING`], or the address of its thread's record if that has parked;
    /// [`GRANTED`] once the thread before has released the lock.
    turn: P::AtomicUsize,
    style: PhantomData<S>,
}

const WAITING: usize = 0;
const GRANTED: usize = 1;

impl<P: Platform, S: Style> Node<P, S> {
    fn new() -> Self {
        Self {
            next: P::AtomicUsize::new(0),
            turn: P::AtomicUsize::new(WAITING),
            style: PhantomData,
        }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).expose_provenance()
    }

    /// # Safety
    /// `address` is that of a node whose thread has not released the lock yet.
    unsafe fn at<'a>(address: usize) -> &'a Self {
        // SAFETY: a node stays where it is until its thread has released.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Queues behind the node at `before`, and waits for its thread.
    ///
    /// # Safety
    /// That thread cannot release the lock without `next`, which only this thread stores.
    #[inline(always)]
    unsafe fn follow(&self, before: usize) {
        // Release: publishes the node. SAFETY: the caller's promise.
        unsafe { Self::at(before) }.next.store(self.address(), Ordering::Release);
        if !S::PARKS {
            spin_until::<P, _, _>(&self.turn, |turn| turn != WAITING);
        } else if !P::spin_until(&self.turn, SPIN_NS, |turn: usize| turn == GRANTED) {
            self.park();
        }
    }

    /// Leaves the lock free if the queue ends with this node.
    fn ends(&self, tail: &P::AtomicUsize) -> bool {
        // Release: the section happens before the next one.
        tail.compare_exchange(self.address(), 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The address of the node behind this one, whose thread is about to store it.
    fn next(&self) -> usize {
        spin_until::<P, _, _>(&self.next, |next: usize| next != 0);
        self.next.load(Ordering::Acquire)
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
            Thread::<P>::park();
            turn = Err(self.turn.load(Ordering::Acquire));
        }
    }

    /// Gives the turn to this node's thread; then the node may be gone.
    #[inline(always)]
    fn grant(&self) {
        // Release: the section happens before the next one.
        if !S::PARKS {
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
struct Held<'a, P: Platform, S: Style> {
    lock: &'a Mcs<P, S>,
    node: &'a Node<P, S>,
}

impl<P: Platform, S: Style> Mcs<P, S> {
    #[inline(always)]
    fn acquire<'a>(&'a self, node: &'a Node<P, S>) -> Held<'a, P, S> {
        // Acquire: from whoever left the lock free. Release: publishes the node to the next in
        // line.
        let before = self.tail.swap(node.address(), Ordering::AcqRel);
        if before != 0 {
            // SAFETY: the queue does not end at that node.
            unsafe { node.follow(before) };
        }
        Held { lock: self, node }
    }
}

impl<P: Platform, S: Style> Drop for Held<'_, P, S> {
    #[inline(always)]
    fn drop(&mut self) {
        let mut next = self.node.next.load(Ordering::Acquire);
        if next == 0 {
            if self.node.ends(&self.lock.tail) {
                return;
            }
            next = self.node.next();
        }
        // SAFETY: the next thread waits for this; then its node may be gone.
        unsafe { Node::<P, S>::at(next) }.grant();
    }
}

impl<P: Platform, S: Style> BenchLock for Mcs<P, S> {
    fn create() -> Self {
        Self { tail: P::AtomicUsize::new(0), style: PhantomData }
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let node = Node::new();
        let _held = self.acquire(&node);
        section()
    }
}
