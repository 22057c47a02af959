//! Why a simulation did not run to its end.

use std::{fmt, io};

use crate::stuck::Stuck;

/// Why a simulation did not run to its end.
#[derive(Debug)]
pub enum SimulationError {
    /// Nobody has got anything done for too long.
    Stuck(Stuck),
    /// There is no memory for the threads' stacks; nothing was simulated.
    NoMemory {
        /// How many threads there were to be.
        threads: usize,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::NoMemory { threads, error } => {
                write!(f, "no memory for the stacks of {threads} threads: {error}")
            }
        }
    }
}

impl std::error::Error for SimulationError {}
