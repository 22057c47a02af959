//! What `snapshot --json` writes, schema `fairlock-snapshot/1`.

use serde::Serialize;

use crate::place::CodePlace;

/// The schema's name.
#[cfg(target_os = "linux")]
pub const SCHEMA: &str = "fairlock-snapshot/1";

/// What a snapshot may have in it, as JSON Schema.
pub const SCHEMA_FILE: &[u8] = include_bytes!("../../data/schema/fairlock-snapshot-1.json");

/// What is in the document beside what all documents have.
#[derive(Serialize)]
pub struct Content {
    pub pid: u32,
    pub program: String,
    /// Threads that wait for each other, the first for the second, and the last for the first.
    pub deadlocks: Vec<Vec<u32>>,
    pub threads: Vec<OfThread>,
}

#[derive(Serialize)]
pub struct OfThread {
    pub tid: u32,
    pub name: String,
    /// As in `/proc/PID/stat`: `R` is running, `S` asleep, `D` asleep and not to be woken by signals.
    pub state: char,
    pub system_call: Option<String>,
    /// The six arguments of the system call.
    pub arguments: Vec<String>,
    /// The kernel's function that it sleeps in.
    pub in_kernel: Option<String>,
    /// The time since it last had a CPU, as the scheduler counts it.
    pub asleep_ns: Option<u64>,
    pub waits: Option<OfWait>,
    /// What it holds, as far as the process records that.
    pub holds: Vec<OfHold>,
    pub stack: Vec<Frame>,
}

/// What a thread waits for.
#[derive(Clone, Default, Serialize)]
pub struct OfWait {
    pub kind: String,
    pub name: String,
    pub address: Option<String>,
    /// The wait has a deadline.
    pub timed: bool,
    pub owner: Owner,
    /// How long the wait has been, if the process records its locks.
    pub waited_ns: Option<u64>,
    /// For how long the owner has held it at least, likewise.
    pub held_ns: Option<u64>,
}

/// A lock that a thread holds.
#[derive(Serialize)]
pub struct OfHold {
    pub name: String,
    pub held_ns: Option<u64>,
    /// Where it took the lock.
    pub at: Option<String>,
}

/// Which thread must do something for the wait to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Nobody holds what is waited for, as a condition.
    #[default]
    Nobody,
    /// A thread of the process.
    Thread(u32),
    /// Probably a thread of the process: what is waited for may not be what it looks like.
    Perhaps(u32),
    /// A thread that has ended.
    Ended(u32),
    /// A thread of another process.
    Elsewhere { tid: u32, process: u32, name: String },
    /// So many readers, which the lock counts and does not name.
    Readers(u32),
    /// Not known, because.
    Unknown(String),
}

/// A function of a stack.
#[derive(Clone, Serialize)]
pub struct Frame {
    #[serde(flatten)]
    pub place: CodePlace,
    /// The frame was looked for on the stack: the function's tables do not say where it is.
    pub is_guess: bool,
}
