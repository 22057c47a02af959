//! The test-and-set lock: the quickest thread has it. A waiter looks before it tries, so that the
//! holder keeps its cache line.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use super::spin_until;
use crate::locks::RwBench;

pub struct TestAndSet<P: Platform> {
    /// 1 while somebody holds the lock.
    locked: P::AtomicU32,
}

impl<P: Platform> TestAndSet<P> {
    #[inline(always)]
    pub(super) fn try_acquire(&self) -> bool {
        self.locked.swap(1, Ordering::Acquire) == 0
    }

    /// Takes the lock as soon as this thread is the quickest.
    pub(super) fn acquire_contended(&self) {
        loop {
            spin_until::<P, _, _>(&self.locked, |locked| locked == 0);
            if self.try_acquire() {
                return;
            }
        }
    }

    /// Only for the holder: otherwise the next owner would come in beside it.
    #[inline(always)]
    pub(super) fn release(&self) {
        self.locked.store(0, Ordering::Release);
    }
}

impl<P: Platform> RwBench for TestAndSet<P> {
    fn new() -> Self {
        Self { locked: P::AtomicU32::new(0) }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if !self.try_acquire() {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        self.release();
    }
}

/// The same lock with waiters that sleep, as those of folly's `MicroSpinLock`: for half a millisecond before each
/// look, once they have spun for 4,000 pauses.
pub struct Napping<P: Platform> {
    lock: TestAndSet<P>,
}

const PAUSES: u64 = 4_000;
/// How long these take is told by so many of them.
const TIMED: u64 = 16;
const NAP_NS: u64 = 500_000;

impl<P: Platform> Napping<P> {
    #[cold]
    fn acquire_contended(&self) {
        let began = P::now();
        (0..TIMED).for_each(|_| P::pause());
        let bound = (P::now() - began) * (PAUSES / TIMED);
        loop {
            let left = bound.saturating_sub(P::now() - began);
            let is_seen_free = if left > 0 {
                P::spin_until(&self.lock.locked, left, |locked| locked == 0)
            } else {
                // Nobody wakes it.
                P::wait(&P::AtomicU32::new(0), 0, Some(P::now() + NAP_NS), false);
                // Relaxed: a look.
                self.lock.locked.load(Ordering::Relaxed) == 0
            };
            if is_seen_free && self.lock.try_acquire() {
                return;
            }
        }
    }
}

impl<P: Platform> RwBench for Napping<P> {
    fn new() -> Self {
        Self { lock: TestAndSet::new() }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if !self.lock.try_acquire() {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        self.lock.release();
    }
}
