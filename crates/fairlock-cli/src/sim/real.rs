//! A real run to compare with: a file of `fairlock bench … --json`.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::grid;
use super::locks;
use crate::cell::{Case, Cell, Workload};
use crate::error::Error;
use crate::results::SCHEMA;
use crate::row::{Index, Row};
use crate::workload::setup;
use crate::written::Written;

/// The rows of a real run.
pub struct RealRun {
    rows: Vec<Row>,
    look_ns: u64,
}

/// The part of the document that is used.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    machine: Machine,
    rows: Vec<Row>,
}

/// What it was made on.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine {
    clock_read_ns: f64,
}

impl RealRun {
    /// Reads the file of a real run.
    pub fn load(path: &Path) -> Result<Self, Error> {
        const BY: &str = "`fairlock bench … --json FILE`";
        let document: Document = Written::read(path, BY)?.document(SCHEMA)?;
        if document.rows.iter().any(|row| row.machine.is_some()) {
            return Err(Error::usage(format!(
                "{} was simulated: --real takes a file of {BY}",
                path.display()
            )));
        }
        let look_ns = document.machine.clock_read_ns.round() as u64;
        Ok(Self { rows: document.rows, look_ns })
    }

    /// What a look at the clock took, in nanoseconds; zero if the file does not say.
    pub fn look_ns(&self) -> u64 {
        self.look_ns
    }

    /// Fails if the simulation would run beside fewer or more busy loops than the real run did.
    pub fn check_beside(&self, loops: usize) -> Result<(), Error> {
        let measured = |row: &Row| row.disturbance.loops();
        match self.rows.iter().map(measured).find(|&measured| measured != loops) {
            None => Ok(()),
            Some(measured) => Err(Error::usage(format!(
                "the run of --real was made with --beside {measured}: simulate it with the same"
            ))),
        }
    }

    /// The cells of a workload that can be simulated.
    pub fn cells(&self, workload: Workload) -> Vec<Cell> {
        let is_simulated = |row: &&Row| {
            row.workload == workload
                && !matches!(row.case, Case::File | Case::Read | Case::Write)
                && workload != Workload::Idle
                && locks::find(&row.lock).is_ok_and(|lock| lock.name == row.lock)
        };
        let mut seen = HashSet::new();
        let mut cells = Vec::new();
        for row in self.rows.iter().filter(is_simulated) {
            if !seen.insert((row.case, &row.lock, row.threads, row.cs_load, row.range)) {
                continue;
            }
            let n = row.threads;
            let sides = match row.case {
                Case::Mixed | Case::FullMixed => (n / 2, n - n / 2),
                Case::ReaderAlone if workload == Workload::ReaderSpin => (n / 2, 0),
                Case::WriterAlone if workload == Workload::ReaderSpin => (0, n - n / 2),
                Case::ReaderAlone => (1, 0),
                Case::WriterAlone => (0, 1),
                Case::FullRead => (n, 0),
                Case::Array => (n, n),
                _ if matches!(workload, Workload::Think | Workload::Spread) => {
                    setup::sides(n, row.range.reads_percent.unwrap_or(0))
                }
                Case::Wide => (n - 1, 1),
                _ => (0, n),
            };
            cells.push(Cell {
                lock: row.lock.clone(),
                threads: n,
                overcommit: row.overcommit,
                cs_load: row.cs_load.unwrap_or(0),
                range: row.range,
                ..grid::cell(workload, row.case, sides, 0.3)
            });
        }
        cells
    }

    /// The real rows by configuration, to find the one for a simulated row.
    pub fn index(&self) -> Index<'_> {
        Index::of(&self.rows)
    }
}
