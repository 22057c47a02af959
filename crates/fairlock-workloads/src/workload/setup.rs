//! The cells of workloads that have many.

use crate::cell::{Case, Cell, Form, Holder, Shape, Workload};

/// What was asked for in place of the defaults; if empty, the defaults are used. Also the defaults
/// of a workload: what it does not have is empty.
pub struct Chosen<'a> {
    /// Whether the defaults are those of a first impression.
    pub quick: bool,
    pub forms: &'a [Form],
    pub threads: &'a [usize],
    pub shapes: &'a [Shape],
    pub reads: &'a [u8],
    pub sections: &'a [u32],
    pub held: &'a [usize],
    pub outside: &'a [u32],
    pub among: &'a [usize],
    pub holders: &'a [Holder],
}

impl Chosen<'_> {
    pub const NOTHING: Self = Self {
        quick: false,
        forms: &[],
        threads: &[],
        shapes: &[],
        reads: &[],
        sections: &[],
        held: &[],
        outside: &[],
        among: &[],
        holders: &[],
    };
}

/// What was chosen, or the default.
pub fn or<'a, T>(chosen: &'a [T], default: &'a [T]) -> &'a [T] {
    if chosen.is_empty() { default } else { chosen }
}

/// How many threads read, and how many write: all of them do both, or only one of these.
pub fn sides(threads: usize, reads: u8) -> (usize, usize) {
    (if reads > 0 { threads } else { 0 }, if reads < 100 { threads } else { 0 })
}

/// Cells: for each one before, one with each of these values.
pub fn each<T: Copy>(all: Vec<Cell>, values: &[T], set: impl Fn(&mut Cell, T)) -> Vec<Cell> {
    let mut with_values = Vec::new();
    for before in all {
        for &value in values {
            let mut cell = before.clone();
            set(&mut cell, value);
            with_values.push(cell);
        }
    }
    with_values
}

/// All cells of what was chosen, of a workload with these defaults. A mutex has no reads.
pub fn grid(
    workload: Workload,
    case: Case,
    chosen: &Chosen<'_>,
    default: &Chosen<'_>,
) -> Vec<Cell> {
    let mut all = vec![Cell::new(workload, case, (0, 0))];
    macro_rules! axis {
        ($axis:ident, $set:expr) => {
            if !default.$axis.is_empty() {
                all = each(all, or(chosen.$axis, default.$axis), $set);
            }
        };
    }
    axis!(forms, |it, form| it.range.form = Some(form));
    axis!(reads, |it, reads| it.range.reads_percent = Some(reads));
    axis!(sections, |it, section| it.range.section_ns = Some(section));
    axis!(outside, |it, outside| it.range.outside = Some(outside));
    axis!(among, |it, among| it.range.among = Some(among));
    axis!(holders, |it, holder| it.range.holder = Some(holder));
    axis!(threads, |it, threads| it.threads = threads);
    all.retain(|it| it.range.form != Some(Form::Mutex) || it.range.reads_percent == Some(0));
    for it in &mut all {
        (it.readers, it.writers) = sides(it.threads, it.range.reads_percent.unwrap_or(0));
    }
    all
}
