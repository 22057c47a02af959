//! `fairlock torture`: the locks under many schedules, on the concurrency tester.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use fairlock_sim::tester::{Failure, Lock, Summary, Tester};

use crate::error::{Error, FAILED, INTERRUPTED};
use crate::machine;
use crate::names;
use crate::output::{Page, complain};
use crate::runner::{pool, progress};

/// What to try.
#[derive(Args, Clone)]
pub struct TortureFlags {
    /// Locks to test, separated by commas; default: all
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = names::tortured_lock(),
          hide_possible_values = true)]
    pub locks: Vec<String>,
    /// How many schedules of each lock
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub schedules: u64,
    /// Seed of the first schedule; those of the others follow. `--schedules 1` repeats one that
    /// failed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// How many schedules a worker takes at once.
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
pub fn torture(flags: &TortureFlags) -> Result<ExitCode, Error> {
    let locks = chosen(&flags.locks)?;
    let end = flags.seed.checked_add(flags.schedules);
    let end = end.ok_or_else(|| Error::usage("--seed and --schedules add up to more than 2^64"))?;
    let verdicts: Arc<[Mutex<Verdict>]> = locks.iter().map(|_| Mutex::default()).collect();
    let interrupted = search_all(&locks, flags.seed..end, &verdicts)?;
    let width = locks.iter().map(|lock| lock.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut failed = false;
    for (lock, verdict) in locks.iter().zip(&*verdicts) {
        let verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
        let Summary { schedules, steps } = verdict.summary;
        let name = lock.name();
        match &verdict.failure {
            None => {
                let of = match interrupted {
                    true => format!(" of {}", flags.schedules),
                    false => String::new(),
                };
                text.push_str(&format!(
                    "{name:width$}  {schedules}{of} schedules, {steps} steps\n"
                ));
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
    Page::Stdout.show(&text)?;
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
