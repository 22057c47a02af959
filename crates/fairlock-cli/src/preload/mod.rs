//! `fairlock run`: an unchanged program with our locks under its `pthread_rwlock_*`,
//! `pthread_mutex_*` and `pthread_cond_*`, and the report on them.

#[cfg(target_os = "linux")]
mod linux;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[cfg(target_os = "linux")]
pub use linux::run;

/// What `FAIRLOCK_POLICY` can be.
const POLICIES: [&str; 5] = ["default", "unfair", "handoff", "no_reader_spin", "writer_phase"];

/// What `FAIRLOCK_ONLY` can be.
const KINDS: [&str; 2] = ["rwlock", "mutex"];

/// What to run, and how.
#[derive(Args)]
pub struct RunFlags {
    /// How locks decide who goes next
    #[arg(long, value_name = "POLICY", value_parser = POLICIES)]
    pub policy: Option<String>,
    /// Serve these locks only, and leave the others to glibc; condition variables go with mutexes
    #[arg(long, value_name = "KIND", value_parser = KINDS)]
    pub only: Option<String>,
    /// Also keep the report in this file, a line of JSON for each lock; `-` is stdout, after
    /// what the program wrote there
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// libfairlock_preload.so, if it is not near this program
    #[arg(long, value_name = "FILE", env = "FAIRLOCK_LIBRARY")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub program: Vec<OsString>,
}

/// Fails: there is no such library.
#[cfg(not(target_os = "linux"))]
pub fn run(_flags: &RunFlags) -> Result<std::process::ExitCode, crate::error::Error> {
    Err(crate::error::Error::failed("run: locks of other programs are served on Linux only"))
}
