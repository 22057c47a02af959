//! The published figures, and which row each of them belongs to.

use super::grid::{self, HANDOFF_10MS};
use super::unknowns;
use crate::cell::{Case, Side, Workload};
use crate::row::Row;

/// A published table: lines of comments, a line of names, and lines of values.
struct Csv(&'static str);

const HANDOFF: Csv = Csv(include_str!("../../data/reference/handoff.csv"));
const READER_SPIN: Csv = Csv(include_str!("../../data/reference/reader_spin.csv"));
const RANGE: Csv = Csv(include_str!("../../data/reference/range_lock.csv"));
const BATCH: Csv = Csv(include_str!("../../data/reference/batched_ticket.csv"));
const DIRECT_IO: Csv = Csv(include_str!("../../data/reference/writer_phase.csv"));

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

/// The published column that a lock stands for. The published locks of `batch` were those of a
/// kernel that knows it is a guest. Their waiters halt after a while, so the locks that stand for
/// them park.
pub fn column(workload: Workload, lock: &str) -> Option<&'static str> {
    Some(match (workload, lock) {
        (Workload::Handoff, "fairlock:unfair") => "no_handoff",
        (Workload::Handoff, HANDOFF_10MS) => "handoff_10ms",
        (Workload::ReaderSpin, "fairlock:reader_spin_always") => "vanilla",
        (Workload::ReaderSpin, "fairlock:handoff") => "before",
        (Workload::ReaderSpin, "fairlock:reader_spin_one") => "limit_rspin",
        (Workload::ReaderSpin, "fairlock:no_reader_spin") => "no_rspin",
        (Workload::DirectIo, "fairlock:no_reader_spin") => "before",
        (Workload::DirectIo, "fairlock:writer_phase") => "after",
        (Workload::Batch, "fairlock:batch1") => "ticket",
        (Workload::Batch, "fairlock:batch4") => "batch_4",
        (Workload::Batch, "fairlock:batch8") => "batch_8",
        (Workload::Batch, "ref:mcs_park") => "mcs_queue",
        (Workload::Batch, "ref:queue_unfair_park") => "mcs_queue_unfair",
        (Workload::Range, "ref:rwsem_2017") => "rwsem",
        (Workload::Range, "fairlock:range_fifo") => "range",
        _ => return None,
    })
}

/// The threads of the published `handoff`.
const HANDOFF_THREADS: usize = 60;

/// The operations of the slowest and of the fastest thread, if published for a row: in 5 s. (60 of the fastest
/// of `handoff_10ms` are 272 thousand a second, far from the 12,590 thousand of the same table. Both are as
/// published.)
pub fn ops_of_a_thread(row: &Row) -> Option<(u64, u64)> {
    figure(row).filter(|_| row.workload == Workload::Handoff)?;
    let line = [("variant", column(row.workload, &row.lock)?)];
    let ops = |column| HANDOFF.value(&line, column).map(|ops| ops as u64);
    Some((ops("ops_min_per_thread")?, ops("ops_max_per_thread")?))
}

/// How many times fewer operations a writer had with a handoff at each release than with one after
/// 4 ms: 34,956 and 1,263 on average. That is with 40 readers and 40 writers, as published with the
/// series that was merged.
const IMMEDIATE_FEWER: f64 = 34_956.0 / 1_263.0;
const IMMEDIATE_THREADS: usize = 80;

/// How many times fewer operations a writer had with a handoff at each release, if the row is of that configuration.
pub fn immediate_fewer(row: &Row) -> Option<f64> {
    machine(row).filter(|_| row.threads == IMMEDIATE_THREADS).map(|_| IMMEDIATE_FEWER)
}

/// The machine of a row, if its workload was published for that machine.
fn machine(row: &Row) -> Option<&str> {
    let machine = unknowns::assumed(row.machine.as_deref()?);
    let mut grids = grid::all().filter(|grid| grid.workload == row.workload);
    grids.any(|grid| grid.machine == machine).then_some(machine)
}

/// The published figure of a row, if its machine and configuration were published: operations or
/// megabytes per second, or, of `handoff` and `batch`, a ratio to the baseline.
pub fn figure(row: &Row) -> Option<f64> {
    figure_on(row, machine(row)?)
}

/// The published figure of a row's configuration, whatever machine it is of.
pub fn figure_elsewhere(row: &Row) -> Option<f64> {
    let mut grids = grid::all().filter(|grid| grid.workload == row.workload);
    grids.find_map(|grid| figure_on(row, &grid.machine))
}

/// The published figure of the row's configuration on this machine.
fn figure_on(row: &Row, machine: &str) -> Option<f64> {
    let column = column(row.workload, &row.lock)?;
    match row.workload {
        Workload::Handoff if row.case == Case::Sleep && row.threads == HANDOFF_THREADS => {
            let rate = |column| HANDOFF.value(&[("variant", column)], "kops_per_s");
            Some(rate(column)? / rate("no_handoff")?)
        }
        Workload::ReaderSpin if row.case == Case::Mixed && row.side == Side::All => {
            let (threads, load) = (row.threads.to_string(), row.cs_load?.to_string());
            let line = [("threads", threads.as_str()), ("cs_load", load.as_str())];
            READER_SPIN.value(&line, column).map(|kops| kops * 1e3)
        }
        Workload::DirectIo => direct_io(row, &format!("{column}_mb_s")),
        Workload::Batch if row.case == Case::Chunks => {
            let overcommit = format!("{:?}", row.overcommit?);
            let line = [("overcommit", overcommit.as_str())];
            if column == "ticket" {
                return BATCH.value(&line, "overcommit").map(|_| 1.0);
            }
            BATCH.value(&line, column).map(|percent| 1.0 + percent / 100.0)
        }
        Workload::Range => {
            let machine = if machine == "opteron_4" { "amd4" } else { "ivb240" };
            let (mode, threads) = match row.case {
                Case::FullWrite => ("write_only", row.threads),
                Case::FullRead => ("read_only", row.threads),
                Case::FullMixed => ("read_write", row.threads / 2),
                _ => return None,
            };
            let threads = threads.to_string();
            let line = [
                ("machine", machine),
                ("mode", mode),
                ("side", row.side.name()),
                ("threads", threads.as_str()),
            ];
            RANGE.value(&line, &format!("{column}_ops")).map(|a_minute| a_minute / 60.0)
        }
        _ => None,
    }
}

/// The published latency of a write, in nanoseconds, if there is one for the row.
pub fn latency_ns(row: &Row) -> Option<f64> {
    let column = column(row.workload, &row.lock).filter(|_| row.workload == Workload::DirectIo)?;
    machine(row)?;
    direct_io(row, &format!("{column}_latency_us")).map(|us| us * 1e3)
}

/// What a column says of the writer of a direct I/O run.
fn direct_io(row: &Row, column: &str) -> Option<f64> {
    let case = match (row.case, row.side) {
        (Case::Mixed, Side::Write) => "mixed_write",
        (Case::WriterAlone, Side::Write) => "writer_only",
        _ => return None,
    };
    DIRECT_IO.value(&[("case", case)], column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_table_is_whole() {
        for csv in [HANDOFF, READER_SPIN, RANGE, BATCH, DIRECT_IO] {
            let lines: Vec<_> = csv.lines().collect();
            assert!(lines.len() > 2 && lines.iter().all(|line| line.len() == lines[0].len()));
            let last = lines.iter().map(|line| line[line.len() - 1]);
            assert!(last.skip(1).all(|value| value.parse::<f64>().is_ok()));
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
