//! Results as a table for people; each workload has a form of its own.

pub mod program;
pub mod scenario;
mod shown;

use std::collections::HashSet;

use crate::cell::{Case, Side, Workload};
use crate::interference::Interference;
use crate::layout::{Column, NOTHING, Table};
use crate::row::{Configuration, Index, Row};
use crate::units::{count, digits, kops, several, time};
use crate::verdict;

/// What the column `x best` says, below every table that has it.
const MARK: &str = "x best: speed in relation to the fastest peer of this run that starves nobody";
const RANGE_MARKS: &str = "wide: write is the one writer of everything, read all others\n\
     x best: speed in relation to the fastest peer of this run that starves nobody\n\
     x rwsem: in relation to fairlock:default around everything; x one: to one thread";
const MARK_AND_SCORE: &str = "score: 2 x the smaller of the two shares of what the side does alone; \
     1 = each does half\nx best: total in relation to the fastest peer of this run that starves \
     nobody and scores 0.5 or more";

/// The table of one workload's rows, at most `width` wide; empty if there are none.
pub fn table(rows: &[Row], width: Option<usize>) -> String {
    let Some(&Row { workload, disturbance, .. }) = rows.first() else { return String::new() };
    let rows: Vec<&Row> = rows.iter().collect();
    let mut out = disturbance.caption();
    out.push_str(&match workload {
        Workload::Handoff => handoff(&rows, width),
        Workload::ReaderSpin => reader_spin(&rows, width),
        Workload::DirectIo => direct_io(&rows, width),
        Workload::Uncontended => uncontended(&rows, width),
        Workload::ReadMostly => read_mostly(&rows, width),
        Workload::Batch => batch(&rows, width),
        Workload::Range => range(&rows, width),
        Workload::Condvar => condvar(&rows, width),
        Workload::Scenario => scenario::groups(&rows, width),
        Workload::Think | Workload::Spread | Workload::Idle => {
            program::measured(workload, &rows, width)
        }
    });
    out.push_str(&disturbed(&rows));
    for row in rows.iter().filter(|row| row.error.is_some()) {
        let why = row.error.as_deref().unwrap_or_default();
        out.push_str(&format!(
            "failed: {} {} {} ({}): {why}\n",
            workload.name(),
            row.case.name(),
            row.lock,
            several(row.threads, "thread")
        ));
    }
    out.push('\n');
    out
}

fn handoff(rows: &[&Row], width: Option<usize>) -> String {
    let lead = |row: &Row| [row.case.name().to_owned()];
    let title = "handoff: writers only, a section of 1 us";
    who_gets_it(title, rows, [Column::name("section").shared()], lead, width)
}

fn batch(rows: &[&Row], width: Option<usize>) -> String {
    let lead = |row: &Row| {
        [row.case.name().to_owned(), or_dash(row.cs_load, |n| n.to_string()), overcommit(row)]
    };
    let title = "batch: a mutex, threads in relation to CPUs";
    let configuration = ["case", "pauses", "overcommit"].map(|head| Column::name(head).shared());
    who_gets_it(title, rows, configuration, lead, width)
}

fn condvar(rows: &[&Row], width: Option<usize>) -> String {
    let lead = |row: &Row| [row.case.name().to_owned()];
    let title = "condvar: threads that wait for each other, and for a mutex";
    who_gets_it(title, rows, [Column::name("case").shared()], lead, width)
}

fn range(rows: &[&Row], width: Option<usize>) -> String {
    let (alone, together): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.range.held.is_some());
    let mut out = String::new();
    if !together.is_empty() {
        out.push_str(&range_together(&together, width));
        out.push_str(&verdict::array(&together));
    }
    if !alone.is_empty() {
        let mut table = Table::new([
            Column::name("side").shared(),
            Column::figure("held").shared(),
            Column::lock(),
            Column::figure("ns/op"),
            Column::figure("x best"),
        ]);
        for row in alone {
            table.row([
                row.case.name().to_owned(),
                or_dash(row.range.held, |n| count(n as u64)),
                marked(row),
                or_dash(row.figures.ns_per_op, |ns| format!("{ns:.1}")),
                ratio(row),
            ]);
        }
        let title = "range: lock and unlock in a gap between ranges that are held, one thread";
        out.push_str(&table.titled(title, MARK, width));
    }
    out
}

fn range_together(rows: &[&Row], width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::name("case").shared(),
        Column::name("shape").shared(),
        Column::figure("section").shared(),
        Column::figure("reads").shared(),
        Column::lock(),
        Column::name("side"),
        Column::figure("threads").shared(),
        Column::figure("kop/s"),
        Column::figure("min-max").rank(1),
        Column::figure("x best").rank(4),
        Column::figure("x rwsem").rank(2),
        Column::figure("x one").rank(2),
        Column::figure("starved").rank(3),
        Column::figure("longest").rank(5),
    ]);
    let index = Index::of(rows.iter().copied());
    for row in rows {
        let own = row.configuration();
        let rate = |lock: &str, threads| {
            index.row(lock, &Configuration { threads, ..own })?.figures.ops_per_s
        };
        let in_relation = |to: Option<f64>| {
            or_dash(row.figures.ops_per_s.zip(to), |(own, other)| format!("{:.2}", own / other))
        };
        table.row([
            row.case.name().to_owned(),
            or_dash(row.range.shape, |shape| shape.name().to_owned()),
            or_dash(row.range.section_ns, |ns| time(u64::from(ns))),
            or_dash(row.range.reads_percent, |percent| format!("{percent} %")),
            marked(row),
            row.side.name().to_owned(),
            row.threads.to_string(),
            or_dash(row.figures.ops_per_s, kops),
            spread(row),
            ratio(row),
            in_relation(rate("fairlock:default", row.threads)),
            in_relation(rate(&row.lock, 1)),
            starved(row),
            or_dash(row.figures.wait_max_ns, time),
        ]);
    }
    table.titled("range: threads that lock ranges and work", RANGE_MARKS, width)
}

/// The table of how fast a lock is, for whom, and how long waits are. The first columns say in
/// which configuration.
fn who_gets_it<const N: usize>(
    title: &str,
    rows: &[&Row],
    configuration: [Column; N],
    lead: impl Fn(&Row) -> [String; N],
    width: Option<usize>,
) -> String {
    let figures = [
        Column::lock(),
        Column::figure("threads").shared(),
        Column::figure("kop/s"),
        Column::figure("min-max").rank(1),
        Column::figure("x best").rank(6),
        Column::figure("fewest").rank(3),
        Column::figure("most").rank(3),
        Column::figure("starved"),
        Column::figure("Jain").rank(5),
        Column::figure("wait p50").rank(2),
        Column::figure("p99").rank(2),
        Column::figure("p99.9").rank(4),
        Column::figure("longest"),
    ];
    let mut table = Table::new(configuration.into_iter().chain(figures));
    for row in rows {
        let f = &row.figures;
        let figures = [
            marked(row),
            row.threads.to_string(),
            or_dash(f.ops_per_s, kops),
            spread(row),
            ratio(row),
            or_dash(f.min_ops, count),
            or_dash(f.max_ops, count),
            starved(row),
            or_dash(f.jain, |jain| format!("{jain:.3}")),
            or_dash(f.wait_p50_ns, time),
            or_dash(f.wait_p99_ns, time),
            or_dash(f.wait_p999_ns, time),
            or_dash(f.wait_max_ns, time),
        ];
        table.row(lead(row).into_iter().chain(figures));
    }
    table.titled(title, MARK, width)
}

fn overcommit(row: &Row) -> String {
    or_dash(row.overcommit, |x| format!("{}x", (x * 100.0).round() / 100.0))
}

fn reader_spin(rows: &[&Row], width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::figure("threads").shared(),
        Column::figure("pauses").shared(),
        Column::lock(),
        Column::figure("kop/s"),
        Column::figure("x best").rank(4),
        Column::figure("score"),
        Column::figure("read").rank(2),
        Column::figure("write").rank(2),
        Column::figure("starved r").rank(3),
        Column::figure("w").rank(3),
        Column::figure("longest r"),
        Column::figure("w"),
        Column::figure("alone r").rank(1),
        Column::figure("w").rank(1),
    ]);
    let index = Index::of(rows.iter().copied());
    for row in configurations(rows) {
        let own = row.configuration();
        let side = |case, side| index.row(&row.lock, &Configuration { case, side, ..own });
        let total = side(Case::Mixed, Side::All);
        let (read, write) = (side(Case::Mixed, Side::Read), side(Case::Mixed, Side::Write));
        let rate = |row: Option<&Row>| or_dash(row.and_then(|r| r.figures.ops_per_s), kops);
        let longest = |row: Option<&Row>| or_dash(row.and_then(|r| r.figures.wait_max_ns), time);
        table.row([
            row.threads.to_string(),
            or_dash(row.cs_load, |n| n.to_string()),
            marked(row),
            rate(total),
            or_dash(total, ratio),
            or_dash(total, score),
            rate(read),
            rate(write),
            or_dash(read, starved),
            or_dash(write, starved),
            longest(read),
            longest(write),
            rate(side(Case::ReaderAlone, Side::Read)),
            rate(side(Case::WriterAlone, Side::Write)),
        ]);
    }
    table.titled("reader-spin: half readers, half writers", MARK_AND_SCORE, width)
}

fn direct_io(rows: &[&Row], width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::name("case").shared(),
        Column::name("side"),
        Column::lock(),
        Column::figure("MB/s"),
        Column::figure("x best").rank(4),
        Column::figure("of alone"),
        Column::figure("score").rank(3),
        Column::figure("wait p50").rank(1),
        Column::figure("p99").rank(1),
        Column::figure("longest"),
        Column::figure("latency p50").rank(2),
        Column::figure("p99").rank(2),
    ]);
    for row in rows {
        let f = &row.figures;
        table.row([
            row.case.name().to_owned(),
            row.side.name().to_owned(),
            marked(row),
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
    table.titled(&title, MARK_AND_SCORE, width)
}

fn uncontended(rows: &[&Row], width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::name("side").shared(),
        Column::lock(),
        Column::figure("ns/op"),
        Column::figure("x best"),
    ]);
    for row in rows {
        table.row([
            row.case.name().to_owned(),
            marked(row),
            or_dash(row.figures.ns_per_op, |ns| format!("{ns:.1}")),
            ratio(row),
        ]);
    }
    table.titled("uncontended: acquire and release, one thread", MARK, width)
}

fn read_mostly(rows: &[&Row], width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::figure("threads").shared(),
        Column::figure("pauses").shared(),
        Column::lock(),
        Column::figure("kop/s"),
        Column::figure("min-max").rank(1),
        Column::figure("x best").rank(2),
        Column::figure("starved"),
        Column::figure("longest r"),
        Column::figure("w"),
    ]);
    let index = Index::of(rows.iter().copied());
    for row in rows.iter().filter(|row| row.side == Side::All) {
        let own = row.configuration();
        let longest = |side| {
            let row = index.row(&row.lock, &Configuration { side, ..own });
            or_dash(row.and_then(|r| r.figures.wait_max_ns), time)
        };
        table.row([
            row.threads.to_string(),
            or_dash(row.cs_load, |n| n.to_string()),
            marked(row),
            or_dash(row.figures.ops_per_s, kops),
            spread(row),
            ratio(row),
            starved(row),
            longest(Side::Read),
            longest(Side::Write),
        ]);
    }
    table.titled("read-mostly: 99.9 % reads", MARK, width)
}

/// One row for each lock and configuration, whatever its case: the mix may be missing.
fn configurations<'a>(rows: &[&'a Row]) -> impl Iterator<Item = &'a Row> {
    let mut seen = HashSet::new();
    let is_new = move |row: &&Row| seen.insert((row.threads, row.cs_load, row.lock.clone()));
    rows.iter().copied().filter(is_new)
}

pub fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOTHING.into(), show)
}

/// The lock's name, marked if the cell was disturbed.
fn marked(row: &Row) -> String {
    format!("{}{}", row.lock, if row.is_disturbed() { DISTURBED } else { "" })
}

/// The mark behind the locks of disturbed cells.
const DISTURBED: &str = "*";

/// A line that says what the mark means, if any row has it.
fn disturbed(rows: &[&Row]) -> String {
    let disturbed = || rows.iter().filter(|row| row.is_disturbed());
    let worst = disturbed().filter_map(|row| row.interference).reduce(Interference::or);
    worst.map_or_else(String::new, |worst| {
        format!(
            "{DISTURBED} disturbed ({} of {}; at worst {}): long waits may be the machine's\n",
            disturbed().count(),
            several(rows.len(), "row"),
            worst.words()
        )
    })
}

/// How many threads starved; of a short window, that they were hardly served in it.
pub fn starved(row: &Row) -> String {
    or_dash(row.figures.starved_threads.map(|n| n.to_string()), |n| {
        row.hardly_served(&n).unwrap_or(n)
    })
}

/// What to say of the length of a table's measurements: a wait that is longer than one of them is
/// not seen whole.
pub fn lengths<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let ns: Vec<u64> = rows.into_iter().filter_map(|row| row.window_ns).collect();
    match (ns.iter().min().copied(), ns.iter().max().copied()) {
        (Some(least), Some(most)) if least < most => {
            format!("(measurements of {} to {})\n", time(least), time(most))
        }
        (Some(all), _) => format!("(measurements of {})\n", time(all)),
        _ => String::new(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::growth;

    #[test]
    fn tables_grow_as_the_rows_do() {
        for workload in
            [Workload::ReaderSpin, Workload::ReadMostly, Workload::Range, Workload::Think]
        {
            growth::is_linear(workload, |rows| {
                // All fall behind: who does is looked at once more.
                rows.iter_mut().for_each(|row| row.ratio_to_best_peer = Some(0.5));
                let lines = table(rows, None).lines().count();
                assert!(lines > rows.len() / 3, "{lines} lines");
            });
        }
    }
}
