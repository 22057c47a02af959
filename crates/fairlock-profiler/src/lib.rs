//! `fairlock run`: an unchanged program with our locks in place of its own, or watched as it is,
//! and the report on its locks. `fairlock top`: what happens at its locks while it runs. `fairlock snapshot`: what the
//! threads of a process that nobody prepared wait for.
//!
//! It is a part of the command `fairlock`. Nobody else may rely on what is in here but the [format of
//! records](fairlock_profile).

// Only for the command: `missing_docs` would add no more than the names say.
#![allow(unreachable_pub)]

pub mod document;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod place;
pub mod snapshot;
pub mod waited;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[cfg(test)]
use fairlock_testing as _; // the watchdog
#[cfg(target_os = "linux")]
use fairlock_text::{bootstrap, json, machine, output};
use fairlock_text::{layout, units};
use fairlock_workloads::error;
#[cfg(target_os = "linux")]
use fairlock_workloads::{stats, workload};

use units::{lasting, lasting_or_zero};

#[cfg(target_os = "linux")]
pub use linux::{run, text_of_record, top};

/// What `FAIRLOCK_ONLY` can be.
const KINDS: [&str; 2] = ["rwlock", "mutex"];

/// Whose stacks waits are charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Charge {
    /// Where the lock was released that was held while others waited.
    Holder,
    /// Where the wait was.
    Waiter,
}

/// Numbers together. They may be any if a record is damaged: the sum is at most the largest number.
pub fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// What the program's locks are, and what is recorded of them.
#[derive(Args)]
pub struct LockFlags {
    /// Serve these locks only, and leave the others to glibc; condition variables go with mutexes
    #[arg(long, value_name = "KIND", value_parser = KINDS, conflicts_with = "observe")]
    pub only: Option<String>,
    /// Leave the program's locks as they are, and only watch them: mutexes, rwlocks and spin locks
    #[arg(long)]
    pub observe: bool,
    /// Keep waits this long one by one
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = lasting_or_zero)]
    pub threshold: Duration,
    /// libfairlock_preload.so, if it is not near this program
    #[arg(long, value_name = "FILE", env = "FAIRLOCK_LIBRARY")]
    pub library: Option<PathBuf>,
}

/// What to run, and how.
#[derive(Args)]
pub struct RunFlags {
    #[command(flatten)]
    pub locks: LockFlags,
    /// Run the program with its own locks and with ours, by turns, and say what changed. Its input
    /// is empty then, and what it writes is not shown. A run that does not end with the exit code
    /// of the first is the last
    #[arg(long, conflicts_with_all = ["observe", "pprof", "folded", "trace"])]
    pub compare: bool,
    /// With --compare: how often it is run each way
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Also write the profile to this file, or with --compare what each run was like, as JSON; `-` is
    /// stdout, after what the program wrote there
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the profile for pprof: contentions and delay
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,
    /// Also write folded stacks, for flame graphs: microseconds of waiting
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Also write the waits that were kept as a trace for Perfetto or Chrome
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// With --pprof and --folded: to whose stacks waits are charged
    #[arg(long, value_name = "WHOM", default_value = "holder")]
    pub charge: Charge,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub program: Vec<OsString>,
}

/// What to look at, and how often.
#[derive(Args)]
pub struct TopFlags {
    #[command(flatten)]
    pub locks: LockFlags,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = lasting)]
    pub every: Duration,
    /// How many looks; without it, as long as the program runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub looks: Option<u32>,
    /// A program that runs. If FAIRLOCK_PROFILE or `fairlock run` told it to record its locks, their
    /// figures are shown; otherwise what its threads wait for
    #[arg(value_name = "PID")]
    pub process: Option<u32>,
    /// Or a program to start, and its arguments. What it writes is not shown
    #[arg(value_name = "PROGRAM", last = true, conflicts_with = "process")]
    pub program: Vec<OsString>,
}

/// Fails: there is no such library.
#[cfg(not(target_os = "linux"))]
pub fn top(_flags: &TopFlags) -> Result<std::process::ExitCode, crate::error::Error> {
    Err(crate::error::Error::failed("top: locks of other programs are served on Linux only"))
}

/// Fails: there is no such library.
#[cfg(not(target_os = "linux"))]
pub fn run(_flags: &RunFlags) -> Result<std::process::ExitCode, crate::error::Error> {
    Err(crate::error::Error::failed("run: locks of other programs are served on Linux only"))
}

/// Fails: records are of Linux.
#[cfg(not(target_os = "linux"))]
pub fn text_of_record(
    path: &std::path::Path,
    _width: Option<usize>,
) -> Result<String, crate::error::Error> {
    let path = path.display();
    Err(crate::error::Error::usage(format!("{path}: records of locks are read on Linux only")))
}
