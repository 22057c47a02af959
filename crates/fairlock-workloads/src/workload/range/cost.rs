//! `read` and `write`: what it costs one thread to take a range and give it back, beside ranges
//! that are held and not in its way.

use crate::cell::{Case, Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::range::BenchRange;
use crate::workload::random::Random;
use crate::workload::team::Padded;
use crate::workload::testbed::Testbed;
use crate::workload::uncontended::measure;

/// Positions from one held range to the next; half of them are free.
const STEP: u64 = 20;
/// Operations between two looks at the clock: it must not be part of the result.
const BATCH: u32 = 500;

/// Runs one cell. Each operation locks five positions in one of the gaps, chosen at
/// random, which is part of the result (2 to 3 ns). The result is the median over
/// batches.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let held = cell.range.held.unwrap_or(0) as u64;
    let lock = Padded(L::create((held + 1) * STEP, 1)?);
    for index in 0..held {
        let start = index * STEP;
        lock.0.keep(0, &(start..=start + STEP / 2 - 1));
    }
    measure(cell, testbed, BATCH, || {
        let mut random = Random::new(cell.seed, 0);
        let (lock, side) = (&lock, Side::of(cell.case == Case::Read));
        move || {
            let start = random.below(held + 1) * STEP + STEP / 2;
            let range = start..=start + STEP / 4 - 1;
            lock.0.hold(side, 0, &range, || ());
        }
    })
}
