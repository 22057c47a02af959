//! The published runs as grids of configurations, each on its machine: `data/grids.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fairlock_sim::{Machine, machine::Guests};
use serde::Deserialize;

use super::flags::SimFlags;
use crate::cell::{Case, Cell, Form, Setup, Shape, Workload};
use crate::error::Error;
use crate::plan::{once, or_default};
use crate::workload::setup::Chosen;
use crate::workload::{
    batch, condvar, direct_io, handoff, idle, program, reader_spin, spread, think,
};

/// The machine that stands for those of real runs.
pub const REAL_MACHINE: &str = "two_cpu";

/// The lock of the published `handoff`.
pub const HANDOFF_10MS: &str = "published:handoff_after=10ms";

/// One published run: its machine, and the locks that stand for its columns, with ours.
pub struct Grid {
    pub workload: Workload,
    pub machine: String,
    pub locks: Vec<String>,
    /// Whether `--quick` leaves it out.
    pub is_left_out_when_quick: bool,
}

static ALL: LazyLock<Vec<Grid>> =
    LazyLock::new(|| read(include_str!("../../data/grids.toml")).expect("a test has read it"));

fn read(text: &str) -> Result<Vec<Grid>, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Grids {
        workloads: Vec<Workload>,
        machines: Vec<String>,
        quick: Option<Vec<String>>,
        locks: Vec<String>,
    }
    let mut written: BTreeMap<String, Vec<Grids>> = toml::from_str(text)?;
    let mut all = Vec::new();
    for Grids { workloads, machines, quick, locks } in written.remove("grid").unwrap_or_default() {
        for workload in workloads {
            all.extend(machines.iter().map(|machine| Grid {
                workload,
                machine: machine.clone(),
                locks: locks.clone(),
                is_left_out_when_quick: quick.as_ref().is_some_and(|it| !it.contains(machine)),
            }));
        }
    }
    Ok(all)
}

/// All published grids, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Grid> {
    ALL.iter().filter(|grid| grid.workload != Workload::Scenario)
}

/// The grid of the user's scenario.
pub fn of_scenario() -> impl Iterator<Item = &'static Grid> {
    ALL.iter().filter(|grid| grid.workload == Workload::Scenario)
}

/// The lock that others of its form are related to: one that keeps no order, or, of range locks,
/// one lock around all ranges.
pub fn program_base(form: Option<Form>) -> &'static str {
    match form {
        Some(Form::Mutex) => "ref:queue_unfair_park",
        Some(Form::Range) => "fairlock:rwlock",
        _ => "fairlock:unfair",
    }
}

/// Of what the published range runs did, only the name of their program is published: the kernel's
/// lock torture. Its threads do nothing between two sections, and in a section for writing or
/// reading a sleeping lock they are busy for this long.
const WRITE_NS: u32 = 10_000_000;
const READ_NS: u32 = 50_000_000;
/// The length of the section on disjoint ranges.
const DISJOINT_NS: u32 = 10_000;
/// How long a thread of the published ebizzy is busy between two sections. It is not published, and
/// much depends on it. Of 20, 27, 35 and 50 us this one gives the gains at overcommit 2.0 that are
/// nearest to the published ones; it was not fitted to other overcommits. With 20 us three of the
/// four guests there end as a row of sleepers of which each release wakes the next, whatever the
/// batch; with 150 us the lock does not matter at all.
const EBIZZY_NS: u64 = 35_000;
/// How many virtual CPUs all guests have for each CPU of the machine, as published.
const OVERCOMMIT: [f64; 4] = [0.5, 1.0, 1.5, 2.0];

/// The machine for this cell: a machine with guests has as many as the threads fill.
pub fn with_guests(machine: &Machine, cell: &Cell) -> Result<Machine, Error> {
    let mut description = machine.description().clone();
    if let (Some(guests), Some(_)) = (&description.guests, cell.overcommit) {
        let count = cell.threads.div_ceil(guests.cpus);
        description.guests = Some(Guests { count, ..guests.clone() });
    }
    Machine::new(machine.name(), description).map_err(|error| Error::usage(error.to_string()))
}

/// A clock tick in nanoseconds, if the threads of this cell go on and halt by turns, as those of lock torture do unless told otherwise;
/// zero if they do not halt.
pub fn halt_tick_ns(machine: &Machine, cell: &Cell) -> u64 {
    match cell.case {
        Case::FullWrite | Case::FullRead | Case::FullMixed => {
            machine.description().scheduler.tick_ns as u64
        }
        _ => 0,
    }
}

impl Grid {
    /// Whether another grid has the same workload on another machine.
    pub fn is_one_of_many(&self) -> bool {
        all().filter(|grid| grid.workload == self.workload).count() > 1
    }

    /// The cells on a machine, as published or as the flags ask for, each for all locks.
    pub fn cells(&self, machine: &Machine, flags: &SimFlags) -> Result<Vec<Cell>, Error> {
        let all = match self.workload {
            Workload::Handoff => handoffs(flags),
            Workload::ReaderSpin => reader_spins(flags),
            Workload::DirectIo => direct_ios(),
            Workload::Batch => batches(machine, flags),
            Workload::Think | Workload::Spread | Workload::Idle => self.programs(machine, flags),
            Workload::Condvar => condvars(flags),
            _ => ranges(machine, flags),
        };
        let lonely = |c: &Cell| c.case == Case::Mixed && (c.readers == 0 || c.writers == 0);
        if all.iter().any(lonely) {
            return Err(Error::usage(format!(
                "{} needs a reader and a writer: use --threads 2 or more",
                self.workload.name()
            )));
        }
        Ok(all)
    }

    /// The cells of a workload that takes locks as programs do.
    fn programs(&self, machine: &Machine, flags: &SimFlags) -> Vec<Cell> {
        const SECS: f64 = 0.1;
        let chosen = Chosen {
            quick: flags.quick,
            forms: &once(&flags.program.form),
            threads: &once(&flags.threads),
            reads: &once(&flags.reads),
            sections: &once(&flags.section),
            outside: &once(&flags.program.outside),
            among: &once(&flags.program.among),
            holders: &once(&flags.program.holder),
            ..Chosen::NOTHING
        };
        let mut all = match self.workload {
            Workload::Think => think::cells(&chosen),
            Workload::Spread => spread::cells(&chosen),
            _ => {
                let of_case = |case| idle::cells(case, &chosen);
                idle::CASES.into_iter().flat_map(of_case).collect()
            }
        };
        for cell in &mut all {
            cell.secs = SECS.max(match self.workload {
                Workload::Idle => idle::enough_secs(&cell.range),
                _ => program::enough_secs(cell, machine.cpus(), flags.beside),
            });
        }
        all
    }
}

/// A cell of a simulated workload, this many seconds long.
pub fn cell(workload: Workload, case: Case, sides: (usize, usize), secs: f64) -> Cell {
    Cell { secs, ..Cell::new(workload, case, sides) }
}

fn condvars(flags: &SimFlags) -> Vec<Cell> {
    let threads = or_default(&flags.threads, &condvar::THREADS);
    let all = condvar::CASES.into_iter().flat_map(|case| threads.iter().map(move |&n| (case, n)));
    all.filter(|&(case, n)| condvar::runs_with(case, n, &flags.threads))
        .map(|(case, n)| cell(Workload::Condvar, case, (0, n), 0.1))
        .collect()
}

fn handoffs(flags: &SimFlags) -> Vec<Cell> {
    // The section of the mixed run is not published.
    let loads: &[u32] = if flags.quick { &[20] } else { &reader_spin::CS_LOADS };
    let writers = or_default(&flags.threads, &[handoff::THREADS]).into_iter();
    let sleep = |n| cell(Workload::Handoff, Case::Sleep, (0, n), handoff::PUBLISHED_SECS);
    let mut all: Vec<_> = writers.map(sleep).collect();
    // One thread is not a mix, and is left out unless the mix is named.
    let fewest = if flags.case.contains(&Case::Mixed) { 0 } else { 2 };
    let mut threads = or_default(&flags.threads, &[handoff::MIXED_THREADS]);
    threads.retain(|&n| n >= fewest);
    for cs_load in or_default(&flags.cs_load, loads) {
        all.extend(threads.iter().map(|&n| mix(Workload::Handoff, n, cs_load)));
    }
    all
}

/// Readers and writers, as many of each, with sections of some pauses.
fn mix(workload: Workload, n: usize, cs_load: u32) -> Cell {
    Cell { cs_load, ..cell(workload, Case::Mixed, (n / 2, n - n / 2), 0.3) }
}

fn reader_spins(flags: &SimFlags) -> Vec<Cell> {
    const QUICK: (&[u32], &[usize]) = (&[20], &[2, 32]);
    const FULL: (&[u32], &[usize]) = (&reader_spin::CS_LOADS, &reader_spin::THREADS);
    let (loads, threads) = if flags.quick { QUICK } else { FULL };
    let mut all = Vec::new();
    for cs_load in or_default(&flags.cs_load, loads) {
        let threads = or_default(&flags.threads, threads).into_iter();
        all.extend(threads.map(|n| mix(Workload::ReaderSpin, n, cs_load)));
    }
    all
}

fn direct_ios() -> Vec<Cell> {
    let sides = |case| match case {
        Case::ReaderAlone => (1, 0),
        Case::WriterAlone => (0, 1),
        _ => (1, 1),
    };
    let one = |case| Cell { threads: 2, ..cell(Workload::DirectIo, case, sides(case), 1.0) };
    direct_io::CASES.into_iter().map(one).collect()
}

fn batches(machine: &Machine, flags: &SimFlags) -> Vec<Cell> {
    const QUICK: [f64; 2] = [1.0, 2.0];
    let default: &[f64] = if flags.quick { &QUICK } else { &OVERCOMMIT };
    let cpus = machine.physical_cpus() as f64;
    let threads: Vec<usize> = if flags.overcommit.is_empty() && !flags.threads.is_empty() {
        flags.threads.clone()
    } else {
        let threads = |x: f64| ((x * cpus).round() as usize).max(1);
        or_default(&flags.overcommit, default).into_iter().map(threads).collect()
    };
    let mut all = Vec::new();
    // The published workload is like `chunks`; `tiny` is simulated only if it is named.
    let cases: &[Case] =
        if flags.case.is_empty() { &[Case::Chunks] } else { &[Case::Chunks, Case::Tiny] };
    for &case in cases {
        let loads = if case == Case::Tiny { flags.cs_load.as_slice() } else { &[0] };
        for cs_load in or_default(loads, &[batch::CS_LOAD]) {
            for &n in &threads {
                all.push(Cell {
                    cs_load,
                    overcommit: Some(n as f64 / cpus),
                    outside_ns: if case == Case::Chunks { EBIZZY_NS } else { 0 },
                    ..cell(Workload::Batch, case, (0, n), 0.3)
                });
            }
        }
    }
    all
}

fn ranges(machine: &Machine, flags: &SimFlags) -> Vec<Cell> {
    let cpus = machine.cpus();
    let around = if flags.quick { vec![cpus] } else { vec![cpus / 2, cpus, 2 * cpus] };
    let threads: Vec<usize> =
        or_default(&flags.threads, &around).into_iter().filter(|&n| n > 0).collect();
    let mut all = Vec::new();
    for case in [Case::FullWrite, Case::FullRead, Case::FullMixed] {
        for &n in &threads {
            let sides = match case {
                Case::FullWrite => (0, n),
                Case::FullRead => (n, 0),
                _ => (n / 2, n - n / 2),
            };
            let (section_ns, read_ns) = match case {
                Case::FullWrite => (WRITE_NS, None),
                Case::FullRead => (READ_NS, None),
                _ => (WRITE_NS, Some(READ_NS)),
            };
            all.push(Cell {
                range: Setup { section_ns: Some(section_ns), read_ns, ..Setup::default() },
                ..cell(Workload::Range, case, sides, 10.0)
            });
        }
    }
    let mut scaling = vec![1];
    scaling.extend(threads.into_iter().filter(|&n| n > 1 && n <= cpus));
    for n in scaling {
        all.push(Cell {
            threads: n,
            range: Setup {
                shape: Some(Shape::Disjoint),
                reads_percent: Some(0),
                section_ns: Some(DISJOINT_NS),
                ..Setup::default()
            },
            ..cell(Workload::Range, Case::Array, (n, n), 0.02)
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{locks, machines};

    #[test]
    fn every_grid_has_a_machine_and_locks() {
        for grid in ALL.iter() {
            machines::known(&grid.machine).unwrap();
            assert!(grid.locks.iter().all(|lock| locks::find(lock).is_ok()), "{:?}", grid.locks);
            assert!(!grid.locks.is_empty());
        }
        assert_eq!((all().count(), of_scenario().count()), (18, 1));
    }

    #[test]
    fn a_grid_with_an_unknown_key_or_workload_is_refused() {
        let grid = |workload: &str, key: &str| {
            read(&format!("[[grid]]\nworkloads = [\"{workload}\"]\nmachines = []\n{key} = []\n"))
        };
        assert!(grid("think", "locks").is_ok());
        assert!(grid("thinks", "locks").is_err() && grid("think", "lock").is_err());
    }
}
