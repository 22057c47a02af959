//! Simulates cells, each with every seed, in threads of this process.

use std::sync::Arc;

use fairlock_workloads::simulated::Simulated;
use fairlock_workloads::simulated::trace::Recorder;

use super::locks;
use super::plan::SimCell;
use crate::cell::{Cell, CellReport};
use crate::error::Error;
use crate::machine;
use crate::runner::progress::{self, Foretold};
use crate::runner::{Measured, pool};

/// The cells that were simulated.
pub struct Outcome {
    /// The cells that were simulated with every seed, in their order, by number.
    pub measured: Vec<(usize, Measured)>,
    /// Whether Ctrl-C ended it before all was simulated.
    pub interrupted: bool,
}

/// Simulates `cells`, watched by the recorder if there is one. If our locks are to count their events,
/// which they do for the whole process, only one cell is simulated at a time. Ctrl-C ends it early: what was
/// finished by then is returned.
pub fn run(
    cells: Vec<(usize, SimCell)>,
    seeds: &[u64],
    recorder: Option<&Recorder>,
    count_events: bool,
) -> Result<Outcome, Error> {
    fairlock::events::set_counting(count_events);
    let at_once = if count_events { 1 } else { machine::cpus() };
    let jobs = cells.len() * seeds.len();
    let bar = progress::bar(jobs as u64);
    let mut foretold = Foretold::begin(&bar, "simulation");
    let cells = Arc::new(cells);
    let work = {
        let (cells, seeds) = (Arc::clone(&cells), seeds.to_vec());
        let recorder = recorder.cloned();
        move |job: usize| {
            let (_, cell) = &cells[job / seeds.len()];
            simulate(cell, seeds[job % seeds.len()], recorder.as_ref())
        }
    };
    let mut results: Vec<Option<Result<CellReport, Error>>> = (0..jobs).map(|_| None).collect();
    let interrupted = pool::run(jobs, at_once, work, |job, result| {
        bar.set_message(progress::label(&cells[job / seeds.len()].1.cell));
        bar.inc(1);
        foretold.look(&bar);
        let seed = seeds[job % seeds.len()];
        let result = result.unwrap_or_else(|panic| Err(Error::failed(panic)));
        results[job] = Some(result.map_err(|error| Error::failed(format!("seed {seed}: {error}"))));
    })?;
    bar.finish_and_clear();
    let mut results = results.into_iter();
    let mut measured = Vec::new();
    for (number, cell) in cells.iter() {
        let of_cell: Option<Vec<_>> = results.by_ref().take(seeds.len()).collect();
        let Some(of_cell) = of_cell else { continue };
        let mut m = Measured { cell: cell.cell.clone(), reports: Vec::new(), failure: None };
        for result in of_cell {
            match result {
                Ok(report) => m.reports.push(report),
                Err(error) => m.failure = Some(error.to_string()),
            }
        }
        measured.push((*number, m));
    }
    Ok(Outcome { measured, interrupted })
}

fn simulate(cell: &SimCell, seed: u64, recorder: Option<&Recorder>) -> Result<CellReport, Error> {
    let SimCell { cell, machine, gap_ns, halt_tick_ns, look_ns } = cell;
    let lock = locks::find(&cell.lock)?;
    let machine = Arc::clone(machine);
    // SAFETY: this thread runs the cell, whose locks are made for it and dropped with it.
    let testbed =
        unsafe { Simulated::new(machine, *gap_ns, *halt_tick_ns, *look_ns, recorder.cloned()) };
    let report = lock.run(&Cell { seed, ..cell.clone() }, &testbed)?;
    let (free, long_waits, events) = (testbed.free(), testbed.long_waits(), testbed.events());
    Ok(CellReport { free: Some(free), long_waits, events, ..report })
}
