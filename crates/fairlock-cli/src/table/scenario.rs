//! The table of a scenario: each group of threads by itself, and all of them.

use super::shown::{LOCK, MACHINE, Shown, figure, less, minor, shared, table};
use super::{or_dash, ratio, starved};
use crate::row::{Row, whole};
use crate::units::{count, digits, percent, time};

const COLUMNS: [Shown; 15] = [
    MACHINE,
    shared("group", |row| row.group.clone().unwrap_or_else(|| "all".to_owned())),
    shared("threads", |row| row.threads.to_string()),
    LOCK,
    figure("/s", |row| or_dash(row.figures.ops_per_s, digits)),
    minor("least", |row| or_dash(row.figures.min_ops, count)),
    figure("x best", ratio),
    figure("starved", starved),
    minor("round p50", |row| or_dash(row.figures.latency_p50_ns, time)),
    less("p99", |row| or_dash(row.figures.latency_p99_ns, time)),
    less("longest", |row| or_dash(row.figures.latency_max_ns, time)),
    minor("wait p50", |row| or_dash(row.figures.wait_p50_ns, time)),
    figure("p99.9", |row| or_dash(row.figures.wait_p999_ns, time)),
    figure("longest", |row| or_dash(row.figures.wait_max_ns, time)),
    figure("free", |row| or_dash(row.figures.free_while_waited, percent)),
];

const NOTE: &str = "/s: rounds of a group; all: acquisitions of all threads; least: of any thread of it in a run\n\
     round: how long one takes, with its waits and sleeps; x best: speed in relation to the fastest\n\
     peer of this run that starves nobody";

/// A line for each group and lock.
pub fn groups(rows: &[&Row], width: Option<usize>) -> String {
    let name = rows.first().and_then(|row| row.scenario.as_deref()).unwrap_or_default();
    let mut rows = whole(rows.iter().copied());
    // One group after the other, each with all locks.
    rows.sort_by_key(|row| row.range.group_number.unwrap_or(u16::MAX));
    table(&COLUMNS, &rows).titled(&format!("scenario {name}"), NOTE, width)
}
