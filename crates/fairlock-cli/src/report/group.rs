//! Rows that belong in one picture: one workload, case and form, on one machine, from one file.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::svg::{COLORS, as_time};
use crate::cell::{Form, Side, Workload};
use crate::results::Results;
use crate::row::{Configuration, Index, Row, locks, whole};
use crate::units::count;

/// One measurement of a lock: its row, and the rows of its sides if it has two.
pub struct Measured<'a> {
    pub row: &'a Row,
    pub read: Option<&'a Row>,
    pub write: Option<&'a Row>,
    /// The number of its configuration in the group.
    pub configuration: usize,
}

impl<'a> Measured<'a> {
    /// All rows of the measurement, the whole first.
    pub fn rows(&self) -> impl Iterator<Item = &'a Row> {
        [Some(self.row), self.write, self.read].into_iter().flatten()
    }
}

/// The measurements of one workload, case and form, on one machine, from one file.
pub struct Group<'a> {
    pub source: &'a Results,
    pub all: Vec<Measured<'a>>,
    pub configurations: usize,
    /// The locks of all groups of the report that are not ours as they come: their places here
    /// choose their colours.
    others: Rc<[&'a str]>,
}

impl<'a> Group<'a> {
    /// All groups of these files, in their order.
    pub fn all(sources: &'a [Results]) -> Vec<Self> {
        let mut others: Vec<&str> = Vec::new();
        // If there are more locks than colours, those of one file that are compared most share none.
        for source in sources {
            let locks: BTreeSet<&str> = source.rows.iter().map(|row| row.lock.as_str()).collect();
            let is_new = |lock: &&str| standing(lock) != Standing::Ours && !others.contains(lock);
            let mut new: Vec<&str> = locks.into_iter().filter(is_new).collect();
            new.sort_by_key(|lock| standing(lock));
            others.extend(new);
        }
        let others = others.into();
        sources.iter().flat_map(|source| Self::of_file(source, &others)).collect()
    }

    fn of_file(source: &'a Results, others: &Rc<[&'a str]>) -> Vec<Self> {
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
        let index = Index::of(&source.rows);
        let group = |(_, rows): (_, Vec<_>)| Self::of_rows(source, &rows, &index, others.clone());
        groups.into_iter().map(group).collect()
    }

    fn of_rows(
        source: &'a Results,
        rows: &[&'a Row],
        index: &Index<'a>,
        others: Rc<[&'a str]>,
    ) -> Self {
        let mut numbers = HashMap::new();
        let all = rows.iter().map(|&row| {
            let own = row.configuration();
            let next = numbers.len();
            let configuration = *numbers.entry(own).or_insert(next);
            let side = |side| {
                let of_side = || index.row(&row.lock, &Configuration { side, ..own });
                (row.side == Side::All).then(of_side).flatten()
            };
            Measured { row, read: side(Side::Read), write: side(Side::Write), configuration }
        });
        let all = all.collect();
        Self { source, all, configurations: numbers.len(), others }
    }

    /// The workload, the case and whatever else all rows of the group share, in words.
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

    /// The locks, each once, in the order in which they were run.
    pub fn locks(&self) -> Vec<&'a str> {
        locks(self.all.iter().map(|measured| measured.row))
    }

    /// The number in [`COLORS`] of a lock's colour, which is the same in all pictures of a report.
    pub fn color(&self, lock: &str) -> usize {
        let place = self.others.iter().position(|other| *other == lock);
        place.map_or(0, |place| 1 + place % (COLORS.len() - 1))
    }

    /// The configuration with the most threads, in which locks differ most.
    pub fn fullest(&self) -> Option<usize> {
        let most = self.all.iter().map(|measured| measured.row.threads).max()?;
        let fullest = self.all.iter().find(|measured| measured.row.threads == most)?;
        Some(fullest.configuration)
    }

    /// The measurements in a configuration.
    pub fn within(&self, configuration: usize) -> impl Iterator<Item = &Measured<'a>> {
        self.all.iter().filter(move |measured| measured.configuration == configuration)
    }

    /// The fastest speed in each configuration.
    pub fn fastest(&self) -> Vec<f64> {
        let mut fastest = vec![0.0_f64; self.configurations];
        for Measured { row, configuration, .. } in &self.all {
            let known = &mut fastest[*configuration];
            *known = known.max(row.speed().unwrap_or(0.0));
        }
        fastest
    }
}

/// What configurations may differ in: each dimension has a value as a number, and in words.
pub const DIMENSIONS: [Dimension; 9] = [
    dimension("threads", |row| Some(row.threads as f64), whole_number),
    dimension("overcommit", |row| row.overcommit, |x| format!("{x:.3}x")),
    dimension("pauses", |row| row.cs_load.map(f64::from), whole_number),
    dimension("shape", |row| row.range.shape.map(|shape| f64::from(shape as u8)), shape),
    dimension("section", |row| row.range.section_ns.map(f64::from), as_time),
    dimension("reads", |row| row.range.reads_percent.map(f64::from), |n| format!("{n} %")),
    dimension("held", |row| row.range.held.map(|n| n as f64), whole_number),
    dimension("outside", |row| row.range.outside.map(f64::from), |x| format!("{x}x")),
    dimension("among", |row| row.range.among.map(|n| n as f64), whole_number),
];

pub struct Dimension {
    pub name: &'static str,
    pub value: fn(&Row) -> Option<f64>,
    pub show: fn(f64) -> String,
}

const fn dimension(
    name: &'static str,
    value: fn(&Row) -> Option<f64>,
    show: fn(f64) -> String,
) -> Dimension {
    Dimension { name, value, show }
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
    /// The dimension's values in a group, each once, in order.
    pub fn values(&self, group: &Group<'_>) -> Vec<f64> {
        let mut values: Vec<f64> =
            group.all.iter().filter_map(|measured| (self.value)(measured.row)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }
}

/// A configuration in words: the dimensions in which the group's configurations differ.
pub fn describe(group: &Group<'_>, row: &Row) -> String {
    let varied = DIMENSIONS.iter().filter(|dimension| dimension.values(group).len() > 1);
    let words = varied.filter_map(|dimension| {
        Some(format!("{} {}", dimension.name, (dimension.show)((dimension.value)(row)?)))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The dimensions in which all configurations of the group are the same, in words.
pub fn shared(group: &Group<'_>) -> String {
    let words =
        DIMENSIONS.iter().filter_map(|dimension| match dimension.values(group).as_slice() {
            [only] => Some(format!("{} {}", dimension.name, (dimension.show)(*only))),
            _ => None,
        });
    words.collect::<Vec<_>>().join(", ")
}

/// Whose a lock is, for the reader of a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// One of ours, as it comes.
    Ours,
    /// A lock that is not ours.
    Peer,
    /// One of ours with another policy, or a textbook's lock.
    Other,
}

pub fn standing(lock: &str) -> Standing {
    match lock {
        "fairlock:rwlock" | "fairlock:mutex" | "fairlock:range" => Standing::Ours,
        _ if crate::locks::is_peer(lock) => Standing::Peer,
        _ => Standing::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Machine;
    use crate::row::growth;

    #[test]
    fn grouping_grows_as_the_rows_do() {
        growth::is_linear(Workload::ReaderSpin, |rows| {
            let source = Results {
                version: None,
                made: None,
                machine: Machine::default(),
                command: String::new(),
                interrupted: false,
                rows: rows.to_vec(),
                file: Default::default(),
            };
            let groups = Group::all(std::slice::from_ref(&source));
            assert!(groups[0].all.iter().all(|measured| measured.rows().count() == 3));
        });
    }
}
