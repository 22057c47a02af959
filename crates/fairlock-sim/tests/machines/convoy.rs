//! What only many CPUs show of the locks, in virtual time: nobody falls asleep in a
//! line that moves.

use std::cell::Cell;

use fairlock::lock::{Policy, RawRwLock};
use fairlock::lock_api;
use fairlock::published;
use fairlock::range::RangeRwLock;
use fairlock::ticket::AdaptiveTicketLock;
use fairlock_sim::{Machine, Sim, Simulation, begin_locks, busy, now, pause, sleep, stopped};
use fairlock_testing as _; // the watchdog

const THREADS: u64 = 96;

/// A lock for a simulation that is about to begin.
fn lock_of(policy: Policy) -> RawRwLock<Sim> {
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    RawRwLock::new(policy)
}

/// As many threads as CPUs come to a ticket lock at once: each has its section,
/// one after the other. (All competed for every release, some gave up and slept,
/// and the last ones were woken one by one: 2 ms.)
#[test]
fn a_crowd_passes_a_ticket_lock_awake() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let lock = AdaptiveTicketLock::<Sim>::new();
    let mut simulation = Simulation::new(&machine, 1);
    for _ in 0..THREADS {
        simulation.spawn(|| {
            // All of them run by then.
            busy(200_000 - now());
            lock.lock();
            busy(500);
            // SAFETY: taken above.
            unsafe { lock.unlock() };
        });
    }
    let report = simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    let sleeps: u64 = report.threads.iter().map(|thread| thread.sleeps).sum();
    assert!(sleeps <= 4, "{sleeps} sleeps");
    assert!(report.ended_ns < 200_000 + THREADS * 8_000, "ended at {} ns", report.ended_ns);
}

/// Sections of a millisecond after thousands of short ones: the batch that was large
/// enough for the short ones must not keep anybody waiting for minutes.
#[test]
fn adaptive_batches_close_early_when_sections_grow() {
    const SLOW_FROM: u64 = 20_000_000;
    let machine = Machine::builtin("two_cpu").unwrap();
    let lock = AdaptiveTicketLock::<Sim>::new();
    let longest = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    for _ in 0..6 {
        simulation.spawn(|| {
            while !stopped() {
                let came = now();
                lock.lock();
                if now() > SLOW_FROM {
                    longest.set(longest.get().max(now() - came));
                    sleep(1_000_000);
                }
                // SAFETY: taken above.
                unsafe { lock.unlock() };
            }
        });
    }
    simulation.run_for(40 * SLOW_FROM).unwrap_or_else(|stuck| panic!("{stuck}"));
    assert!(longest.get() < 200_000_000, "waited {} ns", longest.get());
}

/// The lock changes sides again and again, with a crowd of readers at the queue
/// lock each time, and has time left for writers. (They got one section in 2 ms.)
#[test]
fn a_crowd_of_readers_leaves_writers_their_share() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let writes = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    for thread in 0..THREADS {
        simulation.spawn({
            let (lock, writes) = (&lock, &writes);
            move || {
                while !stopped() {
                    if thread % 2 == 0 {
                        lock.read();
                        pause(20);
                        // SAFETY: taken above.
                        unsafe { lock.unlock_read() };
                    } else {
                        lock.write();
                        pause(20);
                        writes.set(writes.get() + 1);
                        // SAFETY: taken above.
                        unsafe { lock.unlock_write() };
                    }
                }
            }
        });
    }
    simulation.run_for(20_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    assert!(writes.get() > 5_000, "{} writes in 20 ms", writes.get());
}

/// Sixty writers, each asleep inside, and wake-ups of 10 to 100 µs: the lock goes on
/// working while the one who is next wakes up. (It stood idle for a quarter of the time.)
#[test]
fn a_lock_that_is_handed_on_works_while_the_next_wakes_up() {
    fn writes(lock: impl lock_api::RawRwLock, seed: u64) -> u64 {
        let machine = Machine::builtin("skylake_80").unwrap();
        let writes = Cell::new(0);
        let mut simulation = Simulation::new(&machine, seed);
        for _ in 0..60 {
            simulation.spawn(|| {
                while !stopped() {
                    lock.lock_exclusive();
                    sleep(1_000);
                    writes.set(writes.get() + 1);
                    // SAFETY: taken above.
                    unsafe { lock.unlock_exclusive() };
                }
            });
        }
        simulation.run_for(300_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
        writes.get()
    }
    // One seed differs from another by a hundredth or two.
    let unfair = || published::RwSem::<Sim>::new(published::Policy::UNFAIR);
    let stolen: u64 = (1..=4).map(|seed| writes(unfair(), seed)).sum();
    let handed_on: u64 = (1..=4).map(|seed| writes(lock_of(Policy::DEFAULT), seed)).sum();
    assert!(handed_on * 100 > stolen * 92, "{handed_on} writes, {stolen} if nobody is served");
}

/// Ranges that have nothing to do with each other are held by as many threads at a time
/// as there are CPUs. (All of them changed one word, then met at one lock, and had a
/// twentieth of that.)
#[test]
fn disjoint_ranges_scale_with_the_cpus() {
    const SECTION_NS: u64 = 10_000;
    const RUN_NS: u64 = 20_000_000;
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    let lock = RangeRwLock::<Sim>::default();
    let held = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    for thread in 0..THREADS {
        simulation.spawn({
            let (lock, held) = (&lock, &held);
            move || {
                while !stopped() {
                    let guard = lock.write(thread * 4096..(thread + 1) * 4096).unwrap();
                    busy(SECTION_NS);
                    drop(guard);
                    held.set(held.get() + 1);
                }
            }
        });
    }
    simulation.run_for(RUN_NS).unwrap_or_else(|stuck| panic!("{stuck}"));
    // Both threads of each core work, and slow each other down.
    let section_ns = SECTION_NS as f64 * machine.description().instructions.shared_core;
    let most = THREADS * RUN_NS / section_ns as u64;
    assert!(held.get() > most * 7 / 10, "{} of {most}", held.get());
}

/// As many threads as CPUs read, and a read in a hundred is a write: a thread that sleeps leaves its CPU to nobody. (All
/// slept who waited for more than a microsecond.) With more or less work outside the share of sleeps varies by half, so it
/// is that of several runs.
#[test]
fn who_waits_beside_idle_cpus_stays_awake() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let (operations, mut sleeps) = (Cell::new(0), 0);
    for outside in (10_000..10_600).step_by(40) {
        let lock = lock_of(Policy::DEFAULT);
        let mut simulation = Simulation::new(&machine, 1);
        for thread in 0..THREADS {
            let (lock, operations) = (&lock, &operations);
            simulation.spawn(move || {
                let mut round = thread;
                while !stopped() {
                    round += 1;
                    if round.is_multiple_of(100) {
                        lock.write();
                        busy(1_000);
                        // SAFETY: taken above.
                        unsafe { lock.unlock_write() };
                    } else {
                        lock.read();
                        busy(1_000);
                        // SAFETY: taken above.
                        unsafe { lock.unlock_read() };
                    }
                    operations.set(operations.get() + 1);
                    busy(outside);
                }
            });
        }
        let report = simulation.run_for(10_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
        sleeps += report.threads.iter().map(|thread| thread.sleeps).sum::<u64>();
    }
    assert!(sleeps * 15 < operations.get(), "{sleeps} sleeps, {} operations", operations.get());
}
