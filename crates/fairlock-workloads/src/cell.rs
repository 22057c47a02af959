//! One cell: a lock in one configuration, run once in a child process.
//! A [`Cell`] goes to the child as JSON, a [`CellReport`] comes back.

/// Defines things that have names: on the command line, in messages and in the results.
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[$about_value:meta])* $value:ident: $name:literal,)* }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub enum $type {
            $($(#[$about_value])* #[serde(rename = $name)] $value,)*
        }

        impl $type {
            /// All of them, in the order they are run and shown.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// The name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }
    };
}

pub mod scenario;
mod setup;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disturbance::Disturbance;
use crate::interference::Interference;
use crate::stats;
use scenario::Scenario;

pub use setup::{Holder, Setup, Shape};

named! {
    /// A workload of `fairlock bench`.
    Workload {
        Handoff: "handoff",
        ReaderSpin: "reader-spin",
        DirectIo: "direct-io",
        Uncontended: "uncontended",
        Batch: "batch",
        Range: "range",
        Think: "think",
        Spread: "spread",
        Idle: "idle",
        Condvar: "condvar",
        Scenario: "scenario",
    }
}

impl Workload {
    /// The workloads that have names on the command line: a scenario has that of its file.
    pub fn named() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|workload| *workload != Self::Scenario)
    }

    /// Whether this system has what the workload needs.
    pub fn runs_here(self) -> bool {
        self != Self::DirectIo || cfg!(target_os = "linux")
    }

    /// What this case of the workload, with this setup, needs of a lock.
    fn kind(self, case: Case, setup: &Setup) -> UsedAs {
        match (self, case) {
            (Self::Range, _) => {
                let shared = match case {
                    Case::Write | Case::FullWrite => false,
                    Case::Array => setup.reads_percent != Some(0),
                    _ => true,
                };
                UsedAs::Range { shared, held: setup.held.unwrap_or(0) }
            }
            (Self::Think | Self::Spread | Self::Idle | Self::Scenario, _) => {
                setup.form.map_or(UsedAs::ReaderWriter, |form| form.kind(setup))
            }
            (Self::Condvar, _) => UsedAs::Condvar { timed: case == Case::HalfTimeOut },
            (Self::Batch, _) | (_, Case::Mutex | Case::EachMutex) => UsedAs::Mutex,
            (_, Case::Upgradable | Case::Upgrade) => UsedAs::Upgradable,
            (_, Case::Reentrant | Case::Nested) => UsedAs::Reentrant,
            _ => UsedAs::ReaderWriter,
        }
    }
}

/// What a lock can be used as. Many locks can be several of these, some with a type for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedAs {
    ReaderWriter,
    Mutex,
    /// A reader/writer lock with upgradable reads.
    Upgradable,
    /// A mutex that its holder may lock again.
    Reentrant,
    /// A mutex with condition variables: if asked for, one whose waits can end.
    Condvar {
        timed: bool,
    },
    /// A lock on ranges: if asked for, one whose readers share, and one that can be measured beside
    /// `held` ranges that are held.
    Range {
        shared: bool,
        held: usize,
    },
}

impl UsedAs {
    /// Whether a lock that can at the most be used as this can be used as the other.
    pub fn is_enough_for(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::Condvar { timed: can }, Self::Condvar { timed }) => can || !timed,
            (Self::Range { shared: can, held: most }, Self::Range { shared, held }) => {
                (can || !shared) && held <= most
            }
            _ => self == wanted,
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReaderWriter => "reader/writer lock",
            Self::Mutex => "mutex",
            Self::Upgradable => "lock with upgradable reads",
            Self::Reentrant => "reentrant mutex",
            Self::Condvar { .. } => "mutex with condition variables",
            Self::Range { .. } => "range lock",
        }
    }
}

named! {
    /// The form in which a lock is used, where a workload is for locks of all forms.
    Form {
        /// Reader/writer locks.
        RwLock: "rwlock",
        /// Mutexes.
        Mutex: "mutex",
        /// One lock on ranges.
        Range: "range",
    }
}

impl Form {
    /// Whether locks of this form can be read.
    pub fn can_read(self) -> bool {
        self != Self::Mutex
    }

    /// What a cell with this setup needs of a lock.
    fn kind(self, setup: &Setup) -> UsedAs {
        match self {
            Self::RwLock => UsedAs::ReaderWriter,
            Self::Mutex => UsedAs::Mutex,
            Self::Range => UsedAs::Range { shared: setup.reads_percent != Some(0), held: 0 },
        }
    }
}

named! {
    /// Which variant of a workload a cell is.
    Case {
        /// The section is CPU work.
        Busy: "busy",
        /// The section is a sleep.
        Sleep: "sleep",
        /// Readers and writers together.
        Mixed: "mixed",
        /// The readers of the mix, without the writers.
        ReaderAlone: "reader_alone",
        /// The writers of the mix, without the readers.
        WriterAlone: "writer_alone",
        /// Read acquisitions only, by one thread.
        Read: "read",
        /// Write acquisitions only, by one thread.
        Write: "write",
        /// A mutex, by one thread.
        Mutex: "mutex",
        /// Upgradable reads only, by one thread.
        Upgradable: "upgradable",
        /// Upgradable reads that become writers for a while, by one thread.
        Upgrade: "upgrade",
        /// A reentrant mutex, by one thread.
        Reentrant: "reentrant",
        /// A reentrant mutex, by a thread that holds it already.
        Nested: "nested",
        /// Millions of locks, each for writing, by one thread.
        EachWrite: "each_write",
        /// Millions of mutexes, one after the other, by one thread.
        EachMutex: "each_mutex",
        /// The section is an increment and some pauses.
        Tiny: "tiny",
        /// The sections are those of an allocator.
        Chunks: "chunks",
        /// Everybody writes everything.
        FullWrite: "full_write",
        /// Everybody reads everything.
        FullRead: "full_read",
        /// Half of the threads read everything, half write it.
        FullMixed: "full_mixed",
        /// Ranges of an array.
        Array: "array",
        /// One wide writer among narrow readers and writers.
        Wide: "wide",
        /// Records of a file.
        File: "file",
        /// Two threads that take turns.
        PingPong: "ping_pong",
        /// One thread puts items into a queue, the others take them.
        OneToMany: "one_to_many",
        /// Half of the threads put items into a queue, half take them.
        Queue: "queue",
        /// As `Queue`, with waits that end, and are begun again.
        TimedQueue: "timed_queue",
        /// One thread lets all others go at the same time.
        NotifyAll: "notify_all",
        /// Waits for a mutex, all of which end with it.
        Untimed: "untimed",
        /// Waits for a mutex, half of which end without it.
        HalfTimeOut: "half_time_out",
    }
}

named! {
    /// Which acquisitions a row counts.
    Side {
        Read: "read",
        Write: "write",
        All: "all",
    }
}

impl Side {
    /// The side of an operation that reads, or does not.
    #[inline(always)]
    pub fn of(reads: bool) -> Self {
        if reads { Self::Read } else { Self::Write }
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub workload: Workload,
    pub case: Case,
    pub lock: String,
    /// The machine it is simulated on; `None`: this one.
    #[serde(default)]
    pub machine: Option<String>,
    /// Threads of the configuration: for an `_alone` case those of the mix it
    /// belongs to, so that the three cells of a mix share the number.
    pub threads: usize,
    pub readers: usize,
    pub writers: usize,
    /// Threads in relation to CPUs, where the workload is about that.
    pub overcommit: Option<f64>,
    /// Pause instructions in the critical section.
    pub cs_load: u32,
    /// Work between two sections, in nanoseconds; only simulated (`batch`, `chunks`).
    #[serde(default)]
    pub outside_ns: u64,
    /// The configuration, of workloads that have many.
    #[serde(default)]
    pub range: Setup,
    /// What the workload `scenario` runs.
    #[serde(default)]
    pub scenario: Option<Scenario>,
    /// What else the machine is busy with.
    #[serde(default)]
    pub disturbance: Disturbance,
    /// Whether our locks count what they do.
    #[serde(default)]
    pub events: bool,
    /// Length of the measured window.
    pub secs: f64,
    pub seed: u64,
    /// Turns of [`crate::clock::busy`] that take one microsecond. Measured once by
    /// the parent, so that every lock is given the same work.
    pub busy_turns_per_us: u64,
    /// Where `direct-io` and `range` put their files, if not in the current folder.
    pub dir: Option<PathBuf>,
}

impl Cell {
    /// A cell with so many readers and writers, for one second, of a lock that is yet to be chosen.
    pub fn new(workload: Workload, case: Case, (readers, writers): (usize, usize)) -> Self {
        Self {
            workload,
            case,
            lock: String::new(),
            machine: None,
            threads: readers + writers,
            readers,
            writers,
            overcommit: None,
            cs_load: 0,
            outside_ns: 0,
            range: Setup::default(),
            scenario: None,
            disturbance: Disturbance::default(),
            events: false,
            secs: 1.0,
            seed: 1,
            busy_turns_per_us: 0,
            dir: None,
        }
    }

    /// What this cell needs of its lock.
    pub fn kind(&self) -> UsedAs {
        self.workload.kind(self.case, &self.range)
    }

    /// Where its file goes.
    pub fn folder(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new("."))
    }

    /// Unmeasured time before the window, in which the threads get going.
    pub fn warm_up_secs(&self) -> f64 {
        (self.secs * 0.2).clamp(0.02, 0.25)
    }
}

/// Times a call took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// One side's part of a [`CellReport`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    /// Operations of each thread within the window.
    pub ops: Vec<u64>,
    /// How many threads were starved, where `ops` does not tell.
    #[serde(default)]
    pub starved: Option<usize>,
    /// How long acquire calls took.
    pub wait: Option<Times>,
    /// How long whole operations took, acquire and section.
    pub latency: Option<Times>,
    /// How long the lock was free while it was waited for, for each wait.
    #[serde(default)]
    pub free: Option<Times>,
    /// Bytes read or written.
    pub bytes: Option<u64>,
}

/// Shares of the measured time: see `simulated::free`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Free {
    /// The share in which the lock was free and waited for.
    pub while_waited: f64,
    /// The part of that share in which another waiter was awake, and had no CPU.
    pub without_cpu: f64,
}

/// Defines the parts of a wait, with their names in tables. Who measured knows some of them; the others
/// are `None`.
macro_rules! parts {
    ($($(#[$about:meta])* $part:ident: $name:literal,)*) => {
        /// What the time of a wait went into, in nanoseconds: each is in one part. See `simulated::why` and
        /// `workload::why`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Split {
            $($(#[$about])* #[serde(skip_serializing_if = "Option::is_none")]
            pub $part: Option<u64>,)*
        }

        impl Split {
            /// The parts that are known, each with its name in tables.
            pub fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$part)),*].into_iter().filter_map(|(name, ns)| Some((name, ns?)))
            }

            fn plus(self, other: Self) -> Self {
                Self { $($part: plus(self.$part, other.$part),)* }
            }
        }
    };
}

parts! {
    /// Simulated. Only threads are inside that have taken the lock since the waiter asked.
    behind_others_ns: "behind others",
    /// Simulated. Somebody is inside who was when the waiter asked.
    holder_inside_ns: "holder inside",
    /// Simulated. None of those inside has a CPU, though they do not sleep.
    holder_without_cpu_ns: "holder without CPU",
    /// Real. The waiter has a CPU: it spins, or is in the kernel.
    running_ns: "running",
    /// Real. The waiter sleeps.
    asleep_ns: "asleep",
    /// The waiter was woken, and has not had a CPU since.
    on_the_way_ns: "on the way",
    /// The waiter was awake and lost its CPU: it yielded, was preempted, or, simulated, a host took the
    /// CPU.
    without_cpu_ns: "without CPU",
    /// Real. One of the last two: the waiter both slept and lost its CPU, and which took how long is not
    /// known.
    runnable_ns: "one of these",
    /// Simulated. Nobody is inside, and the waiter sleeps, or has a CPU and does not take the lock.
    lock_free_ns: "lock free",
}

impl Split {
    /// The length of the wait.
    pub fn total_ns(&self) -> u64 {
        self.parts().map(|(_, ns)| ns).sum()
    }
}

/// The sum of those that are known.
fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).reduce(|a, b| a + b)
}

/// A wait that takes longer is long.
pub const LONG_NS: u64 = 1_000_000;

/// Waits of more than 1 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LongWaits {
    pub count: u64,
    /// All of them together.
    pub all: Split,
    /// The longest of them.
    pub longest: Split,
    /// What is known besides of the waits of real threads.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

/// What the kernel told of waits of real threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// No more of the waits' time than this is in a wrong part.
    pub uncertain_ns: u64,
    /// How often the waiters went to sleep.
    pub sleeps: u64,
    /// How often they lost their CPUs while awake, for another thread.
    pub preemptions: u64,
}

impl LongWaits {
    /// One wait.
    pub fn one(wait: Split, seen: Option<Seen>) -> Self {
        Self { count: 1, all: wait, longest: wait, seen }
    }

    /// These and others.
    pub fn and(self, other: Self) -> Self {
        let other_is_longer = other.longest.total_ns() > self.longest.total_ns();
        let seen = self.seen.into_iter().chain(other.seen).reduce(|a, b| Seen {
            uncertain_ns: a.uncertain_ns + b.uncertain_ns,
            sleeps: a.sleeps + b.sleeps,
            preemptions: a.preemptions + b.preemptions,
        });
        Self {
            count: self.count + other.count,
            all: self.all.plus(other.all),
            longest: if other_is_longer { other.longest } else { self.longest },
            seen,
        }
    }
}

/// How often each event of a lock happened, by its name.
pub type Events = BTreeMap<String, u64>;

/// What the threads of one group of a scenario did: their rounds, the waits in them, and how long
/// a round took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    pub name: String,
    pub report: SideReport,
}

/// What a child measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// How long the window really was.
    pub elapsed_secs: f64,
    pub read: Option<SideReport>,
    pub write: Option<SideReport>,
    /// The groups, of a scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupReport>,
    /// Nanoseconds for one acquire and release.
    pub ns_per_op: Option<f64>,
    /// How much of the time the lock was free and waited for, where that is known.
    #[serde(default)]
    pub free: Option<Free>,
    /// Why waits were long, where that is known.
    #[serde(default)]
    pub long_waits: Option<LongWaits>,
    /// What our locks did, if they counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// What took CPUs from the workload, where the system says so.
    #[serde(default)]
    pub interference: Option<Interference>,
}

impl SideReport {
    /// How many threads were starved.
    pub fn starved(&self) -> usize {
        self.starved.unwrap_or_else(|| stats::starved(&self.ops))
    }
}

impl CellReport {
    /// What the sides did in a window of this length.
    pub fn of(window: Duration, read: Option<SideReport>, write: Option<SideReport>) -> Self {
        Self { elapsed_secs: window.as_secs_f64(), read, write, ..Self::default() }
    }

    /// How many threads were starved; `ops` has the operations of each thread, of both sides.
    pub fn starved(&self, ops: &[u64]) -> usize {
        if self.groups.is_empty() {
            return stats::starved(ops);
        }
        self.groups.iter().map(|group| group.report.starved()).sum()
    }

    /// One side's report.
    pub fn side(&self, side: Side) -> Option<&SideReport> {
        match side {
            Side::Read => self.read.as_ref(),
            Side::Write => self.write.as_ref(),
            Side::All => None,
        }
    }
}
