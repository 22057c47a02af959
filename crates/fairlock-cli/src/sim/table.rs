//! Simulated results as tables for people.

use super::judge::judgement;
use super::published::{column, of_lock};
use crate::cell::{Side, Workload};
use crate::row::Row;
use crate::table::{new_table, or_dash, titled};
use crate::units::{count, kops, time};

/// What the columns of the long tables say.
const MARKS: &str = "min-max: over the seeds; x: ours in relation to the published figure; \
     x base, publ.: in relation to the baseline, ours and as published";

/// The tables of all workloads in `rows`, each with its judgement.
pub fn tables(rows: &[Row]) -> String {
    let mut out = String::new();
    for workload in Workload::ALL {
        let rows: Vec<Row> = rows.iter().filter(|r| r.workload == workload).cloned().collect();
        let Some(first) = rows.first() else { continue };
        let machine = first.machine.as_deref().unwrap_or_default();
        let title = format!("{} on {machine}", workload.name());
        out.push_str(&match workload {
            Workload::ReaderSpin => columns(&title, &rows),
            _ => lines(&title, &rows),
        });
        out.push('\n');
        out.push_str(&judgement(workload, &rows));
        for row in rows.iter().filter(|row| row.error.is_some()) {
            let why = row.error.as_deref().unwrap_or_default();
            out.push_str(&format!("failed: {} ({} threads): {why}\n", row.lock, row.threads));
        }
        out.push('\n');
    }
    out
}

/// One line a row.
fn lines(title: &str, rows: &[Row]) -> String {
    let mut table = new_table(&[
        "lock", "as", "threads", "kop/s", "min-max", "publ.", "x", "x base", "publ.", "starved",
        "fewest", "most", "Jain", "longest",
    ]);
    for row in rows {
        let (f, c) = (&row.figures, &row.comparison);
        table.add_row([
            row.lock.clone(),
            or_dash(c.published_as.as_deref(), str::to_owned),
            row.threads.to_string(),
            or_dash(f.ops_per_s, kops),
            or_dash(f.ops_per_s_min.zip(f.ops_per_s_max), |(min, max)| {
                format!("{}-{}", kops(min), kops(max))
            }),
            or_dash(c.published, kops),
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
    titled(title, table, 2, MARKS)
}

/// One line a configuration, with the locks beside each other: both sides together.
fn columns(title: &str, rows: &[Row]) -> String {
    let rows: Vec<Row> = rows.iter().filter(|row| row.side == Side::All).cloned().collect();
    let mut locks: Vec<&str> = Vec::new();
    for row in &rows {
        if !locks.contains(&row.lock.as_str()) {
            locks.push(&row.lock);
        }
    }
    let mut header = vec!["threads", "pauses"];
    for lock in &locks {
        match column(Workload::ReaderSpin, lock) {
            Some(name) => header.extend([name, "publ.", "x"]),
            None => header.push(lock.split(':').next_back().unwrap_or(lock)),
        }
    }
    let mut table = new_table(&header);
    for row in rows.iter().filter(|row| row.lock == locks[0]) {
        let mut line = vec![row.threads.to_string(), or_dash(row.cs_load, |n| n.to_string())];
        for lock in &locks {
            let of_lock = of_lock(&rows, row, lock);
            line.push(or_dash(of_lock.and_then(|row| row.figures.ops_per_s), kops));
            if column(Workload::ReaderSpin, lock).is_some() {
                let comparison = of_lock.map(|row| &row.comparison);
                line.push(or_dash(comparison.and_then(|c| c.published), kops));
                line.push(two_digits(comparison.and_then(|c| c.ratio_to_published)));
            }
        }
        table.add_row(line);
    }
    titled(
        title,
        table,
        0,
        "kop/s of both sides, median over the seeds; publ.: published; x: ours in relation to it",
    )
}

fn two_digits(value: Option<f64>) -> String {
    or_dash(value, |value| format!("{value:.2}"))
}
