//! The published figures, and rows beside them.

use crate::cell::{Case, Side, Workload};
use crate::row::{Comparison, Row};

/// A published table: comments, a line of names, lines of values.
struct Csv(&'static str);

const HANDOFF: Csv = Csv(include_str!("../../../../data/reference/handoff.csv"));
const READER_SPIN: Csv = Csv(include_str!("../../../../data/reference/reader_spin.csv"));

impl Csv {
    fn lines(&self) -> impl Iterator<Item = Vec<&'static str>> {
        self.0.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect())
    }

    /// The value in `column` of the line whose other columns have these values.
    fn value(&self, line: &[(&str, &str)], column: &str) -> Option<f64> {
        let mut lines = self.lines();
        let names = lines.next()?;
        let place = |name: &str| names.iter().position(|&known| known == name);
        let at = place(column)?;
        let found = lines.find(|values| {
            line.iter().all(|&(name, value)| place(name).is_some_and(|at| values[at] == value))
        })?;
        found[at].parse().ok()
    }
}

/// The published column that a lock stands for.
pub fn column(workload: Workload, lock: &str) -> Option<&'static str> {
    Some(match (workload, lock) {
        (Workload::Handoff, "fairlock:unfair") => "no_handoff",
        (Workload::Handoff, "fairlock:handoff") => "handoff_10ms",
        (Workload::ReaderSpin, "fairlock:unfair") => "vanilla",
        (Workload::ReaderSpin, "fairlock:handoff") => "before",
        (Workload::ReaderSpin, "fairlock:reader_spin_one") => "limit_rspin",
        (Workload::ReaderSpin, "fairlock:no_reader_spin") => "no_rspin",
        _ => return None,
    })
}

/// The lock that the others of a workload are measured by.
pub fn baseline(workload: Workload) -> Option<&'static str> {
    match workload {
        Workload::Handoff | Workload::ReaderSpin => Some("fairlock:unfair"),
        _ => None,
    }
}

/// The published figure of a row's configuration with another lock, in the row's unit.
fn figure(row: &Row, lock: &str) -> Option<f64> {
    let column = column(row.workload, lock)?;
    match row.workload {
        Workload::Handoff if row.case == Case::Sleep => {
            HANDOFF.value(&[("variant", column)], "kops_per_s").map(|kops| kops * 1e3)
        }
        Workload::ReaderSpin if row.case == Case::Mixed && row.side == Side::All => {
            let (threads, load) = (row.threads.to_string(), row.cs_load?.to_string());
            let line = [("threads", threads.as_str()), ("cs_load", load.as_str())];
            READER_SPIN.value(&line, column).map(|kops| kops * 1e3)
        }
        _ => None,
    }
}

/// Sets every row in relation to what was published, and to its baseline.
pub fn compare(rows: &mut [Row]) {
    for index in 0..rows.len() {
        rows[index].comparison = comparison(rows, &rows[index]);
    }
}

fn comparison(rows: &[Row], row: &Row) -> Comparison {
    let published = figure(row, &row.lock);
    let base = baseline(row.workload);
    let base_row = base.and_then(|lock| of_lock(rows, row, lock));
    let ratio = |own: Option<f64>, other: Option<f64>| {
        own.zip(other).map(|(own, other)| own / other).filter(|ratio| ratio.is_finite())
    };
    Comparison {
        published_as: published.and(column(row.workload, &row.lock)).map(str::to_owned),
        published,
        ratio_to_published: ratio(row.rate(), published),
        ratio_to_baseline: ratio(row.rate(), base_row.and_then(Row::rate)),
        published_ratio_to_baseline: ratio(published, base.and_then(|lock| figure(row, lock))),
    }
}

/// The row of another lock in the same configuration.
pub fn of_lock<'a>(rows: &'a [Row], row: &Row, lock: &str) -> Option<&'a Row> {
    rows.iter().find(|other| {
        other.lock == lock
            && other.configuration() == row.configuration()
            && other.machine == row.machine
            && other.overcommit == row.overcommit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_is_a_number() {
        for csv in [HANDOFF, READER_SPIN] {
            let lines: Vec<_> = csv.lines().collect();
            assert!(lines.len() > 2 && lines.iter().all(|line| line.len() == lines[0].len()));
            let numbers = lines[1..].iter().flat_map(|line| &line[1..]);
            assert!(numbers.into_iter().all(|value| value.parse::<f64>().is_ok()));
        }
    }

    #[test]
    fn a_figure_is_found_by_its_line_and_column() {
        let line = [("threads", "32"), ("cs_load", "1")];
        assert_eq!(READER_SPIN.value(&line, "no_rspin"), Some(1098.0));
        assert_eq!(READER_SPIN.value(&line, "no_such"), None);
        assert_eq!(READER_SPIN.value(&[("threads", "33"), ("cs_load", "1")], "vanilla"), None);
    }
}
