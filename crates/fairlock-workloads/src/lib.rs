//! The locks that the command `fairlock` measures, ours and others, and the workloads that it
//! measures them with, on this machine and on simulated ones.
//!
//! It is a crate of its own because its loops are what is measured: it is compiled for speed, and
//! the command is not. Nobody else may rely on what is in here.

// Only for one user, in this repository: `missing_docs` would add no more than the names say.
#![allow(unreachable_pub)]

pub mod cell;
pub mod clock;
pub mod direct_file;
pub mod disturbance;
pub mod error;
pub mod interference;
pub mod locks;
pub mod measure;
pub mod peers;
mod reference;
#[cfg(target_os = "linux")]
mod schedstat;
pub mod simulated;
pub mod stats;
pub mod torture;
pub mod workload;
