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
