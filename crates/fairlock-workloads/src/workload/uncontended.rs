//! `uncontended`: what one acquire and release costs when nobody else wants the lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::team::{Padded, Phase};
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport};
use crate::error::Error;
use crate::locks::BenchLock;
use crate::locks::typed::{BenchReentrant, BenchUpgradable};
use crate::stats::median;

/// One side at a time, a mutex, what only few locks have, and many locks one after the other.
pub const CASES: [Case; 9] = [
    Case::Read,
    Case::Write,
    Case::Mutex,
    Case::Upgradable,
    Case::Upgrade,
    Case::Reentrant,
    Case::Nested,
    Case::EachWrite,
    Case::EachMutex,
];
/// Operations between two looks at the clock: it must not be part of the result.
const BATCH: u32 = 1_000;
/// How many locks are taken one after the other, if this many bytes have room for them.
const EACH: usize = 10_000_000;
const EACH_BYTES: usize = 16 * EACH;

/// Runs one cell of a reader/writer lock.
pub fn run<L: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let lock = Padded(L::create());
    match cell.case {
        Case::Read => measure(cell, testbed, BATCH, || || lock.0.read(|| ())),
        Case::EachWrite => {
            each(cell, testbed, L::create, |lock: &L, guarded| lock.write(|| add_one(guarded)))
        }
        _ => measure(cell, testbed, BATCH, || || lock.0.write(|| ())),
    }
}

/// Runs one cell of a mutex.
pub fn run_mutex<M: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    if cell.case == Case::EachMutex {
        return each(cell, testbed, M::create, |mutex: &M, guarded| {
            mutex.write(|| add_one(guarded))
        });
    }
    let mutex = Padded(M::create());
    measure(cell, testbed, BATCH, || || mutex.0.write(|| ()))
}

/// Runs one cell of upgradable reads.
pub fn run_upgradable<L: BenchUpgradable, T: Testbed>(
    cell: &Cell,
    testbed: &T,
) -> Result<CellReport, Error> {
    let lock = Padded(L::create());
    match cell.case {
        Case::Upgrade => measure(cell, testbed, BATCH, || || lock.0.upgrade()),
        _ => measure(cell, testbed, BATCH, || || lock.0.read()),
    }
}

/// Runs one cell of a reentrant mutex.
pub fn run_reentrant<M: BenchReentrant, T: Testbed>(
    cell: &Cell,
    testbed: &T,
) -> Result<CellReport, Error> {
    let mutex = Padded(M::create());
    // All operations of a batch are in one section of the outer mutex: so that is no part of the
    // result.
    let nested = || || mutex.0.hold(|| (0..BATCH).for_each(|_| mutex.0.hold(|| ())));
    match cell.case {
        Case::Nested => measure(cell, testbed, 1, nested).map(|report| CellReport {
            ns_per_op: report.ns_per_op.map(|ns| ns / f64::from(BATCH)),
            ..report
        }),
        _ => measure(cell, testbed, BATCH, || || mutex.0.hold(|| ())),
    }
}

/// What a lock of many guards.
type Guarded = AtomicU64;

#[inline(always)]
fn add_one(guarded: &Guarded) {
    guarded.store(guarded.load(Relaxed) + 1, Relaxed);
}

/// Takes many locks, each beside what it guards, one after the other.
fn each<L: Sync, T: Testbed>(
    cell: &Cell,
    testbed: &T,
    create: impl Fn() -> L,
    hold: impl Fn(&L, &Guarded) + Sync,
) -> Result<CellReport, Error> {
    let count = EACH.min(EACH_BYTES / size_of::<(L, Guarded)>());
    let locks: Vec<_> = (0..count).map(|_| (create(), Guarded::new(0))).collect();
    measure(cell, testbed, BATCH, || {
        let (mut next, hold) = (locks.iter().cycle(), &hold);
        move || {
            if let Some((lock, guarded)) = next.next() {
                hold(lock, guarded);
            }
        }
    })
}

/// What one operation costs, of the kind that `start` makes, with `batch` of them between two looks
/// at the clock. The result is the median over batches, so a batch in which the thread was
/// preempted does not count.
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
                    // A thread that had no CPU in the window still reports one batch.
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

/// Not compiled for each lock.
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
    use crate::cell::Workload;
    use crate::workload::testbed::Real;

    #[test]
    fn a_thread_that_misses_the_window_is_measured_all_the_same() {
        let cell = Cell { secs: 0.0, ..Cell::new(Workload::Uncontended, Case::Mutex, (0, 1)) };
        // A batch that is longer than the warm-up and the window.
        let sleep = || || std::thread::sleep(std::time::Duration::from_millis(60));
        let report = measure(&cell, &Real::new(&cell), 1, sleep).unwrap();
        assert!(report.ns_per_op >= Some(6e7), "{report:?}");
    }
}
