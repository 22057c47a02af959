//! The queue lock of Mellor-Crummey and Scott: in order of arrival, each waiter
//! spinning on a node in its own frame.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use super::spin_until;
use crate::locks::BenchMutex;

pub struct Mcs<P: Platform> {
    /// The address of the last node in the queue, the holder's included; zero if
    /// the lock is free.
    tail: P::AtomicUsize,
}

/// A thread's place in the queue.
struct Node<P: Platform> {
    /// The address of the node behind this one, once that thread has said so.
    next: P::AtomicUsize,
    /// 1 once the thread before has released the lock.
    granted: P::AtomicU32,
}

impl<P: Platform> Node<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), granted: P::AtomicU32::new(0) }
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
}

/// Releases the lock when dropped, also by a panic: the node is in a frame that
/// the unwinding takes away.
struct Held<'a, P: Platform> {
    lock: &'a Mcs<P>,
    node: &'a Node<P>,
}

impl<P: Platform> Mcs<P> {
    #[inline(always)]
    fn acquire<'a>(&'a self, node: &'a Node<P>) -> Held<'a, P> {
        let address = core::ptr::from_ref(node).expose_provenance();
        // Acquire: of a free lock. Release: the node, for the next in line.
        let before = self.tail.swap(address, Ordering::AcqRel);
        if before != 0 {
            // SAFETY: the thread before cannot release without `next`, which it
            // has from us: the queue does not end at its node.
            unsafe { Node::<P>::at(before) }.next.store(address, Ordering::Release);
            spin_until::<P, _, _>(&node.granted, |granted| granted == 1);
        }
        Held { lock: self, node }
    }
}

impl<P: Platform> Drop for Held<'_, P> {
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
            // Somebody has come, and is about to say so.
            spin_until::<P, _, _>(&self.node.next, |next: usize| next != 0);
            next = self.node.next.load(Ordering::Acquire);
        }
        // SAFETY: the next thread waits for this; then its node may be gone.
        unsafe { Node::<P>::at(next) }.granted.store(1, Ordering::Release);
    }
}

impl<P: Platform> BenchMutex for Mcs<P> {
    fn create() -> Self {
        Self { tail: P::AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        let node = Node::new();
        let _held = self.acquire(&node);
        section()
    }
}
