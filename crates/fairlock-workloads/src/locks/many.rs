//! Many locks of one type in place of a range lock whose positions they are; an operation is on one
//! of them. So a workload that uses locks of any kind, one or many, is written once, against
//! [`BenchRange`].

use super::range::{BenchRange, Range};
use super::{BenchLock, BenchMutex};
use crate::error::Error;
use crate::workload::team::Padded;

/// A reader/writer lock for each position; a range is one position.
pub struct ManyLocks<L>(Box<[Padded<L>]>);

/// A mutex for each position; a range is one position, and everybody writes.
pub struct ManyMutexes<M>(Box<[Padded<M>]>);

fn of_positions<L>(positions: u64, create: fn() -> L) -> Box<[Padded<L>]> {
    (0..positions).map(|_| Padded(create())).collect()
}

impl<L: BenchLock> BenchRange for ManyLocks<L> {
    const MOST_HELD: usize = 0;
    type User = ();

    fn create(positions: u64) -> Result<Self, Error> {
        Ok(Self(of_positions(positions, L::create)))
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn read<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        self.0[*range.start() as usize].0.read(section)
    }

    #[inline(always)]
    fn write<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        self.0[*range.start() as usize].0.write(section)
    }

    fn keep(&self, _user: &(), _range: &Range) {
        unreachable!("cells with held ranges are not planned for it");
    }
}

impl<M: BenchMutex> BenchRange for ManyMutexes<M> {
    const SHARES: bool = false;
    const MOST_HELD: usize = 0;
    type User = ();

    fn create(positions: u64) -> Result<Self, Error> {
        Ok(Self(of_positions(positions, M::create)))
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn read<R>(&self, user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        self.write(user, range, section)
    }

    #[inline(always)]
    fn write<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        self.0[*range.start() as usize].0.hold(section)
    }

    fn keep(&self, _user: &(), _range: &Range) {
        unreachable!("cells with held ranges are not planned for it");
    }
}
