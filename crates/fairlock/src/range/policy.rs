//! How long a waiting range may be overtaken.

use core::time::Duration;

/// What a [`RangeRwLock`](super::RangeRwLock) promises those that wait. Per lock,
/// `const`-constructible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangePolicy {
    /// How long running threads may overtake a waiting one whose range overlaps
    /// theirs; from then on nobody may. Zero: nobody ever may.
    ///
    /// With `n` threads waiting it is at least `n` x 600 us: a thread that is let
    /// in from the queue costs the others some 30 us, and that is not to be more
    /// than a twentieth of the time. [`Duration::MAX`]: for ever.
    pub overtaken_for: Duration,
}

impl RangePolicy {
    /// Bounded overtaking, for 4 ms: nearly the speed of an unfair lock.
    pub const DEFAULT: Self = Self { overtaken_for: Duration::from_millis(4) };
    /// First come, first served among ranges that overlap, as published. With
    /// more threads than CPUs that is a context switch for every conflict.
    pub const FIFO: Self = Self { overtaken_for: Duration::ZERO };

    pub(super) const fn is_fifo(&self) -> bool {
        self.overtaken_for.is_zero()
    }

    /// Until when one of `waiters` may be overtaken that arrived then. `None`: for ever.
    pub(super) fn patience_end(&self, arrived: u64, waiters: usize) -> Option<u64> {
        let least = u64::try_from(self.overtaken_for.as_nanos()).ok()?;
        arrived.checked_add(least.max(waiters as u64 * HANDOFF_SHARE_NS))
    }
}

/// Time to work between two waiters that are let in from the queue.
const HANDOFF_SHARE_NS: u64 = 600_000;

impl Default for RangePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}
