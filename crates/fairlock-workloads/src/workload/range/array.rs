//! `full_*`, `array` and `wide`: threads that lock ranges of 256 slots and compute.

use super::{SLOTS, pick};
use crate::cell::{Case, Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::range::{BenchRange, EVERYTHING, Range};
use crate::workload::contend;
use crate::workload::random::Random;
use crate::workload::tally::Both;
use crate::workload::team::Padded;
use crate::workload::testbed::{Testbed, Wanted};

/// Slots of a narrow range in `wide`.
const NARROW: u64 = 16;

/// Runs one cell. In `wide` the side `write` is the one writer of all slots, and `read` are the
/// other threads, which read and write by turns.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let lock = Padded(L::create(SLOTS, cell.threads)?);
    let write_ns = cell.range.section_ns.unwrap_or(0);
    let read_ns = cell.range.read_ns.unwrap_or(write_ns);
    let (window, tallies) = testbed.run_team(cell, cell.threads, |index, gate| {
        let mut random = Random::new(cell.seed, index);
        let mut both = Both::new();
        loop {
            let (range, reads) = next(cell, index, &mut random);
            let side = Side::of(reads);
            let section_ns = u64::from(if reads { read_ns } else { write_ns });
            let section = || testbed.section(side, || testbed.work(section_ns));
            let asked = if range == EVERYTHING {
                testbed.asks(side)
            } else {
                testbed.asks_for(side, Wanted::Range(&range))
            };
            let (waited, ()) =
                testbed.operation(side, asked, || lock.0.hold(side, index, &range, section));
            let counts_as = if cell.case == Case::Wide { Side::of(index > 0) } else { side };
            if both.side(counts_as).count(testbed.phase(gate), waited) {
                return both;
            }
        }
    })?;
    Ok(Both::report(window, tallies, &|index| sides(cell, index), testbed.ns_per_tick()))
}

/// Whether a thread is on the side `read`, and on the side `write`.
fn sides(cell: &Cell, index: usize) -> (bool, bool) {
    match cell.range.reads_percent {
        _ if cell.case == Case::Wide => (index > 0, index == 0),
        Some(percent) => (percent > 0, percent < 100),
        None => (is_reader(cell, index), !is_reader(cell, index)),
    }
}

/// Whether a thread of `full_*` reads.
fn is_reader(cell: &Cell, index: usize) -> bool {
    contend::is_reader(index, cell.readers, cell.threads)
}

/// The range of the next operation, and whether it reads.
#[inline(always)]
fn next(cell: &Cell, index: usize, random: &mut Random) -> (Range, bool) {
    match (cell.case, cell.range.shape) {
        (Case::Wide, _) if index == 0 => (0..=SLOTS - 1, false),
        (Case::Wide, _) => {
            let start = random.below(SLOTS - NARROW);
            (start..=start + random.below(NARROW), random.below(2) == 0)
        }
        (Case::Array, Some(shape)) => {
            let reads = random.below(100) < u64::from(cell.range.reads_percent.unwrap_or(0));
            (pick(shape, SLOTS, cell.threads, index, random), reads)
        }
        _ => (EVERYTHING, is_reader(cell, index)),
    }
}
