//! What is in a file.

use std::collections::BTreeMap;

/// What a process recorded. Times are in nanoseconds; stacks are the numbers by which
/// [`Record::stack`] finds them.
#[derive(Debug, Default)]
pub struct Record {
    /// The process.
    pub pid: u32,
    /// The one it was forked from, if it did not begin with the library.
    pub parent: Option<u32>,
    /// The locks were the system's, and only watched.
    pub observed: bool,
    /// Waits this long are in `waits`.
    pub threshold_ns: u64,
    /// When it begins, by `CLOCK_MONOTONIC`.
    pub began_ns: u64,
    /// The same, since 1970.
    pub began_unix_ns: u64,
    /// When the process exited, if it did so by `exit`.
    pub ended_ns: Option<u64>,
    /// When everything in it was so, if a program wrote it as a whole.
    pub as_of_ns: Option<u64>,
    /// Acquisitions that are not in it.
    pub lost: u64,
    /// How the locks decided who went next.
    pub policy: String,
    /// The program's path.
    pub program: String,
    /// In the order in which they were first taken. What nobody holds is among them: see
    /// [`layout::kind::is_lock`](crate::layout::kind::is_lock).
    pub locks: Vec<Lock>,
    /// Waits by where they were.
    pub waiters: Vec<AtPlace>,
    /// The same time by where the lock was released that was held meanwhile, as far as that is known. If its holder itself
    /// waited for another lock for most of the time: by where that one was released. Of what nobody holds: where waits were
    /// ended, with a time of zero.
    pub holders: Vec<AtPlace>,
    /// The last ones that were long enough, in the order in which they ended.
    pub waits: Vec<Wait>,
    /// What is mapped, and what was before code was unloaded.
    pub modules: Vec<Module>,
    /// Those that run, or ran when the process was killed.
    pub threads: Vec<Thread>,
    /// Which thread holds a lock, by the lock's number: what the lock itself says in the memory of a process that runs.
    /// No file has that. [`Record::held_now`] believes it first.
    pub owners: BTreeMap<usize, u32>,
    pub(crate) stacks: BTreeMap<u32, Vec<u64>>,
    pub(crate) lines: BTreeMap<u32, Line>,
}

impl Record {
    /// The [frames](crate::layout::frame) of a stack, the innermost first; none if there is no such
    /// stack.
    pub fn stack(&self, number: u32) -> &[u64] {
        self.stacks.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The place that is known in place of a stack.
    pub fn line(&self, number: u32) -> Option<&Line> {
        self.lines.get(&number)
    }

    /// All that are named by locks, places and waits.
    pub fn stacks(&self) -> impl Iterator<Item = (u32, &[u64])> {
        self.stacks.iter().map(|(&number, frames)| (number, frames.as_slice()))
    }
}

/// A lock, or what threads wait for that nobody holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// Its name, if the program gave it one.
    pub name: Option<String>,
    /// Where it is.
    pub address: u64,
    /// See [`layout::kind`](crate::layout::kind).
    pub kind: u32,
    /// Who took it first, or waited there first.
    pub first_stack: u32,
    /// How often it was taken for reading.
    pub reads: u64,
    /// How often otherwise.
    pub writes: u64,
    /// If it was waited for.
    pub contention: Option<Box<Contention>>,
}

/// How a lock was waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contention {
    /// Acquisitions that had to wait, for reading,
    pub reads: u64,
    /// and otherwise.
    pub writes: u64,
    /// Waits that ended without the lock.
    pub given_up: u64,
    /// All waits together.
    pub waited_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Acquisitions by others while somebody waited, summed over the waits,
    pub passed: u64,
    /// and the most in one wait.
    pub most_passed: u64,
    /// How often it was measured how long the lock was held.
    pub holds: u64,
    /// For how long, together.
    pub held_ns: u64,
    /// The longest.
    pub longest_held_ns: u64,
    /// Waits by their [bucket](crate::buckets::of).
    pub waits_by_time: Vec<u64>,
    /// How long it was held, likewise.
    pub holds_by_time: Vec<u64>,
    /// The longest waits, the longest first.
    pub worst: Vec<Wait>,
    /// When the lock was released last while others waited, as far as that was looked at; zero: never.
    pub released_ns: u64,
    /// A time from which the lock was held until now by one thread, if somebody waits and that is known; or zero.
    pub held_since_ns: u64,
}

impl Contention {
    /// Waits that ended with the lock, and those that did not.
    pub fn waits(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_add(self.given_up)
    }
}

/// A wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Counted from one, in the order in which waits ended.
    pub number: u64,
    /// When it began.
    pub began_ns: u64,
    /// How long it was.
    pub waited_ns: u64,
    /// When the lock was released to it.
    pub released_ns: Option<u64>,
    /// Since when the holder had held it,
    pub held_since_ns: Option<u64>,
    /// and until when.
    pub held_until_ns: Option<u64>,
    /// How often others took the lock meanwhile.
    pub passed: u64,
    /// The number of the lock.
    pub lock: usize,
    /// It was for reading.
    pub reads: bool,
    /// It ended without the lock.
    pub given_up: bool,
    /// Who waited,
    pub thread: u32,
    /// by what name,
    pub name: String,
    /// and where.
    pub stack: u32,
    /// Who held the lock for the longest part of the wait, or if no hold is known, who released it last;
    /// zero: not known.
    pub holder: u32,
    /// Where that thread released it.
    pub holder_stack: u32,
}

impl Wait {
    /// For how much of the wait the holder had the lock, if that is known.
    pub fn held_ns(&self) -> Option<u64> {
        Some(self.held_until_ns?.saturating_sub(self.held_since_ns?.max(self.began_ns)))
    }
}

/// Time lost at a lock, at one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtPlace {
    /// The number of the lock.
    pub lock: usize,
    /// The waits were for reading.
    pub reads: bool,
    /// Where.
    pub stack: u32,
    /// How many waits; of holders: releases while others waited.
    pub count: u64,
    /// How long they, or others, waited together.
    pub waited_ns: u64,
}

/// A place in a source file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
}

/// A part of a file that is mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Where it begins,
    pub start: u64,
    /// and ends.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's number in its file system.
    pub inode: u64,
    /// The file.
    pub path: String,
    /// How often code had been unloaded by then: frames of stacks have the same number.
    pub unloads: u32,
}

/// A thread that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its name when it waited first, or for long; empty if it has not.
    pub name: String,
    /// What it waits for.
    pub asleep: Option<Asleep>,
    /// What it holds, as far as it waited for that, or took it while others waited.
    pub holds: Vec<Holding>,
    /// Where it took locks first: their numbers, and stacks. Not all of them.
    pub firsts: Vec<(usize, u32)>,
}

/// A lock that a thread held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// The number of the lock.
    pub lock: usize,
    /// Where the thread took it; zero: not known.
    pub stack: u32,
    /// Since when, if that is known.
    pub since_ns: Option<u64>,
}

/// A wait that had not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asleep {
    /// The number of what is waited for.
    pub lock: usize,
    /// Where.
    pub stack: u32,
    /// When the wait began.
    pub since_ns: u64,
    /// It is for reading.
    pub reads: bool,
    /// The thread that held the lock alone then; zero: not known.
    pub holder: u32,
    /// It may end without a release: by a deadline, or as one of several threads releases something.
    pub can_end: bool,
}
