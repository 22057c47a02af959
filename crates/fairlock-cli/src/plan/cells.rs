//! The cells of one part of a plan: each configuration of its workload with each lock.

use super::Part;
use super::given::{MOST_THREADS, check_scenario, once, or_default};
use crate::cell::{Case, Cell, Form, UsedAs, Workload};
use crate::disturbance::Disturbance;
use crate::error::Error;
use crate::flags::Flags;
use crate::locks::entry::LockEntry;
use crate::machine;
use crate::workload::setup::Chosen;
use crate::workload::{batch, condvar, idle, program, range, spread, think};

/// The length of a measurement with `--quick`.
const QUICK_SECS: f64 = 0.2;

/// What the cells of a part are made of.
pub struct Makings<'a> {
    pub part: &'a Part<'a>,
    /// The cases; all if empty.
    pub only: &'a [Case],
    pub locks: &'a [LockEntry],
    pub flags: &'a Flags,
    pub disturbance: Disturbance,
}

impl Makings<'_> {
    /// The cells, in the order in which rows are shown: by case, but in `reader-spin` a row has all
    /// cases of a mix.
    pub fn cells(&self) -> Result<Vec<Cell>, Error> {
        let mut cells = Vec::new();
        for cell in self.configurations()? {
            let kind = cell.kind();
            let form = cell.range.form.or(match (cell.workload, kind) {
                (Workload::Uncontended, UsedAs::Mutex | UsedAs::Reentrant) => Some(Form::Mutex),
                (Workload::Uncontended, _) => Some(Form::RwLock),
                _ => None,
            });
            let is_wanted = |lock: &&LockEntry| {
                lock.is(kind) && form.is_none_or(|form| self.is_wanted(lock, form))
            };
            let locks = self.locks.iter().filter(is_wanted);
            cells.extend(locks.map(|lock| self.with_lock(&cell, lock)));
        }
        cells.sort_by_key(|cell| {
            let by_case = cell.workload != Workload::ReaderSpin;
            (by_case.then_some(cell.case), cell.range, cell.threads, cell.cs_load)
        });
        Ok(cells)
    }

    /// The cells, each for all locks.
    fn configurations(&self) -> Result<Vec<Cell>, Error> {
        match (self.part.workload, self.part.scenario) {
            (Workload::Scenario, Some(scenario)) => {
                check_scenario(scenario, &self.flags.threads, MOST_THREADS)?;
                Ok(vec![scenario.cell()])
            }
            (Workload::Range | Workload::Think | Workload::Spread | Workload::Idle, _) => {
                Ok(self.of_setups())
            }
            _ => self.of_threads_and_loads(),
        }
    }

    /// Where configurations differ in threads and pauses only.
    fn of_threads_and_loads(&self) -> Result<Vec<Cell>, Error> {
        let &Self { part, flags, .. } = self;
        let mut cells = Vec::new();
        for threads in threads_of(part, flags)? {
            for case in self.cases() {
                if part.workload == Workload::Condvar
                    && !condvar::runs_with(case, threads, &flags.threads)
                {
                    continue;
                }
                let sides = sides(part.workload, case, threads);
                let cell = Cell { threads, ..Cell::new(part.workload, case, sides) };
                let loads = cs_loads_of(part, case, flags).into_iter();
                cells.extend(loads.map(|cs_load| Cell { cs_load, ..cell.clone() }));
            }
        }
        Ok(cells)
    }

    /// Where configurations differ in more than that.
    fn of_setups(&self) -> Vec<Cell> {
        let &Self { part, flags, .. } = self;
        let chosen = Chosen {
            quick: flags.quick,
            threads: &once(&flags.threads),
            shapes: &once(&flags.shape),
            reads: &once(&flags.reads),
            sections: &once(&flags.section),
            held: &once(&flags.held),
            forms: &once(&flags.program.form),
            outside: &once(&flags.program.outside),
            among: &once(&flags.program.among),
            holders: &once(&flags.program.holder),
        };
        let of_case = |case| match part.workload {
            Workload::Think => think::cells(&chosen),
            Workload::Spread => spread::cells(&chosen),
            Workload::Idle => idle::cells(case, &chosen),
            _ => range::cells(case, &chosen),
        };
        self.cases().flat_map(of_case).collect()
    }

    fn cases(&self) -> impl Iterator<Item = Case> {
        let cases = self.part.cases.iter().copied();
        cases.filter(|case| self.only.is_empty() || self.only.contains(case))
    }

    /// Whether a lock of this form is asked for by its name, or is among those that workloads with
    /// many cells run unless told otherwise.
    fn is_wanted(&self, lock: &LockEntry, form: Form) -> bool {
        !self.flags.locks.is_empty() || is_in_use(lock.name, form)
    }

    fn with_lock(&self, cell: &Cell, lock: &LockEntry) -> Cell {
        let flags = self.flags;
        let is_on_disk = cell.workload == Workload::DirectIo || cell.case == Case::File;
        let overcommit = cell.threads as f64 / machine::cpus() as f64;
        Cell {
            lock: lock.name.to_owned(),
            overcommit: (cell.workload == Workload::Batch).then_some(overcommit),
            disturbance: self.disturbance,
            events: flags.events,
            secs: length(cell, flags, self.part.secs),
            seed: flags.seed,
            dir: flags.dir.clone().filter(|_| is_on_disk),
            ..cell.clone()
        }
    }
}

/// Whether a lock is among those that workloads with many cells run unless told otherwise: ours as
/// they come, and what programs use today, as far as this build has it.
fn is_in_use(lock: &str, form: Form) -> bool {
    let of_form: &[&str] = match form {
        Form::RwLock => {
            &["fairlock:rwlock", "fairlock:unfair", "pthread", "tbb:rw_mutex", "tbb:spin_rw_mutex"]
        }
        Form::Mutex => &["fairlock:mutex", "pthread", "tbb:spin_mutex"],
        Form::Range => &["fairlock:range", "range-lock", "range-mutex"],
    };
    let of_all = ["std", "parking_lot", "parking_lot_0.12", "abseil", "nsync"];
    of_form.contains(&lock) || of_all.contains(&lock)
}

/// How long to measure a cell: as long as told, or longer if too little would happen.
fn length(cell: &Cell, flags: &Flags, secs: f64) -> f64 {
    let usual = if flags.quick { QUICK_SECS } else { secs };
    let enough = match cell.workload {
        Workload::Idle => idle::enough_secs(&cell.range),
        Workload::Think | Workload::Spread => {
            program::enough_secs(cell, machine::cpus(), flags.beside)
        }
        _ => 0.0,
    };
    flags.secs.unwrap_or(usual.max(enough))
}

/// The thread counts of a workload.
fn threads_of(part: &Part<'_>, flags: &Flags) -> Result<Vec<usize>, Error> {
    let threads = match part.workload {
        // The number of threads is a part of what these workloads are.
        Workload::DirectIo | Workload::Uncontended => part.threads.to_vec(),
        Workload::Batch if flags.overcommit.is_empty() && !flags.threads.is_empty() => {
            once(&flags.threads)
        }
        Workload::Batch if flags.overcommit.is_empty() && !part.threads.is_empty() => {
            part.threads.to_vec()
        }
        Workload::Batch => {
            let cpus = machine::cpus() as f64;
            let threads = |overcommit: f64| ((overcommit * cpus).round() as usize).max(1);
            let threads =
                or_default(&flags.overcommit, &batch::OVERCOMMIT).into_iter().map(threads);
            once(&threads.collect::<Vec<_>>())
        }
        _ => or_default(&flags.threads, part.threads),
    };
    if part.workload == Workload::ReaderSpin && threads.iter().any(|&threads| threads < 2) {
        return Err(Error::usage(
            "reader-spin needs a reader and a writer: use --threads 2 or more",
        ));
    }
    Ok(threads)
}

/// The lengths of sections in a case, in pauses; only 0 if the case is about something else.
fn cs_loads_of(part: &Part<'_>, case: Case, flags: &Flags) -> Vec<u32> {
    match (part.workload, case) {
        (_, Case::Chunks) => vec![0],
        (Workload::ReaderSpin | Workload::Batch, _) => or_default(&flags.cs_load, part.cs_loads),
        _ => part.cs_loads.to_vec(),
    }
}

/// How many of a configuration's threads read and how many write in this case.
fn sides(workload: Workload, case: Case, threads: usize) -> (usize, usize) {
    let (readers, writers) = match workload {
        Workload::Handoff | Workload::Batch | Workload::Condvar => (0, threads),
        Workload::ReaderSpin | Workload::DirectIo => (threads / 2, threads - threads / 2),
        // The only thread does one of the two.
        Workload::Uncontended => (threads, threads),
        Workload::Range
        | Workload::Think
        | Workload::Spread
        | Workload::Idle
        | Workload::Scenario => {
            unreachable!("its configurations say it")
        }
    };
    match case {
        Case::ReaderAlone | Case::Read => (readers, 0),
        Case::WriterAlone
        | Case::Write
        | Case::Mutex
        | Case::Upgradable
        | Case::Upgrade
        | Case::Reentrant
        | Case::Nested
        | Case::EachWrite
        | Case::EachMutex => (0, writers),
        _ => (readers, writers),
    }
}
