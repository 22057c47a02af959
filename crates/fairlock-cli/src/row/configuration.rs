//! What rows are compared by, and rows found by that.

use std::collections::HashMap;

use super::Row;
use crate::cell::{Case, Setup, Side, Workload};

/// What rows must share to be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration<'a> {
    /// The simulated machine; none if it was this one.
    pub machine: Option<&'a str>,
    pub workload: Workload,
    pub case: Case,
    pub threads: usize,
    /// The bits of a number that is never compared but for being the same.
    pub overcommit: Option<u64>,
    pub cs_load: Option<u32>,
    pub setup: Setup,
    pub side: Side,
}

/// Rows by configuration. A result has more than ten thousand rows, too many to compare each with
/// all others.
pub struct Index<'a>(HashMap<Configuration<'a>, Vec<&'a Row>>);

impl<'a> Index<'a> {
    pub fn of(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut index: HashMap<_, Vec<_>> = HashMap::new();
        for row in rows {
            index.entry(row.configuration()).or_default().push(row);
        }
        Self(index)
    }

    /// The rows of a configuration, in their order: one for each lock, unless they differ in what was
    /// beside them.
    pub fn rows<'s>(&'s self, configuration: &Configuration<'s>) -> &'s [&'a Row] {
        self.0.get(configuration).map_or(&[], Vec::as_slice)
    }

    /// The row of a lock in a configuration.
    pub fn row(&self, lock: &str, configuration: &Configuration<'_>) -> Option<&'a Row> {
        self.rows(configuration).iter().copied().find(|row| row.lock == lock)
    }
}

/// By how much work grows with the rows.
#[cfg(test)]
pub mod growth {
    use std::cell::Cell;

    use super::*;
    use crate::row::{rows_of_cell, tests::measured};

    thread_local! {
        static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    /// To be called for each row that is looked at.
    pub fn asked() {
        ASKED.set(ASKED.get() + 1);
    }

    /// Fails if a row is asked for its configuration more than a few times, however many rows
    /// there are: two locks in mixes of a workload. What is done within a configuration is not
    /// counted.
    pub fn is_linear(workload: Workload, work: impl FnOnce(&mut [Row])) {
        const ROWS: usize = 2_000;
        const A_FEW: usize = 20;
        let of_lock = |threads: usize, lock, ops| {
            let mut mix = measured(lock, Case::Mixed, Some([ops; 2]), Some([ops; 2]));
            mix.cell.workload = workload;
            mix.cell.threads = threads;
            mix.cell.range.reads_percent = Some(50);
            rows_of_cell(&mix)
        };
        let of_both = |threads| {
            [of_lock(threads, "std", 100), of_lock(threads, "fairlock:rwlock", 50)].concat()
        };
        let mut rows: Vec<Row> = (1..).flat_map(of_both).take(ROWS).collect();
        ASKED.set(0);
        work(&mut rows);
        assert!(ASKED.get() <= A_FEW * ROWS, "{} times for {ROWS} rows", ASKED.get());
    }
}
