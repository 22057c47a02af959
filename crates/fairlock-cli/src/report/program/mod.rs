//! The locks of a program, as `fairlock run` kept them.

mod profile;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::columns::Table;
use super::pictures::Picture;
use super::svg::{Axis, Scale, Svg, WIDTH, as_time, ruler};
use crate::error::Error;
use crate::units::count;
use crate::written::Written;

/// A report on a program, or on all the processes of one run.
pub struct Program {
    pub title: String,
    /// The command that made it.
    pub command: String,
    /// Where and when it was made, as far as that is known.
    pub origin: String,
    pub pictures: Vec<Picture>,
    /// Each table with its name.
    pub tables: Vec<(String, Table)>,
    /// Every lock, with all that is known of it.
    pub locks: Vec<Value>,
    pub file: PathBuf,
    pub made: Option<String>,
    pub version: Option<String>,
}

/// How many locks are drawn.
const DRAWN: usize = 20;
/// How many rows a table has at most: a large program has many thousands of locks.
const ROWS: usize = 300;

impl Program {
    /// Reads a file if it is of a program: its locks in `only`, or all of them if that is empty.
    pub fn parse(file: &Path, written: &Written<'_>, only: &[&str]) -> Result<Option<Self>, Error> {
        if written.schema()?.starts_with("fairlock-profile/") {
            return profile::program(file, written, only).map(Some);
        }
        Ok(None)
    }
}

/// A picture of a time for each lock, as bars. A row is a name, the time, and what else to say of
/// it.
fn bars(name: &str, title: &str, rows: &[(String, u64, String)]) -> Option<Picture> {
    const ROW: f64 = 26.0;
    const NAMES: f64 = 260.0;
    let rows = &rows[..rows.len().min(DRAWN)];
    if rows.is_empty() {
        return None;
    }
    let mut svg = Svg::new(WIDTH, ROW * rows.len() as f64 + 60.0);
    let times = rows.iter().map(|(_, ns, _)| *ns as f64);
    let x = Scale { axis: Axis::from_zero(times), title, show: &as_time };
    let xs = ruler(&mut svg, &x, NAMES);
    for (line, (lock, ns, says)) in rows.iter().enumerate() {
        let (y, to) = (ROW * line as f64 + 8.0, xs.at(*ns as f64));
        svg.area(0, &format!("M{NAMES:.0} {y:.0}H{to:.0}v16H{NAMES:.0}z"), says);
        svg.text(NAMES - 8.0, y + 12.0, "end", &shortened(lock));
    }
    Some(Picture { name: name.to_owned(), note: String::new(), svg })
}

/// A name, cut so that it has room beside a bar.
fn shortened(name: &str) -> String {
    const MOST: usize = 34;
    let length = name.chars().count();
    if length <= MOST {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - MOST + 1).collect();
    format!("…{tail}")
}

/// A column: its head, and what it shows of a row.
type Column<T> = (&'static str, fn(&T) -> String);

/// A table of `what`, with its heading; none if there are no rows. The first columns say what a row is of, the
/// last are text.
fn table<T>(
    what: &str,
    rows: &[T],
    columns: &[Column<T>],
    names: usize,
    text: usize,
) -> Option<(String, Table)> {
    let cells = |row| columns.iter().map(|(_, cell)| cell(row)).collect();
    let shown = rows.iter().take(ROWS).map(cells).collect();
    let heads = columns.iter().map(|(head, _)| *head).collect();
    let table = Table::new(heads, names, shown).with_text(columns.len() - text);
    let heading = match rows.len() {
        0..=ROWS => what.to_owned(),
        all => format!("{what} (the first {ROWS} of {})", count(all as u64)),
    };
    (!rows.is_empty()).then_some((heading, table))
}

fn value(of: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(of).map_err(|error| Error::failed(format!("cannot keep a row: {error}")))
}
