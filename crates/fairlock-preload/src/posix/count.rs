//! How many threads do something, kept in the program's bytes.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::process::fork;

/// The number, and in the upper half the process whose threads they are: those of another process
/// are not here. Relaxed throughout: no other memory is read on the strength of it.
#[repr(transparent)]
pub(super) struct Count(AtomicU64);

const PROCESS_SHIFT: u32 = 32;

impl Count {
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word != 0 && count(word) > 0
    }

    pub(super) fn add(&self) {
        self.change(|count| count + 1);
    }

    pub(super) fn remove(&self) {
        self.change(|count| count.saturating_sub(1));
    }

    /// Sets the count to zero.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn change(&self, change: impl Fn(u32) -> u32) {
        let here = u64::from(fork::number()) << PROCESS_SHIFT;
        let next = |word| Some(here | u64::from(change(count(word))));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

fn count(word: u64) -> u32 {
    if word >> PROCESS_SHIFT == u64::from(fork::number()) { word as u32 } else { 0 }
}
