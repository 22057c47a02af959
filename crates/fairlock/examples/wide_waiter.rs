//! What short reads of a range cost beside many ranges that are held, and beside a
//! thread that asks for everything again and again and gives up after a millisecond.
//!
//! ```sh
//! cargo run --release -p fairlock --example wide_waiter [SECONDS] [RANGES...]
//! ```
//!
//! For each number of ranges held: nanoseconds of a read in a gap between them, at the
//! mean, and at and below which so many of them are, without and with that thread.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{RangeRwLock, Wait};

/// Positions of a range that is held, and of the gap behind it.
const HELD: u64 = 5;
const GAP: u64 = 5;

/// Reads one gap after the other, far apart, for so long. Returns how long each took.
fn read_gaps(lock: &RangeRwLock, ranges: u64, run: Duration) -> Vec<Duration> {
    let mut took = Vec::with_capacity(1 << 22);
    let mut range = 0;
    let started = Instant::now();
    let mut before = started;
    while before - started < run && took.len() < took.capacity() {
        range = (range + 7_919) % ranges;
        let start = range * (HELD + GAP) + HELD;
        drop(lock.read(start..start + GAP).expect("not empty"));
        let now = Instant::now();
        took.push(now - before);
        before = now;
    }
    took
}

fn print(ranges: u64, beside: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let mean = took.iter().sum::<Duration>() / took.len() as u32;
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_nanos();
    println!(
        "{ranges:>8} {beside:>7} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9}",
        took.len(),
        mean.as_nanos(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
    );
}

fn main() {
    let mut numbers =
        env::args().skip(1).map(|text| text.parse::<u64>().expect("a number, above zero"));
    let run = Duration::from_secs(numbers.next().unwrap_or(1));
    let mut counts: Vec<_> = numbers.collect();
    if counts.is_empty() {
        counts = vec![1_000, 100_000, 300_000];
    }
    println!("    held  beside     reads    mean     p50     p99     p99.9       max");
    for ranges in counts {
        let lock = RangeRwLock::new();
        let held: Vec<_> = (0..ranges)
            .map(|range| range * (HELD + GAP))
            .map(|start| lock.write(start..start + HELD).expect("not empty"))
            .collect();
        print(ranges, "nobody", read_gaps(&lock, ranges, run));

        let done = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let end = Instant::now() + Duration::from_millis(1);
                    assert!(lock.write_with(.., Wait::until(end)).is_err(), "everything is held");
                }
            });
            let took = read_gaps(&lock, ranges, run);
            done.store(true, Ordering::Relaxed);
            print(ranges, "a wait", took);
        });
        drop(held);
    }
}
