//! A lock as the command sees it: by name, with the workloads that it runs.

use super::BenchLock;
use super::condvar::BenchCondvar;
use super::erased;
use super::range::{BenchRange, OneLock};
use super::typed::{BenchReentrant, BenchUpgradable};
use super::with_policy::{Chosen, with_policy};
use crate::cell::{Cell, CellReport, UsedAs};
use crate::error::Error;
use crate::workload::testbed::{Real, Testbed};
use crate::workload::{self, uncontended};

/// For which locks a testbed has loops compiled in which a nanosecond counts.
pub trait Runs: Testbed {
    type Lock<L: BenchLock>: BenchLock;
    type Range<L: BenchRange>: BenchRange;
}

impl Runs for Real {
    type Lock<L: BenchLock> = L;
    type Range<L: BenchRange> = L;
}

type Run<T> = fn(&Cell, &T) -> Result<CellReport, Error>;

/// One lock the command can run, on one kind of testbed.
pub struct LockEntry<T = Real> {
    /// The name given to `--locks`.
    pub name: &'static str,
    /// What it can be used as at the most, and how it runs as that.
    uses: Vec<(UsedAs, Run<T>)>,
    /// The types behind its uses, in the same order.
    #[cfg(test)]
    types: Vec<&'static str>,
    /// The policy of its locks, if that is not part of their type.
    policy: Option<Chosen>,
}

impl<T: Runs> LockEntry<T> {
    /// Adds a use, by the type `L`.
    #[cfg_attr(not(test), allow(clippy::extra_unused_type_parameters))] // tests name the type
    fn with<L>(mut self, kind: UsedAs, run: Run<T>) -> Self {
        self.uses.push((kind, run));
        #[cfg(test)]
        self.types.push(std::any::type_name::<L>());
        self
    }

    /// What it is, for comparison with a lock of the same name: the type and the policy of each use that
    /// locks have on all testbeds.
    #[cfg(test)]
    pub(super) fn meaning(&self) -> String {
        let uses = self.uses.iter().zip(&self.types);
        let everywhere =
            uses.filter(|((kind, _), _)| !matches!(kind, UsedAs::Upgradable | UsedAs::Reentrant));
        let each = everywhere.map(|((kind, _), of)| format!("{kind:?} {of} {:?}", self.policy));
        each.collect::<Vec<_>>().join("; ")
    }

    fn new(name: &'static str) -> Self {
        Self {
            name,
            uses: Vec::new(),
            #[cfg(test)]
            types: Vec::new(),
            policy: None,
        }
    }

    /// Gives its locks this policy.
    pub(super) fn with_policy(self, policy: Chosen) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// The entry of a reader/writer lock.
    pub fn rw<L: BenchLock>(name: &'static str) -> Self {
        Self::new(name).with::<L>(UsedAs::ReaderWriter, |cell, testbed| {
            erased::with::<OneLock<L>, _>(|| workload::run_cell::<T::Lock<L>, T>(cell, testbed))
        })
    }

    /// The entry of a lock that is a mutex only.
    pub fn mutex<M: BenchLock>(name: &'static str) -> Self {
        Self::new(name).with_mutex::<M>()
    }

    /// The entry of a range lock.
    pub fn range<L: BenchRange>(name: &'static str) -> Self {
        Self::new(name).with_range::<L>()
    }

    /// The entry of a reader/writer lock that is meant as a mutex as well.
    pub fn both<L: BenchLock>(name: &'static str) -> Self {
        Self::rw::<L>(name).with_mutex::<L>()
    }

    /// Adds the mutex of the same name.
    pub fn with_mutex<M: BenchLock>(self) -> Self {
        self.with::<M>(UsedAs::Mutex, |cell, testbed| {
            erased::with::<OneLock<M>, _>(|| {
                workload::run_mutex_cell::<T::Lock<M>, T>(cell, testbed)
            })
        })
    }

    /// Adds the range lock of the same name.
    pub fn with_range<L: BenchRange>(self) -> Self {
        let kind = UsedAs::Range { shared: L::SHARES, held: L::MOST_HELD };
        self.with::<L>(kind, |cell, testbed| {
            erased::with::<L, _>(|| workload::run_range_cell::<T::Range<L>, T>(cell, testbed))
        })
    }

    /// Adds the condition variable of the same name.
    pub fn with_condvar<C: BenchCondvar>(self) -> Self {
        self.with::<C>(UsedAs::Condvar { timed: C::TIMED }, workload::condvar::run::<C, T>)
    }

    /// Adds the lock itself, around everything, in place of a range lock.
    pub fn around_everything<L: BenchLock>(self) -> Self {
        self.with_range::<OneLock<L>>()
    }

    /// Whether the lock can be used as this.
    pub fn is(&self, kind: UsedAs) -> bool {
        self.runner(kind).is_some()
    }

    /// Runs one cell with this lock.
    pub fn run(&self, cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
        let kind = cell.kind();
        let run = self
            .runner(kind)
            .ok_or_else(|| Error::usage(format!("lock '{}' is no {}", self.name, kind.name())))?;
        match self.policy {
            Some(policy) => with_policy(policy, || run(cell, testbed)),
            None => run(cell, testbed),
        }
    }

    fn runner(&self, wanted: UsedAs) -> Option<Run<T>> {
        self.uses.iter().find(|(kind, _)| kind.is_enough_for(wanted)).map(|&(_, run)| run)
    }
}

impl LockEntry<Real> {
    /// Adds the upgradable reads of the same name.
    pub fn with_upgradable<L: BenchUpgradable>(self) -> Self {
        self.with::<L>(UsedAs::Upgradable, uncontended::run_upgradable::<L, Real>)
    }

    /// Adds the reentrant mutex of the same name.
    pub fn with_reentrant<M: BenchReentrant>(self) -> Self {
        self.with::<M>(UsedAs::Reentrant, uncontended::run_reentrant::<M, Real>)
    }
}
