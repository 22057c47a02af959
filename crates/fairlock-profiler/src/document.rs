//! What `run --json` writes, and `report` reads: a program's profile, schema `fairlock-profile/2`.

use serde::{Deserialize, Serialize};

use super::place::CodePlace;
use super::sum;
use crate::units::{several, tenths, time};

/// The schema's name.
pub const SCHEMA: &str = "fairlock-profile/2";

/// What a profile may have in it, as JSON Schema.
pub const SCHEMA_FILE: &[u8] = include_bytes!("../data/schema/fairlock-profile-2.json");

/// The same of what `run --compare --json` writes.
pub const COMPARED_FILE: &[u8] = include_bytes!("../data/schema/fairlock-compared-1.json");

/// The whole document. A key that older documents do not have is an option.
#[derive(Serialize, Deserialize)]
pub struct Document<M> {
    pub schema: String,
    /// The version of this program.
    pub version: String,
    /// When the document was made: the day and the time, UTC.
    pub made: Option<String>,
    pub machine: Option<M>,
    /// The command line that made the document, without the flags that say where results went.
    pub command: Option<String>,
    pub threads: Option<OfThreads>,
    pub processes: Vec<OfProcess>,
}

impl<M> Document<M> {
    /// Which locks served the program, and how long it ran.
    pub fn served(&self) -> String {
        let mut words = Vec::new();
        if let Some(first) = self.processes.first() {
            words.push(match first.observed {
                true => "the program's own locks".to_owned(),
                false => format!("our locks, policy {}", first.policy),
            });
            words.extend(first.ran_ns.map(|ns| format!("ran for {}", time(ns))));
        }
        let lost = sum(self.processes.iter().map(|process| process.lost));
        if lost > 0 {
            words.push(format!("{} not in the record", several(lost, "acquisition")));
        }
        words.join(", ")
    }
}

/// What threads did with their time, seen from outside. None of these times is exact. Each moment is in one part.
#[derive(Serialize, Deserialize)]
pub struct OfThreads {
    /// The time from the first look to the last.
    pub watched_ns: u64,
    /// The time of all threads together, of which the others are parts.
    pub threads_ns: u64,
    /// Running, or ready to run, and not waiting.
    pub running_ns: u64,
    /// At locks, by the record.
    pub lost_ns: u64,
    /// Waiting for what nobody holds, by the record.
    pub slept_ns: u64,
    /// In futexes beyond that.
    pub unknown_futexes_ns: u64,
    /// Asleep in other system calls.
    pub elsewhere: Vec<InCall>,
    /// Asleep in unknown places.
    pub hidden_ns: u64,
}

/// The share of each part of the threads' time, in tenths of a percent.
pub struct Tenths {
    pub running: u64,
    pub lost: u64,
    pub slept: u64,
    pub unknown_futexes: u64,
    pub hidden: u64,
    /// In each system call, in the order of [`OfThreads::elsewhere`].
    pub elsewhere: Vec<u64>,
}

impl OfThreads {
    pub fn tenths(&self) -> Tenths {
        let parts =
            [self.running_ns, self.lost_ns, self.slept_ns, self.unknown_futexes_ns, self.hidden_ns];
        let elsewhere = self.elsewhere.iter().map(|of| of.slept_ns);
        let all = tenths(&parts.into_iter().chain(elsewhere).collect::<Vec<_>>());
        let &[running, lost, slept, unknown_futexes, hidden, ref elsewhere @ ..] = &all[..] else {
            unreachable!("as many as parts")
        };
        let elsewhere = elsewhere.to_vec();
        Tenths { running, lost, slept, unknown_futexes, hidden, elsewhere }
    }
}

#[derive(Serialize, Deserialize)]
pub struct InCall {
    pub call: String,
    pub slept_ns: u64,
}

#[derive(Serialize, Deserialize)]
pub struct OfProcess {
    pub pid: u32,
    pub parent: Option<u32>,
    pub program: String,
    pub observed: bool,
    pub policy: String,
    pub threshold_ns: u64,
    /// The time from the beginning of the process to its `exit`, if there was one.
    pub ran_ns: Option<u64>,
    pub lost: u64,
    pub locks: Vec<OfLock>,
    pub waits: Vec<OfWait>,
    #[serde(default)]
    pub asleep: Vec<OfSleep>,
    /// Threads of which each waits for what the next one holds, and the last for what the first one holds.
    #[serde(default)]
    pub deadlocks: Vec<Vec<OfDeadlocked>>,
}

#[derive(Serialize, Deserialize)]
pub struct OfDeadlocked {
    pub thread: u32,
    pub name: String,
    pub holds: String,
    pub waits_for: String,
    pub waiter: Vec<CodePlace>,
}

/// The thread that holds a lock now.
#[derive(Serialize, Deserialize)]
pub struct OfHolder {
    pub thread: u32,
    pub name: String,
    /// For how long, as far as that is known.
    pub held_ns: Option<u64>,
    /// It is not known that it was longer.
    pub exact: bool,
    /// Where the thread waits, or else took the lock.
    pub stack: Vec<CodePlace>,
}

/// What threads waited for that nobody holds: a condition, a semaphore or a futex.
#[derive(Serialize, Deserialize)]
pub struct OfSleep {
    pub address: String,
    pub kind: String,
    pub name: String,
    pub waits: u64,
    pub given_up: u64,
    /// Waits that had not ended.
    pub going_on: u64,
    /// All waits together, those that had not ended until then.
    pub slept_ns: u64,
    pub sleep_p50_ns: Option<u64>,
    pub sleep_p99_ns: Option<u64>,
    pub sleep_longest_ns: u64,
    pub sleepers: Vec<AtStack>,
    /// Where waits were ended.
    #[serde(default)]
    pub wakers: Vec<AtStack>,
}

#[derive(Serialize, Deserialize)]
pub struct OfLock {
    pub address: String,
    pub kind: String,
    pub name: String,
    pub first_taken: Vec<CodePlace>,
    pub reads: u64,
    pub writes: u64,
    pub waits: u64,
    pub given_up: u64,
    pub wait_total_ns: u64,
    pub wait_p50_ns: Option<u64>,
    pub wait_p99_ns: Option<u64>,
    pub wait_p999_ns: Option<u64>,
    pub wait_longest_ns: u64,
    pub passed: u64,
    pub passed_most: u64,
    pub holds_measured: u64,
    pub hold_p50_ns: Option<u64>,
    pub hold_p99_ns: Option<u64>,
    pub hold_p999_ns: Option<u64>,
    pub hold_longest_ns: u64,
    pub waiters: Vec<AtStack>,
    pub holders: Vec<AtStack>,
    /// Threads that waited when the record was read; `waits` has them, too.
    #[serde(default)]
    pub waiting_now: u64,
    /// How long the first of them had waited.
    #[serde(default)]
    pub waiting_now_longest_ns: Option<u64>,
    /// The holder, if threads wait.
    #[serde(default)]
    pub held_now: Option<OfHolder>,
}

impl OfLock {
    /// How often the lock was taken.
    pub fn taken(&self) -> u64 {
        sum([self.reads, self.writes])
    }
}

#[derive(Serialize, Deserialize)]
pub struct AtStack {
    pub reads: bool,
    /// How many waits began with this stack, or how many releases with it others waited for.
    pub count: u64,
    pub wait_total_ns: u64,
    pub stack: Vec<CodePlace>,
}

#[derive(Serialize, Deserialize)]
pub struct OfWait {
    pub lock: String,
    pub thread: u32,
    pub name: String,
    pub reads: bool,
    pub given_up: bool,
    /// When the wait began, since the process did.
    pub began_ns: u64,
    pub waited_ns: u64,
    pub passed: u64,
    pub waiter: Vec<CodePlace>,
    /// Who held the lock for the longest part of the wait.
    pub holder_thread: Option<u32>,
    /// For how much of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ns: Option<u64>,
    pub holder: Vec<CodePlace>,
}
