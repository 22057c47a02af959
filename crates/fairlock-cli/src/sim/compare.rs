//! Relates simulated rows to what was published or measured, and to their baselines.

use super::real::RealRun;
use super::{grid, published};
use crate::cell::{Case, Side, Workload};
use crate::row::{Comparison, Configuration, Index, REAL, Row, each};

/// Puts into each row the published figure, or the measured one if there is a real run.
pub fn attach(rows: &mut [Row], real: Option<&RealRun>) {
    let real = real.map(RealRun::index);
    for row in rows {
        let measured = real.as_ref().and_then(|real| {
            real.row(&row.lock, &Configuration { machine: None, ..row.configuration() })
        });
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
            measured_disturbed: measured.filter(|row| row.is_disturbed()).map(|_| true),
            ..Comparison::default()
        };
    }
}

/// Relates rows that have published figures to those, and to their baselines.
pub fn relate(rows: &mut [Row]) {
    each(rows, ratios, |row, [to_published, to_baseline, published_to_baseline]| {
        row.comparison.ratio_to_published = to_published;
        row.comparison.ratio_to_baseline = to_baseline;
        row.comparison.published_ratio_to_baseline = published_to_baseline;
    });
}

/// A row in relation to its published figure and to its baseline; then the published figures of
/// both.
fn ratios(row: &Row, index: &Index<'_>) -> [Option<f64>; 3] {
    let base = baseline(row).and_then(|(lock, configuration)| index.row(lock, &configuration));
    let to_baseline = ratio(row.rate(), base.and_then(Row::rate));
    let published = row.comparison.published;
    let own = if is_relative(row) { to_baseline } else { row.rate() };
    let of_base = base.and_then(|base| base.comparison.published);
    [ratio(own, published), to_baseline, ratio(published, of_base)]
}

fn ratio(own: Option<f64>, other: Option<f64>) -> Option<f64> {
    own.zip(other).map(|(own, other)| own / other).filter(|ratio| ratio.is_finite())
}

/// What was published of the configuration of a row that was measured here, for another machine: the
/// figure, and the lock that it is in relation to, if it is not a rate.
pub fn elsewhere(row: &Row) -> Option<(f64, Option<&str>)> {
    let base = is_relative(row).then(|| baseline(row)).flatten();
    Some((published::figure_elsewhere(row)?, base.map(|(lock, _)| lock)))
}

/// Whether a row has a measured figure beside it.
pub fn is_real(row: &Row) -> bool {
    row.is_beside(REAL)
}

/// Whether the published figures say how rows relate to their baseline, and no more. `batch` was
/// published so. The figures of `handoff` contradict those for each of its threads, so their unit
/// is not operations.
pub fn is_relative(row: &Row) -> bool {
    matches!(row.workload, Workload::Handoff | Workload::Batch) && !is_real(row)
}

/// The lock and the configuration of a row's baseline.
pub fn baseline(row: &Row) -> Option<(&str, Configuration<'_>)> {
    let own = row.configuration();
    let lock = match row.workload {
        Workload::DirectIo => {
            let alone = Configuration { case: Case::WriterAlone, ..own };
            return (row.side == Side::Write).then_some((&row.lock, alone));
        }
        Workload::Batch if is_real(row) => "fairlock:mutex",
        Workload::Batch => "fairlock:batch1",
        Workload::Range if !is_real(row) => "ref:rwsem_2017",
        _ if is_real(row) => "fairlock:rwlock",
        // In a mix the unfair lock would let one side have everything.
        Workload::Handoff if row.case == Case::Mixed => "fairlock:handoff",
        Workload::Think | Workload::Spread | Workload::Idle | Workload::Scenario => {
            grid::program_base(row.range.form)
        }
        Workload::Condvar => "ref:futex",
        Workload::ReaderSpin => "fairlock:reader_spin_always",
        _ => "fairlock:unfair",
    };
    Some((lock, own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::measured;
    use crate::row::{growth, rows};

    #[test]
    fn relating_grows_as_the_rows_do() {
        growth::is_linear(Workload::ReaderSpin, |rows| {
            for row in rows.iter_mut().filter(|row| row.lock == "std") {
                row.lock = "fairlock:reader_spin_always".to_owned();
            }
            relate(rows);
            assert!(rows.iter().all(|row| row.comparison.ratio_to_baseline.is_some()));
        });
    }

    #[test]
    fn a_writer_is_related_to_itself_alone_on_its_own_machine() {
        let on = |machine: &str, ops| {
            [Case::WriterAlone, Case::Mixed].map(|case| {
                let mut measured = measured("fairlock:rwlock", case, None, Some(ops));
                measured.cell.workload = Workload::DirectIo;
                measured.cell.machine = Some(machine.to_owned());
                measured
            })
        };
        let all = [on("opteron_4", [25, 25]), on("nvme_8", [100, 100])];
        let mut rows = rows(all.as_flattened());
        relate(&mut rows);
        let ratios: Vec<_> = rows.iter().map(|row| row.comparison.ratio_to_baseline).collect();
        assert_eq!(ratios, [Some(1.0); 4]);
    }

    #[test]
    fn a_real_row_has_the_published_figure_of_its_configuration_beside_it() {
        let mut mix = measured("fairlock:no_reader_spin", Case::Mixed, Some([9; 2]), Some([9; 2]));
        mix.cell.threads = 32;
        let row = rows(&[mix]).into_iter().find(|row| row.side == Side::All).unwrap();
        // Of `no_rspin` with 32 threads and 20 pauses.
        assert_eq!(elsewhere(&row), Some((980e3, None)));
        assert_eq!(published::figure(&row), None, "not of this machine");
        let handoff = |lock: &str, threads| {
            let (lock, workload) = (lock.to_owned(), Workload::Handoff);
            Row { lock, workload, case: Case::Sleep, threads, ..row.clone() }
        };
        assert_eq!(
            elsewhere(&handoff("fairlock:unfair", 60)),
            Some((1.0, Some("fairlock:unfair")))
        );
        assert_eq!(elsewhere(&handoff("fairlock:unfair", 59)), None);
        assert_eq!(elsewhere(&handoff("std", 60)), None);
    }
}
