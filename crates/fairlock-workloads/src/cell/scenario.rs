//! What a scenario is: groups of threads, and the locks they share.

use serde::{Deserialize, Serialize};

use super::{Case, Cell, Form, Setup, Side, Workload};

/// Groups of threads, and the locks they share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The name of the file, without its ending.
    pub name: String,
    /// The form in which the locks are used.
    pub form: Form,
    /// How many locks there are in all.
    pub locks: u64,
    pub groups: Vec<Group>,
}

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub threads: usize,
    /// When its first round begins.
    pub start_ns: u64,
    /// How often a round begins, on average; `None`: as soon as the one before is over.
    pub every_ns: Option<u64>,
    pub round: Vec<Step>,
}

/// A part of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// One of these locks is held during the step.
    pub lock: Option<Taken>,
    /// How many cache lines that the lock guards the step writes, or reads.
    pub data_lines: u64,
    /// After the data.
    pub work_ns: u64,
    /// After the work.
    pub sleep_ns: u64,
    /// After the sleep.
    pub steps: Vec<Step>,
    /// In so many of a million rounds the step is made,
    pub chance: u32,
    /// and then this many times.
    pub times: u32,
}

impl Step {
    fn most_data_lines(&self) -> u64 {
        let inner = self.steps.iter().map(Self::most_data_lines);
        inner.chain([self.data_lines]).max().unwrap_or(0)
    }
}

/// Which lock a step takes, and how: one of `count`, at random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    pub first: u64,
    pub count: u64,
    pub reads: bool,
}

/// The number that [`Step::chance`] is a part of.
pub const ALWAYS: u32 = 1_000_000;

impl Scenario {
    /// Its one cell.
    pub fn cell(&self) -> Cell {
        let (threads, readers, writers) = self.threads();
        Cell {
            threads,
            range: Setup { form: Some(self.form), ..Setup::default() },
            scenario: Some(self.clone()),
            ..Cell::new(Workload::Scenario, Case::Busy, (readers, writers))
        }
    }

    /// How many threads there are, how many of them read, and how many write.
    pub fn threads(&self) -> (usize, usize, usize) {
        let of = |does: fn(&Group) -> bool| {
            self.groups.iter().filter(|group| does(group)).map(|group| group.threads).sum()
        };
        (of(|_| true), of(|group| group.takes(Side::Read)), of(|group| group.takes(Side::Write)))
    }

    /// The most lines of data that a lock guards.
    pub fn data_lines(&self) -> u64 {
        self.groups
            .iter()
            .flat_map(|group| &group.round)
            .map(Step::most_data_lines)
            .max()
            .unwrap_or(0)
    }

    /// The group of a thread, by number.
    pub fn group_of(&self, mut index: usize) -> usize {
        let is_its = |group: &Group| {
            let is_its = index < group.threads;
            index = index.saturating_sub(group.threads);
            is_its
        };
        self.groups.iter().position(is_its).expect("there are as many threads as in all groups")
    }
}

impl Group {
    /// Whether any of the group's threads reads, or writes.
    pub fn takes(&self, side: Side) -> bool {
        takes(&self.round, side)
    }
}

/// Whether any of the steps reads, or writes.
fn takes(steps: &[Step], side: Side) -> bool {
    steps.iter().any(|step| {
        step.lock.is_some_and(|lock| Side::of(lock.reads) == side) || takes(&step.steps, side)
    })
}
