//! Results as tables for people, one a workload.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::cell::{Case, Side, Workload};
use crate::row::Row;
use crate::units::{count, digits, kops, time};
use crate::verdict;

/// What the column `x best` says, below every table that has it.
const MARK: &str = "x best: speed in relation to the fastest peer of this run that starves nobody";
const RANGE_MARKS: &str = "wide: write is the one writer of everything, read all others\n\
     x best: speed in relation to the fastest peer of this run that starves nobody\n\
     x rwsem: in relation to fairlock:default around everything; x one: to one thread";
const MARK_AND_SCORE: &str = "score: 2 x the smaller of the two shares of what the side does alone; \
     1 = each does half\nx best: total in relation to the fastest peer of this run that starves \
     nobody and scores 0.5 or more";

/// The tables of all workloads in `rows`.
pub fn tables(rows: &[Row]) -> String {
    let mut out = String::new();
    for workload in Workload::ALL {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if rows.is_empty() {
            continue;
        }
        let text = match workload {
            Workload::Handoff => handoff(&rows),
            Workload::ReaderSpin => reader_spin(&rows),
            Workload::DirectIo => direct_io(&rows),
            Workload::Uncontended => uncontended(&rows),
            Workload::ReadMostly => read_mostly(&rows),
            Workload::Batch => batch(&rows),
            Workload::Range => range(&rows),
        };
        out.push_str(&text);
        for row in rows.iter().filter(|row| row.error.is_some()) {
            let why = row.error.as_deref().unwrap_or_default();
            out.push_str(&format!(
                "failed: {} {} {} ({} threads): {why}\n",
                workload.name(),
                row.case.name(),
                row.lock,
                row.threads
            ));
        }
        out.push('\n');
    }
    out
}

fn handoff(rows: &[&Row]) -> String {
    let lead = |row: &Row| vec![row.case.name().to_owned()];
    who_gets_it("handoff: writers only, a section of 1 us", rows, &["section"], lead)
}

fn batch(rows: &[&Row]) -> String {
    let lead = |row: &Row| {
        vec![row.case.name().to_owned(), or_dash(row.cs_load, |n| n.to_string()), overcommit(row)]
    };
    let title = "batch: a mutex, threads in relation to CPUs";
    who_gets_it(title, rows, &["case", "pauses", "overcommit"], lead)
}

fn range(rows: &[&Row]) -> String {
    let (alone, together): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.range.held.is_some());
    let mut out = String::new();
    if !together.is_empty() {
        out.push_str(&range_together(&together));
        out.push_str(&verdict::array(&together));
    }
    if !alone.is_empty() {
        let mut table = new_table(&["side", "held", "lock", "ns/op", "x best"]);
        for row in alone {
            table.add_row([
                row.case.name().to_owned(),
                or_dash(row.range.held, |n| count(n as u64)),
                row.lock.clone(),
                or_dash(row.figures.ns_per_op, |ns| format!("{ns:.1}")),
                ratio(row),
            ]);
        }
        let title = "range: lock and unlock in a gap between ranges that are held, one thread";
        out.push_str(&titled(title, table, 1, MARK));
    }
    out
}

fn range_together(rows: &[&Row]) -> String {
    let header = [
        "case", "shape", "section", "reads", "lock", "side", "threads", "kop/s", "min-max",
        "x best", "x rwsem", "x one", "starved", "longest",
    ];
    let mut table = new_table(&header);
    for row in rows {
        let rate = |lock: &str, threads| {
            let like = |other: &&&Row| {
                let (.., range, side) = row.configuration();
                let (.., range_of_other, side_of_other) = other.configuration();
                other.lock == lock
                    && other.threads == threads
                    && other.case == row.case
                    && (range, side) == (range_of_other, side_of_other)
            };
            rows.iter().find(like).and_then(|other| other.figures.ops_per_s)
        };
        let in_relation = |to: Option<f64>| {
            or_dash(row.figures.ops_per_s.zip(to), |(own, other)| format!("{:.2}", own / other))
        };
        table.add_row([
            row.case.name().to_owned(),
            or_dash(row.range.shape, |shape| shape.name().to_owned()),
            or_dash(row.range.section_ns, |ns| time(u64::from(ns))),
            or_dash(row.range.reads_percent, |percent| format!("{percent} %")),
            row.lock.clone(),
            row.side.name().to_owned(),
            row.threads.to_string(),
            or_dash(row.figures.ops_per_s, kops),
            spread(row),
            ratio(row),
            in_relation(rate("fairlock:default", row.threads)),
            in_relation(rate(&row.lock, 1)),
            or_dash(row.figures.starved_threads, |n| n.to_string()),
            or_dash(row.figures.wait_max_ns, time),
        ]);
    }
    titled("range: threads that lock ranges and work", table, 6, RANGE_MARKS)
}

/// How fast a lock is, for whom, and after how long a wait. The first columns say
/// in which configuration.
fn who_gets_it(
    title: &str,
    rows: &[&Row],
    configuration: &[&str],
    lead: impl Fn(&Row) -> Vec<String>,
) -> String {
    let figures = [
        "lock", "threads", "kop/s", "min-max", "x best", "fewest", "most", "starved", "Jain",
        "wait p50", "p99", "p99.9", "longest",
    ];
    let mut table = new_table(&[configuration, &figures].concat());
    for row in rows {
        let f = &row.figures;
        let mut cells = lead(row);
        cells.extend([
            row.lock.clone(),
            row.threads.to_string(),
            or_dash(f.ops_per_s, kops),
            spread(row),
            ratio(row),
            or_dash(f.min_ops, count),
            or_dash(f.max_ops, count),
            or_dash(f.starved_threads, |n| n.to_string()),
            or_dash(f.jain, |jain| format!("{jain:.3}")),
            or_dash(f.wait_p50_ns, time),
            or_dash(f.wait_p99_ns, time),
            or_dash(f.wait_p999_ns, time),
            or_dash(f.wait_max_ns, time),
        ]);
        table.add_row(cells);
    }
    titled(title, table, configuration.len() + 1, MARK)
}

fn overcommit(row: &Row) -> String {
    or_dash(row.overcommit, |x| format!("{}x", (x * 100.0).round() / 100.0))
}

fn reader_spin(rows: &[&Row]) -> String {
    let mut table = new_table(&[
        "threads",
        "pauses",
        "lock",
        "kop/s",
        "x best",
        "score",
        "read",
        "write",
        "starved r",
        "w",
        "longest r",
        "w",
        "alone r",
        "w",
    ]);
    for row in configurations(rows) {
        let side = |case, side| side_of(rows, row, case, side);
        let total = side(Case::Mixed, Side::All);
        let (read, write) = (side(Case::Mixed, Side::Read), side(Case::Mixed, Side::Write));
        let rate = |row: Option<&Row>| or_dash(row.and_then(|r| r.figures.ops_per_s), kops);
        let starved = |row: Option<&Row>| {
            or_dash(row.and_then(|r| r.figures.starved_threads), |n| n.to_string())
        };
        let longest = |row: Option<&Row>| or_dash(row.and_then(|r| r.figures.wait_max_ns), time);
        table.add_row([
            row.threads.to_string(),
            or_dash(row.cs_load, |n| n.to_string()),
            row.lock.clone(),
            rate(total),
            or_dash(total, ratio),
            or_dash(total, score),
            rate(read),
            rate(write),
            starved(read),
            starved(write),
            longest(read),
            longest(write),
            rate(side(Case::ReaderAlone, Side::Read)),
            rate(side(Case::WriterAlone, Side::Write)),
        ]);
    }
    titled("reader-spin: half readers, half writers", table, 3, MARK_AND_SCORE)
}

fn direct_io(rows: &[&Row]) -> String {
    let mut table = new_table(&[
        "case",
        "side",
        "lock",
        "MB/s",
        "x best",
        "of alone",
        "score",
        "wait p50",
        "p99",
        "longest",
        "latency p50",
        "p99",
    ]);
    for row in rows {
        let f = &row.figures;
        table.add_row([
            row.case.name().to_owned(),
            row.side.name().to_owned(),
            row.lock.clone(),
            or_dash(f.mb_per_s, digits),
            ratio(row),
            or_dash(f.share_of_alone, |share| format!("{share:.2}")),
            score(row),
            or_dash(f.wait_p50_ns, time),
            or_dash(f.wait_p99_ns, time),
            or_dash(f.wait_max_ns, time),
            or_dash(f.latency_p50_ns, time),
            or_dash(f.latency_p99_ns, time),
        ]);
    }
    let on = rows.iter().find_map(|row| row.file_system.as_deref()).unwrap_or("unknown");
    let title = format!("direct-io: 4 KiB O_DIRECT append and tail, file system {on}");
    titled(&title, table, 3, MARK_AND_SCORE)
}

fn uncontended(rows: &[&Row]) -> String {
    let mut table = new_table(&["side", "lock", "ns/op", "x best"]);
    for row in rows {
        table.add_row([
            row.case.name().to_owned(),
            row.lock.clone(),
            or_dash(row.figures.ns_per_op, |ns| format!("{ns:.1}")),
            ratio(row),
        ]);
    }
    titled("uncontended: acquire and release, one thread", table, 2, MARK)
}

fn read_mostly(rows: &[&Row]) -> String {
    let mut table = new_table(&[
        "threads",
        "pauses",
        "lock",
        "kop/s",
        "min-max",
        "x best",
        "starved",
        "longest r",
        "w",
    ]);
    for row in rows.iter().filter(|row| row.side == Side::All) {
        let longest = |side| {
            let row = side_of(rows, row, Case::Mixed, side);
            or_dash(row.and_then(|r| r.figures.wait_max_ns), time)
        };
        table.add_row([
            row.threads.to_string(),
            or_dash(row.cs_load, |n| n.to_string()),
            row.lock.clone(),
            or_dash(row.figures.ops_per_s, kops),
            spread(row),
            ratio(row),
            or_dash(row.figures.starved_threads, |n| n.to_string()),
            longest(Side::Read),
            longest(Side::Write),
        ]);
    }
    titled("read-mostly: 99.9 % reads", table, 3, MARK)
}

/// One row of each lock and configuration, whatever its case: the mix may be missing.
fn configurations<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut seen = Vec::new();
    let mut first = Vec::new();
    for row in rows.iter().copied() {
        let key = (row.threads, row.cs_load, row.lock.as_str());
        if !seen.contains(&key) {
            seen.push(key);
            first.push(row);
        }
    }
    first
}

/// The row of one side of the same lock and configuration.
fn side_of<'a>(rows: &[&'a Row], total: &Row, case: Case, side: Side) -> Option<&'a Row> {
    rows.iter().copied().find(|row| {
        row.lock == total.lock
            && row.threads == total.threads
            && row.cs_load == total.cs_load
            && row.case == case
            && row.side == side
    })
}

pub fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    // Never wrapped: a table that is cut by a terminal is better than one whose
    // shape depends on it.
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

/// The table with its title and a note; `names` columns from the left hold names.
pub fn titled(title: &str, mut table: Table, names: usize, note: &str) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= names {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{title}\n\n{}\n\n{note}\n", table.trim_fmt())
}

pub fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".into(), show)
}

fn ratio(row: &Row) -> String {
    or_dash(row.ratio_to_best_peer, |ratio| format!("{ratio:.2}"))
}

fn score(row: &Row) -> String {
    or_dash(row.figures.balance_score, |score| format!("{score:.2}"))
}

fn spread(row: &Row) -> String {
    let range = row.figures.ops_per_s_min.zip(row.figures.ops_per_s_max);
    or_dash(range, |(min, max)| format!("{}-{}", kops(min), kops(max)))
}
