//! Simulated results as tables for people.

use super::compare::{is_real, of_lock};
use super::judge::{judgement, locks};
use super::unknowns::{is_varied, summary};
use crate::cell::{Case, Side, Workload};
use crate::row::Row;
use crate::table::{new_table, or_dash, titled};
use crate::units::{count, digits, kops, time};

/// What the columns of the long tables say.
const MARKS: &str = "min-max: over the seeds; x: ours in relation to the published figure; \
     x base, publ.: in relation to the baseline, ours and as published";

/// The tables of all workloads in `rows`, each with its judgement.
pub fn tables(rows: &[Row]) -> String {
    let mut out = String::new();
    for workload in Workload::ALL {
        let all: Vec<Row> = rows.iter().filter(|r| r.workload == workload).cloned().collect();
        let rows: Vec<Row> = all.iter().filter(|row| !is_varied(row)).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        let mut machines: Vec<&str> = rows.iter().filter_map(|r| r.machine.as_deref()).collect();
        machines.dedup();
        let title = format!("{} on {}", workload.name(), machines.join(" and "));
        let by_column = workload == Workload::ReaderSpin && !rows.iter().any(is_real);
        out.push_str(&if by_column { columns(&title, &rows) } else { lines(&title, &rows) });
        out.push('\n');
        out.push_str(&judgement(workload, &rows));
        if rows.len() < all.len() {
            out.push_str(&summary(&all));
        }
        for row in all.iter().filter(|row| row.error.is_some()) {
            let why = row.error.as_deref().unwrap_or_default();
            out.push_str(&format!("failed: {} ({} threads): {why}\n", row.lock, row.threads));
        }
        out.push('\n');
    }
    out
}

/// One line a row.
fn lines(title: &str, rows: &[Row]) -> String {
    // Where a section takes milliseconds, thousands a second are too coarse.
    let is_slow = rows.iter().all(|row| row.workload == Workload::Range);
    let (unit, per_s): (&str, fn(f64) -> String) =
        if is_slow { ("op/s", digits) } else { ("kop/s", kops) };
    let mut table = new_table(&[
        "machine",
        "case",
        "lock",
        "as",
        "side",
        "threads",
        "overcommit",
        "pauses",
        unit,
        "min-max",
        "publ.",
        "x",
        "x base",
        "publ.",
        "starved",
        "fewest",
        "most",
        "Jain",
        "longest",
    ]);
    for row in rows {
        let (f, c) = (&row.figures, &row.comparison);
        let show = |rate: f64| match f.mb_per_s {
            Some(_) => format!("{} MB/s", digits(rate)),
            None if row.workload == Workload::Batch && !is_real(row) => format!("{rate:.2}"),
            None => per_s(rate),
        };
        let case = match row.range.section_ns {
            Some(ns) => format!("{}, {}", row.case.name(), time(u64::from(ns))),
            None => row.case.name().to_owned(),
        };
        table.add_row([
            row.machine.clone().unwrap_or_default(),
            case,
            row.lock.clone(),
            or_dash(c.published_as.as_deref(), str::to_owned),
            row.side.name().to_owned(),
            row.threads.to_string(),
            or_dash(row.overcommit, |x| format!("{x}x")),
            or_dash(row.cs_load, |n| n.to_string()),
            or_dash(row.rate(), |rate| if f.mb_per_s.is_some() { show(rate) } else { per_s(rate) }),
            or_dash(f.ops_per_s_min.zip(f.ops_per_s_max), |(min, max)| {
                format!("{}-{}", per_s(min), per_s(max))
            }),
            or_dash(c.published, show),
            two_digits(c.ratio_to_published),
            two_digits(c.ratio_to_baseline),
            two_digits(c.published_ratio_to_baseline),
            or_dash(f.starved_threads, |n| n.to_string()),
            or_dash(f.min_ops, count),
            or_dash(f.max_ops, count),
            or_dash(f.jain, |jain| format!("{jain:.3}")),
            or_dash(f.wait_max_ns, time),
        ]);
    }
    // What is the same everywhere, or nowhere, says nothing in a column.
    let is_plain = |workload: Workload| move |row: &Row| row.workload == workload;
    if !rows.iter().all(is_plain(Workload::Range)) {
        hide(&mut table, 0);
    }
    if rows.iter().all(|row| row.side == Side::Write) {
        hide(&mut table, 4);
    }
    if rows.iter().all(|row| row.overcommit.is_none()) {
        hide(&mut table, 6);
    }
    if rows.iter().all(|row| row.cs_load.is_none()) {
        hide(&mut table, 7);
    }
    if rows.iter().all(|row| row.case == Case::Sleep) {
        hide(&mut table, 1);
    }
    titled(title, table, 5, MARKS)
}

fn hide(table: &mut comfy_table::Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(comfy_table::ColumnConstraint::Hidden);
    }
}

/// One line a configuration, with the locks beside each other: both sides together.
fn columns(title: &str, rows: &[Row]) -> String {
    const NOTE: &str = "kop/s of both sides, median over the seeds; publ.: as published; x: ours \
         in relation to it";
    let rows: Vec<Row> = rows.iter().filter(|row| row.side == Side::All).cloned().collect();
    let locks = locks(&rows);
    let column = |lock: &str| {
        let mut of_lock = rows.iter().filter(|row| row.lock == lock);
        of_lock.find_map(|row| row.comparison.published_as.as_deref())
    };
    let mut header = vec!["threads", "pauses"];
    for lock in &locks {
        match column(lock) {
            Some(name) => header.extend([name, "publ.", "x"]),
            None => header.push(lock.split(':').next_back().unwrap_or(lock)),
        }
    }
    let mut table = new_table(&header);
    let mut seen: Vec<(usize, Option<u32>)> = Vec::new();
    for row in &rows {
        if seen.contains(&(row.threads, row.cs_load)) {
            continue;
        }
        seen.push((row.threads, row.cs_load));
        let mut line = vec![row.threads.to_string(), or_dash(row.cs_load, |n| n.to_string())];
        for lock in &locks {
            let beside = of_lock(&rows, row, lock);
            line.push(or_dash(beside.and_then(|row| row.figures.ops_per_s), kops));
            if column(lock).is_some() {
                let comparison = beside.map(|row| &row.comparison);
                line.push(or_dash(comparison.and_then(|c| c.published), kops));
                line.push(two_digits(comparison.and_then(|c| c.ratio_to_published)));
            }
        }
        table.add_row(line);
    }
    titled(title, table, 0, NOTE)
}

fn two_digits(value: Option<f64>) -> String {
    or_dash(value, |value| format!("{value:.2}"))
}
