//! What our locks did, as a table.

use crate::layout::{Column, Table};
use crate::row::{Happened, Row, locks};
use crate::units::digits;

/// A line for each event of each lock, in all of its cells together. Empty if none was counted.
pub fn events(rows: &[&Row], width: Option<usize>) -> String {
    let mut table = Table::new([Column::lock(), Column::name("event"), Column::figure("a 1,000")]);
    let mut is_empty = true;
    for lock in locks(rows.iter().copied()) {
        let of_lock = rows.iter().filter(|row| row.lock == lock);
        let happened = of_lock.filter_map(|row| row.figures.events.clone());
        let Some(Happened { operations, counts }) = happened.reduce(Happened::and) else {
            continue;
        };
        for (event, count) in counts {
            is_empty = false;
            let a_thousand = digits(count as f64 * 1e3 / operations.max(1) as f64);
            table.row([lock.to_owned(), event, a_thousand]);
        }
    }
    if is_empty {
        return String::new();
    }
    table.titled("events of our locks", "a 1,000: events per thousand operations", width)
}
