//! Results as a table for people; each workload has a form of its own.

pub mod claims;
pub mod events;
pub mod program;
pub mod scenario;
mod shown;
pub mod why;

use std::collections::HashSet;

use crate::cell::{Case, Side, Workload};
use crate::interference::Interference;
pub use crate::layout::or_dash;
use crate::layout::{Column, Table};
use crate::row::{Configuration, Figures, Index, Row};
use crate::sim::compare::elsewhere;
use crate::units::{count, digits, kops, percent, several, time, two_digits};

/// What the column `x best` says, below every table that has it.
const MARK: &str = "x best: speed in relation to the fastest peer of this run that starves nobody";
const RANGE_MARKS: &str = "wide: write is the one writer of everything, read all others\n\
     x best: speed in relation to the fastest peer of this run that starves nobody\n\
     x rwsem: in relation to fairlock:rwlock around everything; x one: to one thread";
const MARK_AND_SCORE: &str = "score: 2 x the smaller of the two shares of what the side does alone; \
     1 = each does half\nx best: total in relation to the fastest peer of this run that starves \
     nobody and scores 0.5 or more";

/// What the column `publ.` says.
const PUBLISHED: &str = "publ.: as published of another machine, which `fairlock sim` simulates: \
     docs/proposals.md";

/// The table of one workload's rows, at most `width` wide; empty if there are none.
pub fn table(rows: &[Row], width: Option<usize>) -> String {
    let Some(&Row { workload, disturbance, .. }) = rows.first() else { return String::new() };
    let all = rows;
    let rows: Vec<&Row> = rows.iter().collect();
    let mut out = disturbance.caption();
    out.push_str(&match workload {
        Workload::Handoff => handoff(&rows, width),
        Workload::ReaderSpin => reader_spin(&rows, width),
        Workload::DirectIo => direct_io(&rows, width),
        Workload::Uncontended => uncontended(&rows, width),
        Workload::Batch => batch(&rows, width),
        Workload::Range => range(&rows, width),
        Workload::Condvar => condvar(&rows, width),
        Workload::Scenario => scenario::groups(&rows, width),
        Workload::Think | Workload::Spread | Workload::Idle => {
            program::measured(workload, &rows, width)
        }
    });
    out.push_str(&disturbed(&rows));
    out.push_str(&why::long_waits(&rows, width));
    out.push_str(&events::events(&rows, width));
    out.push_str(&failures(all));
    out.push('\n');
    out
}

/// A line for each row whose cell failed.
pub fn failures<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let line = |row: &Row| {
        let (workload, case) = (row.workload.name(), row.case.name());
        let threads = several(row.threads, "thread");
        Some(format!(
            "failed: {workload} {case} {} ({threads}): {}\n",
            row.lock,
            row.error.as_ref()?
        ))
    };
    rows.into_iter().filter_map(line).collect()
}

fn handoff(rows: &[&Row], width: Option<usize>) -> String {
    let title = "handoff: writers only, a section of 1 us";
    who_gets_it(title, rows, &[("section", &case)], width)
}

fn batch(rows: &[&Row], width: Option<usize>) -> String {
    let title = "batch: a mutex, threads in relation to CPUs";
    let overcommit =
        |row: &Row| or_dash(row.overcommit, |x| format!("{}x", (x * 100.0).round() / 100.0));
    let configuration: &[(_, Cell<'_>)] =
        &[("case", &case), ("pauses", &pauses), ("overcommit", &overcommit)];
    who_gets_it(title, rows, configuration, width) + &claims::batches_of_few_threads(rows)
}

fn condvar(rows: &[&Row], width: Option<usize>) -> String {
    let title = "condvar: threads that wait for each other, and for a mutex";
    who_gets_it(title, rows, &[("case", &case)], width)
}

fn range(rows: &[&Row], width: Option<usize>) -> String {
    let (alone, together): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.range.held.is_some());
    let mut out = String::new();
    if !together.is_empty() {
        out.push_str(&range_together(&together, width));
        out.push_str(&claims::sizes_of_ranges(&together));
        out.push_str(&program::array(&together));
    }
    if !alone.is_empty() {
        let table = Table::of(
            alone,
            [
                (Column::name("side").shared(), &case),
                (Column::figure("held").shared(), &|row| {
                    or_dash(row.range.held, |n| count(n as u64))
                }),
                (Column::lock(), &marked),
                (Column::figure("ns/op"), &ns_per_op),
                (Column::figure("x best"), &ratio),
            ],
        );
        let title = "range: lock and unlock in a gap between ranges that are held, one thread";
        out.push_str(&table.titled(title, MARK, width));
    }
    out
}

fn range_together(rows: &[&Row], width: Option<usize>) -> String {
    let index = Index::of(rows.iter().copied());
    let in_relation = |row: &Row, lock: &str, threads| {
        let to = index.row(lock, &Configuration { threads, ..row.configuration() });
        let rates = row.figures.ops_per_s.zip(to.and_then(|to| to.figures.ops_per_s));
        relation(rates.map(|(own, other)| own / other))
    };
    let table = Table::of(
        rows.iter().copied(),
        [
            (Column::name("case").shared(), &case),
            (Column::name("shape").shared(), &|row| {
                or_dash(row.range.shape, |shape| shape.name().to_owned())
            }),
            (Column::figure("section").shared(), &|row| {
                or_dash(row.range.section_ns, |ns| time(u64::from(ns)))
            }),
            (Column::figure("reads").shared(), &|row| {
                or_dash(row.range.reads_percent, |percent| format!("{percent} %"))
            }),
            (Column::lock(), &marked),
            (Column::name("side"), &side),
            (Column::figure("threads").shared(), &threads),
            (Column::figure("kop/s"), &rate),
            (Column::figure("publ.").rank(4), &published),
            (Column::figure("min-max").rank(1), &spread),
            (Column::figure("x best").rank(4), &ratio),
            (Column::figure("x rwsem").rank(2), &|row| {
                in_relation(row, "fairlock:rwlock", row.threads)
            }),
            (Column::figure("x one").rank(2), &|row| in_relation(row, &row.lock, 1)),
            (Column::figure("starved").rank(3), &starved),
            (Column::figure("longest").rank(5), &longest),
        ],
    );
    let title = "range: threads that lock ranges and work";
    beside_published(table, title, RANGE_MARKS, rows, width)
}

/// The table of how fast a lock is, for whom, and how long waits are. The first columns say in
/// which configuration.
fn who_gets_it(
    title: &str,
    rows: &[&Row],
    configuration: &[(&str, Cell<'_>)],
    width: Option<usize>,
) -> String {
    let lead = configuration.iter().map(|&(head, cell)| (Column::name(head).shared(), cell));
    let figures: [(Column, Cell<'_>); 14] = [
        (Column::lock(), &marked),
        (Column::figure("threads").shared(), &threads),
        (Column::figure("kop/s"), &rate),
        (Column::figure("publ.").rank(4), &published),
        (Column::figure("min-max").rank(1), &spread),
        (Column::figure("x best").rank(6), &ratio),
        (Column::figure("fewest").rank(3), &|row| or_dash(row.figures.min_ops, count)),
        (Column::figure("most").rank(3), &|row| or_dash(row.figures.max_ops, count)),
        (Column::figure("starved"), &starved),
        (Column::figure("Jain").rank(5), &jain),
        (Column::figure("wait p50").rank(2), &|row| or_dash(row.figures.wait_p50_ns, time)),
        (Column::figure("p99").rank(2), &|row| or_dash(row.figures.wait_p99_ns, time)),
        (Column::figure("p99.9").rank(4), &|row| or_dash(row.figures.wait_p999_ns, time)),
        (Column::figure("longest"), &longest),
    ];
    let table = Table::with(rows.iter().copied(), lead.chain(figures));
    beside_published(table, title, MARK, rows, width)
}

fn reader_spin(rows: &[&Row], width: Option<usize>) -> String {
    let index = Index::of(rows.iter().copied());
    let of = |row: &Row, case, side| {
        index.row(&row.lock, &Configuration { case, side, ..row.configuration() })
    };
    let mixed =
        |row: &Row, side, show: fn(&Row) -> String| or_dash(of(row, Case::Mixed, side), show);
    let (all, read, write) = (Side::All, Side::Read, Side::Write);
    let table = Table::of(
        configurations(rows),
        [
            (Column::figure("threads").shared(), &threads),
            (Column::figure("pauses").shared(), &pauses),
            (Column::lock(), &marked),
            (Column::figure("kop/s"), &|row| mixed(row, all, rate)),
            (Column::figure("publ.").rank(3), &|row| mixed(row, all, published)),
            (Column::figure("x best").rank(4), &|row| mixed(row, all, ratio)),
            (Column::figure("score"), &|row| mixed(row, all, score)),
            (Column::figure("read").rank(2), &|row| mixed(row, read, rate)),
            (Column::figure("write").rank(2), &|row| mixed(row, write, rate)),
            (Column::figure("starved r").rank(3), &|row| mixed(row, read, starved)),
            (Column::figure("w").rank(3), &|row| mixed(row, write, starved)),
            (Column::figure("longest r"), &|row| mixed(row, read, longest)),
            (Column::figure("w"), &|row| mixed(row, write, longest)),
            (Column::figure("alone r").rank(1), &|row| {
                or_dash(of(row, Case::ReaderAlone, read), rate)
            }),
            (Column::figure("w").rank(1), &|row| or_dash(of(row, Case::WriterAlone, write), rate)),
        ],
    );
    let title = "reader-spin: half readers, half writers";
    beside_published(table, title, MARK_AND_SCORE, rows, width)
}

fn direct_io(rows: &[&Row], width: Option<usize>) -> String {
    let table = Table::of(
        rows.iter().copied(),
        [
            (Column::name("case").shared(), &case),
            (Column::name("side"), &side),
            (Column::lock(), &marked),
            (Column::figure("MB/s"), &|row| or_dash(row.figures.mb_per_s, digits)),
            (Column::figure("publ.").rank(3), &published),
            (Column::figure("x best").rank(4), &ratio),
            (Column::figure("of alone"), &|row| relation(row.figures.share_of_alone)),
            (Column::figure("score").rank(3), &score),
            (Column::figure("wait p50").rank(1), &|row| or_dash(row.figures.wait_p50_ns, time)),
            (Column::figure("p99").rank(1), &|row| or_dash(row.figures.wait_p99_ns, time)),
            (Column::figure("longest"), &longest),
            (Column::figure("latency p50").rank(2), &|row| {
                or_dash(row.figures.latency_p50_ns, time)
            }),
            (Column::figure("p99").rank(2), &|row| or_dash(row.figures.latency_p99_ns, time)),
        ],
    );
    let on = rows.iter().find_map(|row| row.file_system.as_deref()).unwrap_or("unknown");
    let title = format!("direct-io: 4 KiB O_DIRECT append and tail, file system {on}");
    beside_published(table, &title, MARK_AND_SCORE, rows, width)
}

fn uncontended(rows: &[&Row], width: Option<usize>) -> String {
    let table = Table::of(
        rows.iter().copied(),
        [
            (Column::name("side").shared(), &case),
            (Column::lock(), &marked),
            (Column::figure("ns/op"), &ns_per_op),
            (Column::figure("x best"), &ratio),
        ],
    );
    table.titled("uncontended: acquire and release, one thread", MARK, width)
}

/// The table under its title; without the published figures if there are none.
fn beside_published(
    mut table: Table,
    title: &str,
    note: &str,
    rows: &[&Row],
    width: Option<usize>,
) -> String {
    let note = if rows.iter().any(|row| elsewhere(row).is_some()) {
        format!("{note}\n{PUBLISHED}")
    } else {
        table.leave_out("publ.");
        note.to_owned()
    };
    table.titled(title, &note, width)
}

/// What was published of a row's configuration.
fn published(row: &Row) -> String {
    or_dash(elsewhere(row), |(figure, base)| match (base, row.figures.mb_per_s) {
        (Some(base), _) => {
            format!("{} x {}", two_digits(figure), base.rsplit(':').next().unwrap_or(base))
        }
        (None, Some(_)) => digits(figure),
        (None, None) => kops(figure),
    })
}

/// What a column shows of a row.
type Cell<'a> = &'a dyn Fn(&Row) -> String;

pub fn case(row: &Row) -> String {
    row.case.name().to_owned()
}

pub fn side(row: &Row) -> String {
    row.side.name().to_owned()
}

pub fn threads(row: &Row) -> String {
    row.threads.to_string()
}

pub fn pauses(row: &Row) -> String {
    or_dash(row.cs_load, |n| n.to_string())
}

fn rate(row: &Row) -> String {
    or_dash(row.figures.ops_per_s, kops)
}

fn ns_per_op(row: &Row) -> String {
    or_dash(row.figures.ns_per_op, |ns| format!("{ns:.1}{}", plus_minus(row)))
}

pub fn jain(row: &Row) -> String {
    or_dash(row.figures.jain, |jain| format!("{jain:.3}"))
}

pub fn longest(row: &Row) -> String {
    or_dash(row.figures.wait_max_ns, time)
}

/// One row for each lock and configuration, whatever its case: the mix may be missing.
fn configurations<'a>(rows: &[&'a Row]) -> impl Iterator<Item = &'a Row> {
    let mut seen = HashSet::new();
    let is_new = move |row: &&Row| seen.insert((row.threads, row.cs_load, row.lock.clone()));
    rows.iter().copied().filter(is_new)
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
    relation(row.ratios.ratio_to_best_peer)
}

fn score(row: &Row) -> String {
    relation(row.figures.balance_score)
}

/// A figure in relation to another, if it is known.
pub fn relation(value: Option<f64>) -> String {
    or_dash(value, two_digits)
}

/// The least and the largest rate of any run, and how much they vary.
fn spread(row: &Row) -> String {
    let range = row.figures.ops_per_s_min.zip(row.figures.ops_per_s_max);
    or_dash(range, |(min, max)| format!("{}-{}{}", kops(min), kops(max), plus_minus(row)))
}

/// The standard deviation of the runs, in relation to their median; nothing if there was one run.
pub fn plus_minus(row: &Row) -> String {
    let Figures { ops_per_s, ops_per_s_sd, ns_per_op, ns_per_op_sd, .. } = &row.figures;
    let of = |median: &Option<f64>, sd: &Option<f64>| Some((*sd)? / (*median)?);
    let share = of(ops_per_s, ops_per_s_sd).or_else(|| of(ns_per_op, ns_per_op_sd));
    share
        .filter(|share| share.is_finite())
        .map_or_else(String::new, |share| format!(" ±{}", percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::assert_fits;
    use crate::row::growth;
    use crate::row::tests::widest;

    #[test]
    fn every_table_of_a_workload_fits_however_large_its_figures_are() {
        for workload in Workload::ALL {
            let real = widest(workload, true);
            for width in [80, 120] {
                let measured = table(&real, Some(width));
                assert!(measured.contains("waits of more than 1 ms"), "{measured}");
                assert_fits(&measured, width);
            }
        }
    }

    #[test]
    fn tables_grow_as_the_rows_do() {
        for workload in [Workload::ReaderSpin, Workload::Range, Workload::Think] {
            growth::is_linear(workload, |rows| {
                // All fall behind: those that do are looked at again.
                rows.iter_mut().for_each(|row| row.ratios.ratio_to_best_peer = Some(0.5));
                let lines = table(rows, None).lines().count();
                assert!(lines > rows.len() / 3, "{lines} lines");
            });
        }
    }
}
