//! `uncontended`: what one acquire and release costs when nobody else wants the lock.

use std::time::Duration;

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
                Phase::Stop => {
                    // A thread that had no CPU in the window has one batch all the same.
                    if batches.is_empty() {
                        batches.push(ticks);
                    }
                    return batches;
                }
            }
        }
    })?;
    Ok(report(window, batches, testbed.ns_per_tick() / f64::from(batch)))
}

/// Not part of what is compiled for each lock.
fn report(window: Duration, batches: Vec<Vec<u64>>, ns_per_tick: f64) -> CellReport {
    let ticks = median(batches.into_iter().flatten().map(|ticks| ticks as f64))
        .expect("each thread has a batch");
    CellReport {
        elapsed_secs: window.as_secs_f64(),
        ns_per_op: Some(ticks * ns_per_tick),
        ..CellReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Setup;
    use crate::cell::Workload;
    use crate::disturbance::Disturbance;
    use crate::workload::testbed::Real;

    #[test]
    fn a_thread_that_misses_the_window_is_measured_all_the_same() {
        let cell = Cell {
            workload: Workload::Uncontended,
            case: Case::Mutex,
            lock: "std".into(),
            machine: None,
            threads: 1,
            readers: 0,
            writers: 1,
            overcommit: None,
            cs_load: 0,
            outside_ns: 0,
            range: Setup::default(),
            scenario: None,
            disturbance: Disturbance::default(),
            secs: 0.0,
            seed: 1,
            busy_turns_per_us: 1,
            dir: None,
        };
        // A batch that is longer than the warm-up and the window.
        let sleep = || || std::thread::sleep(std::time::Duration::from_millis(60));
        let report = measure(&cell, &Real::new(&cell), 1, sleep).unwrap();
        assert!(report.ns_per_op >= Some(6e7), "{report:?}");
    }
}
