//! `read-mostly`: every thread reads, and writes once in a thousand operations.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tally::Both;
use super::team::{Padded, Phase};
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
    let section = |side| {
        let acquired = testbed.acquired(side);
        testbed.pauses(cell.cs_load);
        testbed.leaves(side);
        acquired
    };
    let (window, tallies) = testbed.run_team(cell, cell.threads, |index, gate| {
        let mut rng = StdRng::seed_from_u64(cell.seed.wrapping_add(index as u64));
        let mut both = Both::new();
        loop {
            // How many reads until the next write: drawn once, so that the loop
            // itself needs no random number.
            for _ in 0..rng.random_range(0..2 * WRITE_EVERY - 1) {
                let asked = testbed.asks(Side::Read);
                let acquired = lock.0.read(|| section(Side::Read));
                testbed.released(Side::Read);
                let phase = testbed.phase(gate);
                both.read.count(phase, acquired.saturating_sub(asked));
                if phase == Phase::Stop {
                    return both;
                }
            }
            let asked = testbed.asks(Side::Write);
            let acquired = lock.0.write(|| section(Side::Write));
            testbed.released(Side::Write);
            let phase = testbed.phase(gate);
            both.write.count(phase, acquired.saturating_sub(asked));
            if phase == Phase::Stop {
                return both;
            }
        }
    })?;
    Ok(Both::report(window, tallies, (true, true), testbed.ns_per_tick()))
}
