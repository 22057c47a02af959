//! `fairlock sim`: the published runs, simulated on the machines they were published for, beside
//! the published figures. `fairlock merge` joins parts of such results, and `fairlock machines`
//! shows the machines.

pub mod compare;
mod document;
pub mod flags;
mod grid;
mod judge;
pub mod machines;
pub mod merge;
mod null;
mod order;
mod plan;
mod pool;
mod published;
mod real;
mod rows;
mod score;
mod shard;
mod table;
mod unknowns;

use std::path::Path;
use std::process::ExitCode;

pub use fairlock_workloads::simulated::locks;
use fairlock_workloads::simulated::trace::Recorder;

use crate::error::{Error, FAILED, INTERRUPTED};
use crate::json::{SCHEMA, Target, VERSION};
use crate::output::{Page, both, complain};
use crate::row::runs::rows_with_runs;
use crate::row::{Row, relate};
use crate::runner::Measured;
pub use document::canonical;
use document::{Document, Part, Simulated};
use flags::SimFlags;
use plan::Plan;
pub use plan::workloads;
use real::RealRun;
use rows::Rows;
use shard::Shard;

/// Simulates the named workloads.
pub fn sim(workloads: &[String], flags: &SimFlags) -> Result<ExitCode, Error> {
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
    let whole = Whole { command: document::command(), cells: count, shard: flags.shard };
    let code = finish(rows, whole, outcome.interrupted, page, target);
    both(traced, code)
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

/// The grid that rows are of, or the part of it.
struct Whole {
    command: String,
    cells: usize,
    shard: Option<Shard>,
}

/// Sets rows in relation to each other, shows and keeps them.
fn finish(
    mut rows: Vec<Row>,
    whole: Whole,
    interrupted: bool,
    page: Page,
    target: Option<Target>,
) -> Result<ExitCode, Error> {
    let Whole { command, cells, shard } = whole;
    relate(&mut rows);
    compare::relate(&mut rows);
    let shown = page.show(&table::tables(&rows, page.width()));
    let failed = rows.iter().any(|row| row.error.is_some());
    let kept = target.map_or(Ok(()), |target| {
        target.write(&Document {
            schema: SCHEMA.to_owned(),
            version: VERSION.to_owned(),
            machine: Simulated { simulated: true },
            command,
            interrupted,
            grid: Part { cells, shard },
            scores: table::of_workloads(&rows).iter().flat_map(null::scores).collect(),
            rows,
        })
    });
    // What cannot be shown is kept all the same, and the other way round.
    both(shown, kept)?;
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

/// The rows of a cell, with the figures of each seed.
fn rows_of(number: usize, measured: &Measured) -> Vec<Row> {
    let rows = rows_with_runs(measured).into_iter();
    rows.map(|(row, by_seed)| Row { cell: Some(number), by_seed, ..row }).collect()
}

/// How rows of one workload agree with what was published; nothing if they were not simulated.
pub fn judged<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let rows = Rows::of(rows.filter(|row| row.machine.is_some()));
    rows.all().first().map_or_else(String::new, |row| judge::judgement(row.workload, &rows))
}
