//! `fairlock`: measures locks on this machine and compares them.
//!
//! A command goes down this list; each module uses only those of its line and below. What belongs to one
//! subcommand alone is in the module of its name: `bench`, `sim`, `torture`, `doctor`, `calibrate`, `compare`, `report`,
//! and of the crate `fairlock_profiler`: `preload` (`run` and `top`), `snapshot`.
//!
//! | | |
//! |---|---|
//! | flags | `args` (all subcommands), `flags` (of `bench`), `names` (for completions), `usage` (mistakes) |
//! | plan | `plan`: from flags to cells; `plan::given` checks, `plan::cells` makes. Of `sim`: `sim::plan`, `sim::grid` |
//! | run | `runner`: a cell in a child process, or jobs in threads |
//! | rows | `row`: figures of what was measured, and relations between rows; `results`: rows read back |
//! | show | `screen` (the first one), `table` (a table for each workload), `report` (pages, pictures), `compare` |
//! | measure | `measure`: this machine, for `doctor` and `calibrate` |
//! | text | the crate `fairlock_text`; `written` reads files that were written |

// This is a program, and a library only for `sim-score`: `pub` means for the other modules, and `pub(crate)`
// everywhere would say no more.
#![allow(unreachable_pub)]

mod args;
mod bench;
mod calibrate;
mod compare;
mod completions;
mod doctor;
mod flags;
mod man;
mod names;
mod plan;
mod report;
mod results;
mod row;
mod runner;
mod screen;
mod sim;
mod table;
mod torture;
mod usage;
mod written;

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use fairlock_profiler::{self as preload, snapshot};
#[cfg(test)]
use fairlock_testing as _; // the watchdog
use fairlock_text::{bootstrap, json, layout, machine, output, units};
use fairlock_workloads::{
    cell, clock, direct_file, disturbance, error, interference, locks, measure, stats, workload,
};

/// What `sim-score` judges simulated results with: rows, what was published of them, and text.
#[doc(hidden)]
pub mod simulated {
    pub use crate::json::Target;
    pub use crate::output::Page;
    pub use crate::results::{Machine, SCHEMA};
    pub use crate::row::{Comparison, Figures, REAL, Row, locks};
    pub use crate::sim::compare::{baseline, is_real, is_relative};
    pub use crate::sim::document::{Document, Part};
    pub use crate::sim::published::{immediate_fewer, latency_ns, ops_of_a_thread};
    pub use crate::sim::rows::{Rows, describe};
    pub use crate::sim::table::of_workloads;
    pub use crate::sim::unknowns::is_varied;
    pub use crate::sim::{SimArguments, relate, sim};
    pub use crate::table::claims::{batches_of_few_threads, sizes_of_ranges};
    pub use crate::table::or_dash;
    pub use crate::units::{count, range, several, time, two_digits};
    pub use crate::written::Written;
}

use args::{Cli, Command, MachinesCommand};
use cell::UsedAs;
use error::Error;
use output::{Page, complain, print};
use plan::Extent;

/// The program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::usage(&error),
    };
    let result = match cli.command {
        None => bench::main_job(&cli.flags, if cli.all { Extent::All } else { Extent::Screen }),
        Some(Command::Bench { workloads, flags }) => bench::bench(&workloads, &flags),
        Some(Command::Sim(arguments)) => sim::sim(&arguments, |_| String::new()),
        Some(Command::Compare { flags }) => compare::compare(&flags),
        Some(Command::Doctor { flags }) => doctor::doctor(&flags),
        Some(Command::Calibrate { lasting }) => done(calibrate::calibrate(lasting)),
        Some(Command::Report { flags }) => report::report(&flags),
        Some(Command::Torture { flags }) => torture::torture(&flags),
        Some(Command::Run { flags }) => preload::run(&flags),
        Some(Command::Top { flags }) => preload::top(&flags),
        Some(Command::Snapshot { flags }) => snapshot::snapshot(&flags),
        Some(Command::Locks) => done(list_locks()),
        Some(Command::Machines { command: None }) => done(sim::machines::list()),
        Some(Command::Machines { command: Some(MachinesCommand::Show { name }) }) => {
            done(sim::machines::show(&name))
        }
        Some(Command::Completions { shell }) => {
            done(print(&completions::script(shell, Cli::command())))
        }
        Some(Command::Schema { of }) => done(print(of.schema())),
        Some(Command::Man) => done(man()),
        Some(Command::Cell) => done(runner::serve()),
        Some(Command::Busy) => done(runner::loop_until_parent_ends()),
    };
    result.unwrap_or_else(|error| {
        complain(&error.to_string());
        ExitCode::from(error.code())
    })
}

fn done(result: Result<(), Error>) -> Result<ExitCode, Error> {
    result.map(|()| ExitCode::SUCCESS)
}

/// What each lock is, by its name.
fn about_locks() -> BTreeMap<String, String> {
    toml::from_str(include_str!("../data/locks.toml")).expect("a test has read it")
}

fn list_locks() -> Result<(), Error> {
    let (locks, about) = (locks::registry::all(), about_locks());
    let width = locks.iter().map(|lock| lock.name.len()).max().unwrap_or(0);
    let lines = locks.iter().map(|lock| {
        let kind = match (lock.is(UsedAs::ReaderWriter), lock.is(UsedAs::Mutex)) {
            (true, true) => "rw, mutex",
            (true, false) => "rw",
            (false, true) => "mutex",
            _ => "range",
        };
        (format!("{:width$}  {kind}", lock.name), about.get(lock.name).map_or("", String::as_str))
    });
    let mut text = layout::list(lines, Page::Stdout.width());
    if cfg!(not(feature = "native-peers")) {
        text.push_str("\nMore with --features native-peers: locks of C and C++ libraries.\n");
    }
    Page::Stdout.show(&text)
}

fn man() -> Result<(), Error> {
    let page = man::page(Cli::command())
        .map_err(|error| Error::failed(format!("cannot make the manual page: {error}")))?;
    print(&page)
}

/// What the user typed.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let words = arguments.map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("fairlock".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_is_described() {
        let mut about = about_locks();
        for lock in locks::registry::all() {
            assert!(about.remove(lock.name).is_some_and(|text| !text.is_empty()), "{}", lock.name);
        }
        // The rest is of libraries and systems that this build is without.
        let of_others = ["tbb:", "ck:", "abseil", "nsync", "boost", "pthread", "fcntl"];
        about.retain(|name, _| !of_others.iter().any(|family| name.starts_with(family)));
        assert_eq!(about, BTreeMap::new());
    }
}
