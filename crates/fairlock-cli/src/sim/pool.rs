//! Simulates cells, each with every seed, as many at once as there are CPUs.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::locks;
use super::plan::SimCell;
use super::testbed::Simulated;
use super::trace::Recorder;
use crate::cell::{Cell, CellReport};
use crate::error::Error;
use crate::machine;
use crate::runner::{Event, Events, Measured, progress};

/// What came of it.
pub struct Outcome {
    /// The cells that were simulated with every seed, in their order, by number.
    pub measured: Vec<(usize, Measured)>,
    /// Ctrl-C: not everything was simulated.
    pub interrupted: bool,
}

/// One simulation that has ended.
struct Done {
    job: usize,
    result: Result<CellReport, Error>,
}

/// Simulates `cells`, watched by the recorder if there is one. Ctrl-C ends it early: what was finished is returned.
pub fn run(
    cells: Vec<(usize, SimCell)>,
    seeds: &[u64],
    recorder: Option<&Recorder>,
) -> Result<Outcome, Error> {
    let events = Events::install()?;
    keep_panics();
    let jobs = cells.len() * seeds.len();
    let bar = progress::bar(jobs as u64);
    let shared = Arc::new((cells, seeds.to_vec(), AtomicUsize::new(0)));
    for _ in 0..machine::cpus().min(jobs) {
        let (shared, sender) = (Arc::clone(&shared), events.sender());
        let recorder = recorder.cloned();
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let spawned = thread.spawn(move || {
            let (cells, seeds, next) = &*shared;
            loop {
                // Relaxed: only the number matters.
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some((_, cell)) = cells.get(job / seeds.len()) else { return };
                let result = simulate(cell, seeds[job % seeds.len()], recorder.as_ref());
                // Fails only when nobody waits for it any more.
                let _ = sender.send(Event::Done(Done { job, result }));
            }
        });
        spawned.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    }
    let (cells, seeds, _) = &*shared;
    let mut results: Vec<Option<Result<CellReport, Error>>> = (0..jobs).map(|_| None).collect();
    let mut interrupted = false;
    for _ in 0..jobs {
        match events.next(Duration::MAX) {
            Some(Event::Done(done)) => {
                bar.set_message(progress::label(&cells[done.job / seeds.len()].1.cell));
                bar.inc(1);
                results[done.job] = Some(done.result);
            }
            _ => {
                interrupted = true;
                break;
            }
        }
    }
    bar.finish_and_clear();
    let mut results = results.into_iter();
    let mut measured = Vec::new();
    for (number, cell) in cells {
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

/// The name of the threads that simulate.
const THREAD: &str = "simulation";

std::thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic of a simulated thread becomes its cell's error, and is not told twice.
fn keep_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some(THREAD) {
            PANIC.set(info.to_string().replace('\n', " "));
        } else {
            report(info);
        }
    }));
}

fn simulate(cell: &SimCell, seed: u64, recorder: Option<&Recorder>) -> Result<CellReport, Error> {
    let lock = locks::find(&cell.cell.lock)?;
    let testbed = Simulated::new(cell, recorder.cloned());
    let cell = Cell { seed, ..cell.cell.clone() };
    catch_unwind(AssertUnwindSafe(|| lock.run(&cell, &testbed)))
        .unwrap_or_else(|_| Err(Error::failed(PANIC.take())))
        .map_err(|error| Error::failed(format!("seed {seed}: {error}")))
}
