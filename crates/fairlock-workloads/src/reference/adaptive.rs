//! The adaptive mutex of C libraries: a thread tries for as long as it has lately taken to get the
//! mutex that way, and then sleeps. After the description of `PTHREAD_MUTEX_ADAPTIVE_NP`.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use super::futex::FutexMutex;
use crate::locks::RwBench;

/// The most attempts before a thread sleeps (glibc's `glibc.pthread.mutex_spin_count`).
const MOST: u32 = 100;
/// Attempts are at most twice as many as they were lately, and so many more.
const MORE: u32 = 10;
/// The last acquisition counts for one part of so many in how many attempts there were lately.
const PARTS: u32 = 8;

pub struct Adaptive<P: Platform> {
    mutex: FutexMutex<P, 0>,
    /// How many attempts there were lately. Changed by the holder.
    lately: P::AtomicU32,
}

impl<P: Platform> RwBench for Adaptive<P> {
    fn new() -> Self {
        Self { mutex: FutexMutex::new(), lately: P::AtomicU32::new(0) }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if self.mutex.take() {
            return;
        }
        // Relaxed, here and below: a habit orders nothing.
        let lately = self.lately.load(Ordering::Relaxed);
        let most = MOST.min(2 * lately + MORE);
        let attempts = (1..=most).find(|_| {
            P::pause();
            self.mutex.is_free() && self.mutex.take()
        });
        if attempts.is_none() {
            self.mutex.write_lock();
        }
        let change = i64::from(attempts.unwrap_or(most)) - i64::from(lately);
        let lately = i64::from(lately) + change / i64::from(PARTS);
        self.lately.store(lately as u32, Ordering::Relaxed);
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.mutex.write_unlock() }
    }
}
