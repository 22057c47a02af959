//! `reader-spin`: half readers, half writers, a section of some pauses and
//! nothing outside it. Does either side starve the other?

use super::contend::contend;
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport};
use crate::error::Error;
use crate::locks::BenchLock;

/// The published grid: threads.
pub const THREADS: [usize; 7] = [2, 4, 8, 16, 32, 64, 96];
/// The published grid: pauses in the section.
pub const CS_LOADS: [u32; 3] = [1, 20, 100];
/// The mix, and each side of it alone, for the balance score.
pub const CASES: [Case; 3] = [Case::Mixed, Case::ReaderAlone, Case::WriterAlone];

/// Runs one cell.
pub fn run<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let section = || testbed.pauses(cell.cs_load);
    contend::<L, T>(cell, testbed, section, section)
}
