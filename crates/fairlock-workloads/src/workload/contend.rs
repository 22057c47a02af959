//! Readers and writers that do nothing but take one lock, again and again.

use std::time::Duration;

use super::tally::Tally;
use super::team::{Padded, Phase};
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
            repeat(testbed, gate, Side::Read, || {
                lock.0.read(|| {
                    let acquired = testbed.acquired(Side::Read);
                    read_section();
                    testbed.leaves(Side::Read);
                    acquired
                })
            })
        } else {
            repeat(testbed, gate, Side::Write, || {
                lock.0.write(|| {
                    let acquired = testbed.acquired(Side::Write);
                    write_section();
                    testbed.leaves(Side::Write);
                    acquired
                })
            })
        };
        (reads, tally)
    })?;
    Ok(report(window, tallies, testbed.ns_per_tick()))
}

/// The report of threads that read or do not. Not compiled for each lock.
fn report(window: Duration, tallies: Vec<(bool, Tally)>, ns_per_tick: f64) -> CellReport {
    let (readers, writers): (Vec<_>, Vec<_>) = tallies.into_iter().partition(|(reads, _)| *reads);
    let side = |tallies: Vec<(bool, Tally)>| {
        Tally::report(tallies.into_iter().map(|(_, tally)| tally).collect(), ns_per_tick)
    };
    CellReport {
        elapsed_secs: window.as_secs_f64(),
        read: side(readers),
        write: side(writers),
        ..CellReport::default()
    }
}

/// The loop of one thread: `operate` acquires, works, releases, and returns when it acquired.
#[inline(always)]
pub fn repeat<T: Testbed>(
    testbed: &T,
    gate: &T::Gate,
    side: Side,
    mut operate: impl FnMut() -> u64,
) -> Tally {
    let mut tally = Tally::new();
    loop {
        let asked = testbed.asks(side);
        let acquired = operate();
        testbed.released(side);
        let phase = testbed.phase(gate);
        tally.count(phase, acquired.saturating_sub(asked));
        if phase == Phase::Stop {
            return tally;
        }
    }
}

/// Spreads the readers evenly among the threads, in the order they start.
fn is_reader(index: usize, readers: usize, threads: usize) -> bool {
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
