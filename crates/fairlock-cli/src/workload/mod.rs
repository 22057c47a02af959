//! The workloads. Each is one file: which cells it has, and how to run one.

mod contend;
pub mod direct_io;
pub mod handoff;
pub mod read_mostly;
pub mod reader_spin;
mod tally;
mod team;
pub mod uncontended;

use crate::cell::{Cell, CellReport, Workload};
use crate::error::Error;
use crate::locks::BenchLock;

/// Runs one cell in this process.
pub fn run_cell<L: BenchLock>(cell: &Cell) -> Result<CellReport, Error> {
    match cell.workload {
        Workload::Handoff => handoff::run::<L>(cell),
        Workload::ReaderSpin => reader_spin::run::<L>(cell),
        Workload::DirectIo => direct_io::run::<L>(cell),
        Workload::Uncontended => uncontended::run::<L>(cell),
        Workload::ReadMostly => read_mostly::run::<L>(cell),
    }
}
