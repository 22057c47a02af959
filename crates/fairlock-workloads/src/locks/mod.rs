//! The locks the command can run, and what it asks of each.
//!
//! A reader/writer lock implements [`RwBench`] (separate acquire and release
//! calls, as C and `lock_api` have them) or [`BenchLock`] directly (guards, as
//! `std` has them), a mutex [`BenchMutex`], one with condition variables
//! [`BenchCondvar`](condvar::BenchCondvar). Workloads are generic over
//! [`BenchLock`], [`BenchMutex`] or [`BenchRange`]. On real threads loops in
//! which a nanosecond counts are compiled once per lock, so that no call in them is indirect; all
//! others, and those on simulated machines, once for all ([`erased`]; the testbed says which:
//! [`Runs`], and [`workload::run_cell`]). A [`LockEntry`]
//! packs the workloads of one lock on one testbed; the [`registry`] finds it by name.

mod broken;
pub mod condvar;
pub mod custom;
pub mod erased;
pub mod fairlock;
pub mod many;
pub mod range;
pub mod registry;

use ::fairlock::Policy;

use crate::cell::{Cell, CellReport, Kind};
use crate::error::Error;
use crate::workload;
use crate::workload::testbed::{Real, Testbed};
use erased::{ErasedLock, ErasedMutex, ErasedRange};
use range::{BenchRange, OneLock};

/// A reader/writer lock with separate acquire and release calls.
pub trait RwBench: Send + Sync + 'static {
    /// A new, free lock. It may be moved until its first use.
    fn new() -> Self;
    /// Acquires for reading; blocks.
    fn read_lock(&self);
    /// Releases a read acquisition.
    ///
    /// # Safety
    /// The calling thread holds the lock for reading.
    unsafe fn read_unlock(&self);
    /// Acquires for writing; blocks.
    fn write_lock(&self);
    /// Releases a write acquisition.
    ///
    /// # Safety
    /// The calling thread holds the lock for writing.
    unsafe fn write_unlock(&self);
}

/// What a workload calls: run a section under the lock.
pub trait BenchLock: Send + Sync + 'static {
    /// A new, free lock.
    fn create() -> Self;
    /// Runs `section` while holding the lock for reading.
    fn read<R>(&self, section: impl FnOnce() -> R) -> R;
    /// Runs `section` while holding the lock for writing.
    fn write<R>(&self, section: impl FnOnce() -> R) -> R;
}

impl<L: RwBench> BenchLock for L {
    fn create() -> Self {
        L::new()
    }

    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.read_lock();
        let result = section();
        // SAFETY: this thread acquired for reading above. A section that
        // unwinds skips this and leaves the lock held, which is safe.
        unsafe { self.read_unlock() };
        result
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        self.write_lock();
        let result = section();
        // SAFETY: this thread acquired for writing above; as in `read`.
        unsafe { self.write_unlock() };
        result
    }
}

/// What a workload for mutexes calls.
pub trait BenchMutex: Send + Sync + 'static {
    /// A new, free mutex. It may be moved until its first use.
    fn create() -> Self;
    /// Runs `section` while holding the mutex.
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R;
}

/// The write side of a reader/writer lock, as a mutex.
pub struct WriteSide<L>(L);

impl<L: BenchLock> BenchMutex for WriteSide<L> {
    fn create() -> Self {
        Self(L::create())
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.write(section)
    }
}

/// How a testbed runs one cell with a lock.
pub trait Runs: Testbed {
    /// With a reader/writer lock.
    fn lock<L: BenchLock>(cell: &Cell, testbed: &Self) -> Result<CellReport, Error>;
    /// With a mutex.
    fn mutex<M: BenchMutex>(cell: &Cell, testbed: &Self) -> Result<CellReport, Error>;
    /// With a range lock.
    fn range<L: BenchRange>(cell: &Cell, testbed: &Self) -> Result<CellReport, Error>;
}

impl Runs for Real {
    fn lock<L: BenchLock>(cell: &Cell, testbed: &Self) -> Result<CellReport, Error> {
        erased::with_lock::<L, _>(|| workload::run_cell::<L, ErasedLock, Self>(cell, testbed))
    }

    fn mutex<M: BenchMutex>(cell: &Cell, testbed: &Self) -> Result<CellReport, Error> {
        erased::with_mutex::<M, _>(|| {
            workload::run_mutex_cell::<M, ErasedMutex, Self>(cell, testbed)
        })
    }

    fn range<L: BenchRange>(cell: &Cell, testbed: &Self) -> Result<CellReport, Error> {
        erased::with_range::<L, _>(|| {
            workload::run_range_cell::<L, ErasedRange, Self>(cell, testbed)
        })
    }
}

type Run<T> = fn(&Cell, &T) -> Result<CellReport, Error>;

/// One lock the command can run, on one kind of testbed.
pub struct LockEntry<T = Real> {
    /// The name given to `--locks`.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    rw: Option<Run<T>>,
    mutex: Option<Run<T>>,
    /// With its condition variables, and whether its waits can end.
    condvar: Option<(Run<T>, bool)>,
    range: Option<RangeRun<T>>,
    /// That of its locks, if it is not a part of their type.
    policy: Option<Policy>,
}

/// How a lock runs as a range lock, and as what kind of one.
struct RangeRun<T> {
    run: Run<T>,
    shares: bool,
    most_held: usize,
}

impl<T: Runs> RangeRun<T> {
    fn of<L: BenchRange>() -> Self {
        Self { run: T::range::<L>, shares: L::SHARES, most_held: L::MOST_HELD }
    }
}

impl<T: Runs> LockEntry<T> {
    fn none(name: &'static str, about: &'static str) -> Self {
        Self { name, about, rw: None, mutex: None, condvar: None, range: None, policy: None }
    }

    /// Gives its locks this policy.
    fn with_policy(self, policy: Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// The entry of a reader/writer lock.
    pub fn rw<L: BenchLock>(name: &'static str, about: &'static str) -> Self {
        Self { rw: Some(T::lock::<L>), ..Self::none(name, about) }
    }

    /// The entry of a lock that is a mutex only.
    pub fn mutex<M: BenchMutex>(name: &'static str, about: &'static str) -> Self {
        Self { mutex: Some(T::mutex::<M>), ..Self::none(name, about) }
    }

    /// The entry of a range lock.
    pub fn range<L: BenchRange>(name: &'static str, about: &'static str) -> Self {
        Self { range: Some(RangeRun::of::<L>()), ..Self::none(name, about) }
    }

    /// The entry of a reader/writer lock that is meant as a mutex as well.
    pub fn both<L: BenchLock>(name: &'static str, about: &'static str) -> Self {
        Self::rw::<L>(name, about).with_mutex::<WriteSide<L>>()
    }

    /// Adds the mutex of the same name.
    pub fn with_mutex<M: BenchMutex>(mut self) -> Self {
        self.mutex = Some(T::mutex::<M>);
        self
    }

    /// Adds the range lock of the same name.
    pub fn with_range<L: BenchRange>(mut self) -> Self {
        self.range = Some(RangeRun::of::<L>());
        self
    }

    /// Adds the lock itself, around everything, in the place of a range lock.
    pub fn around_everything<L: BenchLock>(self) -> Self {
        self.with_range::<OneLock<L>>()
    }

    /// Whether it can be used as this.
    pub fn is(&self, kind: Kind) -> bool {
        self.runner(kind).is_some()
    }

    /// Runs one cell with this lock.
    pub fn run(&self, cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
        let kind = cell.kind();
        let run = self
            .runner(kind)
            .ok_or_else(|| Error::usage(format!("lock '{}' is no {}", self.name, kind.name())))?;
        match self.policy {
            Some(policy) => fairlock::with_policy(policy, || run(cell, testbed)),
            None => run(cell, testbed),
        }
    }

    fn runner(&self, kind: Kind) -> Option<Run<T>> {
        match kind {
            Kind::ReaderWriter => self.rw,
            Kind::Mutex => self.mutex,
            Kind::Condvar { timed } => {
                self.condvar.filter(|&(_, can)| can || !timed).map(|(run, _)| run)
            }
            Kind::Range { shared, held } => self
                .range
                .as_ref()
                .filter(|range| (range.shares || !shared) && held <= range.most_held)
                .map(|range| range.run),
        }
    }
}

/// Whether `name` names a lock of somebody else.
pub fn is_peer(name: &str) -> bool {
    !["fairlock:", "ref:", "broken:"].iter().any(|family| name.starts_with(family))
}
