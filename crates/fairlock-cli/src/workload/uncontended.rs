//! `uncontended`: what one acquire and release costs when nobody else wants the lock.

use super::team::{Padded, Phase};
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport};
use crate::error::Error;
use crate::locks::{BenchLock, BenchMutex};
use crate::stats::median;

/// One side at a time, or a mutex.
pub const CASES: [Case; 3] = [Case::Read, Case::Write, Case::Mutex];
/// Operations between two looks at the clock: it must not be part of the result.
const BATCH: u32 = 1_000;

/// Runs one cell of a reader/writer lock.
pub fn run<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let lock = Padded(L::create());
    if cell.case == Case::Read {
        measure(cell, testbed, BATCH, || || lock.0.read(|| ()))
    } else {
        measure(cell, testbed, BATCH, || || lock.0.write(|| ()))
    }
}

/// Runs one cell of a mutex.
pub fn run_mutex<M: BenchMutex, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let mutex = Padded(M::create());
    measure(cell, testbed, BATCH, || || mutex.0.hold(|| ()))
}

/// What one operation of the kind that `start` makes costs, with so many between two
/// looks at the clock. The result is the median over batches, so that a batch in which
/// the thread was preempted does not count.
pub fn measure<T: Testbed, O: FnMut()>(
    cell: &Cell,
    testbed: &T,
    batch: u32,
    start: impl Fn() -> O + Sync,
) -> Result<CellReport, Error> {
    let (window, batches) = testbed.run_team(cell, 1, |_, gate| {
        let mut operate = start();
        let mut batches = Vec::with_capacity(1 << 16);
        loop {
            let begin = testbed.now();
            for _ in 0..batch {
                operate();
            }
            let ticks = testbed.now().saturating_sub(begin);
            match testbed.phase(gate) {
                Phase::WarmUp => {}
                Phase::Measure => batches.push(ticks),
                Phase::Stop => return batches,
            }
        }
    })?;
    let ticks = median(batches.into_iter().flatten().map(|ticks| ticks as f64))
        .ok_or_else(|| Error::failed("the window was too short for one batch; use more --secs"))?;
    Ok(CellReport {
        elapsed_secs: window.as_secs_f64(),
        ns_per_op: Some(ticks * testbed.ns_per_tick() / f64::from(batch)),
        ..CellReport::default()
    })
}
