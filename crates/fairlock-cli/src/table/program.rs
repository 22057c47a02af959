//! The tables of the workloads that take locks as programs do: one line a lock and cell.

use std::collections::BTreeMap;

use super::shown::{LOCK, MACHINE, Shown, figure, less, minor, shared, table};
use super::{or_dash, ratio, relation, spread, starved};
use crate::cell::{Case, Form, Holder, Workload};
use crate::layout::NOTHING;
use crate::locks::is_peer;
use crate::row::{Index, Row, whole};
use crate::units::{count, kops, percent, several, time};

const FORM: Shown = shared("form", |row| or_dash(row.range.form, |form| form.name().to_owned()));
const INSIDE: Shown =
    shared("inside", |row| or_dash(row.range.section_ns, |ns| time(u64::from(ns))));
const FREE: Shown = figure("free", |row| or_dash(row.figures.free_while_waited, percent));

/// `think` and `spread`: the columns that say what a cell is, beside its machine and form.
const DRAWN: [Shown; 5] = [
    INSIDE,
    shared("outside", |row| or_dash(row.range.outside, |x| format!("{x}x"))),
    shared("among", |row| or_dash(row.range.among, |n| count(n as u64))),
    shared("reads", |row| or_dash(row.range.reads_percent, |percent| format!("{percent} %"))),
    shared("threads", |row| row.threads.to_string()),
];
/// `think` and `spread`: the columns of figures.
const SPEED_AND_WAITS: [Shown; 11] = [
    figure("kop/s", |row| or_dash(row.figures.ops_per_s, kops)),
    minor("min-max", spread),
    figure("x best", ratio),
    less("x any", |row| relation(row.ratios.ratio_to_fastest_peer)),
    figure("x base", |row| relation(row.comparison.ratio_to_baseline)),
    figure("starved", starved),
    minor("wait p50", |row| or_dash(row.figures.wait_p50_ns, time)),
    less("p99", |row| or_dash(row.figures.wait_p99_ns, time)),
    figure("p99.9", |row| or_dash(row.figures.wait_p999_ns, time)),
    figure("longest", |row| or_dash(row.figures.wait_max_ns, time)),
    FREE,
];
const DRAWN_NOTE: &str = "outside: work outside in relation to that inside; among: locks of which \
     each operation is on one;\nwaits: of the worse side";
const TO_PEERS: &str = "x best: speed in relation to the fastest peer of this run that starves \
     nobody; x any: to the fastest";
const TO_BASE: &str = "x base: speed in relation to fairlock:unfair; mutexes to \
     ref:queue_unfair_park, ranges to fairlock:rwlock around all of them;\nfree: the share of time \
     in which the lock was free and waited for";

/// `idle`: the columns that say what a cell is.
const IDLE: [Shown; 4] = [
    INSIDE,
    shared("in it", |row| if row.case == Case::Sleep { "asleep" } else { "busy" }.to_owned()),
    shared("then", |row| or_dash(row.range.holder, |holder| holder.name().to_owned())),
    shared("waits to", |row| row.side.name().to_owned()),
];
/// `idle`: the columns of figures.
const WAITED: [Shown; 9] = [
    minor("waits", |row| or_dash(row.figures.min_ops, count)),
    figure("free p50", |row| or_dash(row.figures.free_p50_ns, time)),
    figure("x best", |row| relation(row.ratios.free_p50_ratio_to_best_peer)),
    figure("p99", |row| or_dash(row.figures.free_p99_ns, time)),
    figure("x best", |row| relation(row.ratios.free_p99_ratio_to_best_peer)),
    figure("longest", |row| or_dash(row.figures.free_max_ns, time)),
    less("wait p50", |row| or_dash(row.figures.wait_p50_ns, time)),
    less("longest", |row| or_dash(row.figures.wait_max_ns, time)),
    FREE,
];
const IDLE_NOTE: &str = "then: the holder is gone for 6 ms, or back after 20 us of work; free: how \
     long the lock was free during a wait,\nuntil the waiter had it; x best: in relation to the \
     least of any peer";

/// The table of a workload that was run on this machine, and below it how our locks did.
pub fn measured(workload: Workload, rows: &[&Row], width: Option<usize>) -> String {
    let rows = whole(rows.iter().copied());
    let mut out = shown(workload, &rows, TO_PEERS, width);
    out.push_str(&match workload {
        Workload::Idle => waiting(&rows),
        _ => keeping_up(workload, &rows),
    });
    out
}

/// The table of a workload that was simulated.
pub fn simulated(workload: Workload, rows: &[&Row], width: Option<usize>) -> String {
    shown(workload, &whole(rows.iter().copied()), TO_BASE, width)
}

fn shown(workload: Workload, rows: &[&Row], relations: &str, width: Option<usize>) -> String {
    let drawn = format!("{DRAWN_NOTE}\n{relations}");
    let (title, cell, figures, note): (&str, &[Shown], &[Shown], &str) = match workload {
        Workload::Think => {
            ("think: threads that work outside as well as inside", &DRAWN, &SPEED_AND_WAITS, &drawn)
        }
        Workload::Spread => (
            "spread: each operation on one of many locks, at random",
            &DRAWN,
            &SPEED_AND_WAITS,
            &drawn,
        ),
        _ => ("idle: how long a lock is free while waited for", &IDLE, &WAITED, IDLE_NOTE),
    };
    let all = [&[MACHINE, FORM][..], cell, &[LOCK], figures].concat();
    table(&all, rows).titled(title, note, width)
}

/// A lock with at least this share of the speed of the fastest peer that starves nobody keeps up
/// with it.
const KEEPS_UP: f64 = 0.95;
/// A lock with less than this share falls behind, however short its waits are.
const FALLS_BEHIND: f64 = 0.8;

/// Rows of a lock, each with a ratio to the peers, the smallest first.
type Judged<'a> = Vec<(f64, &'a Row)>;

/// Our locks, in each form, with those of their rows that have such a ratio.
fn judged<'a>(
    rows: &[&'a Row],
    ratio: impl Fn(&Row) -> Option<f64>,
) -> BTreeMap<(Option<Form>, &'a str), Judged<'a>> {
    let mut judged = BTreeMap::<_, Judged<'_>>::new();
    for row in rows.iter().filter(|row| !is_peer(&row.lock)) {
        if let Some(ratio) = ratio(row) {
            judged.entry((row.range.form, row.lock.as_str())).or_default().push((ratio, *row));
        }
    }
    judged.values_mut().for_each(|of_lock| of_lock.sort_by(|a, b| a.0.total_cmp(&b.0)));
    judged
}

/// How each of our locks did over all cells; empty if there are no peers.
fn keeping_up(workload: Workload, rows: &[&Row]) -> String {
    let index = Index::of(rows.iter().copied());
    let mut out = String::new();
    for ((form, lock), judged) in judged(rows, |row| row.ratios.ratio_to_best_peer) {
        let (least, worst) = judged[0];
        let (fast, slow): (Vec<_>, Vec<_>) = judged.iter().partition(|(r, _)| *r >= KEEPS_UP);
        out.push_str(&format!(
            "{}, {}, {lock}: {} of {} cells at {KEEPS_UP} or more of the fastest peer that starves \
             nobody, {} more\nwith no peer faster whose p99.9 is as short; {} below \
             {FALLS_BEHIND}; the lowest {least:.2} ({})\n",
            workload.name(),
            form.map_or(NOTHING, Form::name),
            fast.len(),
            judged.len(),
            slow.iter().filter(|(_, row)| is_on_the_front(&index, row)).count(),
            slow.iter().filter(|(ratio, _)| *ratio < FALLS_BEHIND).count(),
            details(worst),
        ));
    }
    out
}

/// How each of our locks did over all cells of `range`'s array; empty if there are no peers.
pub fn array(rows: &[&Row]) -> String {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.case == Case::Array).collect();
    let mut lines = String::new();
    for ((_, lock), judged) in judged(&rows, |row| row.ratios.ratio_to_best_peer) {
        let (least, worst) = judged[0];
        lines.push_str(&format!(
            "array, {lock}: {} of {} at {KEEPS_UP} or more of the fastest peer; the lowest {least:.2} \
             ({}, {} % reads, {}, {}); threads starved in {}\n",
            judged.iter().filter(|(ratio, _)| *ratio >= KEEPS_UP).count(),
            several(judged.len(), "cell"),
            worst.range.shape.map_or("-", |shape| shape.name()),
            worst.range.reads_percent.unwrap_or(0),
            time(u64::from(worst.range.section_ns.unwrap_or(0))),
            several(worst.threads, "thread"),
            rows.iter().filter(|row| row.lock == lock && row.starves()).count(),
        ));
    }
    lines
}

/// A cell in words.
pub fn describe(row: &Row) -> String {
    let lead = [MACHINE, FORM].map(|shown| (shown.cell)(row));
    let lead = lead.into_iter().filter(|value| value != NOTHING);
    lead.chain([details(row)]).collect::<Vec<_>>().join(", ")
}

/// A cell in words, without its machine and form.
fn details(row: &Row) -> String {
    let columns: &[Shown] = if row.workload == Workload::Idle { &IDLE } else { &DRAWN };
    let shown = columns.iter().map(|shown| (shown.head, (shown.cell)(row)));
    let words = shown.filter(|(_, value)| value != NOTHING);
    words.map(|(head, value)| format!("{head} {value}")).collect::<Vec<_>>().join(", ")
}

/// Whether no peer is both faster and has waits as short.
fn is_on_the_front(index: &Index<'_>, row: &Row) -> bool {
    !index.rows(&row.configuration()).iter().any(|peer| {
        is_peer(&peer.lock)
            && peer.figures.ops_per_s > row.figures.ops_per_s
            && peer.figures.wait_p999_ns <= row.figures.wait_p999_ns
    })
}

/// How much longer than for the best peer a free lock may be waited for and still be taken soon: in
/// the median, and at the 99th percentile.
const SOON: (f64, f64) = (1.2, 1.5);

/// How each of our locks did in `idle`, where the holder goes away; empty if there are no peers.
fn waiting(rows: &[&Row]) -> String {
    let mut out = String::new();
    let p99 = |row: &Row| row.ratios.free_p99_ratio_to_best_peer;
    let p50 = |row: &Row| p99(row).and(row.ratios.free_p50_ratio_to_best_peer);
    let is_away = |row: &&&Row| row.range.holder == Some(Holder::Away);
    let away: Vec<&Row> = rows.iter().filter(is_away).copied().collect();
    for ((form, lock), judged) in judged(&away, p50) {
        let (most, worst) = judged[judged.len() - 1];
        out.push_str(&format!(
            "idle, {}, {lock}, the holder away: p50 at most {} times that of the best peer in {} \
             of {} cells, p99 at most\n{} times in {}; the most {most:.2} times the p50 ({})\n",
            form.map_or(NOTHING, Form::name),
            SOON.0,
            judged.iter().filter(|(p50, _)| *p50 <= SOON.0).count(),
            judged.len(),
            SOON.1,
            judged.iter().filter(|(_, row)| p99(row) <= Some(SOON.1)).count(),
            details(worst),
        ));
    }
    out
}
