//! `spread`: each operation is on one of many locks, chosen at random, with nothing in between. A
//! thread that waits at one lock does nothing at the others. So a lock that is handed to a sleeper,
//! or stands free while its waiters sleep, slows all threads down.

use super::program::configuration;
use super::setup::{Chosen, Configuration, or};
use crate::cell::{Case, Form, Setup};

/// The section is CPU work.
pub const CASES: [Case; 1] = [Case::Busy];
/// The grid, and which part of it is for a first impression.
const THREADS: [usize; 3] = [4, 8, 32];
const QUICK_THREADS: [usize; 1] = [32];
/// How many locks there are; for the range lock, how many positions.
const AMONG: [usize; 4] = [1, 16, 64, 1_000];
const QUICK_AMONG: [usize; 1] = [64];
/// Nanoseconds inside.
const SECTIONS: [u32; 1] = [50];
/// Reads in a hundred operations. A mutex has none.
const READS: [u8; 2] = [0, 90];

/// The configurations of all forms, or of those chosen.
pub fn configurations(chosen: &Chosen<'_>, quick: bool) -> Vec<Configuration> {
    let threads: &[usize] = if quick { &QUICK_THREADS } else { &THREADS };
    let among: &[usize] = if quick { &QUICK_AMONG } else { &AMONG };
    let mut all = Vec::new();
    for &form in or(chosen.forms, &Form::ALL) {
        let reads = or(chosen.reads, &READS).iter();
        for &reads in reads.filter(|&&reads| form.can_read() || reads == 0) {
            for &section in or(chosen.sections, &SECTIONS) {
                for &among in or(chosen.among, among) {
                    for &threads in or(chosen.threads, threads) {
                        all.push(configuration(
                            threads,
                            reads,
                            Setup {
                                form: Some(form),
                                section_ns: Some(section),
                                among: Some(among),
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
