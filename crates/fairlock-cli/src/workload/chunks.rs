//! The case `chunks` of `batch`, shaped like ebizzy: a thread picks one of many
//! chunks, copies it into memory that it allocates, searches the copy and frees
//! it. The lock guards the allocator.

use std::sync::atomic::Ordering::Relaxed;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::heap::{Heap, UNIT};
use super::tally::Tally;
use super::team::{Padded, Phase, run_team};
use crate::cell::{Cell, CellReport};
use crate::clock::Clock;
use crate::error::Error;
use crate::locks::BenchMutex;

const CHUNKS: usize = 64;
/// Shortest and longest chunk, in units of the allocator: 0.5 to 4 KiB.
const UNITS: (u64, u64) = (8, 64);
/// The arena, in longest chunks a thread: so much that fragments never fill it.
const ARENA_PER_THREAD: usize = 8;

/// Runs one cell.
pub fn run<M: BenchMutex>(cell: &Cell) -> Result<CellReport, Error> {
    let mutex = Padded(M::create());
    let heap = Padded(Heap::new(cell.threads * ARENA_PER_THREAD * UNITS.1 as usize));
    let chunks = chunks(cell.seed);
    let clock = Clock::start();
    let (window, results) = run_team(cell, cell.threads, |index, gate| {
        // Another stream for each thread, and another than the chunks'.
        let mut rng = StdRng::seed_from_u64(cell.seed.wrapping_add(1 + index as u64));
        let mut tally = Tally::new();
        loop {
            let chunk = &chunks[rng.random_range(0..CHUNKS)];
            let wanted = chunk[rng.random_range(0..chunk.len())];

            let (waited, block) =
                timed(&mutex.0, &clock, || heap.0.allocate((chunk.len() / UNIT) as u64));
            tally.wait(gate.phase(), waited);
            let Some(block) = block else { return Err("the allocator ran out of memory") };
            let copy = heap.0.memory(block);
            for (word, &value) in copy.iter().zip(chunk) {
                word.store(value, Relaxed);
            }
            let found = copy.binary_search_by_key(&wanted, |word| word.load(Relaxed));
            let (waited, ()) = timed(&mutex.0, &clock, || heap.0.free(block));

            if found.is_err() {
                return Err("a record was not in its copy");
            }
            let phase = gate.phase();
            tally.count(phase, waited);
            if phase == Phase::Stop {
                return Ok(tally);
            }
        }
    })?;
    let tallies = results.into_iter().collect::<Result<Vec<_>, _>>();
    let tallies = match tallies {
        Ok(tallies) if heap.0.is_as_new() => tallies,
        other => {
            let what = other.err().unwrap_or("the allocator is in disorder");
            return Err(Error::failed(format!("the lock does not exclude: {what}")));
        }
    };
    Ok(CellReport {
        elapsed_secs: window.as_secs_f64(),
        write: Tally::report(tallies, &clock),
        ..CellReport::default()
    })
}

/// Runs `section` under the lock; the ticks until it began, and its result.
#[inline(always)]
fn timed<M: BenchMutex, R>(mutex: &M, clock: &Clock, section: impl FnOnce() -> R) -> (u64, R) {
    let asked = clock.now();
    let (acquired, result) = mutex.hold(|| (clock.now(), section()));
    (acquired.saturating_sub(asked), result)
}

/// What there is to look up: chunks of different lengths, of sorted random numbers.
fn chunks(seed: u64) -> Vec<Vec<u64>> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..CHUNKS)
        .map(|_| {
            let units = rng.random_range(UNITS.0..=UNITS.1) as usize;
            let mut chunk: Vec<u64> = (0..units * UNIT).map(|_| rng.random()).collect();
            chunk.sort_unstable();
            chunk
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_from_the_seed_and_are_sorted() {
        let all = chunks(1);
        assert!(all == chunks(1) && all != chunks(2));
        assert!(all.iter().all(|chunk| chunk.is_sorted()));
        // Really random: the lengths differ, and so do the numbers.
        assert!(all.iter().any(|chunk| chunk.len() != all[0].len()));
        assert!(all[0].windows(2).all(|pair| pair[0] < pair[1]));
    }
}
