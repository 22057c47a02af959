//! How long a cache line takes from one CPU to another: two threads, each on a CPU of its own,
//! that answer each other on one word.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
                answer(word, ended);
            }
        });
        let asker = scope.spawn(move || {
            let ways = pin(first).map(|()| ask(word));
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

/// Makes odd numbers even. Here and in `ask`: without pauses, as half of one would be a part of each way; and relaxed,
/// as only the word itself is shared.
fn answer(word: &AtomicU64, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let value = word.load(Ordering::Relaxed);
        if value % 2 == 1 {
            word.store(value + 1, Ordering::Relaxed);
        }
    }
}

/// Makes even numbers odd. Returns the nanoseconds of one way, for each repeat.
fn ask(word: &AtomicU64) -> Vec<f64> {
    let give_up = Instant::now() + PATIENCE;
    let mut ways = Vec::new();
    for _ in 0..REPEATS {
        let begun = Instant::now();
        for _ in 0..ANSWERS {
            let value = word.load(Ordering::Relaxed);
            word.store(value + 1, Ordering::Relaxed);
            let mut looks = 0_u32;
            while word.load(Ordering::Relaxed) == value + 1 {
                looks += 1;
                if looks.is_multiple_of(1_000) && Instant::now() > give_up {
                    return ways;
                }
            }
        }
        ways.push(begun.elapsed().as_nanos() as f64 / (2 * ANSWERS) as f64);
    }
    ways
}
