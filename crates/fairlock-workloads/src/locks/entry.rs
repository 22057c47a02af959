//! A lock as the command sees it: by name, with the workloads that it runs.

use ::fairlock::Policy;

use super::condvar::BenchCondvar;
use super::erased::{self, ErasedLock, ErasedMutex, ErasedRange};
use super::range::{BenchRange, OneLock};
use super::uses::{BenchReentrant, BenchUpgradable};
use super::{BenchLock, BenchMutex, WriteSide, fairlock};
use crate::cell::{Cell, CellReport, Kind};
use crate::error::Error;
use crate::workload;
use crate::workload::testbed::{Real, Testbed};

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
    /// As a mutex with condition variables, and whether its waits can end.
    condvar: Option<(Run<T>, bool)>,
    range: Option<RangeRun<T>>,
    /// As a lock with upgradable reads.
    upgradable: Option<Run<T>>,
    /// As a mutex that its holder may lock again.
    reentrant: Option<Run<T>>,
    /// The policy of its locks, if that is not part of their type.
    policy: Option<Policy>,
}

/// How a lock runs as a range lock, and what that can do.
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
        Self {
            name,
            about,
            rw: None,
            mutex: None,
            condvar: None,
            range: None,
            upgradable: None,
            reentrant: None,
            policy: None,
        }
    }

    /// Gives its locks this policy.
    pub(super) fn with_policy(self, policy: Policy) -> Self {
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

    /// Adds the condition variable of the same name.
    pub fn add_condvar<C: BenchCondvar>(&mut self) {
        self.condvar = Some((workload::condvar::run::<C, T>, C::TIMED));
    }

    /// Adds the lock itself, around everything, in place of a range lock.
    pub fn around_everything<L: BenchLock>(self) -> Self {
        self.with_range::<OneLock<L>>()
    }

    /// Whether the lock can be used as this.
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
            Kind::Upgradable => self.upgradable,
            Kind::Reentrant => self.reentrant,
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

impl LockEntry<Real> {
    /// Adds the upgradable reads of the same name.
    pub fn add_upgradable<L: BenchUpgradable>(&mut self) {
        self.upgradable = Some(workload::uncontended::run_upgradable::<L, Real>);
    }

    /// Adds the reentrant mutex of the same name.
    pub fn add_reentrant<M: BenchReentrant>(&mut self) {
        self.reentrant = Some(workload::uncontended::run_reentrant::<M, Real>);
    }
}
