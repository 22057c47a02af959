//! Threads that start together, work for a window of time, and stop together.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::events::Counted;
use crate::cell::Cell;
use crate::error::Error;

/// Keeps its content on cache lines of its own (two: CPUs fetch in pairs).
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Threads work, nothing is counted.
    WarmUp,
    /// The measured window.
    Measure,
    /// Threads leave. A thread that still waits for the lock gets it as the others leave.
    Stop,
}

/// Tells the threads of a team in which phase the run is.
pub struct Gate {
    phase: Padded<AtomicU8>,
}

impl Gate {
    /// That of a run that has not begun.
    pub(super) fn new() -> Self {
        Self { phase: Padded(AtomicU8::new(Phase::WarmUp as u8)) }
    }

    /// The phase of the run.
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        // Relaxed: it is a hint to leave; joining the threads orders the results.
        match self.phase.0.load(Ordering::Relaxed) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            _ => Phase::Stop,
        }
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.0.store(phase as u8, Ordering::Relaxed);
    }
}

/// Runs `body(index, gate)` on `threads` threads through the cell's warm-up and
/// window. Returns the length of the window and what the threads returned.
pub fn run_team<T: Send>(
    cell: &Cell,
    gate: &Gate,
    counted: &Counted,
    threads: usize,
    // Not generic: it is called once by each thread, and there are hundreds of bodies.
    body: &(dyn Fn(usize, &Gate) -> T + Sync),
) -> Result<(Duration, Vec<T>), Error> {
    let results = Results::new(threads);
    let body = |index| results.put(index, body(index, gate));
    let window = run_threads(cell, gate, counted, threads, &body)?;
    Ok((window, results.into_vec()))
}

/// What threads return, each into its place.
struct Results<T>(Vec<Mutex<Option<T>>>);

// Not inlined, so that they are compiled once for each type of result and not for each lock and
// workload.
impl<T> Results<T> {
    #[inline(never)]
    fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::new(None)).collect())
    }

    fn put(&self, index: usize, result: T) {
        *self.0[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    #[inline(never)]
    fn into_vec(self) -> Vec<T> {
        let taken = self.0.into_iter().map(|result| {
            let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
            result.expect("each thread has returned")
        });
        taken.collect()
    }
}

/// As [`run_team`], without results: compiled once, and not for each lock and workload.
fn run_threads(
    cell: &Cell,
    gate: &Gate,
    counted: &Counted,
    threads: usize,
    body: &(dyn Fn(usize) + Sync),
) -> Result<Duration, Error> {
    // Whether there is a run, once that is known.
    let opened = &OnceLock::new();
    gate.set_phase(Phase::WarmUp);
    let (arrives, arrived) = mpsc::channel();
    thread::scope(|scope| {
        let mut team = Vec::with_capacity(threads);
        for index in 0..threads {
            let arrives = arrives.clone();
            // The hot loops need next to no stack, and there may be thousands of threads.
            let spawned =
                thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, move || {
                    // Fails if there is no run.
                    _ = arrives.send(());
                    if *opened.wait() {
                        body(index);
                    }
                });
            match spawned {
                Ok(handle) => team.push(handle),
                Err(error) => {
                    _ = opened.set(false);
                    return Err(Error::failed(format!(
                        "cannot start thread {} of {threads}: {error}; use fewer --threads or \
                         raise the limit (ulimit -u)",
                        index + 1
                    )));
                }
            }
        }
        arrived.iter().take(threads).for_each(|()| {});
        _ = opened.set(true);
        thread::sleep(Duration::from_secs_f64(cell.warm_up_secs()));
        gate.set_phase(Phase::Measure);
        counted.begins();
        let begin = Instant::now();
        thread::sleep(Duration::from_secs_f64(cell.secs));
        gate.set_phase(Phase::Stop);
        let window = begin.elapsed();
        counted.ends();
        // All threads are joined: the scope would report one that panicked and was not.
        let joined: Vec<_> = team.into_iter().map(|thread| thread.join()).collect();
        if joined.iter().all(Result::is_ok) {
            Ok(window)
        } else {
            Err(Error::failed("a thread of the workload panicked"))
        }
    })
}
