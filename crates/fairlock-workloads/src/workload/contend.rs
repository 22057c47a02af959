//! Readers and writers that do nothing but take one lock, again and again.

use std::time::Duration;

use super::tally::{Tally, by_side};
use super::team::Padded;
use super::testbed::Testbed;
use crate::cell::{Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::BenchLock;

/// Runs the cell's readers and writers with these sections.
pub fn contend<L: BenchLock, T: Testbed>(
    cell: &Cell,
    testbed: &T,
    read_section: impl Fn() + Sync,
    write_section: impl Fn() + Sync,
) -> Result<CellReport, Error> {
    let lock = Padded(L::create());
    let threads = cell.readers + cell.writers;
    let (window, tallies) = testbed.run_team(cell, threads, |index, gate| {
        let reads = is_reader(index, cell.readers, threads);
        let tally = if reads {
            repeat(testbed, gate, Side::Read, &lock.0, &read_section)
        } else {
            repeat(testbed, gate, Side::Write, &lock.0, &write_section)
        };
        (reads, tally)
    })?;
    Ok(report(window, tallies, testbed.ns_per_tick()))
}

/// The report of threads that read or do not. Not compiled for each lock.
fn report(window: Duration, tallies: Vec<(bool, Tally)>, ns_per_tick: f64) -> CellReport {
    let [read, write] = by_side(tallies).map(|side| Tally::report(side, ns_per_tick));
    CellReport::of(window, read, write)
}

/// The loop of one thread: takes the lock for a section again and again.
#[inline(always)]
pub fn repeat<L: BenchLock, T: Testbed>(
    testbed: &T,
    gate: &T::Gate,
    side: Side,
    lock: &L,
    mut section: impl FnMut(),
) -> Tally {
    let mut tally = Tally::new();
    loop {
        let (waited, ()) = testbed.operation(side, testbed.asks(side), || {
            lock.hold(side, || testbed.section(side, &mut section))
        });
        if tally.count(testbed.phase(gate), waited) {
            return tally;
        }
    }
}

/// Spreads the readers evenly among the threads, in the order they start.
pub fn is_reader(index: usize, readers: usize, threads: usize) -> bool {
    (index + 1) * readers / threads > index * readers / threads
}

#[cfg(test)]
mod tests {
    use super::is_reader;

    #[test]
    fn readers_are_spread_and_as_many_as_asked_for() {
        for (readers, threads) in [(0, 5), (5, 5), (1, 2), (3, 7), (48, 96)] {
            let count = (0..threads).filter(|&i| is_reader(i, readers, threads)).count();
            assert_eq!(count, readers);
        }
        assert!(is_reader(1, 2, 4) && is_reader(3, 2, 4) && !is_reader(0, 2, 4));
    }
}
