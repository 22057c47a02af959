//! What is measured, in rounds: each measures everything once, so that a figure's samples are from all
//! of the time.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use super::file::Figures;
use crate::interference::Times;
use crate::machine::Machine;
use crate::measure::{Interval, calls, sleep_lateness, transfer, wakes};
use crate::units::{percent, time};

/// A round is not shorter: shares of the time are counted in steps of 10 ms.
const ROUND: Duration = Duration::from_secs(1);
/// For how long a CPU is idle before a wake-up that meets it so: for a moment, and for long.
const MOMENT: Duration = Duration::from_micros(50);
const LONG: Duration = Duration::from_millis(3);
const WAKES: usize = 10;
/// For how long turns at a CPU are watched in a round.
const WATCHED: Duration = Duration::from_millis(50);
/// With less than this stolen, the file says that nothing is.
const LITTLE_STOLEN: f64 = 0.005;

/// Where a CPU is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CpuPosition {
    socket: u32,
    /// The first CPU that shares its last cache.
    cluster: u32,
    core: u32,
}

impl CpuPosition {
    fn of(cpu: usize) -> Option<Self> {
        let read = |file: &str| {
            let text =
                fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok()?;
            let first: String = text.chars().take_while(char::is_ascii_digit).collect();
            first.parse().ok()
        };
        let core = read("topology/thread_siblings_list")?;
        let socket = read("topology/physical_package_id")?;
        Some(Self { socket, cluster: read("cache/index3/shared_cpu_list").unwrap_or(0), core })
    }

    /// The key of a transfer between them.
    fn key(self, other: Self) -> &'static str {
        match (self, other) {
            (a, b) if a.socket != b.socket => "hop_ns",
            (a, b) if a.cluster != b.cluster => "socket_ns",
            (a, b) if a.core != b.core => "cluster_ns",
            _ => "smt_ns",
        }
    }
}

/// Measures in rounds until this time is over, and at least once.
pub fn measure(lasting: Duration) -> Figures {
    let machine = Machine::this();
    let mut figures = Figures { title: machine.line(), ..Figures::default() };
    let cpus = transfer::cpus();
    let places: Vec<Option<CpuPosition>> = cpus.iter().map(|&cpu| CpuPosition::of(cpu)).collect();
    topology(&places.iter().flatten().copied().collect::<Vec<_>>(), &mut figures);

    let mut all: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let begun = Instant::now();
    while all.is_empty() || begun.elapsed() < lasting {
        let (round, before) = (Instant::now(), Times::now());
        let mut add = |key, samples: &[f64]| all.entry(key).or_default().extend(samples);
        for (key, sample) in [
            ("atomic_ns", calls::atomic as fn() -> f64),
            ("pause_ns", calls::pause),
            ("clock_ns", calls::clock),
            ("wait_ns", calls::wait),
            ("wake_ns", calls::wake),
            ("yield_ns", calls::yields),
            ("late", sleep_lateness),
        ] {
            add(key, &[(); WAKES].map(|()| sample()));
        }
        add("call_ns", &calls::membarrier().into_iter().collect::<Vec<_>>());
        let (first, others) =
            cpus.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        for (at, &other) in others.iter().enumerate().take(transfer::MOST) {
            let known = places[0].zip(places[at + 1]);
            let key = known.map_or("cluster_ns", |(first, other)| first.key(other));
            add(key, &transfer::measure(first, other));
        }
        for _ in 0..WAKES {
            if let Some(&other) = others.last() {
                let idle = wakes::wake(first, other, MOMENT, false);
                add("wake_sleeper_ns", &idle.iter().map(|wake| wake.call).collect::<Vec<_>>());
                add("wake_idle_ns", &idle.iter().map(|wake| wake.arrives).collect::<Vec<_>>());
                for (key, busy) in [("deep", false), ("busy", true)] {
                    let wake = wakes::wake(first, other, LONG, busy);
                    add(key, &wake.iter().map(|wake| wake.arrives).collect::<Vec<_>>());
                }
            }
            let own = wakes::wake(first, first, LONG, false);
            add("switch_ns", &own.iter().map(|wake| wake.switches).collect::<Vec<_>>());
        }
        add("turns", &wakes::turns(first, WATCHED));
        std::thread::sleep(ROUND.saturating_sub(round.elapsed()));
        let taken = before.zip(Times::now()).map(|(before, now)| now.since(&before));
        add("stolen", &taken.iter().map(|it| it.stolen_percent / 100.0).collect::<Vec<_>>());
    }
    write(&all, &machine, &mut figures);
    figures
}

fn topology(places: &[CpuPosition], figures: &mut Figures) {
    let distinct = |of: fn(&CpuPosition) -> (u32, u32, u32)| {
        let mut all: Vec<_> = places.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let sockets = distinct(|p| (p.socket, 0, 0));
    let clusters = distinct(|p| (p.socket, p.cluster, 0));
    let cores = distinct(|p| (p.socket, p.cluster, p.core));
    if places.is_empty() || clusters % sockets + cores % clusters + places.len() % cores != 0 {
        return figures
            .notes
            .push("The CPUs are not all alike: the topology is assumed".to_owned());
    }
    for (key, count) in [
        ("sockets", sockets),
        ("clusters_per_socket", clusters / sockets),
        ("cores_per_cluster", cores / clusters),
        ("threads_per_core", places.len() / cores),
    ] {
        figures.set("topology", key, count.to_string(), "as Linux has it");
    }
    if sockets > 1 {
        // Replaced by what is measured: there is one distance.
        figures.set("lines", "hop_ns", "[100.0]".to_owned(), "assumed");
    }
}

/// Puts the samples into the file.
fn write(all: &BTreeMap<&'static str, Vec<f64>>, machine: &Machine, figures: &mut Figures) {
    let of = |key| all.get(key).map_or(&[][..], Vec::as_slice);
    let median = |key| Interval::of(of(key).iter().copied()).map_or(0.0, |it| it.median);
    for key in ["atomic_ns", "pause_ns", "clock_ns"] {
        figures.measured("instructions", key, of(key));
    }
    for key in ["smt_ns", "cluster_ns", "socket_ns"] {
        figures.measured("lines", key, of(key));
    }
    // A socket with one cluster has no transfers between clusters.
    if of("socket_ns").is_empty() {
        figures.measured("lines", "socket_ns", of("cluster_ns"));
    }
    if let Some(hop) = Interval::of(of("hop_ns").iter().copied()) {
        let source = format!("measured: {}", hop.words(|ns| format!("{ns:.0}")));
        figures.set("lines", "hop_ns", format!("[{:.1}]", hop.median), &source);
    }
    for key in ["wait_ns", "wake_ns", "yield_ns"] {
        figures.measured("calls", key, of(key));
    }
    // No other thread of this program runs meanwhile.
    figures.measured("barrier", "call_ns", of("call_ns"));
    // What the machine file has is less the calls.
    let less = |key, call: f64| of(key).iter().map(|ns| (ns - call).max(1.0)).collect::<Vec<_>>();
    figures.measured("calls", "wake_sleeper_ns", &less("wake_sleeper_ns", median("wake_ns")));
    figures.measured("scheduler", "switch_ns", &less("switch_ns", median("yield_ns")));
    figures.measured("scheduler", "wake_idle_ns", of("wake_idle_ns"));
    if let Some(deep) = Interval::of(of("deep").iter().copied()) {
        let adds = (deep.median - median("wake_idle_ns")).max(0.0);
        let source = format!(
            "measured, with wake_idle_ns, idle for 3 ms: {}",
            deep.words(|ns| format!("{ns:.0}"))
        );
        figures.set("scheduler", "idle_ns", format!("[[1_000_000.0, {adds:.1}]]"), &source);
    }
    if let Some(slack) = machine.timer_slack_ns {
        figures.set("scheduler", "timer_slack_ns", format!("{slack}.0"), "as Linux says");
    }
    // Of a normal distribution, the 10th and the 90th are 2.56 standard deviations apart.
    if let Some(wakes) = Interval::of(of("wake_idle_ns").iter().copied()).filter(|it| it.low > 0.0)
    {
        let spread = ((wakes.high / wakes.low).ln() / 2.56).min(2.0);
        figures.set(
            "scheduler",
            "spread",
            format!("{spread:.2}"),
            "by the interval of wake_idle_ns",
        );
    }
    let stolen = median("stolen");
    if stolen > LITTLE_STOLEN {
        figures.set("stolen", "share", format!("{stolen:.3}"), "measured");
        figures.set("stolen", "slice_ns", "5_000_000.0".to_owned(), "not measured");
    }
    let ns = |ns: f64| time(ns.max(0.0) as u64);
    figures.note("A sleep of 1 us ends so late", of("late"), ns);
    figures.note("A thread woken on a busy CPU runs after", of("busy"), ns);
    // A slice ends at a tick: what is seen is the tick, unless the slice is longer.
    figures.note("Turn of a thread at a CPU that two threads want", of("turns"), ns);
    figures.note("Share of the CPUs that the host takes, each second", of("stolen"), percent);
}
