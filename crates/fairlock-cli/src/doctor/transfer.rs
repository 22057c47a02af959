//! How long a cache line takes from one CPU to another.

use std::thread;
use std::time::Duration;

use super::Finding;
use crate::measure::{Interval, transfer};

/// How often each pair is measured, and the pause in between: what a machine takes changes.
const ROUNDS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// The times measured; none where threads cannot be put on CPUs, or there is only one CPU.
pub fn finding() -> Option<Finding> {
    let cpus = transfer::cpus();
    // Each CPU is paired with the first: the nearest and the farthest of these pairs tell enough.
    let others = || cpus.iter().skip(1).take(transfer::MOST);
    let mut samples: Vec<Vec<f64>> = others().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (samples, &cpu) in samples.iter_mut().zip(others()) {
            samples.extend(transfer::measure(cpus[0], cpu));
        }
        thread::sleep(PAUSE);
    }
    let of = |(&cpu, samples)| Some((cpu, Interval::of(samples)?));
    let times: Vec<(usize, Interval)> = others().zip(samples).filter_map(of).collect();
    let nearest = times.iter().min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let farthest = times.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let of = |(cpu, ns): &(usize, Interval)| {
        format!("{} ns between CPU {} and {cpu}", ns.words(|ns| format!("{ns:.0}")), cpus[0])
    };
    let found = if times.len() == 1 {
        of(nearest)
    } else {
        format!("{}, {} (of {} pairs)", of(nearest), of(farthest), times.len())
    };
    let means = if farthest.1.median > 1_000.0 {
        "That is too long for a cache: these CPUs were busy, or never run at the same time"
    } else {
        "An operation on a lock that another CPU had last takes at least this much; machine files of \
         the simulator have it as `cluster_ns` and `socket_ns`"
    };
    Some(Finding::new("cache line", found, means))
}
