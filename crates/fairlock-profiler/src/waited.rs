//! How locks were waited for one way and the other, beside each other.

use serde::Serialize;

use super::sum;
use crate::layout::{Column, NOTHING, Table};
use crate::units::{count, time};

/// The waits for locks of one name.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Waited {
    pub waits: u64,
    /// How long all waits took together.
    #[serde(rename = "wait_total_ns")]
    pub lost_ns: u64,
    /// The p99.9 of the lock whose p99.9 is longest.
    #[serde(rename = "wait_p999_ns")]
    pub p999_ns: u64,
    #[serde(rename = "wait_longest_ns")]
    pub longest_ns: u64,
}

impl Waited {
    /// Adds those of another lock of the name.
    pub fn add(&mut self, other: Self) {
        self.waits = sum([self.waits, other.waits]);
        self.lost_ns = sum([self.lost_ns, other.lost_ns]);
        self.p999_ns = self.p999_ns.max(other.p999_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The most locks that are shown.
pub const LOCKS: usize = 20;

/// The table of the first of these locks, each with its waits both ways.
pub fn table<'a>(
    ways: [&str; 2],
    locks: impl IntoIterator<Item = (&'a str, [Waited; 2])>,
) -> Table {
    let [one, other] = ways;
    let pair = |head| [Column::figure(format!("{head}: {one}")), Column::figure(other)];
    let columns = [
        pair("waits").map(|column| column.rank(1)),
        pair("lost"),
        pair("p99.9").map(|column| column.rank(2)),
        pair("longest"),
    ];
    let lock = Column::place("lock");
    let mut table = Table::new([lock].into_iter().chain(columns.into_iter().flatten()));
    for (name, waited) in locks.into_iter().take(LOCKS) {
        let times = |pick: fn(&Waited) -> u64| {
            waited.map(|waited| match waited.longest_ns {
                0 => NOTHING.to_owned(),
                _ => time(pick(&waited)),
            })
        };
        let figures = [
            waited.map(|waited| count(waited.waits)),
            times(|waited| waited.lost_ns),
            times(|waited| waited.p999_ns),
            times(|waited| waited.longest_ns),
        ];
        table.row([name.to_owned()].into_iter().chain(figures.into_iter().flatten()));
    }
    table
}
