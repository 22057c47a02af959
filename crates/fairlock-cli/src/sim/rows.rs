//! Simulated rows, in their order and by configuration.

use super::compare::baseline;
use crate::cell::{Case, Workload};
use crate::row::{Index, Row};
use crate::table::program;
use crate::units::several;

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
    /// The rows that have a published relation to their baseline.
    pub fn related(&self) -> Vec<&'a Row> {
        let is_base = |row: &Row| self.baseline_of(row).is_some_and(|base| std::ptr::eq(base, row));
        self.iter()
            .filter(|row| row.comparison.published_ratio_to_baseline.is_some() && !is_base(row))
            .collect()
    }
}

/// The configuration of a row, in words, with the side if there is another one.
pub fn describe(row: &Row) -> String {
    let is_part = matches!(row.case, Case::Mixed | Case::FullMixed)
        || row.range.reads_percent.is_some_and(|reads| (1..100).contains(&reads));
    let side = if is_part { format!(", {}", row.side.name()) } else { String::new() };
    if row.range.form.is_some() {
        return program::describe(row) + &side;
    }
    let mut words = vec![];
    if row.workload == Workload::Range {
        words.extend(row.machine.clone());
    }
    if row.workload != Workload::ReaderSpin {
        words.push(row.case.name().to_owned());
    }
    words.push(several(row.threads, "thread"));
    words.extend(row.overcommit.map(|x| format!("{x}x")));
    words.extend(row.cs_load.map(|pauses| format!("{pauses} pauses")));
    words.join(", ") + &side
}
