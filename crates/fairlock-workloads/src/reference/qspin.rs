//! The queued spinlock of Linux, after its description: one word for all. The first waiter spins on
//! that word; further ones queue as in an MCS lock, and the head of the queue spins on the word.
//! Linux stores a byte to release, and swaps the half of the word with the queue's end; here both are
//! read-modify-writes of the word.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use super::mcs::{Node, Spins};
use super::spin_until;
use crate::locks::RwBench;

pub struct QueuedSpin<P: Platform> {
    /// [`LOCKED`], [`PENDING`], and the address of the last node in the queue.
    word: P::AtomicUsize,
}

const LOCKED: usize = 1;
/// A waiter that is not in the queue has the lock next.
const PENDING: usize = 2;
const TAIL: usize = !(LOCKED | PENDING);

impl<P: Platform> QueuedSpin<P> {
    fn change(&self, from: usize, to: usize, order: Ordering) -> Result<usize, usize> {
        self.word.compare_exchange(from, to, order, Ordering::Relaxed)
    }

    #[cold]
    fn acquire_contended(&self) {
        // Relaxed: gives nothing yet.
        if self.change(LOCKED, LOCKED | PENDING, Ordering::Relaxed).is_ok() {
            spin_until::<P, _, _>(&self.word, |word| word & LOCKED == 0);
            // Nobody else changes these bits meanwhile. Acquire: it has the lock.
            self.word.fetch_sub(PENDING - LOCKED, Ordering::Acquire);
            return;
        }
        let node = Node::<P, Spins>::new();
        let own = node.address();
        let mut seen = self.word.load(Ordering::Relaxed);
        // Acquire: of the node before. Release: publishes the node to the next in line.
        while let Err(now) = self.change(seen, own | seen & !TAIL, Ordering::AcqRel) {
            seen = now;
        }
        if seen & TAIL != 0 {
            // SAFETY: the thread before stays until it has seen the node behind its own: the queue
            // does not end at its node.
            unsafe { node.follow(seen & TAIL) };
        }
        // Only the head of the queue takes the lock from here on. Acquire: it has the lock.
        spin_until::<P, _, _>(&self.word, |word| word & !TAIL == 0);
        if self.change(own, LOCKED, Ordering::Acquire).is_err() {
            self.word.fetch_or(LOCKED, Ordering::Acquire);
            let next = node.next();
            // SAFETY: that thread waits for this; then its node may be gone.
            unsafe { Node::<P, Spins>::at(next) }.grant();
        }
    }
}

impl<P: Platform> RwBench for QueuedSpin<P> {
    fn new() -> Self {
        Self { word: P::AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if self.change(0, LOCKED, Ordering::Acquire).is_err() {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // Release: the section happens before the next one.
        self.word.fetch_sub(LOCKED, Ordering::Release);
    }
}
