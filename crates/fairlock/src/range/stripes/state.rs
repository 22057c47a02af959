//! The state of the stripes that the tree lock guards: whether they exist, and whether they are of
//! use.
//!
//! Striping is of use if, since the last look, several times as many ranges were held in stripes as
//! met a closed stripe, or closed one. The look is due when there were enough of the latter.

/// How many times as many ranges have to be had by stripes as are not. In ranges had by stripes for
/// each that was not; compared with what was counted since the last look.
const USES: u64 = 4;
/// How many ranges that are not, for each stripe, make a look due: it costs a transfer of each
/// line. In ranges for each stripe; compared with those that went to the tree since the last look.
const MISSES: u64 = 8;

/// What was done with the stripes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::range) enum Made {
    No,
    /// They are made, or just being made, and are open for regions of this shift.
    For(u32),
    /// They have been in use, and are closed while the lock is not striped.
    Used,
}

/// What goes on for as long as the lock is striped.
pub(in crate::range) struct Striping {
    /// When striping began.
    pub(super) since: u64,
    /// Ranges that met a closed stripe or closed one, since the last look.
    misses: u64,
    /// Ranges that were had by stripes, as of the last look.
    uses: u64,
}

impl Striping {
    /// Striping begins, after `uses` ranges had been had by stripes.
    pub(super) fn begin(now: u64, uses: u64) -> Self {
        Self { since: now, misses: 0, uses }
    }

    /// A range goes to the tree that a stripe might have held.
    pub(in crate::range) fn count_miss(&mut self) {
        self.misses += 1;
    }

    /// Whether it is time to look whether the stripes, so many of them, are of use.
    pub(super) fn is_due(&self, stripes: usize) -> bool {
        self.misses >= MISSES * stripes as u64
    }

    /// Whether they are, where `uses` ranges were had by them up to now.
    pub(super) fn is_useful(&mut self, uses: u64) -> bool {
        let is_useful = uses.wrapping_sub(self.uses) >= USES * self.misses;
        (self.uses, self.misses) = (uses, 0);
        is_useful
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_of_use_if_most_ranges_are_had_by_them() {
        let mut striping = Striping::begin(0, 100);
        let mut look = |misses, uses| {
            (0..misses).for_each(|_| striping.count_miss());
            (striping.is_due(2), striping.is_useful(uses))
        };
        assert_eq!(look(15, 100 + 60), (false, true));
        assert_eq!(look(16, 160 + 63), (true, false), "of the last ones only");
        assert_eq!(look(16, 223 + 64), (true, true));
    }
}
