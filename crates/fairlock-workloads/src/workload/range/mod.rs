//! `range`: locks on ranges. As a plain lock, for disjoint ranges, for ranges that overlap, beside
//! many that are held, and around the records of a file.

mod array;
mod cost;
mod file;

use crate::cell::{Case, Cell, CellReport, Shape, Workload};
use crate::error::Error;
use crate::locks::range::{BenchRange, EVERYTHING, Range};
use crate::workload::random::Random;
use crate::workload::setup::{Chosen, each, or};
use crate::workload::testbed::Testbed;

/// The full range, as the reader/writer lock it then is; then the others.
pub const CASES: [Case; 8] = [
    Case::FullWrite,
    Case::FullRead,
    Case::FullMixed,
    Case::Array,
    Case::Wide,
    Case::Read,
    Case::Write,
    Case::File,
];
/// Positions of the array.
pub const SLOTS: u64 = 256;
/// Threads of the cases in which threads meet, unless told otherwise.
pub const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Threads of `wide` and `file`.
const MANY: [usize; 1] = [16];
const ONE: [usize; 1] = [1];
/// Sections of `array`, in nanoseconds.
const SECTIONS: [u32; 3] = [100, 1_000, 10_000];
/// The section of the other cases that have one.
const SECTION: [u32; 1] = [1_000];
/// Reads of `array`, in percent.
const READS: [u8; 3] = [0, 60, 100];
/// Ranges that are held while one is taken and given back.
const HELD: [usize; 5] = [0, 16, 256, 4_096, 50_000];

/// The next range of `slots` that a thread takes, which is one of `threads`.
#[inline(always)]
pub fn pick(shape: Shape, slots: u64, threads: usize, index: usize, random: &mut Random) -> Range {
    match shape {
        Shape::Full => EVERYTHING,
        Shape::Disjoint => {
            // With more threads than slots some have to share one.
            let each = (slots / threads as u64).max(1);
            let start = index as u64 * each % slots;
            start..=start + each - 1
        }
        Shape::Random => {
            let (a, b) = (random.below(slots), random.below(slots));
            a.min(b)..=a.max(b)
        }
    }
}

/// The cells of a case.
pub fn cells(case: Case, chosen: &Chosen<'_>) -> Vec<Cell> {
    let threads = match case {
        Case::Read | Case::Write => &ONE,
        Case::Wide | Case::File => or(chosen.threads, &MANY),
        _ => or(chosen.threads, &THREADS),
    };
    let cell = Cell::new(Workload::Range, case, (0, 0));
    let mut all = each(vec![cell], threads, |it, threads| it.threads = threads);
    if matches!(case, Case::FullMixed | Case::Wide) {
        all.retain(|it| it.threads >= 2);
    }
    for it in &mut all {
        let threads = it.threads;
        (it.readers, it.writers) = match case {
            Case::FullRead | Case::Read => (threads, 0),
            Case::FullWrite | Case::Write => (0, threads),
            Case::FullMixed => (threads / 2, threads - threads / 2),
            // One writer of everything, the others read and write.
            Case::Wide => (threads - 1, 1),
            _ => (threads, threads),
        };
    }
    let of_length = |it: &mut Cell, section| it.range.section_ns = Some(section);
    let reading = |it: &mut Cell, reads| it.range.reads_percent = Some(reads);
    match case {
        Case::Read | Case::Write => {
            each(all, or(chosen.held, &HELD), |it, held| it.range.held = Some(held))
        }
        Case::Array => {
            let shapes = or(chosen.shapes, &Shape::ALL);
            let all = each(all, shapes, |it, shape| it.range.shape = Some(shape));
            let all = each(all, or(chosen.reads, &READS), reading);
            each(all, or(chosen.sections, &SECTIONS), of_length)
        }
        Case::File => each(all, &[file::READS], reading),
        _ => each(all, or(chosen.sections, &SECTION), of_length),
    }
}

/// Runs one cell.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    match cell.case {
        Case::Read | Case::Write => cost::run::<L, T>(cell, testbed),
        Case::File => file::run::<L, T>(cell, testbed),
        _ => array::run::<L, T>(cell, testbed),
    }
}
