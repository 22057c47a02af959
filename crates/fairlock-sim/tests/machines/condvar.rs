//! What a condition variable costs the threads that run, in virtual time.

use std::cell::Cell;

use fairlock::condvar::WordCondvar;
use fairlock::lock::RawMutex;
use fairlock_sim::{Machine, Sim, Simulation, begin_locks, busy, stopped};
use fairlock_testing as _; // the watchdog

const RUN_NS: u64 = 50_000_000;
const CAPACITY: u64 = 16;

type Condvar = WordCondvar<Sim>;

/// A queue for as many producers as consumers.
struct Queue {
    mutex: RawMutex<Sim>,
    not_full: Condvar,
    not_empty: Condvar,
    items: Cell<u64>,
    passed: Cell<u64>,
    over: Cell<bool>,
}

impl Queue {
    /// Waits until it is so, changes the number of items, and tells one of the others.
    fn change(&self, mine: &Condvar, theirs: &Condvar, is_so: fn(u64) -> bool, by: i64) {
        self.mutex.lock();
        while !is_so(self.items.get()) && !self.over.get() {
            // SAFETY: taken above.
            unsafe { mine.wait(&self.mutex) };
        }
        busy(100);
        if !self.over.get() {
            self.items.set(self.items.get().wrapping_add_signed(by));
            self.passed.set(self.passed.get() + 1);
        }
        // SAFETY: taken above.
        unsafe { self.mutex.unlock() };
        theirs.notify_one();
    }

    fn end(&self) {
        self.over.set(true);
        self.not_full.notify_all();
        self.not_empty.notify_all();
    }
}

/// A notified thread does not have the mutex before it runs: those that run go on meanwhile.
/// (Each was handed the mutex while it slept, so that there was a switch of threads for nearly each
/// item.)
#[test]
fn a_notified_sleeper_does_not_hold_up_those_that_run() {
    let machine = Machine::builtin("two_cpu").unwrap();
    for threads in [8, 32] {
        // SAFETY: the locks of the run before are gone.
        unsafe { begin_locks() };
        let queue = Queue {
            mutex: RawMutex::new(),
            not_full: Condvar::new(),
            not_empty: Condvar::new(),
            items: Cell::new(0),
            passed: Cell::new(0),
            over: Cell::new(false),
        };
        let mut simulation = Simulation::new(&machine, 1);
        for thread in 0..threads {
            let queue = &queue;
            simulation.spawn(move || {
                while !stopped() {
                    if thread % 2 == 0 {
                        queue.change(&queue.not_full, &queue.not_empty, |n| n < CAPACITY, 1);
                    } else {
                        queue.change(&queue.not_empty, &queue.not_full, |n| n > 0, -1);
                    }
                }
                queue.end();
            });
        }
        simulation.run_for(RUN_NS).unwrap_or_else(|stuck| panic!("{stuck}"));
        let passed = queue.passed.get();
        assert!(passed > 20_000, "{passed} changes by {threads} threads");
    }
}
