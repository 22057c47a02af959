//! `read-mostly`: every thread reads, and writes once in a thousand operations.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tally::Both;
use super::team::Padded;
use super::testbed::Testbed;
use crate::cell::{Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::BenchLock;

/// Threads, unless told otherwise.
pub const THREADS: usize = 8;
/// Pauses in the section, unless told otherwise.
pub const CS_LOAD: u32 = 20;
/// One of this many operations is a write, on average.
const WRITE_EVERY: u32 = 1_000;

/// Runs one cell.
pub fn run<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let lock = Padded(L::create());
    let operation = |side| {
        let section = || testbed.section(side, || testbed.pauses(cell.cs_load));
        testbed.operation(side, testbed.asks(side), || lock.0.hold(side, section)).0
    };
    let (window, tallies) = testbed.run_team(cell, cell.threads, |index, gate| {
        let mut rng = StdRng::seed_from_u64(cell.seed.wrapping_add(index as u64));
        let mut both = Both::new();
        loop {
            // How many reads until the next write: drawn once, so that the loop
            // itself needs no random number.
            for _ in 0..rng.random_range(0..2 * WRITE_EVERY - 1) {
                let waited = operation(Side::Read);
                if both.read.count(testbed.phase(gate), waited) {
                    return both;
                }
            }
            let waited = operation(Side::Write);
            if both.write.count(testbed.phase(gate), waited) {
                return both;
            }
        }
    })?;
    Ok(Both::report(window, tallies, &|_| (true, true), testbed.ns_per_tick()))
}
