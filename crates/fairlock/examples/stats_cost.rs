//! What a name costs: nanoseconds for an acquisition and its release, of a lock without a name, of one with
//! a name while statistics are off, and of one while they are on; by one thread, and by four that contend.
//!
//! `cargo run --release -p fairlock --example stats_cost`. The three take turns; each figure is the
//! median of all rounds, with the difference to the first.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use fairlock::stats::{self, NamedExt};
use fairlock::{Mutex, RwLock};

const ROUNDS: usize = 301;
const ACQUISITIONS: u32 = 20_000;

/// Nanoseconds for one call of `f` when so many threads call it.
fn time(threads: u32, f: &(impl Fn() + Sync)) -> f64 {
    let call = || (0..ACQUISITIONS).for_each(|_| f());
    let began = Instant::now();
    thread::scope(|s| {
        (1..threads).for_each(|_| _ = s.spawn(call));
        call();
    });
    began.elapsed().as_nanos() as f64 / f64::from(ACQUISITIONS * threads)
}

/// One row: the lock without a name, with one while off, and while on.
fn row(what: &str, threads: u32, plain: impl Fn() + Sync, named: impl Fn() + Sync) {
    let mut all = [(); 3].map(|()| Vec::new());
    for _ in 0..ROUNDS / threads as usize {
        all[0].push(time(threads, &plain));
        for on in [false, true] {
            stats::set_collecting(on);
            all[1 + usize::from(on)].push(time(threads, &named));
        }
    }
    let [plain, off, on] = all.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let (more_off, more_on) = (off - plain, on - plain);
    println!("{what:24} {plain:8.1} {off:8.1} ({more_off:+5.1}) {on:8.1} ({more_on:+5.1})");
}

fn main() {
    let (mutex, named_mutex) = (Mutex::new(0_u64), Mutex::named("mutex", 0_u64));
    let (rwlock, named_rwlock) = (RwLock::new(0_u64), RwLock::named("rwlock", 0_u64));
    println!("{:24} {:>8} {:>8} {:>15}", "ns", "no name", "off", "on");
    for threads in [1, 4] {
        let label = |what: &str| format!("{what}, threads: {threads}");
        row(&label("Mutex::lock"), threads, || *mutex.lock() += 1, || *named_mutex.lock() += 1);
        row(
            &label("RwLock::write"),
            threads,
            || *rwlock.write() += 1,
            || {
                *named_rwlock.write() += 1;
            },
        );
        row(
            &label("RwLock::read"),
            threads,
            || _ = black_box(*rwlock.read()),
            || {
                _ = black_box(*named_rwlock.read());
            },
        );
    }
    println!("\n{}", stats::snapshot());
}
