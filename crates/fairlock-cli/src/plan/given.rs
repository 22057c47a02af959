//! Checks of what the command line gives: numbers must make sense, and names must exist.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

use crate::cell::Workload;
use crate::cell::scenario::Scenario;
use crate::error::{Error, unknown};
use crate::flags::{Flags, ProgramFlags};
use crate::machine;
use crate::row::runs::MOST_RUNS;
use crate::workload::think;

/// The most threads that any workload makes sense with.
pub(super) const MOST_THREADS: usize = 10_000;

/// Checks the flags of `bench`.
pub(super) fn check(flags: &Flags) -> Result<(), Error> {
    within("--threads", &flags.threads, 1..=MOST_THREADS)?;
    check_overcommit(&flags.overcommit, MOST_THREADS as f64 / machine::cpus() as f64)?;
    within("--reads", &flags.reads, 0..=100)?;
    within("--section", &flags.section, 0..=1_000_000_000)?;
    check_program(&flags.program, &flags.section, &flags.reads)?;
    within("--held", &flags.held, 0..=1_000_000)?;
    within("--cs-load", &flags.cs_load, 0..=1_000_000)?;
    within("--secs", flags.secs.as_slice(), 0.01..=3600.0)?;
    within("--runs", flags.runs.as_slice(), 1..=MOST_RUNS)
}

/// Checks the flags of the first screen, which has tests of its own.
pub(super) fn check_main(flags: &Flags) -> Result<(), Error> {
    let given = [
        ("--threads", !flags.threads.is_empty()),
        ("--overcommit", !flags.overcommit.is_empty()),
        ("--cs-load", !flags.cs_load.is_empty()),
        ("--case", !flags.case.is_empty()),
        ("--events", flags.events),
    ];
    given.iter().find(|(_, is_given)| *is_given).map_or(Ok(()), |(flag, _)| {
        Err(Error::usage(format!(
            "{flag} is not for the first screen: add --all, or name a workload (`fairlock bench`)"
        )))
    })
}

/// Checks threads for each CPU.
pub fn check_overcommit(given: &[f64], most: f64) -> Result<(), Error> {
    let wrong = given.iter().find(|&&x| !(x > 0.0 && x <= most));
    wrong.map_or(Ok(()), |x| {
        Err(Error::usage(format!(
            "--overcommit {x:?} makes no sense: use more than 0, and {most} at most"
        )))
    })
}

/// Fails if one of the values of a flag is not in this range.
pub fn within<T: PartialOrd + Debug + Display>(
    flag: &str,
    given: &[T],
    range: RangeInclusive<T>,
) -> Result<(), Error> {
    let Some(value) = given.iter().find(|value| !range.contains(value)) else { return Ok(()) };
    let (least, most) = range.into_inner();
    Err(Error::usage(format!("{flag} {value:?} makes no sense: use {least} to {most}")))
}

/// Checks the flags of workloads that take locks as programs do, for `bench` and `sim`.
pub fn check_program(flags: &ProgramFlags, sections: &[u32], reads: &[u8]) -> Result<(), Error> {
    let longest = u64::from(sections.iter().copied().max().unwrap_or(think::LONGEST_SECTION));
    if let Some(x) = flags.outside.iter().find(|&&x| u64::from(x) * longest > 1_000_000_000) {
        return Err(Error::usage(format!(
            "--outside {x} makes more than a second: use less, or a shorter --section"
        )));
    }
    within("--among", &flags.among, 1..=1_000_000)?;
    let never_writes = !reads.is_empty() && !reads.contains(&0);
    if let Some(form) = flags.form.iter().find(|form| !form.can_read())
        && never_writes
    {
        return Err(Error::usage(format!(
            "--form {} is never read: give --reads 0, too",
            form.name()
        )));
    }
    Ok(())
}

/// Checks a scenario, for `bench` and `sim`.
pub fn check_scenario(scenario: &Scenario, threads: &[usize], most: usize) -> Result<(), Error> {
    if !threads.is_empty() {
        return Err(Error::usage("--threads is not for a scenario: its file says how many"));
    }
    let (count, ..) = scenario.threads();
    if count > most {
        return Err(Error::usage(format!("the scenario has {count} threads: use {most} at most")));
    }
    Ok(())
}

pub(super) fn parse_workloads(names: &[String]) -> Result<Vec<Workload>, Error> {
    if names.is_empty() {
        let known = Workload::named().map(Workload::name).collect::<Vec<_>>().join(", ");
        return Err(Error::usage(format!(
            "name a workload: {known}, all; or a scenario: FILE.toml"
        )));
    }
    if names.iter().any(|name| name == "all") {
        return Ok(Workload::named().filter(|workload| workload.runs_here()).collect());
    }
    let named = |name: &String| Workload::named().find(|workload| workload.name() == name);
    let known = || Workload::named().map(Workload::name).chain(["all"]).collect::<Vec<_>>();
    let named = |name| named(name).ok_or_else(|| unknown("workload", name, &known()));
    let mut workloads = once(&names.iter().map(named).collect::<Result<Vec<_>, _>>()?);
    workloads.sort_unstable();
    Ok(workloads)
}

pub fn or_default<T: Copy + PartialEq>(given: &[T], default: &[T]) -> Vec<T> {
    once(if given.is_empty() { default } else { given })
}

/// The items in their order, each once: running a cell twice gives no new result.
pub fn once<T: Copy + PartialEq>(items: &[T]) -> Vec<T> {
    let mut kept = Vec::new();
    for &item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}
