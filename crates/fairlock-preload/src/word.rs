//! Words of an rwlock of which parts mean different things.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What an rwlock is, most likely.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form(pub(crate) u32);

impl Form {
    /// Mostly taken in one step.
    pub(crate) const PLAIN: Self = Self(0);
    /// Writers come first, and had to wait: readers look whether such writers are announced.
    pub(crate) const ANNOUNCED: Self = Self(1);
    /// Nobody should try to write its word, as all read that.
    pub(crate) const VISIBLE: Self = Self(2);
}

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

/// What readers have seen of a lock, at which nothing moves.
///
/// | bits | meaning |
/// |---|---|
/// | 0-39 | since when, in microseconds |
/// | 40-63 | the low bits of how many turns there had been |
#[derive(Default)]
pub(crate) struct Still(AtomicU64);

const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;

impl Still {
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
        let (still, turns) = (Still::default(), Turns(AtomicU32::new(0)));
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
