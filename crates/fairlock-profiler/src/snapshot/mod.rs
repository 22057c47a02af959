//! `fairlock snapshot`: what each thread of a running process waits for, and which thread holds it. The process is
//! neither stopped nor prepared.

#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // what `snapshot` fills in
pub mod document;
#[cfg(target_os = "linux")]
mod linux;

use std::path::PathBuf;

use clap::Args;

#[cfg(target_os = "linux")]
pub use linux::{Looks, screen, snapshot};

/// What to look at, and where that goes.
#[derive(Args)]
pub struct SnapshotFlags {
    /// Also write what was found to this file, as JSON; `-` is stdout, and the text goes to stderr
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the threads and their stacks for pprof: how many wait, by stack
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,
    /// The process, or one of its threads
    #[arg(value_name = "PID")]
    pub process: u32,
}

/// Fails: other systems have no `/proc`.
#[cfg(not(target_os = "linux"))]
pub fn snapshot(_flags: &SnapshotFlags) -> Result<std::process::ExitCode, crate::error::Error> {
    Err(crate::error::Error::failed("snapshot: threads of other programs are seen on Linux only"))
}
