//! From the command line to the cells to run; [`given`] checks what the command line gives, and
//! [`cells`] makes the cells of a table.

mod cells;
mod given;

use std::time::Duration;

use crate::cell::scenario::Scenario;
use crate::cell::{Case, Cell, UsedAs, Workload};
use crate::disturbance::Disturbance;
use crate::error::Error;
use crate::flags::{Flags, check_are_had};
use crate::locks::custom;
use crate::locks::entry::LockEntry;
use crate::locks::registry;
use crate::runner;
use crate::workload::scenario::file;
use crate::workload::{
    batch, condvar, direct_io, handoff, idle, range, reader_spin, scenario, spread, think,
    uncontended,
};
use cells::Makings;
use given::{check, parse_workloads};
pub use given::{check_overcommit, check_program, check_scenario, once, or_default, within};

/// The locks of the first screen: ours, and those that programs use.
const MAIN_LOCKS: &[&str] = &[
    "fairlock:rwlock",
    "fairlock:mutex",
    "parking_lot_0.12",
    "parking_lot",
    "std",
    #[cfg(target_os = "linux")]
    "pthread",
    #[cfg(target_os = "linux")]
    "pthread:writer",
    "parking_lot:fair",
];

/// Our policies, which it shows if asked for all.
const POLICIES: [&str; 4] =
    ["fairlock:unfair", "fairlock:handoff", "fairlock:no_reader_spin", "fairlock:writer_phase"];

/// The threads at its mutex.
const MUTEX_THREADS: usize = 32;

/// A part of a plan, shown as one table: one workload with its defaults.
struct Part<'a> {
    workload: Workload,
    cases: &'a [Case],
    /// If empty, [`batch::OVERCOMMIT`] and the CPUs give the counts.
    threads: &'a [usize],
    cs_loads: &'a [u32],
    secs: f64,
    /// Only of [`Workload::Scenario`].
    scenario: Option<&'a Scenario>,
}

/// The plan of `fairlock bench`.
pub fn bench(workloads: &[String], flags: &Flags) -> Result<runner::Plan, Error> {
    let (scenario, workloads) = file::among(workloads)?;
    let named = match scenario {
        Some(_) if workloads.is_empty() => Vec::new(),
        _ => parse_workloads(&workloads)?,
    };
    let of_scenario = scenario.as_ref().map(|_| Workload::Scenario);
    let parts: Vec<Part<'_>> = named
        .into_iter()
        .chain(of_scenario)
        .map(|workload| Part { scenario: scenario.as_ref(), ..defaults(workload) })
        .collect();
    let all = registry::all().iter().map(|entry| entry.name.to_owned()).collect();
    build(&parts, all, flags, 3)
}

/// How much the command without a workload runs.
#[derive(Clone, Copy, PartialEq)]
pub enum Extent {
    Screen,
    All,
}

/// The plan of the first screen. With [`Extent::All`], also our policies, and each side of readers and writers
/// alone: once, as that takes longer.
pub fn main_job(flags: &Flags, extent: Extent) -> Result<runner::Plan, Error> {
    let all = extent == Extent::All;
    if !all {
        given::check_main(flags)?;
    }
    // 96 threads need longer than 8 until each has had a CPU several times.
    let mixes: &[(&[usize], f64)] =
        if flags.threads.is_empty() { &[(&[8], 0.15), (&[96], 0.4)] } else { &[(&[], 0.4)] };
    let cases: &[Case] = if all { &reader_spin::CASES } else { &[Case::Mixed] };
    let mixes = mixes.iter().map(|&(threads, secs)| Part {
        cases,
        threads,
        cs_loads: &[20],
        secs,
        ..defaults(Workload::ReaderSpin)
    });
    let handoff = Part { cases: &[Case::Busy], secs: 0.5, ..defaults(Workload::Handoff) };
    let mutex = Part {
        cases: &[Case::Tiny],
        threads: &[MUTEX_THREADS],
        secs: 0.3,
        ..defaults(Workload::Batch)
    };
    let policies: &[&str] = if all { &POLICIES } else { &[] };
    let locks = MAIN_LOCKS.iter().chain(policies).map(|&name| name.to_owned()).collect();
    let runs = if all { 1 } else { 3 };
    build(&mixes.chain([handoff, mutex]).collect::<Vec<_>>(), locks, flags, runs)
}

fn defaults(workload: Workload) -> Part<'static> {
    let (cases, threads, cs_loads, secs): (&[Case], &[usize], &[u32], f64) = match workload {
        Workload::Handoff => (&handoff::CASES, &[handoff::THREADS], &[0], 2.0),
        Workload::ReaderSpin => {
            (&reader_spin::CASES, &reader_spin::THREADS, &reader_spin::CS_LOADS, 0.5)
        }
        Workload::DirectIo => (&direct_io::CASES, &[2], &[0], 2.0),
        Workload::Uncontended => (&uncontended::CASES, &[1], &[0], 0.5),
        Workload::Batch => (&batch::CASES, &[], &[batch::CS_LOAD], 1.0),
        Workload::Range => (&range::CASES, &[], &[0], 0.2),
        Workload::Think => (&think::CASES, &[], &[0], 0.15),
        Workload::Spread => (&spread::CASES, &[], &[0], 0.15),
        Workload::Idle => (&idle::CASES, &[], &[0], 0.15),
        Workload::Condvar => (&condvar::CASES, &condvar::THREADS, &[0], 0.5),
        Workload::Scenario => (&scenario::CASES, &[], &[0], 1.0),
    };
    Part { workload, cases, threads, cs_loads, secs, scenario: None }
}

/// The plan of these parts, of `usual` locks and so many runs unless the flags say otherwise.
fn build(
    parts: &[Part<'_>],
    usual: Vec<String>,
    flags: &Flags,
    runs: u32,
) -> Result<runner::Plan, Error> {
    let locks = if flags.locks.is_empty() { usual } else { custom::rejoined(&flags.locks) };
    let names: Vec<&str> = locks.iter().map(String::as_str).collect();
    let locks: Vec<LockEntry> =
        once(&names).into_iter().map(registry::find).collect::<Result<_, _>>()?;
    check(flags)?;
    let disturbance = Disturbance::beside(flags.beside)?;
    let only = &flags.case;
    let mut tables: Vec<Vec<Cell>> = Vec::new();
    for part in parts {
        let makings = Makings { part, only, locks: &locks, flags, disturbance };
        tables.push(makings.cells()?);
    }
    if !parts.iter().any(|part| part.cases.iter().any(|c| only.is_empty() || only.contains(c))) {
        return Err(Error::usage("no such case in these workloads: leave out --case to run all"));
    }
    check_are_had(&flags.of_some(), &parts.iter().map(|part| part.workload).collect::<Vec<_>>())?;
    if !flags.locks.is_empty() {
        check_all_are_used(&locks, &tables)?;
    }
    Ok(runner::Plan {
        tables,
        runs: flags.runs.unwrap_or(if flags.quick { 1 } else { runs }),
        seed: flags.seed,
        patience: Duration::from_secs(flags.patience),
    })
}

/// Fails if a lock that was named has no cell: such a lock would be missing without a word.
fn check_all_are_used(locks: &[LockEntry], tables: &[Vec<Cell>]) -> Result<(), Error> {
    let is_used = |lock: &&LockEntry| tables.iter().flatten().any(|cell| cell.lock == lock.name);
    let Some(idle) = locks.iter().find(|lock| !is_used(lock)) else {
        return Ok(());
    };
    let any_range = UsedAs::Range { shared: false, held: 0 };
    let (kind, workloads) = if idle.is(UsedAs::Mutex) {
        (UsedAs::Mutex, "batch, or the case mutex of uncontended")
    } else if !idle.is(UsedAs::ReaderWriter) {
        (any_range, "range, and cases it can do")
    } else {
        (UsedAs::ReaderWriter, "another workload than batch")
    };
    Err(Error::usage(format!(
        "lock '{}' is a {}, and nothing here needs one: run {workloads}",
        idle.name,
        kind.name()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Form;
    use crate::machine;

    /// The cells of all tables.
    fn cells_of(workloads: &[&str], flags: &Flags) -> Result<Vec<Cell>, Error> {
        let workloads: Vec<String> = workloads.iter().map(|&w| w.to_owned()).collect();
        bench(&workloads, flags).map(|plan| plan.tables.concat())
    }

    fn flags() -> Flags {
        Flags { locks: vec!["std".into()], ..Flags::default() }
    }

    #[test]
    fn reader_spin_runs_the_published_grid_and_each_side_alone() {
        let cells = cells_of(&["reader-spin"], &flags()).unwrap();
        assert_eq!(cells.len(), 21 * 3);
        let mix = cells.iter().find(|c| c.case == Case::Mixed && c.threads == 96).unwrap();
        assert_eq!((mix.readers, mix.writers), (48, 48));
        let alone = cells.iter().find(|c| c.case == Case::ReaderAlone && c.threads == 96).unwrap();
        assert_eq!((alone.readers, alone.writers), (48, 0));
    }

    #[test]
    fn the_first_screen_takes_half_a_minute_and_its_first_column_four_seconds() {
        let plan = main_job(&Flags::default(), Extent::Screen).unwrap();
        let secs = |cells: &[Cell]| {
            let of_cell = |cell: &Cell| cell.secs + cell.warm_up_secs();
            f64::from(plan.runs) * cells.iter().map(of_cell).sum::<f64>()
        };
        let of_tables: Vec<f64> = plan.tables.iter().map(|cells| secs(cells)).collect();
        assert!(of_tables[0] < 4.0 && of_tables.iter().sum::<f64>() < 35.0, "{of_tables:?}");
        assert_eq!(plan.tables.len(), 4);
        // A mutex has no readers, and the lock of one test is the same product in all.
        let mutexes: Vec<&str> = plan.tables[3].iter().map(|cell| cell.lock.as_str()).collect();
        assert!(mutexes.starts_with(&["fairlock:mutex", "parking_lot_0.12"]), "{mutexes:?}");
        assert!(plan.tables[..3].iter().flatten().all(|cell| cell.lock != "fairlock:mutex"));
    }

    #[test]
    fn the_first_screen_refuses_flags_that_change_its_tests() {
        let flags = Flags { threads: vec![4], ..Flags::default() };
        let error = main_job(&flags, Extent::Screen).err().unwrap().to_string();
        assert!(error.contains("--threads") && error.contains("--all"), "{error}");
        assert!(main_job(&flags, Extent::All).is_ok());
    }

    #[test]
    fn all_runs_a_cell_once_whatever_the_threads() {
        let flags = Flags { threads: vec![4, 8], ..flags() };
        let mut cells = main_job(&flags, Extent::All).unwrap().tables.concat();
        let all = cells.len();
        cells.sort_by_key(|cell| (cell.workload, cell.case, cell.threads));
        cells.dedup_by_key(|cell| (cell.workload, cell.case, cell.threads));
        assert_eq!((all, cells.len()), (2 * 3 + 2 + 2, 2 * 3 + 2 + 2));
    }

    #[test]
    fn each_workload_is_a_table() {
        let named = ["reader-spin", "handoff", "batch"].map(str::to_owned);
        let tables = bench(&named, &flags()).unwrap().tables;
        let workloads = tables.iter().map(|cells| cells[0].workload);
        let is_one = |cells: &Vec<Cell>| cells.iter().all(|c| c.workload == cells[0].workload);
        assert!(tables.iter().all(is_one));
        let wanted = [Workload::Handoff, Workload::ReaderSpin, Workload::Batch];
        assert!(workloads.eq(wanted));
    }

    #[test]
    fn what_is_named_twice_is_run_once() {
        let flags = Flags {
            locks: vec!["std".into(), "std".into()],
            threads: vec![4, 4],
            case: vec![Case::Busy],
            ..Flags::default()
        };
        assert_eq!(cells_of(&["handoff", "handoff"], &flags).unwrap().len(), 1);
    }

    #[test]
    fn all_runs_every_workload() {
        let cells = cells_of(&["all"], &flags()).unwrap();
        for workload in Workload::named() {
            let is_run = cells.iter().any(|cell| cell.workload == workload);
            assert_eq!(is_run, workload.runs_here(), "{}", workload.name());
        }
    }

    #[test]
    fn range_runs_each_lock_where_it_can_do_what_is_asked() {
        let flags = |lock: &str| Flags { locks: vec![lock.into()], ..Flags::default() };
        let cells = |lock: &str| cells_of(&["range"], &flags(lock)).unwrap();
        let ours = cells("fairlock:range");
        assert!(range::CASES.iter().all(|&case| ours.iter().any(|cell| cell.case == case)));
        assert_eq!(ours.iter().filter(|cell| cell.case == Case::Array).count(), 3 * 3 * 3 * 5);
        // A mutex has writers only.
        assert!(cells("range-mutex").iter().all(|cell| cell.range.reads_percent.unwrap_or(0) == 0));
        // One lock around everything cannot be taken beside ranges that are held.
        assert!(cells("std").iter().all(|cell| cell.range.held.unwrap_or(0) == 0));
        let error = cells_of(&["handoff"], &flags("range-mutex")).err().unwrap();
        assert!(error.to_string().contains("is a range lock"), "{error}");
    }

    #[test]
    fn think_runs_its_grid_for_each_form_with_the_locks_in_use() {
        let flags = |lock: &str| Flags { locks: vec![lock.into()], ..Flags::default() };
        let cells = |lock: &str| cells_of(&["think"], &flags(lock)).unwrap();
        let of_form = |cells: &[Cell], form| {
            cells.iter().filter(|cell| cell.range.form == Some(form)).count()
        };
        let std = cells("std");
        // Forms that read have these dimensions: work outside, section, reads, threads.
        assert_eq!(of_form(&std, Form::RwLock), 5 * 2 * 4 * 4);
        assert_eq!(of_form(&std, Form::Range), 5 * 2 * 4 * 4);
        assert_eq!(of_form(&std, Form::Mutex), 5 * 2 * 4);
        assert!(std.iter().all(|cell| cell.writers == cell.threads));
        assert!(cells("ref:mcs").iter().all(|cell| cell.range.form == Some(Form::Mutex)));
        // Without names, only the locks that are in use run, not all there are.
        let all = cells_of(&["think"], &Flags::default()).unwrap();
        let locks: Vec<&str> = all.iter().map(|cell| cell.lock.as_str()).collect();
        for lock in ["fairlock:rwlock", "fairlock:mutex", "fairlock:range", "std", "pthread"] {
            assert!(locks.contains(&lock), "{lock}");
        }
        assert!(!locks.contains(&"ref:mcs") && !locks.contains(&"fairlock:handoff"));
    }

    #[test]
    fn uncontended_runs_the_locks_in_use_unless_told() {
        let cells = cells_of(&["uncontended"], &Flags::default()).unwrap();
        let locks = |case| {
            let of_case = cells.iter().filter(move |cell| cell.case == case);
            of_case.map(|cell| cell.lock.as_str()).collect::<Vec<_>>()
        };
        assert!(locks(Case::Write).starts_with(&["fairlock:rwlock", "fairlock:unfair", "std"]));
        assert!(locks(Case::Mutex).starts_with(&["fairlock:mutex", "std"]));
        assert!(locks(Case::Nested).contains(&"parking_lot"));
        assert!(cells.iter().all(|cell| !cell.lock.starts_with("ref:")));
        let told = Flags { locks: vec!["ref:bravo".into()], ..Flags::default() };
        assert!(!cells_of(&["uncontended"], &told).unwrap().is_empty());
    }

    #[test]
    fn spread_runs_its_grid_for_each_form() {
        let cells = cells_of(&["spread"], &flags()).unwrap();
        let of_form = |form| cells.iter().filter(move |cell| cell.range.form == Some(form));
        // The dimensions: locks, threads, reads.
        assert_eq!(of_form(Form::RwLock).count(), 4 * 3 * 2);
        assert_eq!(of_form(Form::Range).count(), 4 * 3 * 2);
        assert_eq!(of_form(Form::Mutex).count(), 4 * 3);
        assert!(cells.iter().all(|cell| cell.range.section_ns == Some(50)));
    }

    #[test]
    fn think_measures_longer_where_little_happens_unless_told() {
        let flags = Flags { threads: vec![2, 96], ..flags() };
        let cells = cells_of(&["think"], &flags).unwrap();
        let longest = |threads| {
            let of = cells.iter().filter(|cell| cell.threads == threads);
            of.map(|cell| cell.secs).fold(0.0, f64::max)
        };
        assert!(longest(2) < longest(96), "{} {}", longest(2), longest(96));
        let told = Flags { secs: Some(0.02), ..flags };
        assert!(cells_of(&["think"], &told).unwrap().iter().all(|cell| cell.secs == 0.02));
    }

    #[test]
    fn batch_runs_threads_in_relation_to_cpus() {
        let cpus = machine::cpus();
        let flags = Flags { overcommit: vec![1.0, 4.0, 4.0], ..flags() };
        let cells = cells_of(&["batch"], &flags).unwrap();
        let configurations: Vec<_> =
            cells.iter().map(|cell| (cell.case, cell.threads, cell.overcommit)).collect();
        assert_eq!(
            configurations,
            [
                (Case::Tiny, cpus, Some(1.0)),
                (Case::Tiny, 4 * cpus, Some(4.0)),
                (Case::Chunks, cpus, Some(1.0)),
                (Case::Chunks, 4 * cpus, Some(4.0)),
            ]
        );
    }

    #[test]
    fn a_section_has_no_pauses_where_it_is_not_made_of_them() {
        let flags = Flags { overcommit: vec![1.0], cs_load: vec![5, 6], ..flags() };
        let cells = cells_of(&["batch"], &flags).unwrap();
        let loads: Vec<_> = cells.iter().map(|cell| (cell.case, cell.cs_load)).collect();
        assert_eq!(loads, [(Case::Tiny, 5), (Case::Tiny, 6), (Case::Chunks, 0)]);
    }

    #[test]
    fn a_lock_runs_where_its_kind_is_needed_and_nowhere_else() {
        let flags = |lock: &str| Flags { locks: vec![lock.into()], ..Flags::default() };
        let cells = cells_of(&["all"], &flags("ref:mcs")).unwrap();
        assert!(cells.iter().all(|cell| cell.kind() == UsedAs::Mutex));
        let cells = cells_of(&["all"], &flags("fairlock:rwlock")).unwrap();
        assert!(cells.iter().all(|cell| cell.kind() != UsedAs::Mutex));
        let error = cells_of(&["handoff"], &flags("ref:mcs")).err().unwrap();
        assert!(error.to_string().contains("is a mutex"), "{error}");
        let error = cells_of(&["batch"], &flags("fairlock:rwlock")).err().unwrap();
        assert!(error.to_string().contains("is a reader/writer lock"), "{error}");
    }

    #[test]
    fn one_thread_cannot_be_a_reader_and_a_writer() {
        let flags = Flags { threads: vec![1], ..flags() };
        assert!(cells_of(&["reader-spin"], &flags).is_err());
        assert!(cells_of(&["handoff"], &flags).is_ok());
    }
}
