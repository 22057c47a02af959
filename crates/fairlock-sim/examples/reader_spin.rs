//! Your own lock on your own machine: what a simulation needs of you.
//!
//! A cell of the published reader-spinning table: half of the threads read, half
//! write, some pauses in the section and nothing outside.
//!
//! ```sh
//! cargo run --release -p fairlock-sim --example reader_spin -- \
//!     [MACHINE] [THREADS] [PAUSES] [LOCK] [MILLISECONDS] [SEED]
//! ```
//!
//! *Your own machine*: copy one of `machines/*.toml`, change its numbers, and pass
//! its path as MACHINE. *Your own lock*: write it against `Platform`, as `Toggle`
//! below; it runs on Linux, on this machine, and under the model checker alike.

use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::Instant;

use fairlock::lock::RawRwLock;
use fairlock::lock_api;
use fairlock::platform::{Atomic, Platform};
use fairlock::published::{self, ReaderSpin};
use fairlock_sim::{Machine, Sim, Simulation, begin_locks};

/// A lock as this program uses it.
trait Lock {
    fn read(&self, section: &dyn Fn());
    fn write(&self, section: &dyn Fn());
}

/// fairlock's locks, as they are.
struct Ours<R>(R);

impl<R: lock_api::RawRwLock> Lock for Ours<R> {
    fn read(&self, section: &dyn Fn()) {
        self.0.lock_shared();
        section();
        // SAFETY: taken above.
        unsafe { self.0.unlock_shared() };
    }

    fn write(&self, section: &dyn Fn()) {
        self.0.lock_exclusive();
        section();
        // SAFETY: taken above.
        unsafe { self.0.unlock_exclusive() };
    }
}

/// The simplest lock there is: one word, taken by who sees it free first. Aligned
/// to a cache line, so that where it lies makes no difference.
#[repr(align(64))]
struct Toggle<P: Platform>(P::AtomicU32);

impl<P: Platform> Toggle<P> {
    fn new() -> Self {
        Self(P::AtomicU32::new(0))
    }

    fn with(&self, section: &dyn Fn()) {
        while self.0.swap(1, Ordering::Acquire) != 0 {
            // Asleep on the simulated machine, until the line is written.
            P::spin_until(&self.0, 1_000_000, |word: u32| word == 0);
        }
        section();
        self.0.store(0, Ordering::Release);
    }
}

/// Readers exclude each other.
impl Lock for Toggle<Sim> {
    fn read(&self, section: &dyn Fn()) {
        self.with(section);
    }

    fn write(&self, section: &dyn Fn()) {
        self.with(section);
    }
}

/// The locks by name: the published variants, the default, and your own.
fn lock(name: &str) -> Result<Box<dyn Lock>, String> {
    let published = |reader_spin| {
        let policy = published::Policy { reader_spin, ..published::Policy::HANDOFF };
        Box::new(Ours(published::RwSem::<Sim>::new(policy)))
    };
    Ok(match name {
        "default" => {
            // SAFETY: no lock of an earlier simulation is used any more.
            unsafe { begin_locks() };
            Box::new(Ours(RawRwLock::<Sim>::new_const()))
        }
        "vanilla" => published(ReaderSpin::Always),
        "before" => published(ReaderSpin::On),
        "limit_rspin" => published(ReaderSpin::One),
        "no_rspin" => published(ReaderSpin::Off),
        "toggle" => Box::new(Toggle::new()),
        other => {
            let known = "default, vanilla, before, limit_rspin, no_rspin, toggle";
            return Err(format!("no lock {other}; use one of {known}"));
        }
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &'static str| args.get(i).map_or(default, String::as_str);
    let machine = match arg(0, "cascade_lake_96") {
        path if path.ends_with(".toml") => Machine::load(path)?,
        name => Machine::builtin(name)?,
    };
    let (threads, pauses): (u32, u32) = (arg(1, "96").parse()?, arg(2, "20").parse()?);
    let lock = lock(arg(3, "default"))?;
    let (milliseconds, seed): (u64, u64) = (arg(4, "100").parse()?, arg(5, "1").parse()?);

    let mut simulation = Simulation::new(&machine, seed);
    let handles: Vec<_> = (0..threads as usize)
        .map(|thread| {
            let lock = &*lock;
            simulation.spawn(move || {
                let mut operations = 0_u64;
                let section = || fairlock_sim::pause(pauses);
                while !fairlock_sim::stopped() {
                    if thread % 2 == 0 {
                        lock.read(&section)
                    } else {
                        lock.write(&section)
                    }
                    operations += 1;
                }
                operations
            })
        })
        .collect();

    let began = Instant::now();
    let report = simulation.run_for(milliseconds * 1_000_000)?;
    let took = began.elapsed().as_secs_f64();

    let done: Vec<u64> = handles.into_iter().map(|handle| handle.join()).collect();
    let side = |first: usize| done.iter().skip(first).step_by(2).sum::<u64>() / milliseconds;
    println!("{}: {threads} threads, {pauses} pauses", machine.description().title);
    println!("simulated: {} + {} kop/s (reads + writes)", side(0), side(1));
    println!(
        "slowest and fastest thread: {} and {} operations",
        done.iter().min().unwrap_or(&0),
        done.iter().max().unwrap_or(&0)
    );
    println!("last thread ended at {:.3} ms", report.ended_ns as f64 / 1e6);
    println!(
        "real: {took:.2} s, {:.1} million simulated operations per second\n{:?}",
        report.operations.total() as f64 / took / 1e6,
        report.operations
    );
    Ok(())
}
