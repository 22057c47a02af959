//! The locks that the command `fairlock` measures, ours and others, and the workloads that it
//! measures them with, on this machine and on simulated ones.
//!
//! A crate of its own because its loops are what is measured: it is compiled for speed, and the
//! command, which is not, beside it. Nobody else may count on what is in here.

// For one user, which is in this repository: `missing_docs` would say no more than the names.
#![allow(unreachable_pub)]

pub mod cell;
pub mod clock;
pub mod direct_file;
pub mod disturbance;
pub mod error;
pub mod interference;
pub mod locks;
mod peers;
mod reference;
pub mod simulated;
pub mod stats;
pub mod workload;
