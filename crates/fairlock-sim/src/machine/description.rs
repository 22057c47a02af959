//! A machine as its file describes it: plain numbers, in nanoseconds.

use serde::Deserialize;

/// What a machine file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// One line for people.
    pub title: String,
    /// The CPUs and how they are connected.
    pub topology: Topology,
    /// What instructions cost that need no other CPU.
    pub instructions: Instructions,
    /// What it costs to move a cache line.
    pub lines: Lines,
    /// The operating system; with guests, that of the host.
    pub scheduler: Scheduler,
    /// What system calls cost.
    pub calls: Calls,
    /// What a barrier of all threads of a process costs; if absent, as on a server of two sockets.
    #[serde(default)]
    pub barrier: Barrier,
    /// Virtual machines on top of it, if there are any.
    pub guests: Option<Guests>,
    /// What a host takes from it, if it is itself a virtual machine that notices that.
    pub stolen: Option<Stolen>,
}

/// A host that takes CPUs away now and then, one at a time, and gives them back. The threads
/// on them go nowhere meanwhile, and their scheduler does not know.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stolen {
    /// The share of the time in which each CPU is gone.
    pub share: f64,
    /// How long it is gone at a time, in nanoseconds. It then stays for half to one and a half
    /// times as long as the share leaves.
    pub slice_ns: f64,
}

/// The CPUs and how they are connected. A CPU's number is `core * threads_per_core + thread`; cores
/// count through clusters and sockets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Sockets.
    pub sockets: usize,
    /// Groups of cores in a socket that share a last-level cache.
    pub clusters_per_socket: usize,
    /// Cores in such a group.
    pub cores_per_cluster: usize,
    /// Hardware threads of a core.
    pub threads_per_core: usize,
    /// Hops between each two sockets, as a list of rows; one hop each if absent.
    pub hops: Option<Vec<Vec<usize>>>,
    /// Where threads begin.
    pub placement: Placement,
}

/// On which CPUs threads begin, as long as there are idle ones. Either way every core
/// gets one before any gets a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// The sockets in turn, as a scheduler that balances them does.
    Spread,
    /// One socket after the other, as the CPUs' numbers usually have it.
    Packed,
}

/// What instructions cost that need no other CPU, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// A load that hits the first-level cache.
    pub load_ns: f64,
    /// A store to a line this core owns.
    pub store_ns: f64,
    /// An atomic read-modify-write of a line this core owns.
    pub atomic_ns: f64,
    /// One pause instruction.
    pub pause_ns: f64,
    /// Reading the clock.
    pub clock_ns: f64,
    /// How many times as long all of these and other work take, but not a pause, while another hardware
    /// thread of the core works. One that pauses or spins leaves the core to the others.
    pub shared_core: f64,
}

/// What it costs to move a cache line from one CPU to another, in nanoseconds, one way, with the
/// instruction that asked for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// Between the hardware threads of a core.
    pub smt_ns: f64,
    /// Between cores of a cluster.
    pub cluster_ns: f64,
    /// Between clusters of a socket.
    pub socket_ns: f64,
    /// Between sockets that are one hop apart, two hops, and so on.
    pub hop_ns: Vec<f64>,
    /// From memory.
    pub memory_ns: f64,
    /// The share of a transfer during which the old owner still has the line.
    pub hold: f64,
    /// How much a transfer varies: the standard deviation of its logarithm.
    pub spread: f64,
    /// For how long a shared line is busy with one request for a copy. The next one, the nearest first,
    /// waits until then.
    pub serve_ns: f64,
    /// Writing all of a line that is here already, as a part of a longer copy.
    pub fill_ns: f64,
    /// How many lines of such a copy are on their way at the same time.
    pub in_flight: u32,
}

/// How threads get CPUs. Nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// How long a thread runs before another one that waits gets its CPU.
    pub slice_ns: f64,
    /// How often it is looked whether another thread is due.
    pub tick_ns: f64,
    /// A woken thread takes the CPU at once from one that is ahead of it by this much.
    pub wake_preempt_ns: f64,
    /// How far a thread that has slept for long is put ahead of those that ran.
    pub sleeper_credit_ns: f64,
    /// A CPU that falls idle leaves a thread to its old CPU that ran there so recently: its caches are
    /// still warm. Zero: it takes any that waits.
    #[serde(default)]
    pub migration_cost_ns: f64,
    /// How far a thread that yields falls behind the others of its CPU, less what it ran since it got the CPU.
    /// Zero: not at all, so threads that only yield keep the CPU from one that is behind them.
    #[serde(default)]
    pub yield_forfeit_ns: f64,
    /// A context switch.
    pub switch_ns: f64,
    /// From a wake-up to running on a CPU in its shallowest idle state.
    pub wake_idle_ns: f64,
    /// The deeper idle states, the shallowest first: how long a CPU must expect to be idle to enter the state, and
    /// what that adds to the wake-up. A CPU expects what it was idle for last; after a tick, at least as long again.
    #[serde(default)]
    pub idle_ns: Vec<[f64; 2]>,
    /// From a wake-up to the queue of a busy CPU.
    pub wake_busy_ns: f64,
    /// How late a timer may be.
    pub timer_slack_ns: f64,
    /// How much wake-ups (both ends of them) and context switches vary: the standard
    /// deviation of their logarithm. Zero: they always take the same.
    pub spread: f64,
}

/// What system calls cost their caller. Nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// A wait that need not sleep.
    pub wait_ns: f64,
    /// A wake-up that finds nobody.
    pub wake_ns: f64,
    /// What it adds to find somebody.
    pub wake_sleeper_ns: f64,
    /// Giving up the CPU when nobody wants it.
    pub yield_ns: f64,
}

/// What a barrier of all threads of a process costs (`membarrier`): an interrupt to each CPU that runs one of
/// them. Nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    /// The call, if no other CPU runs one.
    pub call_ns: f64,
    /// What each such CPU adds to the call, one after the other.
    pub send_ns: f64,
    /// From there until it has answered. The caller waits for the slowest; how much that varies is the
    /// scheduler's `spread`.
    pub answer_ns: f64,
    /// What the interrupt takes from the thread that it meets.
    pub interrupt_ns: f64,
}

impl Default for Barrier {
    fn default() -> Self {
        Self { call_ns: 300.0, send_ns: 200.0, answer_ns: 2_700.0, interrupt_ns: 1_000.0 }
    }
}

/// Virtual machines whose CPUs are threads of the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guests {
    /// How many there are.
    pub count: usize,
    /// Virtual CPUs of each.
    pub cpus: usize,
    /// The guests' own scheduler. Its wake-up times are from interrupt to thread;
    /// what halting and kicking a virtual CPU costs is the host's switch and wake-up.
    pub scheduler: Scheduler,
}
