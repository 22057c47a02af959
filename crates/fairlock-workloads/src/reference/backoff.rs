//! Spinlocks on one word that stand back after an attempt in vain, longer each time: so that fewer
//! CPUs ask for the line while it is released.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use crate::locks::RwBench;

/// How long to stand back: twice as long each time.
pub struct Backoff<P> {
    pauses: u32,
    most: u32,
    platform: PhantomData<P>,
}

impl<P: Platform> Backoff<P> {
    /// Begins with one pause, and ends with `most`.
    pub fn new(most: u32) -> Self {
        Self { pauses: 1, most, platform: PhantomData }
    }

    pub fn stand_back(&mut self) {
        (0..self.pauses).for_each(|_| P::pause());
        self.pauses = self.most.min(2 * self.pauses);
    }
}

/// `LOOKS`: a thread loads the word, and tries only if the lock is free; without, each attempt is a
/// compare-exchange, which takes the line away from the holder. `MOST`: the longest time to
/// stand back, in pauses.
pub struct BackingOff<P: Platform, const LOOKS: bool, const MOST: u32> {
    /// 1 while somebody holds the lock.
    locked: P::AtomicU32,
}

impl<P: Platform, const LOOKS: bool, const MOST: u32> RwBench for BackingOff<P, LOOKS, MOST> {
    fn new() -> Self {
        Self { locked: P::AtomicU32::new(0) }
    }

    #[inline(always)]
    fn write_lock(&self) {
        let mut backoff = Backoff::<P>::new(MOST);
        loop {
            // Relaxed: a guess.
            let is_free = !LOOKS || self.locked.load(Ordering::Relaxed) == 0;
            // Acquire: what was done under the lock before.
            let take = || self.locked.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            if is_free && take().is_ok() {
                return;
            }
            backoff.stand_back();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // Release: the section happens before the next one.
        self.locked.store(0, Ordering::Release);
    }
}
