//! Runs cells, table by table: each in a child process of its own, in shuffled order, several times.

mod background;
mod child;
mod events;
pub mod pool;
mod process;
pub mod progress;

pub use background::loop_until_parent_ends;
pub use child::serve;
pub use events::{Event, Events};

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::cell::{Cell, CellReport};
use crate::error::Error;
use crate::output::complain;
use child::End;

/// A cell and the reports of its runs.
pub struct Measured {
    pub cell: Cell,
    /// One report for each run that succeeded.
    pub reports: Vec<CellReport>,
    /// Why a run failed; a cell that failed is not run again.
    pub failure: Option<String>,
}

/// How long a plan takes of which that is said before it begins.
const WORTH_SAYING_SECS: f64 = 10.0;

/// How to run cells.
pub struct Plan {
    /// The cells of each table, in the order in which the tables are shown.
    pub tables: Vec<Vec<Cell>>,
    pub runs: u32,
    pub seed: u64,
    /// How long a child may take beyond its window before it is killed.
    pub patience: Duration,
}

/// Runs the plan, one table after the other. As soon as a table's cells have run, `done` gets them,
/// in the order of the plan. Ctrl-C ends the plan early: then `done` gets the cells of that table
/// that were run at least once, and no further table.
///
/// Returns whether Ctrl-C ended it.
pub fn run(plan: Plan, mut done: impl FnMut(&[Measured])) -> Result<bool, Error> {
    let events = Events::install()?;
    let mut rng = StdRng::seed_from_u64(plan.seed);
    let cells: usize = plan.tables.iter().map(Vec::len).sum();
    let bar = progress::bar(cells as u64 * u64::from(plan.runs));
    let secs = |cell: &Cell| cell.secs + cell.warm_up_secs();
    let in_all = f64::from(plan.runs) * plan.tables.iter().flatten().map(secs).sum::<f64>();
    if in_all > WORTH_SAYING_SECS {
        let (runs, in_all) = (bar.length().unwrap_or(0), progress::about(in_all));
        complain(&format!(
            "{runs} runs take some {in_all} (Ctrl-C keeps what is done); fewer --locks or --quick \
             take less"
        ));
    }
    let mut interrupted = false;

    for cells in plan.tables {
        let mut measured: Vec<Measured> = cells
            .into_iter()
            .map(|cell| Measured { cell, reports: Vec::new(), failure: None })
            .collect();
        let mut order: Vec<usize> = (0..measured.len()).collect();
        // The cells are run in whole rounds, so that what changes on the machine over time meets
        // all locks of the table.
        'rounds: for _ in 0..plan.runs {
            order.shuffle(&mut rng);
            for &index in &order {
                let m = &mut measured[index];
                bar.set_message(progress::label(&m.cell));
                if m.failure.is_none() {
                    match child::run(&m.cell, &events, plan.patience)? {
                        End::Report(report) => m.reports.push(report),
                        End::Failed(why) => m.failure = Some(why),
                        End::Interrupted => {
                            interrupted = true;
                            break 'rounds;
                        }
                    }
                }
                bar.inc(1);
            }
        }
        measured.retain(|m| !m.reports.is_empty() || m.failure.is_some());
        bar.suspend(|| done(&measured));
        if interrupted {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(interrupted)
}
