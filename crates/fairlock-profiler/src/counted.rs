//! What the library counted of a lock: a line of JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::place::file_name;
use super::sum;

/// A lock of a program, and what was counted of it. What an older library did not say is empty.
#[derive(Serialize, Deserialize)]
pub struct Counted {
    pub pid: u32,
    pub policy: String,
    #[serde(default)]
    pub kind: String,
    pub address: String,
    pub object: Option<String>,
    pub symbol: Option<String>,
    #[serde(default)]
    pub offset: u64,
    pub reads: u64,
    pub writes: u64,
    pub waits: u64,
    pub wait_total_ns: u64,
    pub wait_max_ns: u64,
    /// Readers inside when this was written, at the end of the process.
    #[serde(default)]
    pub readers: u64,
    /// The thread inside as a writer, or zero.
    #[serde(default)]
    pub writer: u32,
    /// Threads waited then.
    #[serde(default)]
    pub waiting: bool,
    #[serde(default)]
    pub events: BTreeMap<String, u64>,
}

impl Counted {
    /// Where the lock is: in a variable, else in a file, else at an address.
    pub fn place(&self) -> String {
        match (&self.symbol, self.object.as_deref().map(file_name)) {
            (Some(symbol), _) if self.offset == 0 => symbol.clone(),
            (Some(symbol), _) => format!("{symbol}+{:#x}", self.offset),
            (None, Some(file)) => format!("{file}+{:#x}", self.offset),
            (None, None) => self.address.clone(),
        }
    }

    /// How often the lock was taken.
    pub fn used(&self) -> u64 {
        sum([self.reads, self.writes])
    }
}

/// The policies of these locks, each once.
pub fn policies(locks: &[Counted]) -> String {
    let names: BTreeSet<&str> = locks.iter().map(|lock| &*lock.policy).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
