//! From the command line to the cells to simulate: the published grids.

use std::sync::Arc;

use fairlock_sim::Machine;

use super::flags::SimFlags;
use super::locks;
use crate::cell::{Case, Cell, Workload};
use crate::error::Error;
use crate::locks::registry::nearest;
use crate::plan::{once, or_default, unknown};
use crate::workload::{handoff, range, reader_spin};

/// More threads than the simulated machine takes.
const MOST_THREADS: usize = 4_000;

/// What to simulate.
pub struct Plan {
    pub cells: Vec<SimCell>,
    pub seeds: Vec<u64>,
}

/// A cell and the machine it is simulated on.
#[derive(Clone)]
pub struct SimCell {
    pub cell: Cell,
    pub machine: Arc<Machine>,
}

/// The grid of one published run.
struct Grid {
    workload: Workload,
    case: Case,
    machine: &'static str,
    locks: &'static [&'static str],
    threads: &'static [usize],
    cs_loads: &'static [u32],
    secs: f64,
    quick: Quick,
}

/// What is left of it with `--quick`.
struct Quick {
    threads: &'static [usize],
    cs_loads: &'static [u32],
    secs: f64,
}

const HANDOFF: Grid = Grid {
    workload: Workload::Handoff,
    case: Case::Sleep,
    machine: "skylake_80",
    locks: &[
        "fairlock:unfair",
        "fairlock:handoff",
        "fairlock:handoff_immediate",
        "fairlock:default",
    ],
    threads: &[handoff::THREADS],
    cs_loads: &[0],
    secs: 1.0,
    quick: Quick { threads: &[handoff::THREADS], cs_loads: &[0], secs: 0.1 },
};

const READER_SPIN: Grid = Grid {
    workload: Workload::ReaderSpin,
    case: Case::Mixed,
    machine: "cascade_lake_96",
    locks: &[
        "fairlock:unfair",
        "fairlock:handoff",
        "fairlock:reader_spin_one",
        "fairlock:no_reader_spin",
        "fairlock:reader_spin_adaptive",
        "fairlock:default",
    ],
    threads: &reader_spin::THREADS,
    cs_loads: &reader_spin::CS_LOADS,
    secs: 0.3,
    quick: Quick { threads: &[2, 32], cs_loads: &[20], secs: 0.02 },
};

/// The workloads that can be simulated, in the order they are shown.
const GRIDS: [Grid; 2] = [HANDOFF, READER_SPIN];

/// The plan for these workloads.
pub fn plan(workloads: &[String], flags: &SimFlags) -> Result<Plan, Error> {
    let grids = parse_workloads(workloads)?;
    check(flags)?;
    let mut cells = Vec::new();
    for grid in &grids {
        add_cells(&mut cells, grid, flags)?;
    }
    check_all_are_used(&cells, flags)?;
    let seeds = (0..u64::from(flags.seeds)).map(|n| flags.seed.wrapping_add(n)).collect();
    Ok(Plan { cells, seeds })
}

fn add_cells(cells: &mut Vec<SimCell>, grid: &Grid, flags: &SimFlags) -> Result<(), Error> {
    let machine = Arc::new(find_machine(flags.machine.as_deref().unwrap_or(grid.machine))?);
    let quick = flags.quick.then_some(&grid.quick);
    let secs = match flags.duration {
        Some(duration) => duration.as_secs_f64(),
        None => quick.map_or(grid.secs, |quick| quick.secs),
    };
    let default_threads = quick.map_or(grid.threads, |quick| quick.threads);
    let default_loads = quick.map_or(grid.cs_loads, |quick| quick.cs_loads);
    let has_loads = grid.workload == Workload::ReaderSpin;
    let given_loads = if has_loads { flags.cs_load.as_slice() } else { &[] };
    for cs_load in or_default(given_loads, default_loads) {
        for threads in or_default(&flags.threads, default_threads) {
            let readers = if grid.case == Case::Mixed { threads / 2 } else { 0 };
            if grid.case == Case::Mixed && threads < 2 {
                return Err(Error::usage(format!(
                    "{} needs a reader and a writer: use --threads 2 or more",
                    grid.workload.name()
                )));
            }
            for lock in locks_of(grid, flags)? {
                let cell = Cell {
                    workload: grid.workload,
                    case: grid.case,
                    lock: lock.to_owned(),
                    machine: Some(machine.name().to_owned()),
                    threads,
                    readers,
                    writers: threads - readers,
                    overcommit: None,
                    cs_load,
                    range: range::Setup::default(),
                    secs,
                    seed: flags.seed,
                    busy_turns_per_us: 0,
                    dir: None,
                };
                cells.push(SimCell { cell, machine: Arc::clone(&machine) });
            }
        }
    }
    Ok(())
}

/// The locks that were asked for, as far as they can do this; or the grid's.
fn locks_of(grid: &Grid, flags: &SimFlags) -> Result<Vec<&'static str>, Error> {
    let kind = grid.workload.kind(grid.case, &range::Setup::default());
    if flags.locks.is_empty() {
        return Ok(grid.locks.to_vec());
    }
    let found = flags.locks.iter().map(|name| locks::find(name.trim()));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(once(&found.iter().filter(|lock| lock.is(kind)).map(|lock| lock.name).collect::<Vec<_>>()))
}

/// A lock that was named must have something to do.
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

/// A machine that is built in, or that of a file.
fn find_machine(name: &str) -> Result<Machine, Error> {
    let names: Vec<&str> = Machine::builtin_names().collect();
    let is_file = name.ends_with(".toml") || name.contains('/');
    let machine = if is_file { Machine::load(name) } else { Machine::builtin(name) };
    machine.map_err(|error| {
        Error::usage(match nearest(name, &names) {
            Some(near) if !is_file => format!(
                "no machine '{name}': did you mean '{near}'? There are {}; or give the path of a \
                 machine file",
                names.join(", ")
            ),
            _ => error.to_string(),
        })
    })
}

fn parse_workloads(names: &[String]) -> Result<Vec<&'static Grid>, Error> {
    let known: Vec<&str> = GRIDS.iter().map(|grid| grid.workload.name()).chain(["all"]).collect();
    if names.is_empty() {
        return Err(Error::usage(format!("name a workload to simulate: {}", known.join(", "))));
    }
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown("workload", name, &known));
    }
    let is_wanted = |grid: &&Grid| names.iter().any(|n| n == "all" || n == grid.workload.name());
    Ok(GRIDS.iter().filter(is_wanted).collect())
}

fn check(flags: &SimFlags) -> Result<(), Error> {
    if flags.threads.contains(&0) {
        return Err(Error::usage("--threads 0 makes no sense: use 1 or more"));
    }
    if let Some(n) = flags.threads.iter().find(|&&n| n > MOST_THREADS) {
        return Err(Error::usage(format!("--threads {n} is too many: use {MOST_THREADS} at most")));
    }
    if let Some(n) = flags.cs_load.iter().find(|&&n| n > 1_000_000) {
        return Err(Error::usage(format!("--cs-load {n} is too long: use 1000000 at most")));
    }
    let secs = flags.duration.map(|duration| duration.as_secs_f64());
    if secs.is_some_and(|secs| !(0.000_1..=600.0).contains(&secs)) {
        return Err(Error::usage("--duration makes no sense: use 100us to 600s"));
    }
    Ok(())
}
