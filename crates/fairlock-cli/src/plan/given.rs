//! Checks of what the command line gives: numbers must make sense, and names must exist.

use crate::cell::scenario::Scenario;
use crate::cell::{Case, Form, Holder, Shape, Workload};
use crate::error::{Error, unknown};
use crate::flags::{Flags, ProgramFlags};
use crate::machine;
use crate::row::runs::MOST_RUNS;
use crate::workload::think;

/// The most threads that any workload makes sense with.
pub(super) const MOST_THREADS: usize = 10_000;

/// Checks the flags of `bench`.
pub(super) fn check(flags: &Flags) -> Result<(), Error> {
    if flags.threads.contains(&0) {
        return Err(Error::usage("--threads 0 makes no sense: use 1 or more"));
    }
    if let Some(n) = flags.threads.iter().find(|&&n| n > MOST_THREADS) {
        return Err(Error::usage(format!("--threads {n} is too many: use {MOST_THREADS} at most")));
    }
    let most = MOST_THREADS as f64 / machine::cpus() as f64;
    if let Some(x) = flags.overcommit.iter().find(|&&x| !(x > 0.0 && x <= most)) {
        return Err(Error::usage(format!(
            "--overcommit {x:?} makes no sense: use more than 0, and {most} at most"
        )));
    }
    if let Some(n) = flags.reads.iter().find(|&&n| n > 100) {
        return Err(Error::usage(format!("--reads {n} is more than all: use 0 to 100")));
    }
    if let Some(n) = flags.section.iter().find(|&&n| n > 1_000_000_000) {
        return Err(Error::usage(format!("--section {n} is too long: use 1000000000 at most")));
    }
    check_program(&flags.program, &flags.section, &flags.reads)?;
    if let Some(n) = flags.held.iter().find(|&&n| n > 1_000_000) {
        return Err(Error::usage(format!("--held {n} is too many: use 1000000 at most")));
    }
    if let Some(n) = flags.cs_load.iter().find(|&&n| n > 1_000_000) {
        return Err(Error::usage(format!("--cs-load {n} is too long: use 1000000 at most")));
    }
    if let Some(secs) = flags.secs.filter(|secs| !(0.01..=3600.0).contains(secs)) {
        return Err(Error::usage(format!("--secs {secs:?} makes no sense: use 0.01 to 3600")));
    }
    if let Some(runs) = flags.runs.filter(|runs| !(1..=MOST_RUNS).contains(runs)) {
        return Err(Error::usage(format!("--runs {runs} makes no sense: use 1 to {MOST_RUNS}")));
    }
    Ok(())
}

/// Checks the flags of workloads that take locks as programs do, for `bench` and `sim`.
pub fn check_program(flags: &ProgramFlags, sections: &[u32], reads: &[u8]) -> Result<(), Error> {
    let longest = u64::from(sections.iter().copied().max().unwrap_or(think::LONGEST_SECTION));
    if let Some(x) = flags.outside.iter().find(|&&x| u64::from(x) * longest > 1_000_000_000) {
        return Err(Error::usage(format!(
            "--outside {x} makes more than a second: use less, or a shorter --section"
        )));
    }
    if flags.among.contains(&0) {
        return Err(Error::usage("--among 0 makes no sense: use 1 or more"));
    }
    if let Some(n) = flags.among.iter().find(|&&n| n > 1_000_000) {
        return Err(Error::usage(format!("--among {n} is too many: use 1000000 at most")));
    }
    let never_writes = !reads.is_empty() && !reads.contains(&0);
    if let Some(form) = parse_forms(flags)?.iter().find(|form| !form.can_read())
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
    let known: Vec<&str> = Workload::named().map(Workload::name).chain(["all"]).collect();
    if names.is_empty() {
        let known = known.join(", ");
        return Err(Error::usage(format!("name a workload: {known}; or a scenario: FILE.toml")));
    }
    if names.iter().any(|name| name == "all") {
        return Ok(Workload::named().filter(|workload| workload.runs_here()).collect());
    }
    let mut workloads = Vec::new();
    for name in names {
        let workload = Workload::named().find(|w| w.name() == name);
        workloads.push(workload.ok_or_else(|| unknown("workload", name, &known))?);
    }
    workloads.sort_unstable();
    workloads.dedup();
    Ok(workloads)
}

pub fn parse_cases(names: &[String]) -> Result<Vec<Case>, Error> {
    let known = Case::ALL.map(Case::name);
    names
        .iter()
        .map(|name| {
            let case = Case::ALL.into_iter().find(|case| case.name() == name);
            case.ok_or_else(|| unknown("case", name, &known))
        })
        .collect()
}

pub fn parse_forms(flags: &ProgramFlags) -> Result<Vec<Form>, Error> {
    let known = Form::ALL.map(Form::name);
    let find = |name: &String| Form::ALL.into_iter().find(|form| form.name() == name);
    let forms =
        flags.form.iter().map(|name| find(name).ok_or_else(|| unknown("form", name, &known)));
    Ok(once(&forms.collect::<Result<Vec<_>, _>>()?))
}

pub fn parse_holders(flags: &ProgramFlags) -> Result<Vec<Holder>, Error> {
    let known = Holder::ALL.map(Holder::name);
    let find = |name: &String| Holder::ALL.into_iter().find(|holder| holder.name() == name);
    let all =
        flags.holder.iter().map(|name| find(name).ok_or_else(|| unknown("holder", name, &known)));
    Ok(once(&all.collect::<Result<Vec<_>, _>>()?))
}

pub(super) fn parse_shapes(names: &[String]) -> Result<Vec<Shape>, Error> {
    let known = Shape::ALL.map(Shape::name);
    let find = |name: &String| Shape::ALL.into_iter().find(|shape| shape.name() == name);
    let shapes = names.iter().map(|name| find(name).ok_or_else(|| unknown("shape", name, &known)));
    Ok(once(&shapes.collect::<Result<Vec<_>, _>>()?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::bench;

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        let with = |change: fn(&mut Flags)| {
            let mut flags = Flags { locks: vec!["std".into()], ..Flags::default() };
            change(&mut flags);
            bench(&["handoff".to_owned()], &flags).err().expect("refused").to_string()
        };
        assert!(with(|f| f.threads = vec![0]).contains("1 or more"));
        assert!(with(|f| f.threads = vec![10_001]).contains("10000"));
        assert!(with(|f| f.secs = Some(-1.0)).contains("--secs"));
        assert!(with(|f| f.secs = Some(f64::NAN)).contains("--secs"));
        assert!(with(|f| f.runs = Some(0)).contains("--runs"));
        assert!(with(|f| f.overcommit = vec![0.0]).contains("--overcommit"));
        assert!(with(|f| f.reads = vec![101]).contains("--reads"));
        assert!(with(|f| f.held = vec![2_000_000]).contains("--held"));
        assert!(with(|f| f.program.outside = vec![2_000_000]).contains("--outside"));
        assert!(with(|f| f.program.among = vec![0]).contains("1 or more"));
        assert!(with(|f| f.overcommit = vec![f64::NAN]).contains("--overcommit"));
        assert!(with(|f| f.overcommit = vec![1e9]).contains("--overcommit"));
        assert!(with(|f| f.case = vec!["buzy".into()]).contains("'busy'"));
        let error = bench(&["hand-off".to_owned()], &Flags::default()).err().unwrap();
        assert!(error.to_string().contains("'handoff'"), "{error}");
    }
}
