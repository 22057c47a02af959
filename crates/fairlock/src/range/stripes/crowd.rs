//! Whether a lock is worth striping (see `stripes`), and the size of regions. It is worth striping
//! when slots ran out repeatedly; the size follows from the ranges that found no slot.

use alloc::vec::Vec;

use super::regions::least_shift;
use crate::range::span::Span;
use crate::range::{AGAIN, LONG};

/// How many ranges are looked at together.
const GROUP: usize = AGAIN.0 / 4;
/// How many of them must be no longer than a region.
const FIT: usize = GROUP * 7 / 8;

/// The ranges that came when slots had run out.
#[derive(Default)]
pub(in crate::range) struct Crowd {
    sample: Vec<Span>,
    /// How many ranges to skip until the next one is looked at.
    skip: usize,
    /// What `skip` was last.
    skipped: usize,
}

impl Crowd {
    /// Another range came. Returns the size of regions, as a shift, that would have kept it and
    /// those before it apart.
    pub(in crate::range) fn arrive(&mut self, span: Span) -> Option<u32> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.sample.push(span);
        if self.sample.len() < GROUP {
            return None;
        }
        let shift = self.shift();
        if shift.is_none() {
            self.skip_more();
        }
        self.sample.pop(); // the next one will do if stripes cannot be had now
        shift
    }

    /// Striping has ended, as it was of no use any more. It lasted for `lasted_ns`.
    pub(in crate::range) fn count_end(&mut self, lasted_ns: u64) {
        if lasted_ns > LONG {
            self.skipped = 0;
        }
        self.skip_more();
    }

    fn skip_more(&mut self) {
        self.skipped = (2 * self.skipped).clamp(AGAIN.0, AGAIN.1);
        self.skip = self.skipped;
        self.sample = Vec::new();
    }

    fn shift(&self) -> Option<u32> {
        let mut shifts: Vec<_> = self.sample.iter().map(|&span| least_shift(span)).collect();
        shifts.sort_unstable();
        let shift = shifts[FIT - 1];
        if shift >= u64::BITS {
            return None;
        }
        let mut regions: Vec<_> = self.sample.iter().map(|span| span.start() >> shift).collect();
        regions.sort_unstable();
        regions.dedup();
        // Those in fewer regions have room in the lock itself.
        (regions.len() >= GROUP / 2).then_some(shift)
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    /// What is learned from `count` ranges, of which the nth is `range(n)`.
    fn learn(crowd: &mut Crowd, count: u64, range: impl Fn(u64) -> (u64, u64)) -> Option<u32> {
        (0..count).find_map(|n| {
            let (start, len) = range(n);
            crowd.arrive(Span::closed(start, start + (len - 1)))
        })
    }

    #[test]
    fn regions_are_as_large_as_most_ranges() {
        assert_eq!(learn(&mut Crowd::default(), 16, |n| (n, 1)), Some(0));
        assert_eq!(learn(&mut Crowd::default(), 16, |n| (n << 12, 4096)), Some(12));
        // A few large ones among them.
        let some_large = |n| (n * 8 + 5, if n % 8 == 0 { 99 } else { 8 });
        assert_eq!(learn(&mut Crowd::default(), 16, some_large), Some(3));
    }

    #[test]
    fn ranges_that_are_not_apart_are_not_worth_it() {
        assert_eq!(learn(&mut Crowd::default(), 15, |n| (n, 1)), None);
        assert_eq!(learn(&mut Crowd::default(), 16, |_| (0, u64::MAX)), None);
        assert_eq!(learn(&mut Crowd::default(), 16, |n| (n % 7, 1)), None);
        assert_eq!(learn(&mut Crowd::default(), 16, |n| (0, n + 1)), None);
    }

    #[test]
    fn what_was_of_no_use_is_tried_again_later_each_time() {
        let mut crowd = Crowd::default();
        assert_eq!(learn(&mut crowd, 16, |_| (0, 100)), None);
        assert_eq!(learn(&mut crowd, 64 + 15, |n| (n, 1)), None);
        assert_eq!(learn(&mut crowd, 1, |n| (n, 1)), Some(0));
        crowd.count_end(1);
        assert_eq!(learn(&mut crowd, 128 + 15, |n| (n, 1)), None);
        assert_eq!(learn(&mut crowd, 1, |n| (n, 1)), Some(0));
        crowd.count_end(2 * LONG);
        assert_eq!(learn(&mut crowd, 64 + 16, |n| (n, 1)), Some(0));
    }
}
