//! The main job's closing words, computed from its rows.

use crate::cell::{Case, Side, Workload};
use crate::locks::is_peer;
use crate::row::Row;
use crate::units::{kops, time};

/// The lock that the closing words are about.
const OURS: &str = "fairlock:default";

/// A few lines that say what the tables mean.
pub fn verdict(rows: &[Row]) -> String {
    let lines = [starvation(rows), writers(rows), balance(rows)];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    if lines.is_empty() { String::new() } else { format!("In short\n{}\n", lines.join("\n")) }
}

/// Rows that stand for a whole configuration.
fn whole(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| match row.workload {
        Workload::ReaderSpin => row.case == Case::Mixed && row.side == Side::All,
        _ => true,
    })
}

/// Locks in the order of the rows, each once.
fn locks(rows: &[Row]) -> Vec<&str> {
    let mut locks: Vec<&str> = Vec::new();
    for row in rows {
        if !locks.contains(&row.lock.as_str()) {
            locks.push(&row.lock);
        }
    }
    locks
}

fn starvation(rows: &[Row]) -> Option<String> {
    let mut guilty = Vec::new();
    let mut innocent = Vec::new();
    for lock in locks(rows) {
        let Some(worst) = whole(rows)
            .filter(|row| row.lock == lock)
            .filter_map(|row| Some((row.figures.starved_threads?, row.threads)))
            .max()
        else {
            continue;
        };
        match worst {
            (0, _) => innocent.push(lock),
            (starved, of) => guilty.push(format!("{lock} ({starved} of {of} threads)")),
        }
    }
    let guilty = if guilty.is_empty() { "none".into() } else { guilty.join(", ") };
    let innocent = if innocent.is_empty() { "none".into() } else { innocent.join(", ") };
    Some(format!(
        "- Locks that left threads with at most one operation: {guilty}.\n  Locks that did not: {innocent}."
    ))
}

fn writers(rows: &[Row]) -> Option<String> {
    let handoff = || rows.iter().filter(|row| row.workload == Workload::Handoff);
    let ours = handoff().find(|row| row.lock == OURS)?;
    let best = handoff()
        .filter(|row| is_peer(&row.lock) && row.figures.starved_threads == Some(0))
        .max_by(|a, b| {
            a.figures.ops_per_s.unwrap_or(0.0).total_cmp(&b.figures.ops_per_s.unwrap_or(0.0))
        })?;
    Some(format!(
        "- {} writers: {OURS} made {} kop/s, its longest wait was {}; the fastest peer that starved\n  nobody, {}, made {} kop/s, its longest wait was {}.",
        ours.threads,
        kops(ours.figures.ops_per_s?),
        time(ours.figures.wait_max_ns?),
        best.lock,
        kops(best.figures.ops_per_s?),
        time(best.figures.wait_max_ns?),
    ))
}

fn balance(rows: &[Row]) -> Option<String> {
    let mut worst: Vec<(f64, &str)> = Vec::new();
    for lock in locks(rows) {
        let scores =
            whole(rows).filter(|row| row.lock == lock).filter_map(|r| r.figures.balance_score);
        if let Some(score) = scores.reduce(f64::min) {
            worst.push((score, lock));
        }
    }
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let list: Vec<String> =
        worst.iter().map(|(score, lock)| format!("{lock} {score:.2}")).collect();
    (!list.is_empty()).then(|| {
        format!(
            "- Readers against writers, the worst score of each lock (1 = each side does half of what\n  it does alone, 0 = one side gets nothing): {}.",
            list.join(", ")
        )
    })
}
