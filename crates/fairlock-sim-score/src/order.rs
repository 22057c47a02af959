//! Whether locks come in the order in which they were published or measured.

use std::collections::HashMap;

use fairlock_cli::simulated::{Row, Rows, describe, is_real, several, two_digits};

use crate::stats::spearman;

/// The rows, those of each configuration together.
fn configurations<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Vec<&'a Row>> {
    let mut all: Vec<Vec<&Row>> = Vec::new();
    let mut places = HashMap::new();
    for row in rows {
        let place = *places.entry(row.configuration()).or_insert(all.len());
        if place == all.len() {
            all.push(Vec::new());
        }
        all[place].push(row);
    }
    all
}

/// The locks of rows, the fastest first.
fn order<'a>(rows: &[&'a Row], rate: impl Fn(&Row) -> Option<f64>) -> Vec<&'a str> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| rate(b).unwrap_or(0.0).total_cmp(&rate(a).unwrap_or(0.0)));
    rows.iter().map(|row| row.lock.as_str()).collect()
}

/// `batch`: says whether the locks of each configuration, other than the baseline, come in the
/// published order.
pub fn of_columns(rows: &Rows<'_>, out: &mut String) {
    let columns = rows.related().into_iter().filter(|row| !is_real(row));
    for beside in configurations(columns).into_iter().filter(|beside| beside.len() > 1) {
        let published = order(&beside, |row| row.comparison.published);
        let ours = order(&beside, Row::rate);
        let agreeing = (0..rows.seeds)
            .filter(|&seed| order(&beside, |row| row.rate_of(seed)) == published)
            .count();
        let mark = if ours == published { "agrees" } else { "disagrees" };
        out.push_str(&format!(
            "order of the columns {mark}: {}; with {agreeing} of {} by themselves\n",
            describe(beside[0]),
            several(rows.seeds, "seed")
        ));
        if ours != published {
            out.push_str(&format!("  simulated: {}\n", ours.join(" > ")));
            out.push_str(&format!("  published: {}\n", published.join(" > ")));
        }
    }
}

/// Says whether the locks of each configuration come in the measured order.
pub fn of_locks(rows: &Rows<'_>, out: &mut String) {
    let measured = rows.iter().filter(|row| is_real(row));
    for beside in configurations(measured).into_iter().filter(|beside| beside.len() > 1) {
        let row = beside[0];
        let (ours, real) =
            (order(&beside, Row::rate), order(&beside, |row| row.comparison.published));
        let pairs: Vec<(f64, f64)> =
            beside.iter().filter_map(|row| row.rate().zip(row.comparison.published)).collect();
        let rank = spearman(&pairs).map_or_else(|| "-".to_owned(), two_digits);
        let contradicts = |a: &&Row, b: &&Row| is_faster(a, b) && a.rate() <= b.rate();
        let mark = if ours == real {
            "order agrees"
        } else if beside.iter().any(|a| beside.iter().any(|b| contradicts(a, b))) {
            "order disagrees"
        } else {
            "order undecided, as measurements overlap"
        };
        out.push_str(&format!("{mark}: {}, rank correlation {rank}\n", describe(row)));
        if ours != real {
            out.push_str(&format!("  simulated: {}\n", ours.join(" > ")));
            out.push_str(&format!("  measured:  {}\n", real.join(" > ")));
        }
    }
}

/// Whether each measurement of a lock was faster than all of another's.
fn is_faster(row: &Row, other: &Row) -> bool {
    let (low, high) = (row.comparison.measured_min, other.comparison.measured_max);
    low.zip(high).is_some_and(|(low, high)| low > high)
}
