//! From the command line to the cells to simulate.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fairlock_sim::Machine;
use fairlock_sim::machine::Stolen;

use super::flags::SimFlags;
use super::grid::{self, Grid};
use super::locks;
use super::machines;
use super::real::RealRun;
use super::unknowns;
use crate::cell::scenario::Scenario;
use crate::cell::{Cell, Workload};
use crate::disturbance::Disturbance;
use crate::error::{Error, in_plain_words, unknown};
use crate::flags::check_are_had;
use crate::locks::custom;
use crate::plan::{check_overcommit, check_program, check_scenario, once, within};
use crate::workload::scenario::file;

/// The most threads that a simulated machine takes.
const MOST_THREADS: usize = 4_000;

/// How long a simulation may be.
const DURATIONS: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(3600);

/// What to simulate.
pub struct Plan {
    pub cells: Vec<SimCell>,
    pub seeds: Vec<u64>,
}

/// A cell, and the machine that it is simulated on.
#[derive(Clone)]
pub struct SimCell {
    pub cell: Cell,
    pub machine: Arc<Machine>,
    /// Nanoseconds between two operations of a thread, beyond those of the workload.
    pub gap_ns: u64,
    /// A clock tick, if threads go on and halt by turns; zero if they do not halt.
    pub halt_tick_ns: u64,
    /// What a look of the workload at its clock takes, where it is to be as on real threads.
    pub look_ns: u64,
}

/// The plan for these workloads, or, if there is a real run, for its cells of them.
pub fn plan(workloads: &[String], flags: &SimFlags, real: Option<&RealRun>) -> Result<Plan, Error> {
    let (scenario, workloads) = file::among(workloads)?;
    let mut grids = match scenario {
        Some(_) if workloads.is_empty() => Vec::new(),
        _ => parse_workloads(&workloads)?,
    };
    if let Some(scenario) = &scenario {
        check_scenario(scenario, &flags.threads, MOST_THREADS)?;
        if real.is_some() {
            return Err(Error::usage("--real is not for a scenario: leave it out"));
        }
        grids.extend(grid::of_scenario());
    }
    let locks = custom::rejoined(&flags.locks);
    let flags = &SimFlags { locks, ..flags.clone() };
    check(flags)?;
    if let Some(real) = real {
        real.check_beside(flags.beside)?;
    }
    let mut cells: Vec<SimCell> = Vec::new();
    for grid in &grids {
        if flags.quick && grid.is_left_out_when_quick {
            continue;
        }
        let default = if real.is_some() { grid::REAL_MACHINE } else { &grid.machine };
        let machine = find_machine(flags.machine.as_deref().unwrap_or(default))?;
        let machine = on_its_host(machine, flags)?;
        match real {
            // Several grids may be of one workload.
            Some(_) if cells.iter().any(|cell| cell.cell.workload == grid.workload) => {}
            Some(real) => cells.extend(measured(real, grid.workload, &Arc::new(machine), flags)),
            None => {
                for (machine, gap_ns) in variants(machine, flags)? {
                    let on_it = cells_on(&machine, grid, scenario.as_ref(), flags)?;
                    cells.extend(on_it.into_iter().map(|cell| SimCell { gap_ns, ..cell }));
                }
            }
        }
        if flags.machine.is_some() && grid.is_one_of_many() {
            break;
        }
    }
    let workloads: Vec<_> = grids.iter().map(|grid| grid.workload).collect();
    check_are_had(&flags.of_some(), &workloads)?;
    check_all_are_used(&cells, flags)?;
    check_all_fit(&cells)?;
    check_there_are_some(&cells, real)?;
    let seeds = (0..u64::from(flags.seeds)).map(|n| flags.seed.wrapping_add(n)).collect();
    Ok(Plan { cells, seeds })
}

/// The measured cells of a workload, each with the lock that was measured and its looks at the clock.
fn measured(
    real: &RealRun,
    workload: Workload,
    machine: &Arc<Machine>,
    flags: &SimFlags,
) -> impl Iterator<Item = SimCell> {
    real.cells(workload)
        .into_iter()
        .map(|cell| SimCell { look_ns: real.look_ns(), ..on(machine, cell, flags) })
}

/// An error if there is nothing to simulate.
fn check_there_are_some(cells: &[SimCell], real: Option<&RealRun>) -> Result<(), Error> {
    if !cells.is_empty() {
        return Ok(());
    }
    Err(Error::usage(match real {
        Some(_) => {
            "nothing in the file of --real can be simulated: give one of `fairlock \
                    bench handoff batch --json FILE`"
        }
        None => "no such case in these workloads: leave out --case to simulate all",
    }))
}

/// The cells of a grid, or of the scenario that it stands for, on one machine.
fn cells_on(
    machine: &Machine,
    grid: &Grid,
    scenario: Option<&Scenario>,
    flags: &SimFlags,
) -> Result<Vec<SimCell>, Error> {
    const SCENARIO_SECS: f64 = 0.3;
    let all = match scenario {
        Some(scenario) if grid.workload == Workload::Scenario => {
            vec![Cell { secs: SCENARIO_SECS, ..scenario.cell() }]
        }
        _ => grid.cells(machine, flags)?,
    };
    let mut cells: Vec<SimCell> = Vec::new();
    for cell in all.iter().filter(|cell| flags.case.is_empty() || flags.case.contains(&cell.case)) {
        let machine = Arc::new(grid::with_guests(machine, cell)?);
        let halt_tick_ns = grid::halt_tick_ns(&machine, cell);
        for lock in locks_of(grid, cell, flags)? {
            let cell = Cell { lock: lock.to_owned(), ..cell.clone() };
            cells.push(SimCell { halt_tick_ns, ..on(&machine, cell, flags) });
        }
    }
    Ok(cells)
}

/// The machine, with a host that takes from its CPUs what the command line says.
fn on_its_host(machine: Machine, flags: &SimFlags) -> Result<Machine, Error> {
    const SLICE_NS: f64 = 5e6;
    let Some(percent) = flags.stolen else { return Ok(machine) };
    let mut description = machine.description().clone();
    if description.guests.is_some() {
        return Err(Error::usage(format!(
            "--stolen is not for {}: its guests take each other's CPUs; choose another --machine",
            machine.name()
        )));
    }
    let slice_ns = description.stolen.map_or(SLICE_NS, |stolen| stolen.slice_ns);
    description.stolen = Some(Stolen { share: percent / 100.0, slice_ns });
    Machine::new(machine.name(), description).map_err(|error| Error::usage(error.to_string()))
}

/// What runs beside the threads of a workload.
fn disturbance(machine: &Machine, flags: &SimFlags) -> Disturbance {
    let stolen = machine.description().stolen.as_ref().filter(|stolen| stolen.share > 0.0);
    Disturbance {
        stolen_percent: stolen.map(|stolen| (stolen.share * 1e6).round() / 1e4),
        beside: (flags.beside > 0).then_some(flags.beside),
    }
}

/// The machine, and its variants if unknowns are to be simulated, each with a gap between
/// operations.
fn variants(machine: Machine, flags: &SimFlags) -> Result<Vec<(Machine, u64)>, Error> {
    let mut all = vec![(machine, 0)];
    for unknown in unknowns::ALL.iter().filter(|_| flags.unknowns) {
        let varied = unknown.on(&all[0].0).map_err(|error| Error::usage(error.to_string()))?;
        all.push((varied, unknown.gap_ns));
    }
    Ok(all)
}

/// The cell on a machine, as the flags ask for.
fn on(machine: &Arc<Machine>, cell: Cell, flags: &SimFlags) -> SimCell {
    let cell = Cell {
        machine: Some(machine.name().to_owned()),
        disturbance: disturbance(machine, flags),
        events: flags.events,
        secs: match flags.duration {
            Some(duration) => duration.as_secs_f64(),
            None if flags.quick => cell.secs / 10.0,
            None => cell.secs,
        },
        seed: flags.seed,
        ..cell
    };
    SimCell { cell, machine: Arc::clone(machine), gap_ns: 0, halt_tick_ns: 0, look_ns: 0 }
}

/// The locks that were asked for, or else the grid's, as far as they can do this workload.
fn locks_of(grid: &Grid, cell: &Cell, flags: &SimFlags) -> Result<Vec<&'static str>, Error> {
    let kind = cell.kind();
    let names = if flags.locks.is_empty() { &grid.locks } else { &flags.locks };
    let found: Vec<_> =
        names.iter().map(|name| locks::find(name.trim())).collect::<Result<_, _>>()?;
    Ok(once(&found.iter().filter(|lock| lock.is(kind)).map(|lock| lock.name).collect::<Vec<_>>()))
}

/// Fails if a lock that was named has no cell.
fn check_all_are_used(cells: &[SimCell], flags: &SimFlags) -> Result<(), Error> {
    for name in &flags.locks {
        let lock = locks::find(name.trim())?;
        if !cells.iter().any(|cell| cell.cell.lock == lock.name) {
            return Err(Error::usage(format!(
                "none of these workloads can use the lock '{}': leave it out",
                lock.name
            )));
        }
    }
    Ok(())
}

/// Fails if threads and busy loops together are more than the simulated machine takes.
fn check_all_fit(cells: &[SimCell]) -> Result<(), Error> {
    for SimCell { cell, machine, .. } in cells {
        let loops = cell.disturbance.loops();
        if loops > 0 && cell.threads + loops > MOST_THREADS {
            return Err(Error::usage(format!(
                "{} threads beside {loops} busy loops on {} are too many: use a lower \
                 --beside, for {MOST_THREADS} at most",
                cell.threads,
                machine.name()
            )));
        }
    }
    Ok(())
}

/// A machine that is built in, or one from a file.
fn find_machine(name: &str) -> Result<Machine, Error> {
    let is_path = name.ends_with(".toml") || name.contains(std::path::is_separator);
    match machines::known(name) {
        Ok(name) => Machine::builtin(name),
        Err(error) if !is_path && !Path::new(name).is_file() => return Err(error),
        Err(_) => Machine::load(name),
    }
    .map_err(|error| Error::usage(in_plain_words(&error.to_string())))
}

/// The names of all workloads that can be simulated, and `all`.
pub fn workloads() -> Vec<&'static str> {
    once(&grid::all().map(|grid| grid.workload.name()).chain(["all"]).collect::<Vec<_>>())
}

fn parse_workloads(names: &[String]) -> Result<Vec<&'static Grid>, Error> {
    let known = workloads();
    if names.is_empty() {
        let known = known.join(", ");
        return Err(Error::usage(format!(
            "name a workload to simulate: {known}; or a scenario: FILE.toml"
        )));
    }
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown("workload", name, &known));
    }
    let is_wanted = |grid: &&Grid| names.iter().any(|n| n == "all" || n == grid.workload.name());
    Ok(grid::all().filter(is_wanted).collect())
}

fn check(flags: &SimFlags) -> Result<(), Error> {
    within("--threads", &flags.threads, 1..=MOST_THREADS)?;
    within("--reads", &flags.reads, 0..=100)?;
    check_program(&flags.program, &flags.section, &flags.reads)?;
    Disturbance::beside(flags.beside)?;
    within("--stolen", flags.stolen.as_slice(), 0.0..=95.0)?;
    within("--cs-load", &flags.cs_load, 0..=1_000_000)?;
    check_overcommit(&flags.overcommit, 64.0)?;
    if let Some(duration) = flags.duration.filter(|time| !DURATIONS.contains(time)) {
        let duration = humantime::format_duration(duration);
        return Err(Error::usage(format!("--duration {duration} makes no sense: use 100us to 1h")));
    }
    Ok(())
}
