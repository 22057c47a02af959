//! Rows in relation to what was published, or measured, and to their baseline.

use super::real::RealRun;
use super::{grid, published};
use crate::cell::{Case, Side, Workload};
use crate::row::{Comparison, Row};

/// In the place of a published column's name: it was measured.
pub const REAL: &str = "real";

/// Puts the published figure into every row, or the measured one if there is a real run.
pub fn attach(rows: &mut [Row], real: Option<&RealRun>) {
    for row in rows {
        let measured = real.and_then(|real| real.row(row));
        let (published_as, published) = match real {
            Some(_) => (REAL, measured.and_then(Row::rate)),
            None => {
                let column = published::column(row.workload, &row.lock);
                (column.unwrap_or_default(), published::figure(row))
            }
        };
        row.comparison = Comparison {
            published_as: published.map(|_| published_as.to_owned()),
            published,
            measured_min: measured.and_then(|row| row.figures.ops_per_s_min),
            measured_max: measured.and_then(|row| row.figures.ops_per_s_max),
            ..Comparison::default()
        };
    }
}

/// Sets rows with their published figures in relation to those and to each other.
pub fn relate(rows: &mut [Row]) {
    for index in 0..rows.len() {
        let row = &rows[index];
        let base = baseline_of(rows, row);
        let to_baseline = ratio(row.rate(), base.and_then(Row::rate));
        let published = row.comparison.published;
        let comparison = Comparison {
            ratio_to_published: ratio(
                if is_relative(row) { to_baseline } else { row.rate() },
                published,
            ),
            ratio_to_baseline: to_baseline,
            published_ratio_to_baseline: ratio(
                published,
                base.and_then(|b| b.comparison.published),
            ),
            ..row.comparison.clone()
        };
        rows[index].comparison = comparison;
    }
}

fn ratio(own: Option<f64>, other: Option<f64>) -> Option<f64> {
    own.zip(other).map(|(own, other)| own / other).filter(|ratio| ratio.is_finite())
}

/// Whether a row is beside a measured one.
pub fn is_real(row: &Row) -> bool {
    row.comparison.published_as.as_deref() == Some(REAL)
}

/// Whether what was published says how rows relate to their baseline, and no more: `batch`
/// was published so, and the unit of `handoff` is not operations, as its own figures for
/// each thread contradict it.
pub fn is_relative(row: &Row) -> bool {
    matches!(row.workload, Workload::Handoff | Workload::Batch) && !is_real(row)
}

/// The row that another one is measured by: another lock in the same configuration, or
/// the same lock's writer alone.
pub fn baseline_of<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    let lock = match row.workload {
        Workload::DirectIo => {
            return rows.iter().find(|other| {
                row.side == Side::Write && other.lock == row.lock && other.case == Case::WriterAlone
            });
        }
        Workload::Batch if is_real(row) => "fairlock:adaptive",
        Workload::Batch => "fairlock:batch1",
        Workload::Range if !is_real(row) => "ref:rwsem_2017",
        _ if is_real(row) => "fairlock:default",
        // The unfair lock lets one side have everything.
        Workload::Handoff if row.case == Case::Mixed => "fairlock:handoff",
        Workload::Think | Workload::Spread | Workload::Idle | Workload::Scenario => {
            grid::program_base(row.range.form)
        }
        Workload::ReaderSpin => "fairlock:reader_spin_always",
        _ => "fairlock:unfair",
    };
    of_lock(rows, row, lock)
}

/// The row of another lock in the same configuration.
pub fn of_lock<'a>(rows: &'a [Row], row: &Row, lock: &str) -> Option<&'a Row> {
    rows.iter().find(|other| other.lock == lock && is_beside(other, row))
}

/// Whether two rows differ in nothing but their locks.
pub fn is_beside(row: &Row, other: &Row) -> bool {
    other.configuration() == row.configuration()
        && other.machine == row.machine
        && other.overcommit == row.overcommit
}
