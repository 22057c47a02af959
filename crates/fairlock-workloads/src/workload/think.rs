//! `think`: threads that work outside the lock as well as inside; whether an operation is a read or
//! a write is chosen at random. Most programs are like that: a thread that has released a lock does
//! something else first.

use super::setup::{Chosen, grid};
use crate::cell::{Case, Cell, Form, Shape, Workload};

/// The section is CPU work.
pub const CASES: [Case; 1] = [Case::Busy];
/// Nanoseconds of the longest section.
pub const LONGEST_SECTION: u32 = 1_000;
/// The grid, and which part of it is for a first impression. Nanoseconds inside; work outside,
/// relative to that inside.
const GRID: Chosen<'_> = Chosen {
    forms: &Form::ALL,
    threads: &[2, 8, 32, 96],
    sections: &[10, LONGEST_SECTION],
    outside: &[0, 1, 10, 100, 1_000],
    reads: &[0, 50, 90, 99],
    ..Chosen::NOTHING
};
const QUICK: Chosen<'_> =
    Chosen { threads: &[8, 32], sections: &[10], outside: &[0, 100], reads: &[0, 90], ..GRID };

/// The cells of all forms, or of those chosen.
pub fn cells(chosen: &Chosen<'_>) -> Vec<Cell> {
    let mut all =
        grid(Workload::Think, Case::Busy, chosen, if chosen.quick { &QUICK } else { &GRID });
    for setup in all.iter_mut().map(|it| &mut it.range) {
        setup.shape = (setup.form == Some(Form::Range)).then_some(Shape::Random);
    }
    all
}
