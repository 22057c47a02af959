//! Workloads and locks on simulated machines.

mod free;
pub mod locks;
mod testbed;
pub mod trace;

pub use testbed::Simulated;
