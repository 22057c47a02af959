//! Many locks of one type in place of a range lock whose positions they are; an operation is on one
//! of them. So a workload that uses locks of any kind, one or many, is written once, against
//! [`BenchRange`].

use super::BenchLock;
use super::range::{BenchRange, Range};
use crate::cell::Side;
use crate::error::Error;
use crate::workload::team::Padded;

/// A lock for each position; a range is one position.
pub struct ManyLocks<L>(Box<[Padded<L>]>);

impl<L: BenchLock> BenchRange for ManyLocks<L> {
    const MOST_HELD: usize = 0;

    fn create(positions: u64, _threads: usize) -> Result<Self, Error> {
        Ok(Self((0..positions).map(|_| Padded(L::create())).collect()))
    }

    #[inline(always)]
    fn hold<R>(&self, side: Side, _thread: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        self.0[*range.start() as usize].0.hold(side, section)
    }
}
