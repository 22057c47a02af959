//! What the slow paths count.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Events of the slow paths, named as the paravirtual ticket lock named them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A waiter gave up spinning.
    TakenSlow,
    /// The lock came free between its last look and parking.
    TakenSlowPickup,
    /// A release found parked waiters.
    ReleasedSlow,
    /// A parked waiter was kicked.
    ReleasedSlowKicked,
}

// The processor's own atomics on every platform: they order nothing, and a
// model checker need not explore them.
static ON: AtomicBool = AtomicBool::new(false);
static COUNTS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

#[inline]
pub(super) fn count(event: Event) {
    // Relaxed, here and below: statistics.
    if ON.load(Ordering::Relaxed) {
        COUNTS[event as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Switches counting on or off, for all locks of the process. Off at first.
pub fn set_counting(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// How often `event` was counted.
pub fn counted(event: Event) -> u64 {
    COUNTS[event as usize].load(Ordering::Relaxed)
}
