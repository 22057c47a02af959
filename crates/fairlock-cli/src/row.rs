//! A result row: one lock in one configuration, and one side of it, over all runs.

mod configuration;
mod relation;
pub mod runs;
mod starved;
#[cfg(test)]
pub mod tests;

use serde::{Deserialize, Serialize};

use crate::cell::{
    Case, Cell, CellReport, Events, LongWaits, Setup, Side, SideReport, Times, Workload,
};
use crate::disturbance::Disturbance;
use crate::interference::Interference;
use crate::runner::Measured;
use crate::stats::{deviation, jain, median};
pub use configuration::{Configuration, Index};
pub use relation::{each, relate, whole};
use runs::ByRun;
#[cfg(test)]
pub use tests::growth;

/// Stands in the place of a published column's name if the row's figure was measured.
pub const REAL: &str = "real";

/// The keys of a row in schema `fairlock/1`; those that do not apply are left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The number of its cell in a simulated grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<usize>,
    /// The machine it was simulated on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    pub workload: Workload,
    pub case: Case,
    pub lock: String,
    pub threads: usize,
    /// Threads in relation to CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cs_load: Option<u32>,
    #[serde(flatten)]
    pub range: Setup,
    /// The name of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The group of the scenario's threads that this row is about; none if it is about all of them.
    /// Then operations are rounds, and a latency is that of a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(flatten)]
    pub disturbance: Disturbance,
    pub side: Side,
    /// Runs that succeeded.
    pub runs: usize,
    /// How long each of them was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ns: Option<u64>,
    /// Whether that is too short to call a thread starved that had no turn: a fair lock may not have
    /// come to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub window_is_short: bool,
    #[serde(flatten)]
    pub figures: Figures,
    /// The figures of each run, if it was simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_seed: Vec<Figures>,
    /// The figures of each run, if it was a real one.
    #[serde(default, skip_serializing_if = "ByRun::is_empty")]
    pub by_run: ByRun,
    /// Operations of each thread of the row's side, in the run whose shares were least even.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops_by_thread: Vec<u64>,
    /// What others took of the CPUs, in the worst of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<Interference>,
    #[serde(flatten)]
    pub comparison: Comparison,
    #[serde(flatten)]
    pub ratios: Ratios,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// Why the run that failed did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Structures of numbers, each of which is left out of a document where there is none.
macro_rules! optional {
    ($($(#[$of_all:meta])* pub struct $name:ident {
        $($(#[$of_one:meta])* pub $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$of_all])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$of_one])* #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,)*
        }

        #[cfg(test)]
        impl $name {
            /// All that are numbers are this one.
            pub fn all(number: u64) -> Self {
                let mut all = serde_json::Map::new();
                let read = |all| serde_json::from_value::<Self>(serde_json::Value::Object(all));
                for field in [$(stringify!($field)),*] {
                    let mut with = all.clone();
                    with.insert(field.to_owned(), number.into());
                    if read(with.clone()).is_ok() {
                        all = with;
                    }
                }
                read(all).unwrap()
            }
        }
    )*};
}

optional! {
    /// A simulated row beside what was published. Rates of both are in the row's own unit: operations
    /// or megabytes per second, or, in `handoff` and `batch`, relative to the baseline.
    pub struct Comparison {
        /// The name of the published column.
        pub published_as: String,
        pub published: f64,
        pub ratio_to_published: f64,
        /// The row's rate in relation to that of the baseline in the same configuration.
        pub ratio_to_baseline: f64,
        pub published_ratio_to_baseline: f64,
        /// The slowest measurement of a real run; the next field is the fastest.
        pub measured_min: f64,
        pub measured_max: f64,
        /// Whether other programs, or the host, took much of the CPUs in a real run.
        pub measured_disturbed: bool,
    }

    /// A row in relation to the peers of the same run.
    pub struct Ratios {
        /// Speed in relation to the best peer.
        pub ratio_to_best_peer: f64,
        /// Speed in relation to the fastest peer, even if that starves some thread.
        pub ratio_to_fastest_peer: f64,
        /// How long the lock was free while it was waited for, in relation to the least of any peer.
        pub free_p50_ratio_to_best_peer: f64,
        pub free_p99_ratio_to_best_peer: f64,
    }

    /// The figures of a measurement. Rates, quantiles and Jain's index are medians over the runs;
    /// fewest, most, starved and longest are the worst of any run.
    pub struct Figures {
        pub ops_per_s: f64,
        pub ops_per_s_min: f64,
        pub ops_per_s_max: f64,
        /// The standard deviation over the runs.
        pub ops_per_s_sd: f64,
        /// The same rate in records, if an operation is to look up records.
        pub records_per_s: f64,
        pub min_ops: u64,
        pub max_ops: u64,
        pub starved_threads: usize,
        pub jain: f64,
        pub wait_p50_ns: u64,
        pub wait_p99_ns: u64,
        pub wait_p999_ns: u64,
        pub wait_max_ns: u64,
        /// How long the lock was free during a wait: quantiles over the waits.
        pub free_p50_ns: u64,
        pub free_p99_ns: u64,
        pub free_max_ns: u64,
        pub latency_p50_ns: u64,
        pub latency_p99_ns: u64,
        pub latency_max_ns: u64,
        pub balance_score: f64,
        /// The side's rate in the mix, in relation to that of the same threads alone.
        pub share_of_alone: f64,
        pub ns_per_op: f64,
        pub ns_per_op_sd: f64,
        pub mb_per_s: f64,
        /// Of simulated runs: the share of the time in which the lock was free and waited for, both
        /// sides together.
        pub free_while_waited: f64,
        /// The part of that time in which another waiter was awake but had no CPU.
        pub free_without_cpu: f64,
        /// Why waits of more than 1 ms were that long, both sides together; all of the runs, not their
        /// median.
        pub long_waits: LongWaits,
        /// What our locks did, both sides together; all of the runs, not their median.
        pub events: Happened,
    }
}

/// How often each event happened, in how many operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    pub operations: u64,
    pub counts: Events,
}

impl Happened {
    /// In one run, if it was counted.
    fn of(report: &CellReport) -> Option<Self> {
        let sides = [&report.read, &report.write].into_iter().flatten();
        let operations = sides.flat_map(|side| &side.ops).sum();
        report.events.clone().map(|counts| Self { operations, counts })
    }

    /// These and others.
    pub fn and(mut self, other: Self) -> Self {
        self.operations += other.operations;
        for (event, count) in other.counts {
            *self.counts.entry(event).or_default() += count;
        }
        self
    }
}

impl Row {
    /// The fields that rows must share to be compared with each other.
    pub fn configuration(&self) -> Configuration<'_> {
        #[cfg(test)]
        growth::asked();
        Configuration {
            machine: self.machine.as_deref(),
            workload: self.workload,
            case: self.case,
            threads: self.threads,
            overcommit: self.overcommit.map(f64::to_bits),
            cs_load: self.cs_load,
            setup: self.range,
            side: self.side,
        }
    }

    /// Whether the figure beside it is of this column.
    pub fn is_beside(&self, column: &str) -> bool {
        self.comparison.published_as.as_deref() == Some(column)
    }

    /// Whether the machine was busy with something else meanwhile.
    pub fn is_disturbed(&self) -> bool {
        self.interference.is_some_and(|taken| taken.disturbs())
    }

    /// The figure that simulated and published rows are compared by.
    pub fn rate(&self) -> Option<f64> {
        rate(&self.figures)
    }

    /// The figure that [`rate`](Self::rate) gives, of one seed, counted from zero.
    pub fn rate_of(&self, seed: usize) -> Option<f64> {
        rate(self.by_seed.get(seed)?)
    }

    /// Operations per second, also where the time of one was measured.
    pub fn speed(&self) -> Option<f64> {
        self.figures.ops_per_s.or(self.figures.ns_per_op.map(|ns| 1e9 / ns))
    }
}

/// The locks of the rows, each once.
pub fn locks<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<&'a str> {
    let mut locks: Vec<&str> = Vec::new();
    for row in rows {
        if !locks.contains(&row.lock.as_str()) {
            locks.push(&row.lock);
        }
    }
    locks
}

fn rate(figures: &Figures) -> Option<f64> {
    figures.mb_per_s.or(figures.ops_per_s)
}

/// The rows of all cells, with balance scores and ratios.
pub fn rows(measured: &[Measured]) -> Vec<Row> {
    let mut rows: Vec<Row> = measured.iter().flat_map(runs::measured_rows).collect();
    relate(&mut rows);
    rows
}

/// The rows of one cell, not yet in relation to other rows.
pub fn rows_of_cell(m: &Measured) -> Vec<Row> {
    let sides = |wanted: Side| m.reports.iter().filter_map(move |r| Some((r, r.side(wanted)?)));
    let mut rows = Vec::new();
    for side in [Side::Read, Side::Write] {
        let reports: Vec<_> = sides(side).collect();
        if !reports.is_empty() {
            rows.push(row(m, side, side_figures(&reports)));
        }
    }
    let single = if m.cell.case == Case::Read { Side::Read } else { Side::Write };
    match rows.as_slice() {
        [read, write] => {
            let all = both_sides(m, &read.figures, &write.figures);
            rows.push(row(m, Side::All, all));
        }
        [] if m.reports.is_empty() => rows.push(row(m, failed_side(&m.cell), Figures::default())),
        [] => {
            let ns = || m.reports.iter().filter_map(|r| r.ns_per_op);
            let (ns_per_op, ns_per_op_sd) = (median(ns()), deviation(ns()));
            rows.push(row(m, single, Figures { ns_per_op, ns_per_op_sd, ..Figures::default() }));
        }
        _ => {}
    }
    // The share of free time is of the whole cell, so it goes into the row that stands for both
    // sides.
    if let Some(row) = rows.last_mut() {
        let free = || m.reports.iter().filter_map(|report| report.free);
        row.figures.free_while_waited = median(free().map(|free| free.while_waited));
        row.figures.free_without_cpu = median(free().map(|free| free.without_cpu));
        let long = m.reports.iter().filter_map(|report| report.long_waits);
        row.figures.long_waits = long.reduce(LongWaits::and);
        row.figures.events = m.reports.iter().filter_map(Happened::of).reduce(Happened::and);
    }
    rows.extend(rows_of_groups(m));
    rows
}

/// A row for each group of a scenario.
fn rows_of_groups(m: &Measured) -> impl Iterator<Item = Row> {
    let groups = m.cell.scenario.iter().flat_map(|scenario| &scenario.groups);
    groups.enumerate().filter_map(|(number, group)| {
        let of_group =
            m.reports.iter().map(|report| Some((report, &report.groups.get(number)?.report)));
        let reports: Vec<_> = of_group.collect::<Option<_>>()?;
        let row = row(m, Side::All, side_figures(&reports));
        let range = Setup { group_number: u16::try_from(number).ok(), ..row.range };
        let is_measured = !reports.is_empty();
        is_measured.then(|| Row {
            range,
            group: Some(group.name.clone()),
            threads: group.threads,
            ..row
        })
    })
}

fn failed_side(cell: &Cell) -> Side {
    match (cell.readers, cell.writers) {
        (_, 0) => Side::Read,
        (0, _) => Side::Write,
        _ => Side::All,
    }
}

fn row(m: &Measured, side: Side, mut figures: Figures) -> Row {
    let cell = &m.cell;
    let has_pauses = match cell.workload {
        Workload::ReaderSpin => true,
        Workload::Handoff => cell.case == Case::Mixed,
        _ => cell.case == Case::Tiny,
    };
    if cell.case == Case::Chunks {
        figures.records_per_s = figures.ops_per_s;
    }
    Row {
        cell: None,
        machine: cell.machine.clone(),
        workload: cell.workload,
        case: cell.case,
        lock: cell.lock.clone(),
        threads: cell.threads,
        overcommit: cell.overcommit,
        cs_load: has_pauses.then_some(cell.cs_load),
        range: cell.range,
        scenario: cell.scenario.as_ref().map(|scenario| scenario.name.clone()),
        group: None,
        disturbance: cell.disturbance,
        side,
        runs: m.reports.len(),
        window_ns: Some((cell.secs * 1e9).round() as u64),
        window_is_short: starved::is_short(cell.secs, cell.threads),
        figures,
        by_seed: Vec::new(),
        by_run: ByRun::default(),
        ops_by_thread: runs::least_even(m, side),
        interference: m.reports.iter().filter_map(|r| r.interference).reduce(Interference::or),
        comparison: Comparison::default(),
        ratios: Ratios::default(),
        file_system: None,
        error: m.failure.clone(),
    }
}

fn side_figures(reports: &[(&CellReport, &SideReport)]) -> Figures {
    let bytes = reports
        .iter()
        .filter_map(|(report, side)| Some(side.bytes? as f64 / report.elapsed_secs / 1e6));
    let times = |of: fn(&SideReport) -> Option<Times>| -> Vec<Times> {
        reports.iter().filter_map(|(_, side)| of(side)).collect()
    };
    let (waits, free) = (times(|side| side.wait), times(|side| side.free));
    let latencies = times(|side| side.latency);
    let middle = |times: &[Times], pick: fn(&Times) -> u64| {
        median(times.iter().map(|t| pick(t) as f64)).map(|ns| ns as u64)
    };
    let ops = reports.iter().map(|(report, side)| (*report, side.ops.as_slice()));
    Figures {
        starved_threads: reports.iter().map(|(_, side)| side.starved()).max(),
        jain: median(ops.clone().filter_map(|(_, ops)| jain(ops))),
        wait_p50_ns: middle(&waits, |t| t.p50),
        wait_p99_ns: middle(&waits, |t| t.p99),
        wait_p999_ns: middle(&waits, |t| t.p999),
        wait_max_ns: waits.iter().map(|t| t.max).max(),
        free_p50_ns: middle(&free, |t| t.p50),
        free_p99_ns: middle(&free, |t| t.p99),
        free_max_ns: free.iter().map(|t| t.max).max(),
        latency_p50_ns: middle(&latencies, |t| t.p50),
        latency_p99_ns: middle(&latencies, |t| t.p99),
        latency_max_ns: latencies.iter().map(|t| t.max).max(),
        mb_per_s: median(bytes),
        ..of_ops(ops)
    }
}

/// What the operations of each thread say, in each run.
fn of_ops<'a>(runs: impl Iterator<Item = (&'a CellReport, &'a [u64])> + Clone) -> Figures {
    let rate =
        |(report, ops): (&CellReport, &[u64])| ops.iter().sum::<u64>() as f64 / report.elapsed_secs;
    let (rates, ops) = (runs.clone().map(rate), runs.flat_map(|(_, ops)| ops));
    Figures {
        ops_per_s: median(rates.clone()),
        ops_per_s_min: rates.clone().reduce(f64::min),
        ops_per_s_max: rates.clone().reduce(f64::max),
        ops_per_s_sd: deviation(rates),
        min_ops: ops.clone().min().copied(),
        max_ops: ops.max().copied(),
        ..Figures::default()
    }
}

/// Both sides together: rates are sums of the same run, waits are those of the worse side. A thread
/// that both reads and writes counts once, with all that it did.
fn both_sides(m: &Measured, read: &Figures, write: &Figures) -> Figures {
    let does_both = (m.cell.readers, m.cell.writers) == (m.cell.threads, m.cell.threads);
    let by_thread = |report: &CellReport| -> Vec<u64> {
        let side = |s| report.side(s).map_or(&[][..], |side| side.ops.as_slice());
        let (reads, writes) = (side(Side::Read), side(Side::Write));
        if does_both && reads.len() == writes.len() {
            reads.iter().zip(writes).map(|(r, w)| r + w).collect()
        } else {
            [reads, writes].concat()
        }
    };
    let ops: Vec<Vec<u64>> = m.reports.iter().map(by_thread).collect();
    let runs = m.reports.iter().zip(ops.iter().map(Vec::as_slice));
    Figures {
        starved_threads: runs.clone().map(|(report, ops)| report.starved(ops)).max(),
        jain: median(ops.iter().filter(|_| does_both).filter_map(|ops| jain(ops))),
        wait_p50_ns: read.wait_p50_ns.max(write.wait_p50_ns),
        wait_p99_ns: read.wait_p99_ns.max(write.wait_p99_ns),
        wait_p999_ns: read.wait_p999_ns.max(write.wait_p999_ns),
        wait_max_ns: read.wait_max_ns.max(write.wait_max_ns),
        latency_max_ns: read.latency_max_ns.max(write.latency_max_ns),
        mb_per_s: read.mb_per_s.zip(write.mb_per_s).map(|(r, w)| r + w),
        ..of_ops(runs)
    }
}
