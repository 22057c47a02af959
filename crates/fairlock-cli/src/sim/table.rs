//! Simulated results as tables for people.

use std::collections::HashSet;

use super::compare::{is_real, is_relative};
use super::rows::{Rows, describe};
use super::unknowns::is_varied;
use crate::cell::{Case, Side, Workload};
use crate::layout::{Column, Table};
use crate::row::{Row, locks};
use crate::table::{
    case, events::events, failures, jain, lengths, longest, or_dash, pauses, plus_minus, program,
    relation, scenario, side, starved, threads, why::long_waits,
};
use crate::units::{count, digits, kops, percent, several, time};

/// The rows of each workload, on the machine as it is assumed to be.
pub fn of_workloads(rows: &[Row]) -> Vec<Rows<'_>> {
    let of = |workload| move |row: &&Row| row.workload == workload && !is_varied(row);
    Workload::ALL.into_iter().map(|workload| Rows::of(rows.iter().filter(of(workload)))).collect()
}

/// The tables of all workloads in `rows`, at most `width` wide.
pub fn tables(rows: &[Row], width: Option<usize>) -> String {
    let mut out = String::new();
    for workload in Workload::ALL {
        let all = Rows::of(rows.iter().filter(|row| row.workload == workload));
        let rows = Rows::of(all.iter().filter(|row| !is_varied(row)));
        let Some(first) = rows.all().first() else { continue };
        let mut machines: Vec<&str> = rows.iter().filter_map(|r| r.machine.as_deref()).collect();
        machines.dedup();
        let title = format!("{} on {}", workload.name(), machines.join(" and "));
        let by_column = workload == Workload::ReaderSpin && !rows.iter().any(is_real);
        out.push_str(&first.disturbance.caption());
        out.push_str(&match workload {
            Workload::Think | Workload::Spread | Workload::Idle => {
                program::simulated(workload, rows.all(), width)
            }
            Workload::Scenario => scenario::groups(rows.all(), width),
            _ if by_column => both_sides(&title, &rows, width),
            _ => lines(&title, &rows, width),
        });
        out.push_str(&lengths(rows.iter()));
        out.push('\n');
        free_while_waited(&rows, &mut out);
        out.push_str(&long_waits(rows.all(), width));
        out.push_str(&events(rows.all(), width));
        out.push_str(&failures(all.iter()));
        out.push('\n');
    }
    out
}

/// Says for how much of the time each lock was free and waited for.
fn free_while_waited(rows: &Rows<'_>, out: &mut String) {
    const LITTLE: f64 = 0.01;
    for lock in locks(rows.iter()) {
        let of_lock = rows.iter().filter(|row| row.lock == lock);
        let cells: Vec<(f64, &Row)> =
            of_lock.filter_map(|row| Some((row.figures.free_while_waited?, row))).collect();
        let Some((most, worst)) = cells.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
            continue;
        };
        let much = cells.iter().filter(|(share, _)| *share > LITTLE).count();
        out.push_str(&format!(
            "free while waited for, {lock}: more than 1 % of the time in {much} of {}, at most \
             {} ({})\n",
            several(cells.len(), "cell"),
            percent(*most),
            describe(worst),
        ));
    }
}

/// The table of rows that have both sides together: a line for each configuration, with the locks
/// beside each other, or, if that is too wide, a line for each row.
fn both_sides(title: &str, rows: &Rows<'_>, width: Option<usize>) -> String {
    let rows = Rows::of(rows.iter().filter(|row| row.side == Side::All));
    let columns = columns(&rows);
    if columns.fits(width) {
        let mut note = "kop/s of both sides, median over the seeds".to_owned();
        if rows.iter().any(|row| row.comparison.published.is_some()) {
            note.push_str("; publ.: as published; x: ours in relation to it");
        }
        columns.titled(title, &note, width)
    } else {
        lines(title, &rows, width)
    }
}

/// Rates as text: operations, or thousands of them, a second.
type PerSecond = fn(f64) -> String;

/// The table with a line for each row.
fn lines(title: &str, rows: &Rows<'_>, width: Option<usize>) -> String {
    let (whose, made) =
        if rows.iter().any(is_real) { ("real", "measured") } else { ("publ.", "published") };
    let is_beside_others = rows.iter().any(|row| row.comparison.published.is_some());
    // Only figures of the same unit are put beside each other.
    let has_unit = is_beside_others && !rows.iter().all(is_relative);
    // Where a section takes milliseconds, thousands of operations a second are too coarse.
    let is_slow = rows.iter().all(|row| row.workload == Workload::Range);
    let (unit, per_s): (&str, PerSecond) = if is_slow { ("op/s", digits) } else { ("kop/s", kops) };
    let mut table = line_by_line(rows, unit, per_s, whose);
    leave_out_what_says_nothing(&mut table, rows);
    let mut note = "min-max: over the seeds, and their standard deviation".to_owned();
    if has_unit {
        note.push_str(&format!("; x: ours in relation to the {made} figure"));
    } else {
        table.leave_out(whose);
        table.leave_out("x");
    }
    if is_beside_others {
        note.push_str(&format!(
            "; x base, {whose}: in relation to the baseline, ours and as {made}"
        ));
    } else {
        table.leave_out("as");
        table.leave_out(whose);
        note.push_str("; x base: in relation to the baseline");
    }
    note.push_str("; free: the share of time in which the lock was free and waited for");
    table.titled(title, &note, width)
}

fn line_by_line(rows: &Rows<'_>, unit: &str, per_s: PerSecond, whose: &str) -> Table {
    let show = |row: &Row, rate: Option<f64>| match row.figures.mb_per_s {
        Some(_) => or_dash(rate, |rate| format!("{} MB/s", digits(rate))),
        None => or_dash(rate, per_s),
    };
    Table::of(
        rows.iter(),
        [
            (Column::name("machine").shared(), &|row| row.machine.clone().unwrap_or_default()),
            (Column::name("case").shared(), &|row| match row.range.section_ns {
                Some(ns) => format!("{}, {}", row.case.name(), time(u64::from(ns))),
                None => case(row),
            }),
            (Column::lock(), &|row| row.lock.clone()),
            (Column::name("as").rank(4), &|row| {
                or_dash(row.comparison.published_as.as_deref(), str::to_owned)
            }),
            (Column::name("side"), &side),
            (Column::figure("threads").shared(), &threads),
            (Column::figure("overcommit").shared(), &|row| {
                or_dash(row.overcommit, |x| format!("{x}x"))
            }),
            (Column::figure("pauses").shared(), &pauses),
            (Column::figure(unit), &|row| show(row, row.rate())),
            (Column::figure("min-max").rank(1), &|row| spread(row, per_s)),
            (Column::figure(whose).rank(6), &|row| show(row, row.comparison.published)),
            (Column::figure("x").rank(6), &|row| relation(row.comparison.ratio_to_published)),
            (Column::figure("x base"), &|row| relation(row.comparison.ratio_to_baseline)),
            (Column::figure(whose), &|row| relation(row.comparison.published_ratio_to_baseline)),
            (Column::figure("starved").rank(7), &starved),
            (Column::figure("fewest").rank(3), &|row| or_dash(row.figures.min_ops, count)),
            (Column::figure("most").rank(3), &|row| or_dash(row.figures.max_ops, count)),
            (Column::figure("Jain").rank(2), &jain),
            (Column::figure("longest").rank(5), &longest),
            (Column::figure("free").rank(4), &|row| {
                or_dash(row.figures.free_while_waited, percent)
            }),
        ],
    )
}

/// The least and the largest rate of any seed, and how much they vary.
fn spread(row: &Row, per_s: PerSecond) -> String {
    let f = &row.figures;
    or_dash(f.ops_per_s_min.zip(f.ops_per_s_max), |(min, max)| match f.mb_per_s {
        Some(mb) => {
            // Both are rates of the same blocks, so one factor turns operations into megabytes.
            let in_mb = |ops: f64| digits(ops * mb / f.ops_per_s.unwrap_or(ops).max(1.0));
            format!("{}-{}{}", in_mb(min), in_mb(max), plus_minus(row))
        }
        None => format!("{}-{}{}", per_s(min), per_s(max), plus_minus(row)),
    })
}

/// Whether a column says nothing of a row.
type IsNothing<'a> = &'a dyn Fn(&Row) -> bool;

/// A column that is the same in all rows, or empty, says nothing.
fn leave_out_what_says_nothing(table: &mut Table, rows: &Rows<'_>) {
    let first = rows.all()[0];
    let is_nothing: [(_, IsNothing<'_>); 5] = [
        ("machine", &|row| row.machine == first.machine),
        ("side", &|row| row.side == Side::Write),
        ("overcommit", &|row| row.overcommit.is_none()),
        ("pauses", &|row| row.cs_load.is_none()),
        ("case", &|row| row.case == Case::Sleep),
    ];
    for (head, _) in is_nothing.into_iter().filter(|(_, is_nothing)| rows.iter().all(is_nothing)) {
        table.leave_out(head);
    }
}

/// The table with a line for each configuration, and the locks beside each other.
fn columns(rows: &Rows<'_>) -> Table {
    let column = |lock| {
        let mut of_lock = rows.iter().filter(|row| row.lock == lock);
        (lock, of_lock.find_map(|row| row.comparison.published_as.as_deref()))
    };
    let locks: Vec<_> = locks(rows.iter()).into_iter().map(column).collect();
    let mut heads = vec!["threads", "pauses"];
    for (lock, column) in &locks {
        match column {
            Some(name) => heads.extend([name, "publ.", "x"]),
            None => heads.push(lock.split(':').next_back().unwrap_or(lock)),
        }
    }
    let mut table = Table::new(heads.into_iter().map(Column::figure));
    let mut seen = HashSet::new();
    for row in rows.iter().filter(|row| seen.insert((row.threads, row.cs_load))) {
        let mut line = vec![row.threads.to_string(), or_dash(row.cs_load, |n| n.to_string())];
        for (lock, column) in &locks {
            let beside = rows.of_lock(row, lock);
            line.push(or_dash(beside.and_then(|row| row.figures.ops_per_s), kops));
            if column.is_some() {
                let comparison = beside.map(|row| &row.comparison);
                line.push(or_dash(comparison.and_then(|c| c.published), kops));
                line.push(relation(comparison.and_then(|c| c.ratio_to_published)));
            }
        }
        table.row(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::assert_fits;
    use crate::row::tests::widest;
    use crate::row::{REAL, growth};
    use crate::sim::compare::{baseline, relate};

    /// Also those of measured rows, which are shown beside simulated ones.
    #[test]
    fn every_simulated_table_fits_however_large_its_figures_are() {
        for (workload, is_real) in
            Workload::ALL.into_iter().flat_map(|it| [(it, false), (it, true)])
        {
            for width in [80, 120] {
                assert_fits(&tables(&widest(workload, is_real), Some(width)), width);
            }
        }
    }

    #[test]
    fn tables_grow_as_the_rows_do() {
        for workload in [Workload::Handoff, Workload::ReaderSpin, Workload::Batch, Workload::Range]
        {
            for published_as in ["a column", REAL] {
                growth::is_linear(workload, |rows| {
                    for row in rows.iter_mut() {
                        row.by_seed = vec![row.figures.clone()];
                        row.comparison.published_as = Some(published_as.to_owned());
                        row.comparison.published = Some(1.0);
                        if row.lock == "std" {
                            let (base, _) = baseline(row).unwrap();
                            row.lock = base.to_owned();
                            // All others differ from it.
                            row.comparison.published = Some(9.0);
                        }
                    }
                    relate(rows);
                    let lines = tables(rows, None).lines().count();
                    assert!(lines > rows.len() / 6, "{lines} lines");
                });
            }
        }
    }
}
