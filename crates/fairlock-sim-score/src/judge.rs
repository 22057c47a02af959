//! How well the simulation agrees with what was published or measured: as a whole, and cell by
//! cell. All cells that disagree are listed.

use std::collections::HashMap;

use fairlock_cli::simulated::{
    Figures, Row, Rows, batches_of_few_threads, count, describe, immediate_fewer, is_real,
    is_relative, latency_ns, locks, ops_of_a_thread, or_dash, range, several, sizes_of_ranges,
    time, two_digits,
};

use crate::cell::{Case, Side, Workload};
use crate::null::{self, side_of};
use crate::order;
use crate::stats::spearman;

/// A cell agrees if its relation to the baseline is within this factor of the published or measured one.
const WITHIN: f64 = 1.5;

/// Stands behind cells whose measurement is unsure.
const UNSURE: &str = ", unsure as measured";

/// Lines that say how the rows of a workload agree.
pub fn judgement(workload: Workload, rows: &Rows<'_>) -> String {
    let mut out = String::new();
    if rows.iter().any(is_real) {
        order::of_locks(rows, &mut out);
    } else {
        correlation(rows, &mut out);
    }
    agreement(rows, &mut out);
    out.push_str(&null::in_words(&null::scores(rows)));
    match workload {
        Workload::Handoff => fairness(rows, &mut out),
        Workload::ReaderSpin => against_best(rows, &mut out),
        Workload::Batch => {
            order::of_columns(rows, &mut out);
            of_the_unfair(rows, &mut out);
            out.push_str(&batches_of_few_threads(rows.all()));
        }
        Workload::DirectIo => latencies(rows, &mut out),
        Workload::Range => {
            signs(rows, &mut out);
            scaling(rows, &mut out);
            if rows.iter().any(|row| row.comparison.published.is_some()) {
                out.push_str(&sizes_of_ranges(rows.all()));
            }
        }
        _ => {}
    }
    out
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A row's rate with a seed, in relation to the other row's.
fn relation(row: &Row, other: Option<&Row>, seed: usize) -> Option<f64> {
    Some(row.rate_of(seed)? / other?.rate_of(seed)?).filter(|ratio| ratio.is_finite())
}

/// The same with each of so many seeds.
fn relations(seeds: usize, row: &Row, other: Option<&Row>) -> Vec<f64> {
    (0..seeds).filter_map(|seed| relation(row, other, seed)).collect()
}

/// A row's rate in relation to its baseline's: infinite if the baseline got nothing done, none if
/// neither did.
fn to_base(row: &Row, base: Option<&Row>) -> Option<f64> {
    Some(row.rate()? / base?.rate()?).filter(|ratio| !ratio.is_nan())
}

/// Says the rank correlation with each published column over the cells, for each seed.
fn correlation(rows: &Rows<'_>, out: &mut String) {
    for lock in locks(rows.iter()) {
        let by_seed = correlations(rows, lock);
        let of_lock = || of_published(rows, lock);
        let column = of_lock().find_map(|row| row.comparison.published_as.as_deref());
        if let Some(column) = column.filter(|_| !by_seed.is_empty()) {
            out.push_str(&format!(
                "rank correlation with column {column} over {}: {}\n",
                several(of_lock().count(), "cell"),
                range(by_seed, two_digits)
            ));
        }
    }
}

fn of_published<'a>(rows: &Rows<'a>, lock: &str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |r| r.lock == lock && r.comparison.published.is_some())
}

/// A lock's rank correlation with its published column, for each seed; empty if it has no column.
fn correlations(rows: &Rows<'_>, lock: &str) -> Vec<f64> {
    // Columns of relative figures are compared with relative rates.
    let ours = |row: &Row, seed| match is_relative(row) {
        true => relation(row, rows.baseline_of(row), seed),
        false => row.rate_of(seed),
    };
    let of_seed = |seed| {
        let pairs: Vec<(f64, f64)> = of_published(rows, lock)
            .filter_map(|row| Some((ours(row, seed)?, row.comparison.published?)))
            .collect();
        spearman(&pairs)
    };
    (0..rows.seeds).filter_map(of_seed).collect()
}

/// What was simulated with a seed, and what it is compared by.
type Pair<'a> = &'a dyn Fn(&Row, usize) -> Option<(f64, f64)>;

/// The share of these cells in which the two are within bounds of each other, for each seed; empty
/// if there are no cells.
fn shares(rows: &Rows<'_>, cells: &[&Row], pair: Pair<'_>) -> Vec<f64> {
    let agrees = |row: &Row, seed| pair(row, seed).is_some_and(|(ours, to)| is_within(ours, to));
    let share =
        |seed| cells.iter().filter(|row| agrees(row, seed)).count() as f64 / cells.len() as f64;
    if cells.is_empty() { Vec::new() } else { (0..rows.seeds).map(share).collect() }
}

/// The same of their relations to the baseline.
fn shares_of_related(rows: &Rows<'_>, cells: &[&Row]) -> Vec<f64> {
    shares(rows, cells, &|row, seed| {
        let ours = relation(row, rows.baseline_of(row), seed);
        ours.zip(row.comparison.published_ratio_to_baseline)
    })
}

/// Whether a measurement says less than what it is compared by: it was disturbed, or its runs differ by
/// more.
fn is_unsure(row: &Row) -> bool {
    let c = &row.comparison;
    let differ = c.measured_max.zip(c.measured_min).is_some_and(|(max, min)| max > WITHIN * min);
    differ || c.measured_disturbed == Some(true)
}

/// The cells in two lists, each unless it is empty: those whose measurement is unsure count apart.
fn apart<'a>(
    cells: impl IntoIterator<Item = &'a Row>,
    is_unsure: impl Fn(&Row) -> bool,
) -> impl Iterator<Item = (Vec<&'a Row>, &'static str)> {
    let (unsure, sure): (Vec<&Row>, Vec<&Row>) = cells.into_iter().partition(|row| is_unsure(row));
    [(sure, ""), (unsure, UNSURE)].into_iter().filter(|(cells, _)| !cells.is_empty())
}

/// Says for how many of the measured cells the rate is as measured, and for how many the relation to
/// the baseline, and lists the cells where that is not.
fn agreement(rows: &Rows<'_>, out: &mut String) {
    let line = |what: &str, made: &str, shares: Vec<f64>, cells: &[&Row], which: &str| {
        let (share, cells) = (range(shares, percent), several(cells.len(), "cell"));
        format!("{what} within {WITHIN}x of the {made}: {share} of {cells}{which}\n")
    };
    for (cells, which) in apart(rows.iter().filter(|row| is_real(row)), is_unsure) {
        let rate = |row: &Row, seed| row.rate_of(seed).zip(row.comparison.published);
        out.push_str(&line("rate", "measured", shares(rows, &cells, &rate), &cells, which));
    }
    let related = rows.related();
    let Some(first) = related.first() else { return };
    let made = if is_real(first) { "measured" } else { "published" };
    let unsure = |row: &Row| is_unsure(row) || rows.baseline_of(row).is_some_and(is_unsure);
    for (cells, which) in apart(related, unsure) {
        let shares = shares_of_related(rows, &cells);
        out.push_str(&line("relation to the baseline", made, shares, &cells, which));
        disagreements(rows, cells, which, out);
    }
}

fn disagreements(rows: &Rows<'_>, cells: Vec<&Row>, which: &str, out: &mut String) {
    for row in cells {
        let c = &row.comparison;
        let Some(published) = c.published_ratio_to_baseline else { continue };
        let base = rows.baseline_of(row);
        let ours = to_base(row, base);
        if !ours.is_some_and(|ours| is_within(ours, published)) {
            let ours = ours.map_or_else(|| "-".to_owned(), two_digits);
            let base = base.map_or_else(String::new, |base| match row.workload {
                Workload::DirectIo => "the writer alone".to_owned(),
                _ => base.lock.clone(),
            });
            out.push_str(&format!(
                "disagrees{which}: {}, {}: {ours} of {base}, {} {published:.2}\n",
                describe(row),
                row.lock,
                if is_real(row) { "measured" } else { "published" },
            ));
        }
    }
}

fn is_within(ours: f64, published: f64) -> bool {
    let ratio = ours / published;
    (1.0 / WITHIN..=WITHIN).contains(&ratio)
}

/// `handoff`: how many threads starved, the fastest thread in relation to the slowest, and what
/// fairness cost, as ranges over the seeds; and what a handoff at each release costs.
fn fairness(rows: &Rows<'_>, out: &mut String) {
    let has_run = |row: &&Row| row.case != Case::Mixed && !row.by_seed.is_empty();
    for row in rows.iter().filter(has_run) {
        let base = rows.of_lock(row, "fairlock:unfair");
        let starved = row.by_seed.iter().filter_map(|f| Some(f.starved_threads? as f64));
        let spread: Vec<f64> = row
            .by_seed
            .iter()
            .filter_map(|f| Some(f.max_ops? as f64 / f.min_ops.filter(|&min| min > 0)? as f64))
            .collect();
        let spread = if spread.len() < row.by_seed.len() {
            "infinite".to_owned()
        } else {
            range(spread, two_digits)
        };
        let kept = relations(row.by_seed.len(), row, base);
        out.push_str(&format!(
            "{}, {}: {}, fastest/slowest {spread}",
            row.lock,
            describe(row),
            row.served(&range(starved, |n| format!("{n:.0}"))),
        ));
        if !kept.is_empty() {
            let loss = kept.into_iter().map(|kept| 100.0 * (1.0 - kept));
            let loss = range(loss, |percent| format!("{percent:.1}"));
            out.push_str(&format!(", throughput loss {loss} %"));
        }
        out.push('\n');
        slowest_and_fastest(row, out);
    }
    if rows.iter().any(|row| is_relative(row) && row.comparison.published.is_some()) {
        out.push_str(
            "published: no_handoff starved 28 of 60; handoff_10ms starved 0, fastest/slowest 1.57, \
             loss 18.9 %\n",
        );
    }
    immediate(rows, out);
}

/// The slowest and the fastest thread beside those of the publication.
fn slowest_and_fastest(row: &Row, out: &mut String) {
    let Some((fewest, most)) = ops_of_a_thread(row) else { return };
    let ours = |of: fn(&Figures) -> Option<u64>| {
        range(row.by_seed.iter().filter_map(of).map(|n| n as f64), |n| count(n as u64))
    };
    out.push_str(&format!(
        "{}, operations of a thread: fewest {}, most {} in {}; published, in 5 s: fewest {}, most \
         {}\n",
        row.lock,
        ours(|f| f.min_ops),
        ours(|f| f.max_ops),
        or_dash(row.window_ns, time),
        count(fewest),
        count(most),
    ));
}

/// What a handoff at each release costs writers beside readers.
fn immediate(rows: &Rows<'_>, out: &mut String) {
    let is_mixed = |row: &&Row| row.case == Case::Mixed && row.side == Side::Write;
    for row in rows.iter().filter(is_mixed).filter(|row| row.lock == "fairlock:handoff") {
        let Some(immediate) = rows.of_lock(row, "fairlock:handoff_immediate") else { continue };
        let fewer = relations(row.by_seed.len(), row, Some(immediate));
        let digits = |ratio: f64| if ratio < 10.0 { 1 } else { 0 };
        out.push_str(&format!(
            "{}: immediate handoff: {} times fewer writer operations",
            describe(row),
            range(fewer, |ratio| format!("{ratio:.*}", digits(ratio))),
        ));
        if let Some(published) = immediate_fewer(row) {
            out.push_str(&format!("; published (section not given): {published:.0}"));
        }
        out.push('\n');
    }
}

/// `reader-spin`: each lock that was not published in relation to the best of those that were.
fn against_best(rows: &Rows<'_>, out: &mut String) {
    const FLOOR: f64 = 0.95;
    let is_published = |row: &Row| row.comparison.published.is_some();
    let published = locks(rows.iter().filter(|row| is_published(row)));
    for lock in locks(rows.iter()) {
        if published.contains(&lock) || published.is_empty() {
            continue;
        }
        let beside_published = |row: &&Row| {
            row.lock == lock && rows.beside(row).iter().any(|other| is_published(other))
        };
        let of_lock: Vec<&Row> = rows.iter().filter(beside_published).collect();
        if of_lock.is_empty() {
            continue;
        }
        let ratio = |row: &Row, seed: usize| {
            let best = rows
                .beside(row)
                .iter()
                .filter(|other| is_published(other))
                .filter_map(|other| other.rate_of(seed))
                .reduce(f64::max)?;
            Some(row.rate_of(seed)? / best)
        };
        let lowest = (0..rows.seeds)
            .filter_map(|seed| of_lock.iter().filter_map(|r| ratio(r, seed)).reduce(f64::min));
        let threads = |row: &Row| row.figures.starved_threads.unwrap_or(0);
        let worst = of_lock.iter().max_by_key(|row| threads(row));
        out.push_str(&format!(
            "{lock}, in relation to the best published lock: at worst {}, {}\n",
            range(lowest, two_digits),
            or_dash(worst, |row| row.served(&threads(row).to_string()))
        ));
        for row in of_lock {
            let ratios: Vec<f64> = (0..rows.seeds).filter_map(|seed| ratio(row, seed)).collect();
            if ratios.iter().any(|&ratio| ratio < FLOOR) {
                let ratios = range(ratios, two_digits);
                out.push_str(&format!("below {FLOOR}: {}, {lock}: {ratios}\n", describe(row)));
            }
        }
    }
}

/// `batch`: the adaptive batch in relation to batches of 8 and to the unfair queue.
fn of_the_unfair(rows: &Rows<'_>, out: &mut String) {
    for row in rows.iter().filter(|row| row.lock == "fairlock:batch_adaptive") {
        for (other, floor) in
            [("fairlock:batch8", 1.0), ("ref:queue_unfair", 0.97), ("ref:queue_unfair_park", 0.97)]
        {
            let ratios = relations(rows.seeds, row, rows.of_lock(row, other));
            if !ratios.is_empty() {
                let mark = if ratios.iter().any(|&r| r < floor) { "below" } else { "at least" };
                let ratios = range(ratios, two_digits);
                out.push_str(&format!(
                    "{mark} {floor}: {}, fairlock:batch_adaptive in relation to {other}: {ratios}\n",
                    describe(row)
                ));
            }
        }
    }
}

/// `direct-io`: the median latency of a write, beside the published latency.
fn latencies(rows: &Rows<'_>, out: &mut String) {
    for row in rows.iter() {
        let Some(published) = latency_ns(row) else { continue };
        let ours = row.by_seed.iter().filter_map(|f| f.latency_p50_ns.map(|ns| ns as f64));
        out.push_str(&format!(
            "latency of a write, {}, {}: {}; published {}\n",
            describe(row),
            row.lock,
            range(ours, |ns| time(ns as u64)),
            time(published as u64),
        ));
    }
}

/// `range`: on which side of the baseline each published row is.
fn signs(rows: &Rows<'_>, out: &mut String) {
    for row in rows.iter().filter(|row| !is_real(row)) {
        let Some(published) = row.comparison.published_ratio_to_baseline else { continue };
        let base = rows.baseline_of(row).filter(|base| base.lock != row.lock);
        let Some(ours) = base.and_then(|base| to_base(row, Some(base))) else { continue };
        let agrees = side_of(ours) == side_of(published);
        out.push_str(&format!(
            "sign {}: {}, {}: {}, {ours:.2}; published {}, {published:.2}\n",
            if agrees { "agrees" } else { "disagrees" },
            describe(row),
            row.lock,
            side_of(ours),
            side_of(published),
        ));
    }
}

/// `range`: the range lock in relation to the plain lock, and disjoint ranges in relation to one
/// thread.
fn scaling(rows: &Rows<'_>, out: &mut String) {
    let mut alone = HashMap::new();
    for row in rows.iter().filter(|row| row.case == Case::Array && row.threads == 1) {
        alone.entry((&row.lock, &row.machine)).or_insert(row);
    }
    for row in rows.iter() {
        if row.case == Case::Array && row.lock.starts_with("fairlock:range") {
            let one = alone.get(&(&row.lock, &row.machine)).copied();
            let ratios = relations(rows.seeds, row, one);
            if row.threads > 1 && !ratios.is_empty() {
                let shares = ratios.into_iter().map(|ratio| ratio / row.threads as f64);
                out.push_str(&format!(
                    "disjoint: {}, {}: {} of as many times one thread\n",
                    describe(row),
                    row.lock,
                    range(shares, two_digits)
                ));
            }
        } else if row.case != Case::Array && row.lock == "fairlock:range" {
            let ratios = relations(rows.seeds, row, rows.of_lock(row, "fairlock:rwlock"));
            if ratios.is_empty() {
                continue;
            }
            let mark = if ratios.iter().any(|&r| r < 0.97) { "below 0.97" } else { "within 3 %" };
            out.push_str(&format!(
                "{mark}: {}, fairlock:range in relation to fairlock:rwlock: {}\n",
                describe(row),
                range(ratios, two_digits)
            ));
        }
    }
}

/// Lines that say how rows agree with the published figures for each unknown, and over all.
pub fn over_unknowns(rows: &Rows<'_>) -> String {
    let mut machines: Vec<&str> = rows.iter().filter_map(|row| row.machine.as_deref()).collect();
    machines.dedup();
    let of = |machine| Rows::of(rows.iter().filter(|row| row.machine.as_deref() == Some(machine)));
    let by_machine: Vec<(&str, Rows<'_>)> = machines.iter().map(|&m| (m, of(m))).collect();
    let mut out = String::new();
    for (machine, rows) in &by_machine {
        let all = locks(rows.iter()).into_iter().flat_map(|lock| correlations(rows, lock));
        out.push_str(&format!(
            "{machine}: rank correlation {}, within 1.5x {}\n",
            range(all, two_digits),
            range(shares_of_related(rows, &rows.related()), percent)
        ));
    }
    for lock in locks(rows.iter()) {
        let all: Vec<f64> =
            by_machine.iter().flat_map(|(_, rows)| correlations(rows, lock)).collect();
        if !all.is_empty() {
            out.push_str(&format!(
                "over the unknowns and {}: {lock}: rank correlation {}\n",
                several(rows.seeds, "seed"),
                range(all, two_digits)
            ));
        }
    }
    let all = by_machine.iter().flat_map(|(_, rows)| shares_of_related(rows, &rows.related()));
    out.push_str(&format!("over the unknowns: within 1.5x {} of cells\n", range(all, percent)));
    out
}

#[cfg(test)]
mod tests {
    use fairlock_cli::simulated::{Comparison, REAL, relate};

    use super::*;

    #[test]
    fn what_was_disturbed_or_differs_by_more_counts_apart() {
        let cell = |ours: f64, measured: [f64; 3], disturbed, lock: &str, threads| {
            let mut row = crate::tests::row("handoff", "sleep", lock, "write", threads);
            row.figures.ops_per_s = Some(ours);
            row.by_seed = vec![Figures { ops_per_s: Some(ours), ..Figures::default() }];
            let [min, median, max] = measured;
            row.comparison = Comparison {
                published_as: Some(REAL.to_owned()),
                published: Some(median),
                measured_min: Some(min),
                measured_max: Some(max),
                measured_disturbed: disturbed,
                ..Comparison::default()
            };
            row
        };
        let beside = |threads, measured, disturbed| {
            [
                cell(10.0, [10.0; 3], None, "fairlock:rwlock", threads),
                cell(20.0, measured, disturbed, "fairlock:unfair", threads),
            ]
        };
        let mut rows: Vec<Row> = [
            beside(1, [9.0, 10.0, 11.0], None),
            beside(2, [9.0, 10.0, 11.0], Some(true)),
            beside(3, [8.0, 10.0, 13.0], None),
        ]
        .into_iter()
        .flatten()
        .collect();
        relate(&mut rows);
        let mut out = String::new();
        agreement(&Rows::of(&rows), &mut out);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "rate within 1.5x of the measured: 75 % of 4 cells");
        assert_eq!(
            lines[1],
            "rate within 1.5x of the measured: 0 % of 2 cells, unsure as measured"
        );
        assert!(lines[2].ends_with("the measured: 0 % of 1 cell"), "{out}");
        assert!(lines[3].starts_with("disagrees: "), "{out}");
        assert!(lines[4].ends_with("0 % of 2 cells, unsure as measured"), "{out}");
        assert!(
            lines[5..7].iter().all(|l| l.starts_with("disagrees, unsure as measured: ")),
            "{out}"
        );
    }

    #[test]
    fn agreement_is_a_factor_in_both_directions() {
        assert!(is_within(1.5, 1.0) && is_within(1.0, 1.5) && is_within(0.3, 0.25));
        assert!(!is_within(1.51, 1.0) && !is_within(1.0, 1.51));
        assert!(!is_within(f64::NAN, 1.0) && !is_within(0.0, 1.0));
    }
}
