//! Results do not depend on addresses: of what is in threads' frames, and of locks.

use std::cell::Cell;
use std::hint::black_box;

use fairlock::condvar::TicketCondvar;
use fairlock::range::{RangePolicy, RangeRwLock};
use fairlock::rwsem::Policy;
use fairlock::thin::ThinRwSem;
use fairlock::ticket::{Adaptive, AdaptiveTicketLock};
use fairlock_sim::{Machine, Sim, Simulation, begin_thin_locks, busy, random, stopped};
use fairlock_testing as _; // the watchdog

const RUN_NS: u64 = 400_000;
const THREADS: usize = 32;

/// Calls `body` with its frames this many bytes further down.
#[inline(never)]
fn below<const BYTES: usize>(body: &dyn Fn()) {
    let frame = [0_u8; BYTES];
    black_box(&frame);
    body();
    black_box(&frame);
}

const DEPTHS: [fn(&dyn Fn()); 5] =
    [below::<0>, below::<16>, below::<32>, below::<48>, below::<5000>];

/// When these threads ended, and how many operations of each kind they did.
fn run(body: &dyn Fn(usize)) -> String {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let mut simulation = Simulation::new(&machine, 1);
    for thread in 0..THREADS {
        simulation.spawn(move || body(thread));
    }
    let report = simulation.run_for(RUN_NS).unwrap();
    format!("{} {:?}", report.ended_ns, report.operations)
}

fn assert_all_the_same(results: impl Iterator<Item = String>) {
    let results: Vec<String> = results.collect();
    assert!(results.iter().all(|result| *result == results[0]), "{results:#?}");
}

#[test]
fn where_in_its_frames_a_waiter_for_a_range_is_makes_no_difference() {
    assert_all_the_same(DEPTHS.iter().map(|deeper| {
        let lock = RangeRwLock::<Sim>::on_platform(RangePolicy::default());
        run(&|_| {
            deeper(&|| {
                while !stopped() {
                    let first = random(16);
                    let held = lock.write(first..=first + 3);
                    busy(500);
                    drop(held);
                }
            });
        })
    }));
}

#[test]
fn where_in_its_frames_a_waiter_of_a_condvar_is_makes_no_difference() {
    assert_all_the_same(DEPTHS.iter().map(|deeper| {
        let mutex = AdaptiveTicketLock::<Sim>::new();
        let all = TicketCondvar::<Sim, Adaptive<65_536>>::new();
        let (waiting, round, over) = (Cell::new(0), Cell::new(0), Cell::new(false));
        run(&|_| {
            deeper(&|| {
                while !stopped() {
                    mutex.lock();
                    waiting.set(waiting.get() + 1);
                    let mine = round.get();
                    if waiting.get() == THREADS {
                        waiting.set(0);
                        round.set(mine + 1);
                        all.notify_all();
                    }
                    while round.get() == mine && !over.get() {
                        // SAFETY: taken above, and again by the wait.
                        unsafe { all.wait(&mutex) };
                    }
                    // SAFETY: as above.
                    unsafe { mutex.unlock() };
                }
                over.set(true);
                all.notify_all();
            });
        })
    }));
}

#[test]
fn where_locks_are_makes_no_difference() {
    const LOCKS: usize = 64;
    #[repr(align(128))]
    struct Padded(ThinRwSem<Sim>);
    assert_all_the_same([0, 1, 3, 32, 33].into_iter().map(|first| {
        // SAFETY: the locks are used and dropped here.
        unsafe { begin_thin_locks() };
        let locks: Vec<_> =
            (0..first + LOCKS).map(|_| Padded(ThinRwSem::new(Policy::DEFAULT))).collect();
        let locks = &locks[first..];
        run(&|_| {
            while !stopped() {
                let lock = &locks[random(LOCKS as u64) as usize].0;
                lock.write();
                busy(500);
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
            }
        })
    }));
}
