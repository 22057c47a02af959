//! Rows that belong into one picture: one workload, case and form, on one machine, of one file.

use crate::cell::{Form, Side, Workload};
use crate::results::Results;
use crate::row::{Row, whole};
use crate::units::{count, time};

/// One measurement of a lock: its row, and those of its sides if it has two.
pub struct Measured<'a> {
    pub row: &'a Row,
    pub read: Option<&'a Row>,
    pub write: Option<&'a Row>,
    /// The number of its configuration in the group.
    pub configuration: usize,
}

impl<'a> Measured<'a> {
    /// All of its rows, the whole first.
    pub fn rows(&self) -> impl Iterator<Item = &'a Row> {
        [Some(self.row), self.write, self.read].into_iter().flatten()
    }
}

/// Such rows.
pub struct Group<'a> {
    pub source: &'a Results,
    pub all: Vec<Measured<'a>>,
    pub configurations: usize,
}

impl<'a> Group<'a> {
    /// All groups of these files, in their order.
    pub fn all(sources: &'a [Results]) -> Vec<Self> {
        sources.iter().flat_map(Self::of_file).collect()
    }

    fn of_file(source: &'a Results) -> Vec<Self> {
        type Key<'a> = (Workload, crate::cell::Case, Option<Form>, Option<&'a str>, bool);
        let key = |row: &'a Row| -> Key<'a> {
            let setup = &row.range;
            (row.workload, row.case, setup.form, row.machine.as_deref(), setup.held.is_some())
        };
        let mut groups: Vec<(Key<'a>, Vec<&'a Row>)> = Vec::new();
        for row in whole(&source.rows) {
            match groups.iter_mut().find(|(known, _)| *known == key(row)) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((key(row), vec![row])),
            }
        }
        groups.into_iter().map(|(_, rows)| Self::of_rows(source, &rows)).collect()
    }

    fn of_rows(source: &'a Results, rows: &[&'a Row]) -> Self {
        let mut firsts: Vec<&Row> = Vec::new();
        let all = rows.iter().map(|&row| {
            let known = firsts.iter().position(|first| is_same_but_lock(first, row));
            let configuration = known.unwrap_or_else(|| {
                firsts.push(row);
                firsts.len() - 1
            });
            let side = |side| (row.side == Side::All).then(|| side_of(&source.rows, row, side));
            Measured {
                row,
                read: side(Side::Read).flatten(),
                write: side(Side::Write).flatten(),
                configuration,
            }
        });
        let all = all.collect();
        Self { source, all, configurations: firsts.len() }
    }

    /// What all of them are, in words.
    pub fn title(&self) -> String {
        let Some(Measured { row, .. }) = self.all.first() else { return String::new() };
        let mut title = format!("{}: {}", row.workload.name(), row.case.name());
        let held = row.range.held.map(|_| "beside held ranges");
        let form = row.range.form.map(Form::name);
        for word in form.into_iter().chain(held) {
            title += &format!(", {word}");
        }
        if let Some(machine) = &row.machine {
            title += &format!(", on {machine}");
        }
        title + format!(" {}", row.disturbance.caption()).trim_end()
    }

    /// The locks, each once: as they were run.
    pub fn locks(&self) -> Vec<&'a str> {
        let mut locks: Vec<&str> = Vec::new();
        for measured in &self.all {
            if !locks.contains(&measured.row.lock.as_str()) {
                locks.push(&measured.row.lock);
            }
        }
        locks
    }

    /// The configuration with the most threads: where locks differ most.
    pub fn fullest(&self) -> Option<usize> {
        let most = self.all.iter().map(|measured| measured.row.threads).max()?;
        let fullest = self.all.iter().find(|measured| measured.row.threads == most)?;
        Some(fullest.configuration)
    }

    /// The measurements in a configuration.
    pub fn within(&self, configuration: usize) -> impl Iterator<Item = &Measured<'a>> {
        self.all.iter().filter(move |measured| measured.configuration == configuration)
    }

    /// The fastest in each configuration.
    pub fn fastest(&self) -> Vec<f64> {
        let fastest = |configuration| {
            self.within(configuration)
                .filter_map(|measured| measured.row.speed())
                .fold(0.0, f64::max)
        };
        (0..self.configurations).map(fastest).collect()
    }
}

fn is_same_but_lock(row: &Row, other: &Row) -> bool {
    row.configuration() == other.configuration() && row.overcommit == other.overcommit
}

fn side_of<'a>(rows: &'a [Row], whole: &Row, side: Side) -> Option<&'a Row> {
    rows.iter().find(|row| {
        row.side == side
            && row.lock == whole.lock
            && row.workload == whole.workload
            && row.case == whole.case
            && row.threads == whole.threads
            && row.cs_load == whole.cs_load
            && row.range == whole.range
            && row.machine == whole.machine
            && row.overcommit == whole.overcommit
    })
}

/// What makes a configuration another than the next, with its value in words and as a number.
pub const DIMENSIONS: [Dimension; 9] = [
    Dimension { name: "threads", value: |row| Some(row.threads as f64), show: whole_number },
    Dimension { name: "overcommit", value: |row| row.overcommit, show: |x| format!("{x:.3}x") },
    Dimension { name: "pauses", value: |row| row.cs_load.map(f64::from), show: whole_number },
    Dimension {
        name: "shape",
        value: |row| row.range.shape.map(|shape| f64::from(shape as u8)),
        show: shape,
    },
    Dimension {
        name: "section",
        value: |row| row.range.section_ns.map(f64::from),
        show: |ns| time(ns as u64),
    },
    Dimension {
        name: "reads",
        value: |row| row.range.reads_percent.map(f64::from),
        show: |n| format!("{n} %"),
    },
    Dimension { name: "held", value: |row| row.range.held.map(|n| n as f64), show: whole_number },
    Dimension {
        name: "outside",
        value: |row| row.range.outside.map(f64::from),
        show: |x| format!("{x}x"),
    },
    Dimension { name: "among", value: |row| row.range.among.map(|n| n as f64), show: whole_number },
];

pub struct Dimension {
    pub name: &'static str,
    pub value: fn(&Row) -> Option<f64>,
    pub show: fn(f64) -> String,
}

fn whole_number(value: f64) -> String {
    count(value as u64)
}

fn shape(value: f64) -> String {
    let shapes = crate::cell::Shape::ALL;
    let shape = shapes.into_iter().find(|shape| f64::from(*shape as u8) == value);
    shape.map_or_else(String::new, |shape| shape.name().to_owned())
}

impl Dimension {
    /// Its values in a group, each once, in their order.
    pub fn values(&self, group: &Group<'_>) -> Vec<f64> {
        let mut values: Vec<f64> =
            group.all.iter().filter_map(|measured| (self.value)(measured.row)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }
}

/// A configuration in words: what differs within the group.
pub fn describe(group: &Group<'_>, row: &Row) -> String {
    let varied = DIMENSIONS.iter().filter(|dimension| dimension.values(group).len() > 1);
    let words = varied.filter_map(|dimension| {
        Some(format!("{} {}", dimension.name, (dimension.show)((dimension.value)(row)?)))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What is the same in all configurations of the group, in words.
pub fn shared(group: &Group<'_>) -> String {
    let words =
        DIMENSIONS.iter().filter_map(|dimension| match dimension.values(group).as_slice() {
            [only] => Some(format!("{} {}", dimension.name, (dimension.show)(*only))),
            _ => None,
        });
    words.collect::<Vec<_>>().join(", ")
}

/// What a lock is to whoever reads the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Ours as they come,
    Ours,
    /// somebody else's,
    Peer,
    /// ours with another policy, and the textbook's.
    Other,
}

pub fn standing(lock: &str) -> Standing {
    match lock {
        "fairlock:default" | "fairlock:adaptive" | "fairlock:range" => Standing::Ours,
        _ if crate::locks::is_peer(lock) => Standing::Peer,
        _ => Standing::Other,
    }
}
