//! Why waits were long, as a table.

use super::rows::Rows;
use crate::cell::{LongWaits, Split};
use crate::layout::{Column, Table};
use crate::row::locks;
use crate::units::{count, percent, time};

/// A line for the long waits of each lock, those of all its cells together, and one for the longest
/// of them. Empty if no wait was long.
pub fn long_waits(rows: &Rows<'_>, width: Option<usize>) -> String {
    let names = Split::default().parts().map(|(name, _)| Column::figure(name));
    let figures = [Column::figure("waits"), Column::figure("time")];
    let mut table = Table::new([Column::lock()].into_iter().chain(figures).chain(names));
    let mut is_empty = true;
    for lock in locks(rows.iter()) {
        let of_lock = rows.iter().filter(|row| row.lock == lock);
        let found = of_lock
            .filter_map(|row| row.figures.long_waits)
            .reduce(LongWaits::and)
            .unwrap_or_default();
        if found.count == 0 {
            continue;
        }
        is_empty = false;
        for (waits, split) in
            [(count(found.count), found.all), ("longest".to_owned(), found.longest)]
        {
            let total = split.total_ns();
            let shares = split.parts().map(|(_, ns)| percent(ns as f64 / total as f64));
            table.row([lock.to_owned(), waits, time(total)].into_iter().chain(shares));
        }
    }
    if is_empty {
        return String::new();
    }
    let note =
        "shares of their time, all seeds; without CPU: awake before; lock free: nobody inside";
    table.titled("waits of more than 1 ms", note, width)
}
