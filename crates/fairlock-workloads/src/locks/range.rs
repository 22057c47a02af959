//! Range locks, as the workload `range` uses them: ours, and one lock around everything in place of
//! one.

use std::mem;
use std::ops::RangeInclusive;

use fairlock::platform::{ConstZero, Platform};
use fairlock::range::{RangePolicy, RangeRwLock};

use super::BenchLock;
use crate::error::Error;

/// A closed range of positions.
pub type Range = RangeInclusive<u64>;

/// The range that has every position.
pub const EVERYTHING: Range = 0..=u64::MAX;

/// What the workload calls: run a section while a range is locked.
pub trait BenchRange: Send + Sync + Sized + 'static {
    /// Whether readers share.
    const SHARES: bool = true;
    /// The largest number of held ranges that it can be measured beside.
    const MOST_HELD: usize = usize::MAX;
    /// What each thread has for itself.
    type User: Send + Sync;
    /// A new lock on positions below `positions`, nothing locked.
    fn create(positions: u64) -> Result<Self, Error>;
    /// What a thread needs to use the lock.
    fn user(&self) -> Result<Self::User, Error>;
    /// Runs `section` while `range` is locked for reading.
    fn read<R>(&self, user: &Self::User, range: &Range, section: impl FnOnce() -> R) -> R;
    /// Runs `section` while `range` is locked for writing.
    fn write<R>(&self, user: &Self::User, range: &Range, section: impl FnOnce() -> R) -> R;
    /// Locks `range` for writing, for good.
    fn keep(&self, user: &Self::User, range: &Range);
}

/// What each of `threads` threads needs to use the lock.
pub fn users<L: BenchRange>(lock: &L, threads: usize) -> Result<Vec<L::User>, Error> {
    let mut users = Vec::with_capacity(threads);
    for _ in 0..threads {
        users.push(lock.user()?);
    }
    Ok(users)
}

/// A lock of this project that follows the policy it is named for.
pub struct Ours<P: Platform, const FIFO: bool>(RangeRwLock<P>);

impl<P: Platform, const FIFO: bool> BenchRange for Ours<P, FIFO>
where
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
    P::AtomicU64: ConstZero,
{
    type User = ();

    fn create(_positions: u64) -> Result<Self, Error> {
        let policy = if FIFO { RangePolicy::FIFO } else { RangePolicy::DEFAULT };
        Ok(Self(RangeRwLock::with_policy(policy)))
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn read<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.read(range.clone()).expect("a range that makes sense");
        section()
    }

    #[inline(always)]
    fn write<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.write(range.clone()).expect("a range that makes sense");
        section()
    }

    fn keep(&self, _user: &(), range: &Range) {
        mem::forget(self.0.write(range.clone()));
    }
}

/// One reader/writer lock around everything, whatever the range.
pub struct OneLock<L>(L);

impl<L: BenchLock> BenchRange for OneLock<L> {
    const MOST_HELD: usize = 0;
    type User = ();

    fn create(_positions: u64) -> Result<Self, Error> {
        Ok(Self(L::create()))
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn read<R>(&self, _user: &(), _range: &Range, section: impl FnOnce() -> R) -> R {
        self.0.read(section)
    }

    #[inline(always)]
    fn write<R>(&self, _user: &(), _range: &Range, section: impl FnOnce() -> R) -> R {
        self.0.write(section)
    }

    fn keep(&self, _user: &(), _range: &Range) {
        unreachable!("cells with held ranges are not planned for it");
    }
}
