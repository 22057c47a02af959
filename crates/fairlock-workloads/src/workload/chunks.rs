//! The case `chunks` of `batch`, shaped like ebizzy: a thread picks one of many
//! chunks, copies it into memory that it allocates, searches the copy and frees
//! it. The lock guards the allocator.

use std::sync::atomic::Ordering::Relaxed;

use fairlock::platform::Atomic;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::heap::{Heap, UNIT};
use super::tally::{Tally, all};
use super::team::Padded;
use super::testbed::Testbed;
use crate::cell::{Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::BenchLock;

const CHUNKS: usize = 64;
/// Shortest and longest chunk, in units of the allocator: 0.5 to 4 KiB.
const UNITS: (u64, u64) = (8, 64);
/// The size of the arena, in longest chunks for each thread: so large that fragments never fill it.
const ARENA_PER_THREAD: usize = 8;
/// How long a machine that does not do this work spends on choosing and on the search: a thread
/// alone then takes 116 ns for all of it, as on a machine that does.
const LOOK_UP_NS: u64 = 10;

/// Runs one cell.
pub fn run<M: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let arena = cell.threads.div_ceil(testbed.groups()) * ARENA_PER_THREAD * UNITS.1 as usize;
    let group = |_| (Padded(M::create()), Padded(Heap::<T::Word>::new(arena)));
    let groups: Vec<_> = (0..testbed.groups()).map(group).collect();
    let chunks = chunks(cell.seed);
    let (window, results) = testbed.run_team(cell, cell.threads, |index, gate| {
        let (mutex, heap) = &groups[index % groups.len()];
        // A different random sequence for each thread, and not the one of the chunks.
        let mut rng = StdRng::seed_from_u64(cell.seed.wrapping_add(1 + index as u64));
        let mut tally = Tally::new();
        loop {
            let chunk = &chunks[rng.random_range(0..CHUNKS)];
            let wanted = chunk[rng.random_range(0..chunk.len())];

            let (waited, block) =
                timed(&mutex.0, testbed, || heap.0.allocate((chunk.len() / UNIT) as u64));
            tally.wait(testbed.phase(gate), waited);
            let Some(block) = block else { return Err("the allocator ran out of memory") };
            let copy = heap.0.memory(block);
            let found = testbed.fill(copy, || {
                for (word, &value) in copy.iter().zip(chunk) {
                    word.store(value, Relaxed);
                }
                copy.binary_search_by_key(&wanted, |word| word.load(Relaxed))
            });
            testbed.spend(cell.outside_ns + LOOK_UP_NS);
            let (waited, ()) = timed(&mutex.0, testbed, || heap.0.free(block));

            if found.is_err() {
                return Err("a record was not in its copy");
            }
            if tally.count(testbed.phase(gate), waited) {
                return Ok(tally);
            }
        }
    })?;
    let tallies = all(results);
    let tallies = match tallies {
        Ok(tallies) if groups.iter().all(|(_, heap)| heap.0.is_as_new()) => tallies,
        other => {
            let what = other.err().unwrap_or("the allocator is in disorder");
            return Err(Error::failed(format!("the lock does not exclude: {what}")));
        }
    };
    Ok(CellReport::of(window, None, Tally::report(tallies, testbed.ns_per_tick())))
}

/// Runs `section` under the lock; returns how long it was waited for, and its result.
#[inline(always)]
fn timed<M: BenchLock, T: Testbed, R>(
    mutex: &M,
    testbed: &T,
    section: impl FnOnce() -> R,
) -> (u64, R) {
    let side = Side::Write;
    testbed.operation(side, testbed.asks(side), || mutex.write(|| testbed.section(side, section)))
}

/// The chunks to copy and search: of different lengths, of sorted random numbers.
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
        // They are random: the lengths differ, and so do the numbers.
        assert!(all.iter().any(|chunk| chunk.len() != all[0].len()));
        assert!(all[0].windows(2).all(|pair| pair[0] < pair[1]));
    }
}
