//! Regions of equal size, the stripes they belong to, and how many ranges of the
//! tree touch each: the arithmetic of `stripes`, under the tree lock.

use alloc::vec;
use alloc::vec::Vec;

use crate::range::span::Span;

/// The stripe of a region. Neighbours are far from each other, and so are most regions
/// at a regular distance (Fibonacci hashing: Knuth, volume 3, section 6.4).
#[inline(always)]
pub(in crate::range) fn stripe_of(region: u64, stripes: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    // The high half of the product with the hash, as a fraction, times the number of stripes.
    let hash = region.wrapping_mul(GOLDEN) >> 32;
    ((hash * stripes as u64) >> 32) as usize
}

/// The smallest shift for which the range is no longer than a region.
pub(in crate::range) fn least_shift(span: Span) -> u32 {
    u64::BITS - (span.last() - span.start()).leading_zeros()
}

/// What the tree has in the regions of each stripe.
pub(in crate::range) struct Regions {
    shift: u32,
    /// How many ranges of the tree touch each stripe, counted once for each of their regions, and
    /// how many slots of it have holders with an entry in the tree.
    touching: Vec<u32>,
    /// Whether each stripe is closed.
    closed: Vec<bool>,
    /// Stripes that are closed, perhaps for nobody.
    unsettled: Vec<usize>,
}

impl Regions {
    /// All stripes open, or all closed.
    pub(in crate::range) fn new(shift: u32, stripes: usize, are_open: bool) -> Self {
        Self {
            shift,
            touching: vec![0; stripes],
            closed: vec![!are_open; stripes],
            unsettled: if are_open { Vec::new() } else { (0..stripes).collect() },
        }
    }

    pub(in crate::range) fn shift(&self) -> u32 {
        self.shift
    }

    /// The stripes of a range. A stripe that has several of its regions may come more than once.
    pub(in crate::range) fn stripes(&self, span: Span) -> impl Iterator<Item = usize> + use<> {
        let stripes = self.touching.len();
        let (first, last) = (span.start() >> self.shift, span.last() >> self.shift);
        let is_all = last - first >= stripes as u64;
        let end = if is_all { stripes as u64 - 1 } else { last - first };
        (0..=end).map(
            move |nth| {
                if is_all { nth as usize } else { stripe_of(first + nth, stripes) }
            },
        )
    }

    /// A range has entered the tree.
    pub(in crate::range) fn add(&mut self, span: Span) {
        for stripe in self.stripes(span) {
            self.touching[stripe] += 1;
        }
    }

    /// A range has left the tree.
    pub(in crate::range) fn remove(&mut self, span: Span) {
        for stripe in self.stripes(span) {
            self.let_open(stripe);
        }
    }

    /// The holder of a slot in the stripe has an entry in the tree, and has to tell when it leaves.
    /// That entry is most often in a region of this stripe; not if the regions had another size
    /// when it came.
    pub(in crate::range) fn keep_closed(&mut self, stripe: usize) {
        self.touching[stripe] += 1;
    }

    /// There is one less in the tree that keeps the stripe closed.
    pub(in crate::range) fn let_open(&mut self, stripe: usize) {
        self.touching[stripe] -= 1;
        if self.touching[stripe] == 0 {
            self.unsettled.push(stripe);
        }
    }

    pub(in crate::range) fn is_closed(&self, stripe: usize) -> bool {
        self.closed[stripe]
    }

    /// Whether something in the tree keeps the stripe closed.
    pub(in crate::range) fn is_touched(&self, stripe: usize) -> bool {
        self.touching[stripe] > 0
    }

    /// Notes that a stripe is closed. It stays so only if a range enters the tree there.
    pub(in crate::range) fn note_closed(&mut self, stripe: usize) {
        self.closed[stripe] = true;
        self.unsettled.push(stripe);
    }

    /// The next stripe that is closed for nobody; it is noted as open.
    pub(in crate::range) fn next_to_open(&mut self) -> Option<usize> {
        while let Some(stripe) = self.unsettled.pop() {
            if self.touching[stripe] == 0 && self.closed[stripe] {
                self.closed[stripe] = false;
                return Some(stripe);
            }
        }
        None
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn regions_at_regular_distances_have_stripes_of_their_own() {
        for step in [1, 2, 3, 7, 16, 100, 4096, 1 << 20] {
            let mut stripes: Vec<_> = (0..240).map(|at| stripe_of(at * step, 512)).collect();
            stripes.sort_unstable();
            stripes.dedup();
            assert!(stripes.len() > 150, "{step}: {}", stripes.len());
        }
    }

    /// The last range that touches it has left, but it was never closed.
    #[test]
    fn a_stripe_that_is_open_is_not_to_be_opened() {
        let mut regions = Regions::new(3, 16, true);
        let span = Span::closed(0, 0);
        regions.add(span);
        regions.remove(span);
        assert_eq!(regions.next_to_open(), None);
    }

    proptest! {
        /// A holder of a position by a stripe is found by all that touch the position.
        #[test]
        fn every_position_of_a_range_is_in_one_of_its_stripes(
            start: u64, len in 0_u64..1000, at in 0_u64..1000, up in 0_u32..64, shift in 0_u32..64,
        ) {
            let start = start >> up;
            let last = start.saturating_add(len);
            let position = start.saturating_add(at.min(len));
            let regions = Regions::new(shift, 16, true);
            let stripe = stripe_of(position >> shift, 16);
            prop_assert!(regions.stripes(Span::closed(start, last)).any(|s| s == stripe));
            let span = Span::closed(start, last);
            // A range that is no longer than a region has two at most.
            let regions = (span.last() >> shift) - (span.start() >> shift);
            prop_assert!(regions <= 1 || least_shift(span) > shift);
        }

        /// A stripe opens when, and only when, the last range that touches it has left.
        #[test]
        fn stripes_open_for_nobody(spans in prop::collection::vec((0_u64..200, 0_u64..90), 1..20)) {
            let mut regions = Regions::new(3, 16, true);
            let mut inside = vec![];
            for (start, len) in spans {
                let span = Span::closed(start, start + len);
                for stripe in regions.stripes(span) {
                    if !regions.is_closed(stripe) {
                        regions.note_closed(stripe);
                    }
                }
                regions.add(span);
                inside.push(span);
                if inside.len() > 3 {
                    regions.remove(inside.remove(0));
                }
                while regions.next_to_open().is_some() {}
                for stripe in 0..16 {
                    let touched = inside.iter().any(|&s| regions.stripes(s).any(|t| t == stripe));
                    prop_assert_eq!(regions.is_closed(stripe), touched);
                }
            }
        }
    }
}
