//! The workloads. Each is one file: which cells it has, and how to run one.

pub mod batch;
mod chunks;
mod contend;
pub mod direct_io;
pub mod handoff;
mod heap;
pub mod range;
pub mod read_mostly;
pub mod reader_spin;
mod tally;
mod team;
pub mod uncontended;

pub use team::Padded;

use crate::cell::{Cell, CellReport, Workload};
use crate::error::Error;
use crate::locks::{BenchLock, BenchMutex};

/// Runs one cell of a reader/writer lock in this process.
pub fn run_cell<L: BenchLock>(cell: &Cell) -> Result<CellReport, Error> {
    match cell.workload {
        Workload::Handoff => handoff::run::<L>(cell),
        Workload::ReaderSpin => reader_spin::run::<L>(cell),
        Workload::DirectIo => direct_io::run::<L>(cell),
        Workload::Uncontended => uncontended::run::<L>(cell),
        Workload::ReadMostly => read_mostly::run::<L>(cell),
        Workload::Batch | Workload::Range => unreachable!("a workload for other locks"),
    }
}

/// Runs one cell of a mutex in this process.
pub fn run_mutex_cell<M: BenchMutex>(cell: &Cell) -> Result<CellReport, Error> {
    if cell.workload == Workload::Batch {
        batch::run::<M>(cell)
    } else {
        uncontended::run_mutex::<M>(cell)
    }
}
