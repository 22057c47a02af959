//! Results do not depend on addresses: of what is in threads' frames, and of locks.

#[allow(dead_code, reason = "the example needs more of it")]
#[path = "../examples/bound/main.rs"]
mod bound;

use std::cell::Cell;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::Ordering;

use fairlock::lock::{Policy, RawRwLock};
use fairlock::platform::Atomic;
use fairlock_sim::{Machine, Sim, SimU64, Simulation, begin_locks, busy, random, stopped};
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

/// What a thread has in its frame: a word for itself, and one for another thread.
struct Frame {
    own: SimU64,
    between: [u8; 24],
    others: SimU64,
}

#[test]
fn where_in_its_frames_a_thread_has_its_words_makes_no_difference() {
    assert_all_the_same(DEPTHS.iter().map(|deeper| {
        let frames = [const { Cell::new(ptr::null::<Frame>()) }; THREADS];
        let there = Cell::new(0);
        // Frames are there from when all are until nobody uses them any more.
        let all_come = |by: usize| {
            there.set(there.get() + 1);
            while there.get() < by * THREADS {
                busy(100);
            }
        };
        run(&|thread| {
            deeper(&|| {
                let frame = Frame { own: SimU64::new(0), between: [0; 24], others: SimU64::new(0) };
                black_box(&frame.between);
                frames[thread].set(&raw const frame);
                all_come(1);
                // SAFETY: there until all have come again.
                let other = unsafe { &*frames[(thread + 1) % THREADS].get() };
                while !stopped() {
                    frame.own.fetch_add(1, Ordering::Relaxed);
                    other.others.fetch_add(1, Ordering::Relaxed);
                }
                all_come(2);
            });
        })
    }));
}

#[test]
fn where_locks_are_makes_no_difference() {
    const LOCKS: usize = 64;
    #[repr(align(128))]
    struct Padded(RawRwLock<Sim>);
    assert_all_the_same([0, 1, 3, 32, 33].into_iter().map(|first| {
        // SAFETY: the locks are used and dropped here.
        unsafe { begin_locks() };
        let locks: Vec<_> =
            (0..first + LOCKS).map(|_| Padded(RawRwLock::new(Policy::DEFAULT))).collect();
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

/// An adversary that uses many locks, and one that cancels waits.
#[test]
fn where_the_locks_of_adversaries_are_makes_no_difference() {
    let machine = Machine::builtin("nvme_8").unwrap();
    for name in ["eight locks a thread", "cancel storm"] {
        let adversary = bound::adversaries::ALL.iter().find(|one| one.name == name).unwrap();
        let (form, machine) = (bound::Form::Mutex, &machine);
        let attack = bound::Attack { form, machine, adversary, threads: 8, seed: 1 };
        assert_all_the_same(DEPTHS.iter().enumerate().map(|(nth, deeper)| {
            // More than the allocator has free.
            let in_use: Vec<_> = (0..1_000 + nth).map(|_| Box::new([0_u8; 16])).collect();
            let worst = Cell::default();
            deeper(&|| worst.set(bound::run(attack)));
            drop(black_box(in_use));
            format!("{:?}", worst.get())
        }));
    }
}
