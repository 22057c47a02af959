//! What `think` and `spread` have in common: each operation of a thread is chosen at random, a read
//! or a write, and where. The locks may be of any form.

use super::random::Random;
use super::range::{SLOTS, pick};
use super::tally::Both;
use super::team::Padded;
use super::testbed::{Testbed, Wanted};
use crate::cell::{Cell, CellReport, Setup, Shape, Side};
use crate::error::Error;
use crate::locks::range::{BenchRange, Range};

/// How long a measurement must be at least, so that a thread that is starved is starved by the
/// lock: if all threads share the CPUs evenly, also with `beside` busy loops,
/// every thread has a CPU more than once, for more than one operation. There is an upper bound.
pub fn enough_secs(cell: &Cell, cpus: usize, beside: usize) -> f64 {
    const OPERATIONS: f64 = 12.0;
    const TURNS: f64 = 2.0;
    /// About how long a thread has a CPU before another one gets it.
    const TURN_NS: f64 = 4e6;
    const LONGEST: f64 = 0.6;
    let Setup { section_ns, outside, .. } = cell.range;
    let operation_ns = f64::from(section_ns.unwrap_or(0)) * f64::from(1 + outside.unwrap_or(0));
    let threads_a_cpu = (cell.threads as f64 / cpus as f64).max(1.0) + beside as f64 / cpus as f64;
    let enough_ns = (OPERATIONS * operation_ns).max(TURNS * TURN_NS);
    (threads_a_cpu * enough_ns / 1e9).min(LONGEST)
}

/// What the threads of a cell do.
struct Operation {
    /// Which ranges are taken; `None`: one position.
    shape: Option<Shape>,
    positions: u64,
    reads_percent: u64,
    section_ns: u64,
    outside_ns: u64,
}

impl Operation {
    fn of(cell: &Cell) -> Self {
        let section_ns = u64::from(cell.range.section_ns.unwrap_or(0));
        Self {
            shape: cell.range.shape,
            positions: match cell.range.shape {
                Some(_) => SLOTS,
                None => cell.range.among.unwrap_or(1) as u64,
            },
            reads_percent: u64::from(cell.range.reads_percent.unwrap_or(0)),
            section_ns,
            outside_ns: section_ns * u64::from(cell.range.outside.unwrap_or(0)),
        }
    }

    #[inline(always)]
    fn range(&self, cell: &Cell, index: usize, random: &mut Random) -> Range {
        match self.shape {
            Some(shape) => pick(shape, self.positions, cell.threads, index, random),
            None => {
                let position = random.below(self.positions);
                position..=position
            }
        }
    }

    /// What the thread does outside this time: half to one and a half times the average, or threads
    /// would fall into step.
    #[inline(always)]
    fn outside(&self, random: &mut Random) -> u64 {
        match self.outside_ns {
            0 => 0,
            ns => ns / 2 + random.below(ns + 1),
        }
    }
}

/// Runs one cell.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let operation = Operation::of(cell);
    let lock = Padded(L::create(operation.positions, cell.threads)?);
    let (window, tallies) = testbed.run_team(cell, cell.threads, |index, gate| {
        let mut random = Random::new(cell.seed, index);
        let mut both = Both::new();
        loop {
            let range = operation.range(cell, index, &mut random);
            let side = Side::of(random.below(100) < operation.reads_percent);
            let section = || testbed.section(side, || testbed.work(operation.section_ns));
            let wanted = match operation.shape {
                Some(_) => Wanted::Range(&range),
                None => Wanted::Lock(*range.start() as usize),
            };
            let asked = testbed.asks_for(side, wanted);
            let (waited, ()) =
                testbed.operation(side, asked, || lock.0.hold(side, index, &range, section));
            if both.side(side).count(testbed.phase(gate), waited) {
                return both;
            }
            let outside = operation.outside(&mut random);
            if outside > 0 {
                testbed.work(outside);
            }
        }
    })?;
    let sides = |_| (cell.readers > 0, cell.writers > 0);
    Ok(Both::report(window, tallies, &sides, testbed.ns_per_tick()))
}
