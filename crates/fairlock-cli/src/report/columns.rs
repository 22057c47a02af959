//! The tables of a report: each group's table has the columns in which some row has something.

use super::group::{DIMENSIONS, Group, Measured};
use crate::error::{Error, unknown};
use crate::output::visible;
use crate::row::{Figures, Row};
use crate::table::starved;
use crate::units::{count, digits, kops, percent, time, two_digits};

/// A table as it is shown: heads, and rows of cells that are text already.
#[derive(Clone)]
pub struct Table {
    pub heads: Vec<&'static str>,
    /// Columns before this one say what was run.
    pub figures_from: usize,
    /// Columns from this one on are text, to be wrapped.
    pub text_from: usize,
    pub rows: Vec<Vec<String>>,
}

/// A column of figures.
struct Column {
    head: &'static str,
    cell: fn(&Measured<'_>) -> Option<String>,
}

const fn column(head: &'static str, cell: fn(&Measured<'_>) -> Option<String>) -> Column {
    Column { head, cell }
}

const COLUMNS: [Column; 35] = [
    column("side", |m| {
        let side = m.row.side;
        (side != crate::cell::Side::All && m.read.is_none()).then(|| side.name().to_owned())
    }),
    column("group", |m| m.row.group.clone()),
    column("holder", |m| m.row.range.holder.map(|holder| holder.name().to_owned())),
    column("lock", |m| Some(m.row.lock.clone())),
    column("kop/s", |m| figures(m).ops_per_s.map(kops)),
    column("min-max", |m| {
        let (min, max) = figures(m).ops_per_s_min.zip(figures(m).ops_per_s_max)?;
        (min < max).then(|| format!("{}-{}", kops(min), kops(max)))
    }),
    column("MB/s", |m| figures(m).mb_per_s.map(digits)),
    column("ns/op", |m| figures(m).ns_per_op.map(|ns| format!("{ns:.1}"))),
    column("x best peer", |m| m.row.ratios.ratio_to_best_peer.map(two_digits)),
    column("published", |m| {
        compared(m).comparison.published.map(|rate| published(compared(m), rate))
    }),
    column("x published", |m| compared(m).comparison.ratio_to_published.map(two_digits)),
    column("x base", |m| compared(m).comparison.ratio_to_baseline.map(two_digits)),
    column("x base, publ.", |m| compared(m).comparison.published_ratio_to_baseline.map(two_digits)),
    column("score", |m| figures(m).balance_score.map(two_digits)),
    column("reads kop/s", |m| m.read.and_then(|row| row.figures.ops_per_s).map(kops)),
    column("writes kop/s", |m| m.write.and_then(|row| row.figures.ops_per_s).map(kops)),
    column("starved", |m| figures(m).starved_threads.map(|_| starved(m.row))),
    column("fewest", |m| figures(m).min_ops.map(count)),
    column("most", |m| figures(m).max_ops.map(count)),
    column("Jain", |m| figures(m).jain.map(|jain| format!("{jain:.3}"))),
    column("wait p50", |m| figures(m).wait_p50_ns.map(time)),
    column("p99", |m| figures(m).wait_p99_ns.map(time)),
    column("p99.9", |m| figures(m).wait_p999_ns.map(time)),
    column("longest", |m| figures(m).wait_max_ns.map(time)),
    column("longest read", |m| m.read.and_then(|row| row.figures.wait_max_ns).map(time)),
    column("longest write", |m| m.write.and_then(|row| row.figures.wait_max_ns).map(time)),
    column("free p50", |m| figures(m).free_p50_ns.map(time)),
    column("free p99", |m| figures(m).free_p99_ns.map(time)),
    column("free longest", |m| figures(m).free_max_ns.map(time)),
    column("latency p50", |m| figures(m).latency_p50_ns.map(time)),
    column("latency p99", |m| figures(m).latency_p99_ns.map(time)),
    column("free, waited for", |m| figures(m).free_while_waited.map(percent)),
    column("disturbed", |m| {
        m.row.is_disturbed().then(|| m.row.interference.map(|taken| taken.words())).flatten()
    }),
    column("runs", |m| Some(m.row.runs.to_string())),
    column("failed", |m| m.row.error.clone()),
];

/// Fails if a name is of no column.
pub fn check(names: &[String]) -> Result<(), Error> {
    let known = COLUMNS.each_ref().map(|column| column.head);
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown("column", name, &known)),
        None => Ok(()),
    }
}

fn figures<'a>(measured: &Measured<'a>) -> &'a Figures {
    &measured.row.figures
}

/// The row that has a published figure: in a mix that may be the row of one side.
fn compared<'a>(measured: &Measured<'a>) -> &'a Row {
    let has_one = |row: &&Row| row.comparison.published.is_some();
    measured.rows().find(has_one).unwrap_or(measured.row)
}

fn published(row: &Row, rate: f64) -> String {
    if row.figures.mb_per_s.is_some() {
        format!("{} MB/s", digits(rate))
    } else if rate < 1_000.0 {
        // The rate is in relation to the baseline.
        two_digits(rate)
    } else {
        kops(rate)
    }
}

impl Table {
    /// A table whose columns before `figures_from` say what was run, and whose others are figures.
    pub fn new(heads: Vec<&'static str>, figures_from: usize, rows: Vec<Vec<String>>) -> Self {
        Self { heads, figures_from, text_from: usize::MAX, rows }
    }

    /// The table, with text from this column on.
    pub fn with_text(self, text_from: usize) -> Self {
        Self { text_from, ..self }
    }

    /// The table of a group.
    pub fn of(group: &Group<'_>) -> Self {
        let shown: Vec<&Measured<'_>> = group.all.iter().collect();
        let mut table = Self::new(Vec::new(), 0, vec![Vec::new(); shown.len()]);
        for dimension in &DIMENSIONS {
            if dimension.values(group).len() > 1 {
                let cell = |m: &Measured<'_>| (dimension.value)(m.row).map(dimension.show);
                table.add(dimension.name, &shown, cell);
            }
        }
        for Column { head, cell } in &COLUMNS {
            table.add(head, &shown, cell);
            if *head == "lock" {
                table.figures_from = table.heads.len();
            }
        }
        table
    }

    /// Adds a column, if any row has something in it.
    fn add(
        &mut self,
        head: &'static str,
        shown: &[&Measured<'_>],
        cell: impl Fn(&Measured<'_>) -> Option<String>,
    ) {
        let cells: Vec<Option<String>> = shown.iter().map(|measured| cell(measured)).collect();
        // A side that is the same in all rows says nothing.
        let is_news = head != "side" || cells.iter().any(|cell| cell != &cells[0]);
        if is_news && cells.iter().any(Option::is_some) {
            self.heads.push(head);
            for (row, cell) in self.rows.iter_mut().zip(cells) {
                row.push(cell.unwrap_or_default());
            }
        }
    }

    /// The table in Markdown, with only `columns`, if any are named.
    pub fn markdown(&self, columns: &[&str]) -> String {
        let kept: Vec<usize> = (0..self.heads.len())
            .filter(|&at| {
                at < self.figures_from || columns.is_empty() || columns.contains(&self.heads[at])
            })
            .collect();
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(kept.iter().map(|&at| self.heads[at]).collect());
        text += &format!("|{}\n", "---|".repeat(kept.len()));
        for row in &self.rows {
            // A name may have a `|` in it, which would end the cell.
            let cells: Vec<String> =
                kept.iter().map(|&at| visible(&row[at]).replace('|', "\\|")).collect();
            let cell = |cell| if str::is_empty(cell) { "-" } else { cell };
            text += &line(cells.iter().map(String::as_str).map(cell).collect());
        }
        text
    }
}

/// Whether a lock is among those that were asked for, by its name or by that without its family.
pub fn is_asked_for(lock: &str, only: &[&str]) -> bool {
    let member = |name: &&str| *name == lock || lock.strip_prefix("fairlock:") == Some(name);
    only.is_empty() || only.iter().any(member)
}
