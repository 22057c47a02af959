//! How long a cache line takes from one CPU to another: two threads, each on a CPU of its own,
//! that answer each other on one word.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::platform::Atomic;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::workload::Padded;

/// How many CPUs are tried at most, each with the first.
pub const MOST: usize = 15;
/// A pair that takes longer than this does not have both of its CPUs at the same time.
const PATIENCE: Duration = Duration::from_millis(30);
/// How many answers there are between two looks at the clock, and how often that is repeated.
const ANSWERS: u64 = 200;
const REPEATS: usize = 20;

/// The CPUs that this program may use.
pub fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// How many nanoseconds a line takes from one CPU to the other, one way: a sample for each repeat. None
/// where threads cannot be put on these CPUs.
pub fn measure(first: usize, second: usize) -> Vec<f64> {
    let (word, ended) = (Padded(AtomicU64::new(0)), AtomicBool::new(false));
    let (word, ended) = (&word.0, &ended);
    thread::scope(|scope| {
        scope.spawn(move || {
            // A thread that cannot be put on its CPU does not answer, and the asker gives up.
            if pin(second).is_some() {
                answer(word, || ended.load(Ordering::Relaxed));
            }
        });
        let asker = scope.spawn(move || {
            let epoch = Instant::now();
            let ways = pin(first).map(|()| ask(word, || epoch.elapsed().as_nanos() as u64));
            ended.store(true, Ordering::Relaxed);
            ways
        });
        asker.join().ok().flatten().unwrap_or_default()
    })
}

/// Puts the calling thread on this CPU.
pub fn pin(cpu: usize) -> Option<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).ok()
}

/// Makes odd numbers even. Here and in `ask`: each look is an exchange, which fetches the line to write it, as locks do and
/// as core-to-core-latency does, the source of machine files that are built in. A load would fetch a copy, and
/// the store after it would have to wait until the other CPU's is gone: a second way. Without pauses, as half of one
/// would be a part of each way; and relaxed, as only the word itself is shared.
fn answer<A: Atomic<u64>>(word: &A, ended: impl Fn() -> bool) {
    let mut asked = 1;
    while !ended() {
        if exchange(word, asked) {
            asked += 2;
        }
    }
}

/// Makes even numbers odd; `now` says the nanoseconds. Returns the nanoseconds of one way, for each repeat.
fn ask<A: Atomic<u64>>(word: &A, now: impl Fn() -> u64) -> Vec<f64> {
    let give_up = now() + PATIENCE.as_nanos() as u64;
    let mut ways = Vec::new();
    let mut answered = 0;
    for _ in 0..REPEATS {
        let begun = now();
        for _ in 0..ANSWERS {
            let mut looks = 0_u32;
            while !exchange(word, answered) {
                looks += 1;
                if looks.is_multiple_of(1_000) && now() > give_up {
                    return ways;
                }
            }
            answered += 2;
        }
        ways.push((now() - begun) as f64 / (2 * ANSWERS) as f64);
    }
    ways
}

/// Counts on from this number, if it is there.
fn exchange<A: Atomic<u64>>(word: &A, from: u64) -> bool {
    word.compare_exchange(from, from + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use fairlock_sim::{Machine, SimU64, Simulation};

    use super::*;

    /// What two cores of a simulated machine find, one in each of two sockets, that are `hop_ns` apart.
    fn found(hop_ns: f64) -> f64 {
        let mut machine = Machine::builtin("cascade_lake_96").unwrap().description().clone();
        machine.topology.cores_per_cluster = 1;
        machine.topology.threads_per_core = 1;
        machine.lines.hop_ns = vec![hop_ns];
        let machine = Machine::new("two_sockets", machine).unwrap();
        let (word, ended) = (Padded(SimU64::new(0)), AtomicBool::new(false));
        let (word, ended) = (&word.0, &ended);
        let mut simulation = Simulation::new(&machine, 1);
        let asker = simulation.spawn(|| {
            let ways = ask(word, fairlock_sim::now);
            ended.store(true, Ordering::Relaxed);
            ways
        });
        simulation.spawn(|| answer(word, || ended.load(Ordering::Relaxed)));
        simulation.run().unwrap();
        crate::measure::Interval::of(asker.join()).unwrap().median
    }

    #[test]
    fn one_way_is_one_transfer_however_far_the_cpus_are() {
        for hop_ns in [30.0, 134.0, 500.0] {
            let found = found(hop_ns);
            assert!((found / hop_ns - 1.0).abs() < 0.1, "{hop_ns} ns apart: {found} ns");
        }
    }
}
