//! `sim-score`: how near the simulator comes to what was published or measured. It is for those who change the
//! simulator or its machines; `fairlock sim` simulates.
//!
//! `judge` has the lines that are printed, `order` and `null` parts of them; `score` is what is kept of a table, and
//! shown in docs/simulator.md. `merge` joins the parts of a grid.

// A program is not a library for others: `pub` means for the other modules.
#![allow(unreachable_pub)]

mod judge;
mod merge;
mod null;
mod order;
mod score;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fairlock_cli::simulated::{
    Document, Machine, Page, Row, Rows, SCHEMA, SimArguments, Written, is_varied, of_workloads, sim,
};
#[cfg(test)]
use fairlock_testing as _; // the watchdog
use fairlock_workloads::{cell, error, stats};
use serde::Deserialize;

use error::Error;

/// How near the simulator comes to what was published or measured
#[derive(Parser)]
#[command(name = "sim-score", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it
enum Command {
    /// Simulate as `fairlock sim` does, and judge
    Sim(SimArguments),
    /// Judge results of `fairlock sim --json`
    Judge {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Print the scores as a table in Markdown, each as the range over the seeds
        #[arg(long)]
        markdown: bool,
    },
    /// Join the files of `fairlock sim --shard 1/N --json FILE` to `N/N`
    Merge {
        /// The parts, all of one command
        #[arg(value_name = "PART", required = true)]
        parts: Vec<PathBuf>,
        /// Write the whole to this file; `-` is stdout
        #[arg(long, value_name = "FILE", default_value = "-")]
        json: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = |result: Result<(), Error>| result.map(|()| ExitCode::SUCCESS);
    let result = match Cli::parse().command {
        Command::Sim(arguments) => sim(&arguments, judgements),
        Command::Judge { files, markdown } => done(judge(&files, markdown)),
        Command::Merge { parts, json } => done(merge::merge(&parts, &json)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("sim-score: {error}");
        ExitCode::from(error.code())
    })
}

fn judge(files: &[PathBuf], markdown: bool) -> Result<(), Error> {
    let documents: Vec<Document> = files.iter().map(|file| load(file)).collect::<Result<_, _>>()?;
    let shown = match markdown {
        true => {
            let of_document = |document| of_workloads(document).into_iter();
            let rows = documents.iter().flat_map(|document| of_document(&document.rows));
            score::table(&rows.flat_map(|rows| null::scores(&rows)).collect::<Vec<_>>())
        }
        false => documents.iter().map(|document| judgements(&document.rows)).collect(),
    };
    Page::Stdout.show(&shown)
}

/// How the rows of each workload agree with what was published or measured.
fn judgements(rows: &[Row]) -> String {
    let mut out = String::new();
    for of_workload in of_workloads(rows) {
        let Some(first) = of_workload.all().first() else { continue };
        let workload = first.workload;
        out.push_str(&format!(
            "{}:\n{}",
            workload.name(),
            judge::judgement(workload, &of_workload)
        ));
        let all = Rows::of(rows.iter().filter(|row| row.workload == workload));
        if all.iter().any(is_varied) {
            out.push_str(&judge::over_unknowns(&all));
        }
        out.push('\n');
    }
    out
}

/// Reads what `fairlock sim` wrote.
fn load(file: &Path) -> Result<Document, Error> {
    const BY: &str = "`fairlock sim … --json FILE`";
    /// What any result has.
    #[derive(Deserialize)]
    struct Origin {
        machine: Machine,
    }
    let written = Written::read(file, BY)?;
    if written.document::<Origin>(SCHEMA)?.machine.simulated {
        return written.document(SCHEMA);
    }
    Err(Error::usage(format!("{} was measured: give a file of {BY}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row without figures.
    pub fn row(workload: &str, case: &str, lock: &str, side: &str, threads: usize) -> Row {
        serde_json::from_value(serde_json::json!({
            "workload": workload, "case": case, "lock": lock, "side": side, "threads": threads,
            "runs": 1,
        }))
        .expect("a row")
    }
}
