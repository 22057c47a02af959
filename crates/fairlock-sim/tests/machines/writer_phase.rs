//! Proposal 5 on a machine where a woken writer needs its time to run. Virtual time: the figures are the same
//! everywhere.

use std::cell::{Cell, RefCell};

use fairlock::published::{Policy, RwSem};
use fairlock_sim::{Machine, Sim, Simulation, busy, now, sleep, stopped};
use fairlock_testing as _; // the watchdog

fn machine() -> Machine {
    Machine::builtin("cascade_lake_96").unwrap()
}

fn read(lock: &RwSem<Sim>, section: impl FnOnce()) {
    lock.read();
    section();
    // SAFETY: just taken.
    unsafe { lock.unlock_read() };
}

fn write(lock: &RwSem<Sim>, section: impl FnOnce()) {
    lock.write();
    section();
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

/// The longest wait of a writer beside one reader that reads again and again, each time with I/O, in ns.
fn longest_wait(policy: Policy) -> u64 {
    let lock = &RwSem::<Sim>::new(policy);
    let longest = &Cell::new(0);
    let machine = machine();
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(move || {
        while !stopped() {
            read(lock, || sleep(50_000));
        }
    });
    simulation.spawn(move || {
        while !stopped() {
            let began = now();
            write(lock, || longest.set(longest.get().max(now() - began)));
            busy(200_000);
        }
    });
    simulation.run_for(30_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    longest.get()
}

#[test]
fn a_writer_waits_for_one_read_not_for_its_deadline() {
    let (before, since) = (Policy::NO_READER_SPIN, Policy::WRITER_PHASE);
    let waits = [before, since].map(longest_wait);
    assert!(waits[0] > 4_000_000, "{waits:?}: read again at each release, until the handoff");
    assert!(waits[1] < 300_000, "{waits:?}: a read and two wake-ups");
}

/// The order in which threads get in, where a writer is inside, a reader and two writers queue behind it, and another
/// reader comes at `arrival`; and when the queued reader leaves.
fn order(policy: Policy, arrival: u64) -> (String, u64) {
    let lock = &RwSem::<Sim>::new(policy);
    let (order, left) = (&RefCell::new(String::new()), &Cell::new(0));
    let machine = machine();
    let mut simulation = Simulation::new(&machine, 1);
    let enters = |thread| order.borrow_mut().push(thread);
    let at = |ns: u64| busy(ns.saturating_sub(now()));
    simulation.spawn(move || {
        at(20_000);
        write(lock, || busy(180_000));
    });
    simulation.spawn(move || {
        at(100_000);
        read(lock, || {
            enters('r');
            busy(50_000);
            left.set(now());
        });
    });
    for came in [120_000, 130_000] {
        simulation.spawn(move || {
            at(came);
            write(lock, || {
                enters('w');
                busy(5_000);
            });
        });
    }
    simulation.spawn(move || {
        at(arrival);
        read(lock, || enters('R'));
    });
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    (order.take(), left.get())
}

/// It comes at each instant around the release of the reader that was granted the lock: a moment before the
/// wake check of that release, too; and then while each of the writers is inside, or on its way after a release.
#[test]
fn no_reader_passes_two_writers_that_queue_behind_a_reader() {
    let passes = |policy| {
        let policy = Policy { writer_spin: false, ..policy };
        let left = order(policy, 10_000_000).1;
        let arrivals = (left - 300..left + 500).step_by(20);
        let later = (left + 500..left + 100_000).step_by(500);
        arrivals.chain(later).filter(|&arrival| order(policy, arrival).0 != "rwwR").count()
    };
    assert!(passes(Policy::NO_READER_SPIN) > 0, "without the phase it does");
    assert_eq!(passes(Policy::WRITER_PHASE), 0);
}
