//! How long a waiting range may be overtaken.

use core::time::Duration;

use crate::wait::WAKE_NS;

/// How long waiters of a [`RangeRwLock`](super::RangeRwLock) may be overtaken. Each lock has its
/// own policy; a policy can be a `const`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangePolicy {
    /// For how long running threads may overtake a waiter whose range overlaps theirs. Zero: never.
    /// [`Duration::MAX`]: for ever, so the waiter may starve.
    ///
    /// While `n` threads wait, the lock allows at least `n` x 600 µs: letting a thread in from the
    /// queue costs the others about 30 µs, and that should take no more than a twentieth of the
    /// time.
    pub overtaken_for: Duration,
}

impl RangePolicy {
    /// A waiter may be overtaken for 4 ms. Nearly as fast as an unfair lock.
    pub const DEFAULT: Self = Self { overtaken_for: Duration::from_millis(4) };
    /// First come, first served among overlapping ranges, as published. With more threads than CPUs
    /// every conflict costs a context switch.
    pub const FIFO: Self = Self { overtaken_for: Duration::ZERO };

    pub(super) const fn is_fifo(&self) -> bool {
        self.overtaken_for.is_zero()
    }

    /// Until when a waiter that came at `arrived`, one of `waiters`, may be overtaken. `None`: for
    /// ever.
    pub(super) fn patience_end(&self, arrived: u64, waiters: usize) -> Option<u64> {
        let least = u64::try_from(self.overtaken_for.as_nanos()).ok()?;
        arrived.checked_add(least.max(waiters as u64 * HANDOFF_SHARE))
    }
}

/// The time between two waiters that are let in from the queue. A waiter that is late by this much
/// has no CPU: if it was awake and has not looked since, others are woken, too; if it should have
/// queued, a thread that notices queues it.
pub(super) const HANDOFF_SHARE: u64 = 12 * WAKE_NS;

impl Default for RangePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}
