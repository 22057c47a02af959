//! Proposal 2 on a machine with a CPU for each thread: which threads spin, and for how long. Virtual time: the figures are
//! the same everywhere.

use std::cell::Cell;

use fairlock::events::{Event, EventCounts};
use fairlock::published::{Policy, ReaderSpin, RwSem};
use fairlock_sim::{Machine, Sim, Simulation, busy, now};
use fairlock_testing as _; // the watchdog

fn machine() -> Machine {
    Machine::builtin("cascade_lake_96").unwrap()
}

fn lock(reader_spin: ReaderSpin) -> (RwSem<Sim>, &'static EventCounts) {
    let lock = RwSem::new(Policy { reader_spin, ..Policy::HANDOFF });
    let counts: &EventCounts = Box::leak(Box::default());
    lock.set_events(Some(counts));
    (lock, counts)
}

fn wait_until(ns: u64) {
    busy(ns.saturating_sub(now()));
}

fn read(lock: &RwSem<Sim>, section_ns: u64) {
    lock.read();
    busy(section_ns);
    // SAFETY: just taken.
    unsafe { lock.unlock_read() };
}

fn write(lock: &RwSem<Sim>, section_ns: u64) {
    lock.write();
    busy(section_ns);
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

/// Eight readers come while a writer is inside: how many got in by spinning, and how many were granted the lock.
fn got_in(reader_spin: ReaderSpin) -> [usize; 2] {
    let (lock, counts) = lock(reader_spin);
    let (lock, machine) = (&lock, machine());
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(move || {
        wait_until(20_000);
        write(lock, 30_000);
    });
    for reader in 0..8 {
        simulation.spawn(move || {
            wait_until(25_000 + reader * 1_000);
            read(lock, 10_000);
        });
    }
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    [Event::OptLock, Event::ReadLock].map(|event| counts.get(event))
}

#[test]
fn no_reader_spins_or_one_or_all_as_the_policy_says() {
    assert_eq!(got_in(ReaderSpin::Off), [0, 8]);
    assert_eq!(got_in(ReaderSpin::One), [1, 7]);
    let [spun, granted] = got_in(ReaderSpin::On);
    assert!(spun > 1 && spun + granted == 8, "{spun} spun");
}

/// The first of two writers spins for readers that stay for long, and tells the second one.
#[test]
fn a_writer_spins_for_readers_for_10_to_25_us_and_the_next_one_does_not() {
    for readers in [1, 4, 40] {
        let (lock, counts) = lock(ReaderSpin::Off);
        let (lock, machine, queued) = (&lock, machine(), &Cell::new(0));
        let mut simulation = Simulation::new(&machine, 1);
        for _ in 0..readers {
            simulation.spawn(move || {
                wait_until(20_000);
                read(lock, 200_000);
            });
        }
        for came in [50_000, 100_000] {
            simulation.spawn(move || {
                wait_until(came);
                write(lock, 1_000);
            });
        }
        simulation.spawn(move || {
            while !lock.has_waiters() {
                busy(100);
            }
            queued.set(now());
        });
        simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        // With what it takes to look, and to queue.
        let spun = queued.get() - 50_000;
        assert!((10_000..30_000).contains(&spun), "{readers} readers: {spun} ns");
        assert_eq!(counts.get(Event::OptNospin), 1, "the second writer queued without spinning");
        assert_eq!(counts.get(Event::OptFail), 1);
    }
}
