//! Readers and writers that do nothing but take one lock, again and again.

use super::tally::Tally;
use super::team::{Gate, Padded, Phase, run_team};
use crate::cell::{Cell, CellReport};
use crate::clock::Clock;
use crate::error::Error;
use crate::locks::BenchLock;

/// Runs the cell's readers and writers with these sections.
pub fn contend<L: BenchLock>(
    cell: &Cell,
    read_section: impl Fn() + Sync,
    write_section: impl Fn() + Sync,
) -> Result<CellReport, Error> {
    let lock = Padded(L::create());
    let clock = Clock::start();
    let threads = cell.readers + cell.writers;
    let (window, tallies) = run_team(cell, threads, |index, gate| {
        let reads = is_reader(index, cell.readers, threads);
        let tally = if reads {
            repeat(gate, &clock, |clock| {
                lock.0.read(|| {
                    let acquired = clock.now();
                    read_section();
                    acquired
                })
            })
        } else {
            repeat(gate, &clock, |clock| {
                lock.0.write(|| {
                    let acquired = clock.now();
                    write_section();
                    acquired
                })
            })
        };
        (reads, tally)
    })?;
    let (readers, writers): (Vec<_>, Vec<_>) = tallies.into_iter().partition(|(reads, _)| *reads);
    let side = |tallies: Vec<(bool, Tally)>| {
        Tally::report(tallies.into_iter().map(|(_, tally)| tally).collect(), &clock)
    };
    Ok(CellReport {
        elapsed_secs: window.as_secs_f64(),
        read: side(readers),
        write: side(writers),
        ns_per_op: None,
    })
}

/// One thread: `operate` acquires, works, releases, and says when it acquired.
#[inline(always)]
pub fn repeat(gate: &Gate, clock: &Clock, mut operate: impl FnMut(&Clock) -> u64) -> Tally {
    let mut tally = Tally::new();
    loop {
        let asked = clock.now();
        let acquired = operate(clock);
        let phase = gate.phase();
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
