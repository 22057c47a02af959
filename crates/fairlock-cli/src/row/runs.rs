//! The figures of each run of a cell, which say how much the figures vary.

use serde::{Deserialize, Serialize};

use super::{Figures, Row, rows_of_cell};
use crate::cell::Side;
use crate::runner::Measured;
use crate::stats::jain;

/// The most runs of a cell that can be asked for.
pub const MOST_RUNS: u32 = 1000;

/// The figures of each run, in the order in which the runs were made. A figure that a workload does
/// not have is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByRun {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ops_per_s: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ns_per_op: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wait_p999_ns: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wait_max_ns: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub free_p50_ns: Vec<u64>,
}

impl ByRun {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn of(runs: &[Figures]) -> Self {
        fn each<T>(runs: &[Figures], pick: fn(&Figures) -> Option<T>) -> Vec<T> {
            runs.iter().filter_map(pick).collect()
        }
        Self {
            ops_per_s: each(runs, |f| f.ops_per_s),
            ns_per_op: each(runs, |f| f.ns_per_op),
            wait_p999_ns: each(runs, |f| f.wait_p999_ns),
            wait_max_ns: each(runs, |f| f.wait_max_ns),
            free_p50_ns: each(runs, |f| f.free_p50_ns),
        }
    }
}

/// The rows of a cell, each with the figures of every run.
pub fn rows_with_runs(measured: &Measured) -> Vec<(Row, Vec<Figures>)> {
    let mut rows: Vec<_> =
        rows_of_cell(measured).into_iter().map(|row| (row, Vec::new())).collect();
    for report in &measured.reports {
        let one =
            Measured { cell: measured.cell.clone(), reports: vec![report.clone()], failure: None };
        for ((_, runs), of_run) in rows.iter_mut().zip(rows_of_cell(&one)) {
            runs.push(of_run.figures);
        }
    }
    rows
}

/// The rows of a cell that was run on this machine.
pub fn measured_rows(measured: &Measured) -> Vec<Row> {
    let rows = rows_with_runs(measured).into_iter();
    rows.map(|(row, runs)| Row { by_run: ByRun::of(&runs), ..row }).collect()
}

/// The operations of each thread of a side, in the run whose shares were least even.
pub fn least_even(measured: &Measured, side: Side) -> Vec<u64> {
    let runs = measured.reports.iter().filter_map(|report| Some(&report.side(side)?.ops));
    let evenness = |ops: &&Vec<u64>| jain(ops).unwrap_or(1.0);
    let least = runs.min_by(|a, b| evenness(a).total_cmp(&evenness(b)));
    // The operations of a single thread say nothing about shares.
    least.filter(|ops| ops.len() > 1).cloned().unwrap_or_default()
}
