//! `spread`: each operation is on one of many locks, chosen at random, with nothing in between. A
//! thread that waits at one lock does nothing at the others. So a lock that is handed to a sleeper,
//! or stands free while its waiters sleep, slows all threads down.

use super::setup::{Chosen, grid};
use crate::cell::{Case, Cell, Form, Workload};

/// The section is CPU work.
pub const CASES: [Case; 1] = [Case::Busy];
/// The grid, and which part of it is for a first impression. Nanoseconds inside; how many locks
/// there are, or for the range lock, how many positions.
const GRID: Chosen<'_> = Chosen {
    forms: &Form::ALL,
    threads: &[4, 8, 32],
    sections: &[50],
    among: &[1, 16, 64, 1_000],
    reads: &[0, 90],
    ..Chosen::NOTHING
};
const QUICK: Chosen<'_> = Chosen { threads: &[32], among: &[64], ..GRID };

/// The cells of all forms, or of those chosen.
pub fn cells(chosen: &Chosen<'_>) -> Vec<Cell> {
    grid(Workload::Spread, Case::Busy, chosen, if chosen.quick { &QUICK } else { &GRID })
}
