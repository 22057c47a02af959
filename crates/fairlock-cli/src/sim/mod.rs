//! `fairlock sim`: the published runs, simulated on the machines they were published for, beside
//! the published figures. `fairlock machines` shows the machines.

pub mod compare;
pub mod document;
pub mod flags;
mod grid;
pub mod machines;
mod plan;
mod pool;
pub mod published;
mod real;
pub mod rows;
mod shard;
pub mod table;
pub mod unknowns;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

pub use fairlock_workloads::simulated::locks;
use fairlock_workloads::simulated::trace::Recorder;

use crate::error::{Error, FAILED, INTERRUPTED};
use crate::json::{Target, VERSION};
use crate::names::Name;
use crate::output::{both, complain};
use crate::results::SCHEMA;
use crate::row::runs::rows_with_runs;
use crate::row::{self, Row};
use crate::runner::Measured;
use document::{Document, Part, Simulated};
use flags::SimFlags;
use plan::Plan;
use real::RealRun;

/// What to simulate, and how.
#[derive(Args)]
pub struct SimArguments {
    /// Which workloads
    #[arg(value_name = "WORKLOAD", value_parser = Name::of(plan::workloads),
          hide_possible_values = true)]
    pub workloads: Vec<String>,
    #[command(flatten)]
    pub flags: SimFlags,
}

/// Simulates the named workloads, and shows `more` below the tables of the rows.
pub fn sim(
    arguments: &SimArguments,
    more: impl FnOnce(&[Row]) -> String,
) -> Result<ExitCode, Error> {
    let SimArguments { workloads, flags } = arguments;
    let real = flags.real.as_deref().map(RealRun::load).transpose()?;
    let plan = plan::plan(workloads, flags, real.as_ref())?;
    let target = flags.json.as_deref().map(|file| Target::new("--json", file)).transpose()?;
    let trace = flags.trace.as_deref().map(|file| timeline(file, &plan)).transpose()?;
    let (recorder, trace) = trace.unzip();
    Target::check_apart([&target, &trace])?;
    // A workload or a machine may be a file's name.
    let named = workloads.iter().chain(&flags.machine).map(Path::new);
    let read = || named.clone().chain(flags.real.as_deref());
    [&target, &trace].into_iter().flatten().try_for_each(|target| target.check_spares(read()))?;
    let count = plan.cells.len();
    let in_shard = |number: usize| flags.shard.is_none_or(|shard| shard.has(number));
    let cells = plan.cells.into_iter().enumerate().filter(|&(number, _)| in_shard(number));
    let outcome = pool::run(cells.collect(), &plan.seeds, recorder.as_ref(), flags.events)?;
    let traced = match (recorder, &trace) {
        (Some(recorder), Some(trace)) => trace.write(&recorder.finish()),
        _ => Ok(()),
    };

    let mut rows: Vec<Row> =
        outcome.measured.iter().flat_map(|(number, measured)| rows_of(*number, measured)).collect();
    compare::attach(&mut rows, real.as_ref());
    let page = Target::page_beside(&[&target, &trace]);
    let interrupted = outcome.interrupted;
    relate(&mut rows);
    let shown = page.show(&(table::tables(&rows, page.width()) + &more(&rows)));
    let failed = rows.iter().any(|row| row.error.is_some());
    let grid = Part { cells: count, shard: flags.shard };
    let kept = target.map_or(Ok(()), |target| {
        target.write(&Document {
            schema: SCHEMA.to_owned(),
            version: VERSION.to_owned(),
            machine: Simulated { simulated: true },
            command: document::command(),
            interrupted,
            grid,
            rows,
        })
    });
    // What cannot be shown is kept all the same, and the other way round.
    both(traced, both(shown, kept))?;
    Ok(if interrupted {
        complain("interrupted; what was finished is shown");
        ExitCode::from(INTERRUPTED)
    } else if failed {
        complain("some simulations failed; see the lines that begin with 'failed:'");
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The recorder of a timeline, and the file that the timeline goes to.
fn timeline(file: &Path, plan: &Plan) -> Result<(Recorder, Target), Error> {
    let simulations = plan.cells.len() * plan.seeds.len();
    if simulations != 1 {
        return Err(Error::usage(format!(
            "--trace shows one simulation, and this is {simulations}: choose one workload, --case, \
             --locks, --threads, --cs-load and seed"
        )));
    }
    Ok((Recorder::default(), Target::new("--trace", file)?))
}

/// Sets the rows of a whole grid, or of a part of it, in relation to each other and to what was published.
pub fn relate(rows: &mut [Row]) {
    row::relate(rows);
    compare::relate(rows);
}

/// The rows of a cell, with the figures of each seed.
fn rows_of(number: usize, measured: &Measured) -> Vec<Row> {
    let rows = rows_with_runs(measured).into_iter();
    rows.map(|(row, by_seed)| Row { cell: Some(number), by_seed, ..row }).collect()
}
