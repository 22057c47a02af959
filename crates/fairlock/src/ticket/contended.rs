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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_comes_again_only_within_that_time() {
        let contended = Contended::new();
        let again = [1_000, 1_009, 1_018, 1_028, 1_030].map(|now| contended.again_within(10, now));
        assert_eq!(again, [false, true, true, false, true]);
    }
}
