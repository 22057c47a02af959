//! For how long nothing has moved at a lock.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts writers that got in. Only these store, one at a time.
#[repr(transparent)]
pub(crate) struct Turns(AtomicU32);

impl Turns {
    // Relaxed throughout: a thread that is misled waits for longer, or not for as long.

    pub(crate) fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into()
    }
}

/// What readers have seen of a lock: how many turns there had been, and since when.
#[repr(transparent)]
pub(crate) struct Still(AtomicU64);

/// The time in microseconds, below the low bits of the number of turns.
const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;

impl Still {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A reader has to wait. Returns for how many nanoseconds no turn has begun, as far as readers
    /// know.
    pub(crate) fn note(&self, turns: &Turns, now: u64) -> u64 {
        let (turns, now) = (turns.get() << TIME_BITS, (now / 1000) & TIME);
        let seen = self.0.load(Ordering::Relaxed);
        if seen == 0 || seen & !TIME != turns {
            self.0.store(turns | now.max(1), Ordering::Relaxed);
            return 0;
        }
        (now.wrapping_sub(seen) & TIME) * 1000
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_a_new_beginning() {
        let (still, turns) = (Still::new(), Turns(AtomicU32::new(0)));
        assert_eq!(still.note(&turns, 5_000), 0);
        assert_eq!(still.note(&turns, 9_000), 4_000);
        turns.count();
        assert_eq!(still.note(&turns, 20_000), 0);
        assert_eq!(still.note(&turns, 21_000), 1_000);
        turns.0.store(u32::MAX, Ordering::Relaxed);
        turns.count();
        assert_eq!(still.note(&turns, (1 << 40) * 1000 + 22_000), 0, "both have wrapped");
    }
}
