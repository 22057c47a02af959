//! `fairlock torture` without `--real`: the locks under many schedules, on the concurrency tester.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use fairlock_sim::tester::{Failure, Lock, Summary, Tester};

use super::{Row, TortureFlags, Written};
use crate::error::{Error, FAILED, INTERRUPTED};
use crate::machine;
use crate::output::complain;
use crate::runner::{pool, progress};

/// How many schedules of each lock are tried.
const SCHEDULES: u64 = 20_000;
/// How many schedules a worker takes at a time.
const PORTION: u64 = 500;

/// What the schedules of a lock came to.
#[derive(Default)]
struct Verdict {
    summary: Summary,
    /// The failure with the lowest seed.
    failure: Option<Box<Failure>>,
}

/// Tries the schedules, and fails if a lock does. Ctrl-C ends it early: what was tried by then is
/// shown.
pub fn torture(flags: &TortureFlags, written: &Written) -> Result<ExitCode, Error> {
    let locks = chosen(&flags.locks)?;
    let schedules = flags.schedules.unwrap_or(SCHEDULES);
    let end = flags.seed.checked_add(schedules);
    let end = end.ok_or_else(|| Error::usage("--seed and --schedules add up to more than 2^64"))?;
    let verdicts: Arc<[Mutex<Verdict>]> = locks.iter().map(|_| Mutex::default()).collect();
    let interrupted = search_all(&locks, flags.seed..end, &verdicts)?;
    let width = locks.iter().map(|lock| lock.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut rows = Vec::new();
    for (lock, verdict) in locks.iter().zip(&*verdicts) {
        let verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
        let Summary { schedules: tried, steps } = verdict.summary;
        let name = lock.name();
        let failure = verdict.failure.as_ref().map(|failure| (failure.seed, failure.what.clone()));
        rows.push(Row { schedules: Some(tried), steps: Some(steps), ..Row::new(name, failure) });
        match &verdict.failure {
            None => {
                let of = if interrupted { format!(" of {schedules}") } else { String::new() };
                text.push_str(&format!("{name:width$}  {tried}{of} schedules, {steps} steps\n"));
            }
            Some(failure) => {
                let seed = failure.seed;
                text.push_str(&format!("\n{failure}"));
                text.push_str(&format!(
                    "again: fairlock torture --locks {name} --seed {seed} --schedules 1\n\n"
                ));
            }
        }
    }
    let failed = rows.iter().any(|row| row.failure.is_some());
    written.show(&text, rows, flags.seed, interrupted)?;
    if interrupted {
        complain("interrupted; what was finished is shown");
        return Ok(ExitCode::from(INTERRUPTED));
    }
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

/// Tries the seeds of all locks in portions. Returns whether Ctrl-C ended it early.
fn search_all(
    locks: &[Lock],
    seeds: Range<u64>,
    verdicts: &Arc<[Mutex<Verdict>]>,
) -> Result<bool, Error> {
    let portions = usize::try_from((seeds.end - seeds.start).div_ceil(PORTION)).ok();
    let jobs = portions.and_then(|portions| portions.checked_mul(locks.len()));
    let (Some(portions), Some(jobs)) = (portions, jobs) else {
        return Err(Error::usage("--schedules is too many: use fewer"));
    };
    let bar = progress::bar(jobs as u64);
    let work = {
        let (locks, verdicts) = (locks.to_vec(), Arc::clone(verdicts));
        move |job: usize| {
            let from = seeds.start + (job % portions) as u64 * PORTION;
            let portion = from..seeds.end.min(from.saturating_add(PORTION));
            try_portion(locks[job / portions], portion, &verdicts[job / portions])
        }
    };
    let mut problem = None;
    let interrupted = pool::run(jobs, machine::cpus(), work, |_, result| {
        bar.inc(1);
        let result = result.unwrap_or_else(|panic| Err(Error::failed(panic)));
        problem = problem.take().or(result.err());
    })?;
    bar.finish_and_clear();
    problem.map_or(Ok(interrupted), Err)
}

fn try_portion(lock: Lock, seeds: Range<u64>, verdict: &Mutex<Verdict>) -> Result<(), Error> {
    let locked = || verdict.lock().unwrap_or_else(PoisonError::into_inner);
    // Once a seed has failed, only earlier seeds are tried: which failure is shown must not depend
    // on which worker is quicker.
    if locked().failure.as_ref().is_some_and(|failure| failure.seed < seeds.start) {
        return Ok(());
    }
    let no_memory = |error| Error::failed(format!("no memory for the threads' stacks: {error}"));
    let result = Tester::new().map_err(no_memory)?.search(lock, seeds);
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
    Ok(())
}
