//! Simulated rows, in their order and by configuration.

use super::compare::baseline;
use crate::row::{Index, Row};

/// Rows to judge and to show.
pub struct Rows<'a> {
    all: Vec<&'a Row>,
    index: Index<'a>,
    /// The number of seeds that every row has.
    pub seeds: usize,
}

impl<'a> Rows<'a> {
    pub fn of(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let all: Vec<&Row> = rows.into_iter().collect();
        let index = Index::of(all.iter().copied());
        let seeds = all.iter().map(|row| row.by_seed.len()).min().unwrap_or(0);
        Self { all, index, seeds }
    }

    pub fn all(&self) -> &[&'a Row] {
        &self.all
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a Row> {
        self.all.iter().copied()
    }

    /// The rows of the same configuration, this one included.
    pub fn beside<'s>(&'s self, row: &'s Row) -> &'s [&'a Row] {
        self.index.rows(&row.configuration())
    }

    /// The row of the lock named `lock` in the same configuration.
    pub fn of_lock(&self, row: &Row, lock: &str) -> Option<&'a Row> {
        self.index.row(lock, &row.configuration())
    }

    /// The baseline of a row: the row of another lock in the same configuration, or of the same
    /// lock's writer alone.
    pub fn baseline_of(&self, row: &Row) -> Option<&'a Row> {
        let (lock, configuration) = baseline(row)?;
        self.index.row(lock, &configuration)
    }
}
