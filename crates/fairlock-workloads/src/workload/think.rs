//! `think`: threads that work outside the lock as well as inside; whether an operation is a read or
//! a write is chosen at random. Most programs are like that: a thread that has released a lock does
//! something else first.

use super::program::configuration;
use super::setup::{Chosen, Configuration, or};
use crate::cell::{Case, Form, Setup, Shape};

/// The section is CPU work.
pub const CASES: [Case; 1] = [Case::Busy];
/// The grid, and which part of it is for a first impression.
const THREADS: [usize; 4] = [2, 8, 32, 96];
const QUICK_THREADS: [usize; 2] = [8, 32];
/// Nanoseconds inside.
const SECTIONS: [u32; 2] = [10, 1_000];
/// The longest of them.
pub const LONGEST_SECTION: u32 = SECTIONS[1];
const QUICK_SECTIONS: [u32; 1] = [10];
/// Work outside, relative to that inside.
const OUTSIDE: [u32; 5] = [0, 1, 10, 100, 1_000];
const QUICK_OUTSIDE: [u32; 2] = [0, 100];
/// Reads in a hundred operations. A mutex has none.
const READS: [u8; 4] = [0, 50, 90, 99];
const QUICK_READS: [u8; 2] = [0, 90];

/// The configurations of all forms, or of those chosen.
pub fn configurations(chosen: &Chosen<'_>, quick: bool) -> Vec<Configuration> {
    let threads: &[usize] = if quick { &QUICK_THREADS } else { &THREADS };
    let sections: &[u32] = if quick { &QUICK_SECTIONS } else { &SECTIONS };
    let outside: &[u32] = if quick { &QUICK_OUTSIDE } else { &OUTSIDE };
    let reads: &[u8] = if quick { &QUICK_READS } else { &READS };
    let mut all = Vec::new();
    for &form in or(chosen.forms, &Form::ALL) {
        let reads = or(chosen.reads, reads).iter();
        for &reads in reads.filter(|&&reads| form.can_read() || reads == 0) {
            for &section in or(chosen.sections, sections) {
                for &outside in or(chosen.outside, outside) {
                    for &threads in or(chosen.threads, threads) {
                        all.push(configuration(
                            threads,
                            reads,
                            Setup {
                                form: Some(form),
                                shape: (form == Form::Range).then_some(Shape::Random),
                                section_ns: Some(section),
                                outside: Some(outside),
                                ..Setup::default()
                            },
                        ));
                    }
                }
            }
        }
    }
    all
}
