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
