//! The workloads. Each is one file: which cells it has, and how to run one.

pub mod batch;
mod chunks;
pub mod condvar;
mod contend;
pub mod direct_io;
pub mod events;
pub mod handoff;
mod heap;
pub mod idle;
pub mod program;
pub mod random;
pub mod range;
pub mod reader_spin;
pub mod scenario;
pub mod setup;
pub mod spread;
mod tally;
pub mod team;
pub mod testbed;
pub mod think;
pub mod uncontended;
mod why;

pub use team::{Padded, Phase};

use crate::cell::{Cell, CellReport, Workload};
use crate::error::Error;
use crate::locks::BenchLock;
use crate::locks::erased::Erased;
use crate::locks::many::ManyLocks;
use crate::locks::range::BenchRange;
use testbed::Testbed;

// Erased, it is the same lock as `L`, behind a pointer: for workloads whose operations take so long
// that one more call does not matter. These are compiled once for all locks.

/// Runs one cell of a reader/writer lock in this process.
pub fn run_cell<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    match cell.workload {
        Workload::Handoff => handoff::run::<Erased, T>(cell, testbed),
        Workload::ReaderSpin => reader_spin::run::<L, T>(cell, testbed),
        Workload::DirectIo => direct_io::run::<Erased, T>(cell, testbed),
        Workload::Uncontended => uncontended::run::<L, T>(cell, testbed),
        Workload::Think | Workload::Spread => program::run::<ManyLocks<L>, T>(cell, testbed),
        Workload::Idle => idle::run::<ManyLocks<Erased>, T>(cell, testbed),
        Workload::Scenario => scenario::run::<ManyLocks<Erased>, T>(cell, testbed),
        Workload::Batch | Workload::Range | Workload::Condvar => {
            unreachable!("a workload for other locks")
        }
    }
}

/// Runs one cell of a mutex in this process.
pub fn run_mutex_cell<M: BenchLock, T: Testbed>(
    cell: &Cell,
    testbed: &T,
) -> Result<CellReport, Error> {
    match cell.workload {
        Workload::Batch => batch::run::<M, T>(cell, testbed),
        Workload::Think | Workload::Spread => program::run::<ManyLocks<M>, T>(cell, testbed),
        Workload::Idle => idle::run::<ManyLocks<Erased>, T>(cell, testbed),
        Workload::Scenario => scenario::run::<ManyLocks<Erased>, T>(cell, testbed),
        _ => uncontended::run_mutex::<M, T>(cell, testbed),
    }
}

/// Runs one cell of a lock on ranges in this process.
pub fn run_range_cell<L: BenchRange, T: Testbed>(
    cell: &Cell,
    testbed: &T,
) -> Result<CellReport, Error> {
    match cell.workload {
        Workload::Think | Workload::Spread => program::run::<L, T>(cell, testbed),
        Workload::Idle => idle::run::<Erased, T>(cell, testbed),
        _ => range::run::<L, T>(cell, testbed),
    }
}
