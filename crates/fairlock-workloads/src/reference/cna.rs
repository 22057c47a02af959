//! The queued spinlock of Linux, and its NUMA-aware variant, the compact NUMA-aware lock (CNA; Dice and Kogan,
//! 2019), after the description of its last version for Linux (2021). Waiters form a queue; its head
//! takes the lock as soon as that is free. With `NEAR` the head uses the time until then: it moves
//! waiters behind it that are of other sockets to a second queue, until the next one is of its own
//! socket, which the next head prefers, too. The second queue goes first when nobody else waits, and
//! once it has waited for 10 ms.
//!
//! What it leaves out of Linux: the bit that spares the first waiter the queue, and that the lock and
//! the queue's end are one word.

use core::sync::atomic::Ordering;

use fairlock::platform::Atomic;

use super::{Asks, spin_until};
use crate::locks::RwBench;

/// How long the lock is handed on in one socket while the second queue waits (Linux'
/// `numa_spinlock_threshold`).
const NEAR_NS: u64 = 10_000_000;

pub struct Cna<P: Asks, const NEAR: bool> {
    /// 1 while somebody holds the lock.
    locked: P::AtomicU32,
    /// The address of the last node in the queue; zero if there is none.
    tail: P::AtomicUsize,
}

/// A waiter, in its frame. Relaxed, unless said otherwise: only the head of the queue reads and writes others' nodes,
/// and `turn` makes one head happen before the next.
struct Node<P: Asks> {
    /// The address of the node behind this one. In the last node of the second queue: that of the first.
    next: P::AtomicUsize,
    /// Zero until this is the head; then [`HEAD`], or the address of the last node of the second
    /// queue.
    turn: P::AtomicUsize,
    /// The socket of its thread, or the one that the head prefers.
    socket: P::AtomicUsize,
    /// Since when the second queue waits, if it does.
    since: P::AtomicU64,
}

const HEAD: usize = 1;

impl<P: Asks> Node<P> {
    fn new(socket: usize) -> Self {
        let [next, turn, socket] = [0, 0, socket].map(P::AtomicUsize::new);
        Self { next, turn, socket, since: P::AtomicU64::new(0) }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).expose_provenance()
    }

    /// # Safety
    /// The node at `address` is in a queue, or its thread waits for a node behind its own.
    unsafe fn at<'a>(address: usize) -> &'a Self {
        // SAFETY: its thread stays until it has been the head.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Makes `next` the head. Release: see above.
    fn leave_to(next: &Self, second: usize) {
        next.turn.store(second.max(HEAD), Ordering::Release);
    }
}

impl<P: Asks, const NEAR: bool> Cna<P, NEAR> {
    fn try_acquire(&self) -> bool {
        // Acquire: what was done under the lock before.
        self.locked.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn acquire_contended(&self) {
        let node = Node::<P>::new(if NEAR { P::socket() } else { 0 });
        // Release: publishes the node. Acquire: of the node before.
        let before = self.tail.swap(node.address(), Ordering::AcqRel);
        let mut second = 0;
        if before != 0 {
            // SAFETY: the thread before waits for this store: the queue does not end with its node.
            unsafe { Node::<P>::at(before) }.next.store(node.address(), Ordering::Release);
            spin_until::<P, _, _>(&node.turn, |turn| turn != 0);
            second =
                Some(node.turn.load(Ordering::Acquire)).filter(|&turn| turn != HEAD).unwrap_or(0);
        }
        loop {
            if NEAR {
                second = self.order(&node, second);
            }
            spin_until::<P, _, _>(&self.locked, |locked| locked == 0);
            if self.try_acquire() {
                break;
            }
        }
        self.leave(&node, second);
    }

    /// The head moves waiters of other sockets to the second queue, while the lock is held. Returns the last node of that.
    fn order(&self, node: &Node<P>, mut second: usize) -> usize {
        // Acquire, here and below: the node is seen as its thread has published it.
        while self.locked.load(Ordering::Relaxed) != 0 {
            let next = node.next.load(Ordering::Acquire);
            // SAFETY: in the queue.
            let Some(other) = (next != 0).then(|| unsafe { Node::<P>::at(next) }) else { break };
            let behind = other.next.load(Ordering::Acquire);
            let is_near =
                other.socket.load(Ordering::Relaxed) == node.socket.load(Ordering::Relaxed);
            if is_near || behind == 0 {
                break;
            }
            node.next.store(behind, Ordering::Relaxed);
            if second == 0 {
                other.next.store(next, Ordering::Relaxed);
                node.since.store(P::now(), Ordering::Relaxed);
            } else {
                // SAFETY: what is in the second queue waits.
                let last = unsafe { Node::<P>::at(second) };
                other.next.store(last.next.load(Ordering::Relaxed), Ordering::Relaxed);
                last.next.store(next, Ordering::Relaxed);
            }
            second = next;
        }
        second
    }

    /// The head has the lock, and makes another waiter the head.
    fn leave(&self, node: &Node<P>, second: usize) {
        // SAFETY: what is in the second queue waits.
        let last = (second != 0).then(|| unsafe { Node::<P>::at(second) });
        let first = last.map(|last| last.next.load(Ordering::Relaxed));
        if node.next.load(Ordering::Acquire) == 0 {
            // The second queue goes on as the first one: its last node has none behind it.
            if let Some(last) = last {
                last.next.store(0, Ordering::Relaxed);
            }
            // Release: the links.
            let own = node.address();
            if self.tail.compare_exchange(own, second, Ordering::Release, Ordering::Relaxed).is_ok()
            {
                if let Some(first) = first {
                    // SAFETY: as above.
                    Node::leave_to(unsafe { Node::<P>::at(first) }, 0);
                }
                return;
            }
            spin_until::<P, _, _>(&node.next, |next: usize| next != 0);
        }
        let next = node.next.load(Ordering::Acquire);
        // SAFETY: in the queue.
        let near = unsafe { Node::<P>::at(next) };
        let (Some(last), Some(first)) = (last, first) else { return Node::leave_to(near, 0) };
        let since = node.since.load(Ordering::Relaxed);
        if P::now().wrapping_sub(since) < NEAR_NS {
            last.next.store(first, Ordering::Relaxed);
            near.since.store(since, Ordering::Relaxed);
            // Also if `near` is of another socket: the queue is sorted bit by bit.
            near.socket.store(node.socket.load(Ordering::Relaxed), Ordering::Relaxed);
            Node::leave_to(near, second);
        } else {
            last.next.store(next, Ordering::Relaxed);
            // SAFETY: as above.
            Node::leave_to(unsafe { Node::<P>::at(first) }, 0);
        }
    }
}

impl<P: Asks, const NEAR: bool> RwBench for Cna<P, NEAR> {
    fn new() -> Self {
        Self { locked: P::AtomicU32::new(0), tail: P::AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if self.tail.load(Ordering::Relaxed) != 0 || !self.try_acquire() {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // Release: the section happens before the next one.
        self.locked.store(0, Ordering::Release);
    }
}
