//! `batch`: a mutex, and more threads than CPUs. How fast is it, and who gets it?
//!
//! Both cases check that the lock excludes, as part of the work: an increment
//! that gets lost, or an allocator that two threads were in at once, fails the run.

use std::sync::atomic::Ordering;

use fairlock::platform::Atomic;

use super::chunks;
use super::contend::repeat;
use super::tally::Tally;
use super::team::Padded;
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport, Side};
use crate::error::Error;
use crate::locks::BenchLock;

/// Threads relative to CPUs: the published run's, and more.
pub const OVERCOMMIT: [f64; 7] = [0.5, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0];
/// A section that does next to nothing, or those of an allocator.
pub const CASES: [Case; 2] = [Case::Tiny, Case::Chunks];
/// Pauses in the section of `tiny`, unless told otherwise.
pub const CS_LOAD: u32 = 50;

/// Runs one cell.
pub fn run<M: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    if cell.case == Case::Chunks {
        chunks::run::<M, T>(cell, testbed)
    } else {
        tiny::<M, T>(cell, testbed)
    }
}

/// Increments a number that all threads of a group share.
fn tiny<M: BenchLock, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let groups: Vec<(Padded<M>, Padded<T::Word>)> =
        (0..testbed.groups()).map(|_| (Padded(M::create()), Padded(T::Word::new(0)))).collect();
    let (window, results) = testbed.run_team(cell, cell.threads, |index, gate| {
        let (mutex, number) = &groups[index % groups.len()];
        let mut increments = 0;
        let tally = repeat(testbed, gate, Side::Write, &mutex.0, || {
            increments += 1;
            // A load and a store: only the mutex makes them one. For the same reason Relaxed is
            // enough.
            let before = number.0.load(Ordering::Relaxed);
            testbed.pauses(cell.cs_load);
            number.0.store(before + 1, Ordering::Relaxed);
        });
        (tally, increments)
    })?;
    let (tallies, increments): (Vec<Tally>, Vec<u64>) = results.into_iter().unzip();
    let kept: u64 = groups.iter().map(|(_, number)| number.0.load(Ordering::Relaxed)).sum();
    let lost = increments.iter().sum::<u64>() - kept;
    if lost > 0 {
        return Err(Error::failed(format!(
            "the lock does not exclude: {lost} increments were lost"
        )));
    }
    Ok(CellReport::of(window, None, Tally::report(tallies, testbed.ns_per_tick())))
}
