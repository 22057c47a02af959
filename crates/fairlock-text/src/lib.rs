//! What the programs of this project have in common that show and keep figures: the command, its profiler, and
//! `sim-score`. Nobody else may rely on what is in here.
//!
//! `layout`: tables that fit a terminal. `units`: figures in words. `output`: stdout, stderr. `json`: files. `machine`: this one, in a line.
//! `bootstrap`: by how much a difference could be chance.

// Only for programs of this repository: `missing_docs` would add no more than the names say.
#![allow(unreachable_pub)]

pub mod bootstrap;
pub mod json;
pub mod layout;
pub mod machine;
pub mod output;
pub mod units;

#[cfg(test)]
use fairlock_testing as _; // the watchdog
use fairlock_workloads::{clock, error, peers, workload};
