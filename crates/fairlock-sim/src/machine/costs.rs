//! A description in the units of the simulation: picoseconds, and CPUs by number.

use std::cell::Cell;

use super::description::{Barrier, Description, Scheduler, Stolen, Topology};

/// Nanoseconds as picoseconds.
pub(crate) fn ps(ns: f64) -> u64 {
    (ns * 1000.0).round() as u64
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuPosition {
    pub(crate) cpu: u16,
    pub(crate) core: u16,
    pub(crate) cluster: u16,
    pub(crate) socket: u16,
}

/// What everything costs, in picoseconds.
#[derive(Debug)]
pub(crate) struct Costs {
    pub(crate) load: u64,
    pub(crate) store: u64,
    pub(crate) atomic: u64,
    pub(crate) pause: u64,
    pub(crate) clock: u64,
    pub(crate) wait: u64,
    pub(crate) wake: u64,
    pub(crate) wake_sleeper: u64,
    pub(crate) yielding: u64,
    pub(crate) barrier: BarrierCosts,
    pub(crate) smt: u64,
    pub(crate) cluster: u64,
    pub(crate) memory: u64,
    pub(crate) fill: u64,
    /// How many lines of a copy are on their way at once.
    pub(crate) in_flight: u64,
    /// How long a shared line is busy with a request.
    pub(crate) serve: u64,
    /// How many times as long work takes beside that of another thread of the core, in 1/1024.
    shared_core: u64,
    /// How transfers vary, by numbers that follow from the seed.
    spread: Spread,
    random: Cell<u64>,
    /// Share of a transfer, in 1/1024.
    hold: u64,
    sockets: usize,
    /// The cost between each two sockets, in one row for each socket.
    between: Vec<u64>,
    /// How many different costs a transfer has.
    pub(crate) distances: usize,
    /// Where among them, the least first, is that within a core, within a cluster, and between each two sockets.
    nth_smt: usize,
    nth_cluster: usize,
    nth_between: Vec<usize>,
}

/// From a number of `Costs::vary` to the next one.
const SPLITMIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Costs {
    pub(crate) fn new(d: &Description, seed: u64) -> Self {
        let (i, c, l) = (&d.instructions, &d.calls, &d.lines);
        let sockets = d.topology.sockets;
        let between = (0..sockets * sockets).map(|pair| {
            match hops(&d.topology, pair / sockets, pair % sockets) {
                0 => ps(l.socket_ns),
                hops => ps(l.hop_ns[hops - 1]),
            }
        });
        let between: Vec<_> = between.collect();
        let (smt, cluster) = (ps(l.smt_ns), ps(l.cluster_ns));
        let mut distances = [&between[..], &[smt, cluster]].concat();
        distances.sort_unstable();
        distances.dedup();
        let nth = |far: &u64| distances.partition_point(|other| other < far);
        Self {
            load: ps(i.load_ns),
            store: ps(i.store_ns),
            atomic: ps(i.atomic_ns),
            pause: ps(i.pause_ns),
            clock: ps(i.clock_ns),
            wait: ps(c.wait_ns),
            wake: ps(c.wake_ns),
            wake_sleeper: ps(c.wake_sleeper_ns),
            yielding: ps(c.yield_ns),
            barrier: BarrierCosts::new(&d.barrier),
            smt,
            cluster,
            memory: ps(l.memory_ns),
            fill: ps(l.fill_ns),
            in_flight: u64::from(l.in_flight),
            serve: ps(l.serve_ns),
            shared_core: (i.shared_core * 1024.0).round() as u64,
            spread: Spread::new(l.spread),
            random: Cell::new(seed),
            hold: (l.hold * 1024.0).round() as u64,
            sockets,
            nth_smt: nth(&smt),
            nth_cluster: nth(&cluster),
            nth_between: between.iter().map(nth).collect(),
            distances: distances.len(),
            between,
        }
    }

    /// What a line costs on its way from `a` to `b`.
    pub(crate) fn transfer(&self, a: CpuPosition, b: CpuPosition) -> u64 {
        if a.core == b.core {
            self.smt
        } else if a.cluster == b.cluster {
            self.cluster
        } else {
            self.between(a.socket, b.socket)
        }
    }

    /// How many lesser costs than this one a [`transfer`](Self::transfer) can have.
    #[inline]
    pub(crate) fn nth_distance(&self, a: CpuPosition, b: CpuPosition) -> usize {
        if a.core == b.core {
            self.nth_smt
        } else if a.cluster == b.cluster {
            self.nth_cluster
        } else {
            self.nth_between[a.socket as usize * self.sockets + b.socket as usize]
        }
    }

    /// As [`transfer`](Self::transfer), between two sockets; within one socket, between its
    /// clusters.
    pub(crate) fn between(&self, a: u16, b: u16) -> u64 {
        self.between[a as usize * self.sockets + b as usize]
    }

    /// How long a transfer takes this time.
    pub(crate) fn vary(&self, usual: u64) -> u64 {
        // SplitMix64: a number costs less than the look-up of its factor.
        let state = self.random.get().wrapping_add(SPLITMIX);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.spread.vary(usual, mixed ^ (mixed >> 31))
    }

    /// As [`vary`](Self::vary), where it does not matter how long: later ones take what they would.
    #[inline]
    pub(crate) fn vary_nothing(&self) {
        self.random.set(self.random.get().wrapping_add(SPLITMIX));
    }

    /// How long work takes beside that of another thread of the core.
    pub(crate) fn beside_other_work(&self, alone: u64) -> u64 {
        (u128::from(alone) * u128::from(self.shared_core) / 1024) as u64
    }

    /// How long the old owner keeps a line that takes `transfer` to move.
    pub(crate) fn hold(&self, transfer: u64) -> u64 {
        transfer * self.hold / 1024
    }
}

/// What a barrier of all threads of a process costs, in picoseconds.
#[derive(Debug)]
pub(crate) struct BarrierCosts {
    pub(crate) call: u64,
    pub(crate) send: u64,
    pub(crate) answer: u64,
    pub(crate) interrupt: u64,
}

impl BarrierCosts {
    fn new(b: &Barrier) -> Self {
        let [call, send, answer, interrupt] =
            [b.call_ns, b.send_ns, b.answer_ns, b.interrupt_ns].map(ps);
        Self { call, send, answer, interrupt }
    }
}

fn hops(t: &Topology, a: usize, b: usize) -> usize {
    match &t.hops {
        Some(rows) => rows[a][b],
        None => usize::from(a != b),
    }
}

/// The scheduler's numbers, in picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Tunables {
    pub(crate) slice: u64,
    pub(crate) tick: u64,
    pub(crate) wake_preempt: u64,
    pub(crate) sleeper_credit: u64,
    pub(crate) migration_cost: u64,
    pub(crate) yield_forfeit: u64,
    pub(crate) switch: u64,
    pub(crate) wake_idle: u64,
    /// For how long a CPU must expect to be idle, and what the idle state that it enters then adds to a wake-up.
    pub(crate) idle: Box<[[u64; 2]]>,
    pub(crate) wake_busy: u64,
    pub(crate) timer_slack: u64,
    pub(crate) spread: Spread,
}

impl Tunables {
    pub(crate) fn new(s: &Scheduler) -> Self {
        Self {
            slice: ps(s.slice_ns),
            tick: ps(s.tick_ns),
            wake_preempt: ps(s.wake_preempt_ns),
            sleeper_credit: ps(s.sleeper_credit_ns),
            migration_cost: ps(s.migration_cost_ns),
            yield_forfeit: ps(s.yield_forfeit_ns),
            switch: ps(s.switch_ns),
            wake_idle: ps(s.wake_idle_ns),
            idle: s.idle_ns.iter().map(|state| state.map(ps)).collect(),
            wake_busy: ps(s.wake_busy_ns),
            timer_slack: ps(s.timer_slack_ns),
            spread: Spread::new(s.spread),
        }
    }
}

/// For how long CPUs are taken away, and how long they stay in between, on average; in
/// picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StolenTimes {
    pub(crate) gone: u64,
    pub(crate) there: u64,
}

impl StolenTimes {
    /// `None` if no CPUs are taken.
    pub(crate) fn new(stolen: &Stolen) -> Option<Self> {
        let there = stolen.slice_ns * (1.0 - stolen.share) / stolen.share;
        (stolen.share > 0.0).then(|| Self { gone: ps(stolen.slice_ns), there: ps(there) })
    }
}

/// How much longer or shorter than usual something takes: a lognormal distribution
/// with the median 1, cut off at three and a half standard deviations.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    /// By standard deviations from the median, in 1/1024.
    factors: Box<[u64; STEPS]>,
}

const STEPS: usize = 256;

impl Spread {
    pub(crate) fn new(deviation: f64) -> Self {
        // The sum of four uniform numbers is close to normal; its standard deviation is a third of
        // the square root of three of its half width.
        let furthest = 2.0 * 3f64.sqrt();
        let factor = |step: usize| {
            let z = ((step as f64 + 0.5) / STEPS as f64 * 2.0 - 1.0) * furthest;
            ((deviation * z).exp() * 1024.0).round() as u64
        };
        Self { factors: Box::new(std::array::from_fn(factor)) }
    }

    /// How long something takes this time that takes `usual` in general, by a random number.
    pub(crate) fn vary(&self, usual: u64, random: u64) -> u64 {
        let sum: u64 = (0..4).map(|part| random >> (16 * part) & 0xffff).sum();
        let factor = self.factors[sum as usize * STEPS / (4 << 16)];
        (u128::from(usual) * u128::from(factor) / 1024) as u64
    }
}

/// The places of the CPUs of a machine, by number.
pub(crate) fn places(t: &Topology) -> Vec<CpuPosition> {
    let cpus = t.sockets * t.clusters_per_socket * t.cores_per_cluster * t.threads_per_core;
    (0..cpus)
        .map(|cpu| {
            let core = cpu / t.threads_per_core;
            let cluster = core / t.cores_per_cluster;
            let socket = cluster / t.clusters_per_socket;
            CpuPosition {
                cpu: cpu as u16,
                core: core as u16,
                cluster: cluster as u16,
                socket: socket as u16,
            }
        })
        .collect()
}
