//! The word of a semaphore.

use core::sync::atomic::Ordering;

#[cfg(fairlock_loom)]
use crate::platform::Atomic;
use crate::platform::{Native, System};

/// A value of the word.
///
/// | bits | |
/// |---|---|
/// | 0-31 | permits that are free |
/// | 32 | `ASLEEP`: the first sleeps until there are as many permits as it wants |
/// | 33-63 | how many sleeps have begun |
#[derive(Clone, Copy)]
pub(super) struct State(u64);

const PERMITS: u64 = u32::MAX as u64;
const ASLEEP: u64 = 1 << 32;
const SLEEP: u64 = 1 << 33;

impl State {
    #[inline]
    pub(super) fn permits(self) -> u32 {
        (self.0 & PERMITS) as u32
    }

    /// Whether so many permits are free.
    #[inline]
    pub(super) fn has(self, count: u32) -> bool {
        self.permits() >= count
    }

    #[inline]
    pub(super) fn is_asleep(self) -> bool {
        self.0 & ASLEEP != 0
    }

    /// None if there would be more than can be counted.
    pub(super) fn with_more(self, count: u32) -> Option<Self> {
        self.permits().checked_add(count).map(|_| Self(self.0 + u64::from(count)))
    }

    /// It [has](Self::has) as many.
    #[inline]
    pub(super) fn with_fewer(self, count: u32) -> Self {
        Self(self.0 - u64::from(count))
    }

    /// Another sleep begins.
    pub(super) fn asleep(self) -> Self {
        Self((self.0 | ASLEEP).wrapping_add(SLEEP))
    }

    pub(super) fn awake(self) -> Self {
        Self(self.0 & !ASLEEP)
    }
}

/// The word in memory.
pub(super) struct AtomicState(<Native as System>::AtomicU64);

impl AtomicState {
    #[cfg(not(fairlock_loom))]
    pub(super) const fn new(permits: u32) -> Self {
        Self(core::sync::atomic::AtomicU64::new(permits as u64))
    }

    #[cfg(fairlock_loom)]
    pub(super) fn new(permits: u32) -> Self {
        Self(Atomic::new(permits.into()))
    }

    #[inline]
    pub(super) fn load(&self, order: Ordering) -> State {
        State(self.0.load(order))
    }

    /// AcqRel: see the module documentation of the semaphore.
    #[inline]
    pub(super) fn exchange(&self, word: State, next: State) -> Result<(), State> {
        let exchanged =
            self.0.compare_exchange(word.0, next.0, Ordering::AcqRel, Ordering::Acquire);
        exchanged.map(|_| ()).map_err(State)
    }

    /// The first does not sleep any more.
    pub(super) fn wake(&self, order: Ordering) {
        self.0.fetch_and(!ASLEEP, order);
    }
}
