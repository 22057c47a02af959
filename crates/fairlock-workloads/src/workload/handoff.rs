//! `handoff`: many writers, a section of one microsecond. Who gets the lock? Or, on a
//! simulated machine, many writers and readers with a section of some pauses: what does a
//! handoff at each release cost?

use std::time::Duration;

use super::contend::contend;
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport};
use crate::error::Error;
use crate::locks::BenchLock;

/// Writers of the published run.
pub const THREADS: usize = 60;
/// How long it ran, in seconds. Who starves depends on the length.
pub const PUBLISHED_SECS: f64 = 5.0;
/// Threads, half of them readers, of the run published later for handoffs at once.
pub const MIXED_THREADS: usize = 80;
/// The section computes, or it sleeps (for 1 us and the timer slack).
pub const CASES: [Case; 2] = [Case::Busy, Case::Sleep];

/// Runs one cell.
pub fn run<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    match cell.case {
        Case::Sleep => {
            contend::<L, T>(cell, testbed, || (), || testbed.sleep(Duration::from_micros(1)))
        }
        Case::Mixed => {
            let section = || testbed.pauses(cell.cs_load);
            contend::<L, T>(cell, testbed, section, section)
        }
        _ => contend::<L, T>(cell, testbed, || (), || testbed.work(1_000)),
    }
}
