//! What the tree lock guards of the stripes: whether they are made, and whether they are of use.
//!
//! Every so many ranges that met a closed stripe, or closed one, there must have been several
//! times as many that met an open one.

/// So many times as many ranges have to be had by stripes as are not.
const USES: u64 = 4;
/// Ranges that are not, for each stripe, before that is looked at: the look costs a
/// transfer of each line.
const MISSES: u64 = 8;

/// What has become of the stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::range) enum Made {
    No,
    /// They are made, or just being made, and are open for regions of that shift.
    For(u32),
    /// They have been in use, and are closed when they are not.
    Used,
}

/// What goes on for as long as the lock is striped.
pub(in crate::range) struct Striping {
    /// When it began.
    pub(super) since: u64,
    /// Ranges that met a closed stripe or closed one, since the last look.
    misses: u64,
    /// Ranges that were had by stripes, as of the last look.
    uses: u64,
}

impl Striping {
    /// It begins, when so many ranges were had by stripes before.
    pub(super) fn begin(now: u64, uses: u64) -> Self {
        Self { since: now, misses: 0, uses }
    }

    /// A range goes to the tree that might have been had by a stripe.
    pub(in crate::range) fn count_miss(&mut self) {
        self.misses += 1;
    }

    /// It is time to look whether so many stripes are of use.
    pub(super) fn is_due(&self, stripes: usize) -> bool {
        self.misses >= MISSES * stripes as u64
    }

    /// Whether they are, when so many ranges were had by them up to now.
    pub(super) fn is_useful(&mut self, uses: u64) -> bool {
        let is_useful = uses.wrapping_sub(self.uses) >= USES * self.misses;
        (self.uses, self.misses) = (uses, 0);
        is_useful
    }
}
