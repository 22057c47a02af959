//! `fairlock doctor`: what this machine and system offer, and what that means for the figures. What was measured
//! is the median of many, and the 10th and 90th of a hundred.

mod caches;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod transfer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::clock::Clock;
use crate::direct_file::DirectFile;
use crate::error::Error;
use crate::interference::Times;
use crate::layout;
use crate::machine::Machine;
use crate::measure::{Interval, sleep_lateness};
use crate::output::Page;
use crate::units::{digits, time};

/// Where to look.
#[derive(Args)]
pub struct DoctorFlags {
    /// Folder to try direct I/O in
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

/// What was found of one thing, and what it means.
pub struct Finding {
    what: &'static str,
    found: String,
    /// What that means for the figures; empty if nothing.
    means: String,
}

impl Finding {
    fn new(what: &'static str, found: impl Into<String>, means: impl Into<String>) -> Self {
        Self { what, found: found.into(), means: means.into() }
    }
}

/// Shows all findings.
pub fn doctor(flags: &DoctorFlags) -> Result<ExitCode, Error> {
    let page = Page::Stdout;
    let findings = findings(flags);
    let lines = findings.iter().map(|Finding { what, found, means }| {
        let means = if means.is_empty() { String::new() } else { format!(". {means}") };
        ((*what).to_owned(), format!("{found}{means}"))
    });
    page.show(&layout::list(lines, page.width()))?;
    Ok(ExitCode::SUCCESS)
}

fn findings(flags: &DoctorFlags) -> Vec<Finding> {
    let machine = Machine::this();
    let mut all = vec![cpus(&machine)];
    all.extend(caches::finding());
    #[cfg(target_os = "linux")]
    all.extend(transfer::finding());
    all.push(clock(&machine));
    all.push(sleeps(&machine));
    #[cfg(target_os = "linux")]
    all.extend(linux::findings());
    all.extend(interference());
    all.push(direct_io(flags));
    all
}

fn cpus(machine: &Machine) -> Finding {
    let means = match machine.cpus {
        1 => {
            "No two threads run at once: figures show what waking and switching costs, and nothing \
              of cache lines that move"
        }
        2..=7 => {
            "With more threads than this a lock is mostly waited for by threads that have no \
                  CPU. For many CPUs: `fairlock sim`"
        }
        _ => "",
    };
    Finding::new("CPUs", machine.line(), means)
}

fn clock(machine: &Machine) -> Finding {
    const LOOKS: usize = 11;
    let clock = Clock::start();
    let cost = Interval::of((0..LOOKS).map(|_| clock.read_cost_ns()));
    let two = cost.map_or_else(String::new, |cost| digits(2.0 * cost.median));
    let cost = cost.map_or_else(String::new, |cost| cost.words(digits));
    let means = if machine.clock == "tsc" {
        format!("Two reads add {two} ns to each operation that is timed")
    } else {
        format!(
            "The CPU's own counter cannot be used: two reads add {two} ns to each operation that is \
             timed, which is much for sections of some nanoseconds"
        )
    };
    Finding::new("clock", format!("{}, {cost} ns a read", machine.clock), means)
}

/// How late sleeps end.
fn sleeps(machine: &Machine) -> Finding {
    const SLEEPS: usize = 41;
    let late = Interval::of((0..SLEEPS).map(|_| sleep_lateness()));
    let late = late.map_or_else(String::new, |late| late.words(|ns| time(ns as u64)));
    let slack =
        machine.timer_slack_ns.map_or_else(String::new, |ns| format!("timer slack {}; ", time(ns)));
    let found = format!("{slack}a sleep of 1 us ends {late} late");
    let means = "Sections that sleep (`handoff`, sleep) last this much longer, and no timed wait \
                 ends sooner";
    Finding::new("sleeps", found, means)
}

/// How much of the CPUs others take at this moment.
fn interference() -> Option<Finding> {
    const WATCHED: Duration = Duration::from_millis(500);
    let before = Times::now()?;
    std::thread::sleep(WATCHED);
    let taken = Times::now()?.since(&before);
    let means = if taken.disturbs() {
        "Waits of some milliseconds are then the machine's rather than the lock's: cells of a \
         benchmark that were disturbed so are marked with * in its table. Wait until it is quiet, or \
         take more runs"
    } else {
        "Little enough. Each cell of a benchmark is watched for it, too, and marked with * in its \
         table if it was disturbed"
    };
    Some(Finding::new("interference", format!("in half a second {}", taken.words()), means))
}

fn direct_io(flags: &DoctorFlags) -> Finding {
    let dir = flags.dir.display();
    match DirectFile::create(&flags.dir, 1) {
        Ok(file) => {
            let found = format!("works in {dir} ({})", file.file_system());
            let means = match file.file_system().as_str() {
                "tmpfs" => "But that is memory, and no disk",
                _ => "",
            };
            Finding::new("direct I/O", found, means)
        }
        Err(error) => Finding::new("direct I/O", "does not work", error.to_string()),
    }
}
