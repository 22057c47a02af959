//! Range locks, as the workload `range` uses them: ours, and one lock around everything in place of
//! one.

use std::mem;
use std::ops::RangeInclusive;

use fairlock::platform::{ConstZero, PooledPlatform};
use fairlock::range::{RangePolicy, RangeRwLock};

use super::BenchLock;
use crate::cell::Side;
use crate::error::Error;

/// A closed range of positions.
pub type Range = RangeInclusive<u64>;

/// The range that has every position.
pub const EVERYTHING: Range = 0..=u64::MAX;

/// What the workload calls: run a section while a range is locked. A thread gives its number, as it
/// may have something for itself in the lock.
pub trait BenchRange: Send + Sync + Sized + 'static {
    /// Whether readers share.
    const SHARES: bool = true;
    /// The largest number of held ranges that it can be measured beside.
    const MOST_HELD: usize = usize::MAX;
    /// A new lock on positions below `positions`, for so many threads, nothing locked.
    fn create(positions: u64, threads: usize) -> Result<Self, Error>;
    /// Runs `section` while `range` is locked on this side.
    fn hold<R>(&self, side: Side, thread: usize, range: &Range, section: impl FnOnce() -> R) -> R;
    /// Locks `range` for writing, for good.
    fn keep(&self, _thread: usize, _range: &Range) {
        unreachable!("cells with held ranges are not planned for it");
    }
}

/// A lock of this project that follows the policy it is named for.
pub struct Ours<P: PooledPlatform, const FIFO: bool>(RangeRwLock<P>);

impl<P: PooledPlatform, const FIFO: bool> BenchRange for Ours<P, FIFO>
where
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
    P::AtomicU64: ConstZero,
{
    fn create(_positions: u64, _threads: usize) -> Result<Self, Error> {
        let policy = if FIFO { RangePolicy::FIFO } else { RangePolicy::DEFAULT };
        Ok(Self(RangeRwLock::with_policy(policy)))
    }

    #[inline(always)]
    fn hold<R>(&self, side: Side, _thread: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        if side == Side::Read {
            let _guard = self.0.read(range.clone()).expect("a range that makes sense");
            section()
        } else {
            let _guard = self.0.write(range.clone()).expect("a range that makes sense");
            section()
        }
    }

    fn keep(&self, _thread: usize, range: &Range) {
        mem::forget(self.0.write(range.clone()));
    }
}

/// One lock around everything, whatever the range.
pub struct OneLock<L>(L);

impl<L: BenchLock> BenchRange for OneLock<L> {
    const MOST_HELD: usize = 0;

    fn create(_positions: u64, _threads: usize) -> Result<Self, Error> {
        Ok(Self(L::create()))
    }

    #[inline(always)]
    fn hold<R>(&self, side: Side, _: usize, _: &Range, section: impl FnOnce() -> R) -> R {
        self.0.hold(side, section)
    }
}
