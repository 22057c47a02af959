//! `fairlock torture`: the locks under many schedules, on the concurrency tester.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use fairlock_sim::tester::{Failure, Lock, Summary, Tester};

use crate::error::{Error, FAILED};
use crate::runner::progress;
use crate::{machine, print};

/// What to try.
#[derive(Args, Clone)]
pub struct TortureFlags {
    /// Locks to test, separated by commas; default: all
    #[arg(long, value_name = "LOCK", value_delimiter = ',')]
    pub locks: Vec<String>,
    /// Schedules of each lock
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub schedules: u64,
    /// The first one's seed; the others' follow. One that failed is repeated with
    /// `--schedules 1`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Schedules that one worker takes at once.
const PORTION: u64 = 500;

/// What became of a lock.
#[derive(Default)]
struct Verdict {
    summary: Summary,
    /// Of the lowest seed.
    failure: Option<Box<Failure>>,
}

/// Runs it, and fails if a lock does.
pub fn torture(flags: &TortureFlags) -> Result<ExitCode, Error> {
    let locks = chosen(&flags.locks)?;
    let end = flags.seed.checked_add(flags.schedules);
    let end = end.ok_or_else(|| Error::usage("--seed and --schedules add up to more than 2^64"))?;
    let verdicts = search_all(&locks, flags.seed, end);
    let width = locks.iter().map(|lock| lock.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut failed = false;
    for (lock, verdict) in locks.iter().zip(&verdicts) {
        let Summary { schedules, steps } = verdict.summary;
        let name = lock.name();
        match &verdict.failure {
            None => {
                text.push_str(&format!("{name:width$}  {schedules} schedules, {steps} steps\n"))
            }
            Some(failure) => {
                failed = true;
                let seed = failure.seed;
                text.push_str(&format!("\n{failure}"));
                text.push_str(&format!(
                    "again: fairlock torture --locks {name} --seed {seed} --schedules 1\n\n"
                ));
            }
        }
    }
    print(text.as_bytes())?;
    Ok(ExitCode::from(if failed { FAILED } else { 0 }))
}

fn chosen(names: &[String]) -> Result<Vec<Lock>, Error> {
    let named = |name: &String| {
        Lock::named(name).ok_or_else(|| {
            let known: Vec<_> = Lock::all().map(Lock::name).collect();
            Error::usage(format!("no lock `{name}` to torture; there are {}", known.join(", ")))
        })
    };
    if names.is_empty() { Ok(Lock::all().collect()) } else { names.iter().map(named).collect() }
}

/// Tries the seeds of all locks in portions, on all CPUs.
fn search_all(locks: &[Lock], start: u64, end: u64) -> Vec<Verdict> {
    let portions = (end - start).div_ceil(PORTION) as usize;
    let bar = progress::bar((locks.len() * portions) as u64);
    let verdicts: Vec<_> = locks.iter().map(|_| Mutex::new(Verdict::default())).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..machine::cpus() {
            scope.spawn(|| {
                loop {
                    // Relaxed: only the number matters.
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(lock) = locks.get(job / portions.max(1)) else { return };
                    let verdict = &verdicts[job / portions];
                    let from = start + (job % portions) as u64 * PORTION;
                    try_portion(*lock, from..end.min(from + PORTION), verdict);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let done = |verdict: Mutex<_>| verdict.into_inner().unwrap_or_else(PoisonError::into_inner);
    verdicts.into_iter().map(done).collect()
}

fn try_portion(lock: Lock, seeds: std::ops::Range<u64>, verdict: &Mutex<Verdict>) {
    let locked = || verdict.lock().unwrap_or_else(PoisonError::into_inner);
    // Earlier seeds only: which failure is shown must not depend on who is quicker.
    if locked().failure.as_ref().is_some_and(|failure| failure.seed < seeds.start) {
        return;
    }
    let mut tester = Tester::new().expect("memory for the threads' stacks");
    let result = tester.search(lock, seeds);
    let mut verdict = locked();
    match result {
        Ok(Summary { schedules, steps }) => {
            verdict.summary.schedules += schedules;
            verdict.summary.steps += steps;
        }
        Err(failure) => {
            if verdict.failure.as_ref().is_none_or(|other| failure.seed < other.seed) {
                verdict.failure = Some(failure);
            }
        }
    }
}
