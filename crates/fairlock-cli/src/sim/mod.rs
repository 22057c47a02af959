//! `fairlock sim`: the published runs on the machines they were published for,
//! simulated, beside the published figures.

pub mod flags;
mod judge;
mod locks;
mod plan;
mod pool;
mod published;
mod table;
mod testbed;

use std::process::ExitCode;

use serde::Serialize;

use crate::command_line;
use crate::error::{Error, FAILED, INTERRUPTED};
use crate::json::{SCHEMA, Target};
use crate::row::{Row, relate, rows_of_cell};
use crate::runner::Measured;
use crate::{complain, print};
use flags::SimFlags;

/// The whole document, as JSON.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    machine: Simulated,
    command: String,
    interrupted: bool,
    rows: &'a [Row],
}

/// The `machine` object: there is one a row.
#[derive(Serialize)]
struct Simulated {
    simulated: bool,
}

/// Simulates the named workloads.
pub fn sim(workloads: &[String], flags: &SimFlags) -> Result<ExitCode, Error> {
    let plan = plan::plan(workloads, flags)?;
    let target = flags.json.as_deref().map(Target::new).transpose()?;
    let cells = plan.cells.into_iter().enumerate().collect();
    let outcome = pool::run(cells, &plan.seeds)?;

    let mut rows: Vec<Row> =
        outcome.measured.iter().flat_map(|(number, measured)| rows_of(*number, measured)).collect();
    relate(&mut rows);
    published::compare(&mut rows);

    print(table::tables(&rows).as_bytes())?;
    if let Some(target) = target {
        target.write(&Document {
            schema: SCHEMA,
            machine: Simulated { simulated: true },
            command: command_line(),
            interrupted: outcome.interrupted,
            rows: &rows,
        })?;
    }
    Ok(if outcome.interrupted {
        complain("interrupted; what was finished is shown");
        ExitCode::from(INTERRUPTED)
    } else if rows.iter().any(|row| row.error.is_some()) {
        complain("some simulations failed; see the lines that begin with 'failed:'");
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The rows of a cell, with what each seed came to.
fn rows_of(number: usize, measured: &Measured) -> Vec<Row> {
    let mut rows = rows_of_cell(measured);
    for row in &mut rows {
        row.cell = Some(number);
    }
    for report in &measured.reports {
        let one =
            Measured { cell: measured.cell.clone(), reports: vec![report.clone()], failure: None };
        for (row, of_seed) in rows.iter_mut().zip(rows_of_cell(&one)) {
            row.by_seed.push(of_seed.figures);
        }
    }
    rows
}
