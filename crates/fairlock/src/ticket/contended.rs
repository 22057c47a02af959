//! Whether a thread meets more threads at ticket locks than there are CPUs.

use core::cell::Cell;

/// When the thread last came to a ticket lock that more threads wanted than there are CPUs. Used by
/// that thread only.
pub(crate) struct Contended(Cell<u64>);

impl Contended {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(0))
    }

    /// Notes that the thread came to such a lock. Returns whether it also did so less than `ns` ago.
    pub(super) fn again_within(&self, ns: u64, now: u64) -> bool {
        now.wrapping_sub(self.0.replace(now)) < ns
    }
}
