//! The batched ticket spinlock (placeholder for first light: test and set).

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, ConstZero, Platform};

/// A ticket lock whose tickets are served in batches.
pub struct BatchedTicketLock<P: Platform, const BATCH: u32 = 8> {
    word: P::AtomicU64,
}

impl<P: Platform, const BATCH: u32> BatchedTicketLock<P, BATCH> {
    pub fn new() -> Self {
        Self { word: P::AtomicU64::new(0) }
    }
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
        P::AtomicUsize: ConstZero,
    {
        Self { word: ConstZero::ZERO }
    }
    pub fn lock(&self) {
        let mut n = 0u32;
        while self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            n += 1;
            if n % 100 == 0 {
                P::wait(&P::AtomicU32::new(0), 0, Some(P::now() + 1000), false);
            }
            P::pause();
        }
    }
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock(&self) {
        self.word.store(0, Ordering::Release);
    }
}
