//! Tables made from lists of columns: each column says what it shows of a row.

use super::{marked, or_dash};
use crate::layout::{Column, NOTHING, Table};
use crate::row::Row;

/// One column: its head, what it may lose, and what it shows of a row.
#[derive(Clone, Copy)]
pub struct Shown {
    pub head: &'static str,
    column: fn(&'static str) -> Column,
    pub cell: fn(&Row) -> String,
}

/// A column that says what was run, which can be said once for all rows where it is the same.
pub const fn shared(head: &'static str, cell: fn(&Row) -> String) -> Shown {
    Shown { head, column: |head| Column::figure(head).shared(), cell }
}

/// A column of figures.
pub const fn figure(head: &'static str, cell: fn(&Row) -> String) -> Shown {
    Shown { head, column: |head| Column::figure(head), cell }
}

/// A column of figures that may be left out where they have no room, before those of [`less`].
pub const fn minor(head: &'static str, cell: fn(&Row) -> String) -> Shown {
    Shown { head, column: |head| Column::figure(head).rank(1), cell }
}

pub const fn less(head: &'static str, cell: fn(&Row) -> String) -> Shown {
    Shown { head, column: |head| Column::figure(head).rank(2), cell }
}

pub const MACHINE: Shown = shared("machine", |row| or_dash(row.machine.clone(), |name| name));
pub const LOCK: Shown = Shown { head: "lock", column: |_| Column::lock(), cell: marked };

/// The table of these rows. A column that is empty in all rows is left out.
pub fn table(columns: &[Shown], rows: &[&Row]) -> Table {
    let is_used = |shown: &&Shown| rows.iter().any(|row| (shown.cell)(row) != NOTHING);
    let columns: Vec<&Shown> = columns.iter().filter(is_used).collect();
    let mut table = Table::new(columns.iter().map(|shown| (shown.column)(shown.head)));
    for row in rows {
        table.row(columns.iter().map(|shown| (shown.cell)(row)));
    }
    table
}
