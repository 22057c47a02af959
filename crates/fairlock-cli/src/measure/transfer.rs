//! How long a cache line takes from one CPU to another: two threads, each on a CPU of its own,
//! that answer each other on one word.

use super::Finding;

/// The times measured; none where threads cannot be put on CPUs, or there is only one CPU.
#[cfg(target_os = "linux")]
pub fn finding() -> Option<Finding> {
    let cpus = linux::cpus();
    // Each CPU is paired with the first: the nearest and the farthest of these pairs tell enough.
    let times: Vec<(usize, f64)> = cpus
        .iter()
        .skip(1)
        .take(linux::MOST)
        .filter_map(|&cpu| Some((cpu, linux::measure(cpus[0], cpu)?)))
        .collect();
    let nearest = times.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let farthest = times.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let of = |(cpu, ns): &(usize, f64)| format!("{ns:.0} ns between CPU {} and {cpu}", cpus[0]);
    let found = if times.len() == 1 {
        of(nearest)
    } else {
        format!("{}, {} (of {} pairs)", of(nearest), of(farthest), times.len())
    };
    let means = if farthest.1 > 1_000.0 {
        "That is too long for a cache: these CPUs were not free, or are not there at the same time"
    } else {
        "An operation on a lock that another CPU had last takes at least this much; machine files of \
         the simulator have it as `cluster_ns` and `socket_ns`"
    };
    Some(Finding::new("cache line", found, means))
}

#[cfg(not(target_os = "linux"))]
pub fn finding() -> Option<Finding> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
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
    /// The quickest repeat counts, as others may have had a CPU during the rest.
    const ANSWERS: u64 = 200;
    const REPEATS: usize = 20;

    /// The CPUs that this program may use.
    pub fn cpus() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
    }

    /// How many nanoseconds a line takes from one CPU to the other.
    pub fn measure(first: usize, second: usize) -> Option<f64> {
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
                let best = pin(first).and_then(|()| ask(word));
                ended.store(true, Ordering::Relaxed);
                best
            });
            asker.join().ok().flatten()
        })
    }

    fn pin(cpu: usize) -> Option<()> {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).ok()
    }

    /// Makes odd numbers even. Relaxed, here and in `ask`: only the word itself is shared.
    fn answer(word: &AtomicU64, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            let value = word.load(Ordering::Relaxed);
            if value % 2 == 1 {
                word.store(value + 1, Ordering::Relaxed);
            }
            std::hint::spin_loop();
        }
    }

    /// Makes even numbers odd. Returns the nanoseconds of one way, by the quickest repeat.
    fn ask(word: &AtomicU64) -> Option<f64> {
        let give_up = Instant::now() + PATIENCE;
        let mut best = None;
        for _ in 0..REPEATS {
            let begun = Instant::now();
            for _ in 0..ANSWERS {
                let value = word.load(Ordering::Relaxed);
                word.store(value + 1, Ordering::Relaxed);
                let mut looks = 0_u32;
                while word.load(Ordering::Relaxed) == value + 1 {
                    std::hint::spin_loop();
                    looks += 1;
                    if looks.is_multiple_of(1_000) && Instant::now() > give_up {
                        return best;
                    }
                }
            }
            let way = begun.elapsed().as_nanos() as f64 / (2 * ANSWERS) as f64;
            best = Some(best.map_or(way, |best: f64| best.min(way)));
        }
        best
    }
}
