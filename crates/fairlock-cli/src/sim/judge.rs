//! How well the simulation agrees with what was published, as a whole and cell by
//! cell. Nothing is left out: what disagrees is listed.

use super::published::{baseline, column, of_lock};
use crate::cell::{Side, Workload};
use crate::row::Row;
use crate::stats::spearman;

/// A cell agrees if its relation to the baseline is within this factor of the
/// published one.
const WITHIN: f64 = 1.5;

/// What the rows of a workload come to.
pub fn judgement(workload: Workload, rows: &[Row]) -> String {
    let mut out = String::new();
    correlation(workload, rows, &mut out);
    agreement(workload, rows, &mut out);
    if workload == Workload::Handoff {
        handoff(rows, &mut out);
    }
    if workload == Workload::ReaderSpin {
        against_best(rows, &mut out);
    }
    out
}

/// The locks of the rows, each once.
fn locks(rows: &[Row]) -> Vec<&str> {
    let mut locks: Vec<&str> = Vec::new();
    for row in rows {
        if !locks.contains(&row.lock.as_str()) {
            locks.push(&row.lock);
        }
    }
    locks
}

/// How many seeds all rows have.
fn seeds(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.by_seed.len()).min().unwrap_or(0)
}

/// Smallest and largest of what each seed comes to; one number if they are the same.
pub fn range(values: impl IntoIterator<Item = f64>, show: impl Fn(f64) -> String) -> String {
    let values: Vec<f64> = values.into_iter().collect();
    let (min, max) = (
        values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN),
        values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN),
    );
    let (min, max) = (show(min), show(max));
    if min == max { min } else { format!("{min} to {max}") }
}

fn two_digits(value: f64) -> String {
    format!("{value:.2}")
}

/// Rank correlation with the published column over the cells, for each seed.
fn correlation(workload: Workload, rows: &[Row], out: &mut String) {
    for lock in locks(rows) {
        let of_lock: Vec<&Row> =
            rows.iter().filter(|r| r.lock == lock && r.comparison.published.is_some()).collect();
        let by_seed = (0..seeds(rows)).filter_map(|seed| {
            let pairs: Vec<(f64, f64)> = of_lock
                .iter()
                .filter_map(|row| Some((row.rate_of(seed)?, row.comparison.published?)))
                .collect();
            spearman(&pairs)
        });
        let by_seed: Vec<f64> = by_seed.collect();
        if let (false, Some(column)) = (by_seed.is_empty(), column(workload, lock)) {
            out.push_str(&format!(
                "rank correlation with column {column} over {} cells: {}\n",
                of_lock.len(),
                range(by_seed, two_digits)
            ));
        }
    }
}

/// The share of cells whose relation to the baseline is about the published one, and
/// those that do not agree.
fn agreement(workload: Workload, rows: &[Row], out: &mut String) {
    let Some(base) = baseline(workload) else { return };
    let cells: Vec<&Row> = rows
        .iter()
        .filter(|r| r.lock != base && r.comparison.published_ratio_to_baseline.is_some())
        .collect();
    if cells.is_empty() {
        return;
    }
    let share = (0..seeds(rows)).map(|seed| {
        let agrees = |row: &&&Row| {
            let base = of_lock(rows, row, base).and_then(|base| base.rate_of(seed));
            let ours = row.rate_of(seed).zip(base).map(|(own, base)| own / base);
            ours.zip(row.comparison.published_ratio_to_baseline)
                .is_some_and(|(ours, published)| is_within(ours, published))
        };
        cells.iter().filter(agrees).count() as f64 / cells.len() as f64
    });
    let base_column = column(workload, base).unwrap_or(base);
    out.push_str(&format!(
        "relation to column {base_column} within {WITHIN}x of the published: {} of {} cells\n",
        range(share, |share| format!("{:.0} %", share * 100.0)),
        cells.len()
    ));
    for row in cells {
        let c = &row.comparison;
        let (ours, published) = match (c.ratio_to_baseline, c.published_ratio_to_baseline) {
            (Some(ours), Some(published)) if !is_within(ours, published) => (ours, published),
            _ => continue,
        };
        out.push_str(&format!(
            "disagrees: {}, {}: {ours:.2} of {base_column}, published {published:.2}\n",
            describe(row),
            c.published_as.as_deref().unwrap_or(&row.lock),
        ));
    }
}

fn is_within(ours: f64, published: f64) -> bool {
    let ratio = ours / published;
    (1.0 / WITHIN..=WITHIN).contains(&ratio)
}

/// The configuration of a row, in words.
fn describe(row: &Row) -> String {
    let mut words = vec![format!("{} threads", row.threads)];
    words.extend(row.cs_load.map(|pauses| format!("{pauses} pauses")));
    words.join(", ")
}

/// Who was starved, the fastest thread in relation to the slowest, and what fairness
/// cost, as ranges over the seeds.
fn handoff(rows: &[Row], out: &mut String) {
    for row in rows {
        let base = of_lock(rows, row, "fairlock:unfair");
        let starved = row.by_seed.iter().filter_map(|f| Some(f.starved_threads? as f64));
        let spread = row.by_seed.iter().filter_map(|f| {
            let (min, max) = (f.min_ops? as f64, f.max_ops? as f64);
            (min > 0.0).then_some(max / min)
        });
        let spread: Vec<f64> = spread.collect();
        let spread = if spread.len() < row.by_seed.len() {
            "infinite".to_owned()
        } else {
            range(spread, two_digits)
        };
        let loss = (0..row.by_seed.len()).filter_map(|seed| {
            let base = base?.rate_of(seed)?;
            Some(100.0 * (1.0 - row.rate_of(seed)? / base))
        });
        out.push_str(&format!(
            "{}, {} threads: starved {}, fastest/slowest {spread}, throughput loss {} %\n",
            row.lock,
            row.threads,
            range(starved, |n| format!("{n:.0}")),
            range(loss, |percent| format!("{percent:.1}")),
        ));
    }
    out.push_str(
        "published: no_handoff starved 28 of 60; handoff_10ms starved 0, fastest/slowest 1.57, \
         loss 18.9 %; immediate handoff 28 times fewer writer operations (later series)\n",
    );
}

/// Each further lock in relation to the best of the published ones, cell by cell.
fn against_best(rows: &[Row], out: &mut String) {
    const FLOOR: f64 = 0.95;
    for lock in locks(rows) {
        if column(Workload::ReaderSpin, lock).is_some() {
            continue;
        }
        let of_lock: Vec<&Row> =
            rows.iter().filter(|row| row.lock == lock && row.side == Side::All).collect();
        let ratio = |row: &Row, seed: usize| {
            let best = rows
                .iter()
                .filter(|other| other.configuration() == row.configuration())
                .filter(|other| column(other.workload, &other.lock).is_some())
                .filter_map(|other| other.rate_of(seed))
                .reduce(f64::max)?;
            Some(row.rate_of(seed)? / best)
        };
        let lowest = (0..seeds(rows))
            .filter_map(|seed| of_lock.iter().filter_map(|r| ratio(r, seed)).reduce(f64::min));
        let lowest: Vec<f64> = lowest.collect();
        if lowest.is_empty() {
            continue;
        }
        let starved = of_lock.iter().filter_map(|row| row.figures.starved_threads).max();
        out.push_str(&format!(
            "{lock}, in relation to the best of the published locks: at worst {}, starved {}\n",
            range(lowest, two_digits),
            starved.unwrap_or(0)
        ));
        for row in of_lock {
            let ratios: Vec<f64> = (0..seeds(rows)).filter_map(|seed| ratio(row, seed)).collect();
            if ratios.iter().any(|&ratio| ratio < FLOOR) {
                out.push_str(&format!(
                    "below {FLOOR}: {}, {lock}: {}\n",
                    describe(row),
                    range(ratios, two_digits)
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_a_factor_in_both_directions() {
        assert!(is_within(1.5, 1.0) && is_within(1.0, 1.5) && is_within(0.3, 0.25));
        assert!(!is_within(1.51, 1.0) && !is_within(1.0, 1.51));
        assert!(!is_within(f64::NAN, 1.0) && !is_within(0.0, 1.0));
    }

    #[test]
    fn a_range_of_one_value_is_that_value() {
        assert_eq!(range([0.801, 0.799], two_digits), "0.80");
        assert_eq!(range([0.9, 0.7, 0.8], two_digits), "0.70 to 0.90");
    }
}
