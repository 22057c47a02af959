//! The locks as they are, on simulated machines: they exclude, nobody is lost,
//! and the same seed gives the same run.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use fairlock::lock::{Policy, RawRwLock};
use fairlock::lock_api;
use fairlock::platform::{Atomic, Platform, System};
use fairlock::published::{self, ReaderSpin};
use fairlock::range::{RangePolicy, RangeRwLock};
use fairlock::ticket::{AdaptiveTicketLock, BatchedTicketLock};
use fairlock_sim::{Machine, Report, Sim, Simulation, begin_locks, busy, random, sleep, stopped};

/// A lock under test: runs a section under it, for reading or for writing.
type With<'a> = &'a dyn Fn(bool, &dyn Fn());

/// Who is inside, and whether anybody ever met somebody else there.
#[derive(Default)]
struct Room {
    readers: Cell<u32>,
    writers: Cell<u32>,
    met: Cell<u32>,
}

impl Room {
    fn visit(&self, writes: bool, stay: impl FnOnce()) {
        let inside = if writes { &self.writers } else { &self.readers };
        inside.set(inside.get() + 1);
        self.check();
        stay();
        self.check();
        inside.set(inside.get() - 1);
    }

    fn check(&self) {
        let (readers, writers) = (self.readers.get(), self.writers.get());
        if writers > 1 || (writers == 1 && readers > 0) {
            self.met.set(self.met.get() + 1);
        }
    }
}

/// A lock for a simulation that is about to begin.
fn lock_of(policy: Policy) -> RawRwLock<Sim> {
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    RawRwLock::new(policy)
}

/// Threads of both kinds for a while; sections that run and that sleep.
fn visits(machine: &Machine, threads: usize, seed: u64, with: With) -> (Report, Vec<u32>, u32) {
    let room = Room::default();
    let mut simulation = Simulation::new(machine, seed);
    let room_ref = &room;
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            simulation.spawn(move || {
                let mut operations = 0;
                while !stopped() {
                    let writes = thread % 3 == 0;
                    with(writes, &|| {
                        room_ref.visit(writes, || match random(40) {
                            0 => sleep(2_000),
                            n => busy(n * 20),
                        });
                    });
                    operations += 1;
                }
                operations
            })
        })
        .collect();
    let report = simulation.run_for(3_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    (report, handles.into_iter().map(|handle| handle.join()).collect(), room.met.get())
}

fn machines() -> Vec<(Machine, usize)> {
    let builtin = |name| Machine::builtin(name).unwrap();
    // More threads than CPUs, and as many.
    vec![(builtin("opteron_4"), 10), (builtin("cascade_lake_96"), 96), (builtin("guests_32"), 24)]
}

/// Nobody meets anybody, and everybody returns from every acquisition.
fn excludes(with: With) {
    for (machine, threads) in machines() {
        let (_, operations, met) = visits(&machine, threads, 1, with);
        assert_eq!(met, 0, "{}", machine.name());
        assert_eq!(operations.len(), threads);
        assert!(operations.iter().sum::<u32>() > 100, "{}: {operations:?}", machine.name());
    }
}

fn with_rw_sem(lock: &impl lock_api::RawRwLock, writes: bool, section: &dyn Fn()) {
    if writes {
        lock.lock_exclusive();
        section();
        // SAFETY: taken above.
        unsafe { lock.unlock_exclusive() };
    } else {
        lock.lock_shared();
        section();
        // SAFETY: taken above.
        unsafe { lock.unlock_shared() };
    }
}

#[test]
fn rw_sem_excludes_under_every_policy() {
    let lock = lock_of(fairlock::Policy::DEFAULT);
    excludes(&|writes, section| with_rw_sem(&lock, writes, section));
    assert!(!lock.is_locked() && !lock.has_waiters());

    use published::Policy;
    for policy in [
        Policy::UNFAIR,
        Policy::HANDOFF,
        Policy::NO_READER_SPIN,
        Policy::WRITER_PHASE,
        Policy { reader_spin: ReaderSpin::One, ..Policy::HANDOFF },
        Policy { reader_spin: ReaderSpin::Always, ..Policy::HANDOFF },
    ] {
        let lock = published::RwSem::<Sim>::new(policy);
        excludes(&|writes, section| with_rw_sem(&lock, writes, section));
        assert!(!lock.is_locked() && !lock.has_waiters());
    }
}

#[test]
fn range_lock_excludes_under_every_policy() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        // SAFETY: no lock of an earlier simulation is used any more.
        unsafe { begin_locks() };
        let lock = RangeRwLock::<Sim>::with_policy(policy);
        excludes(&|writes, section| {
            // All of them overlap at 500.
            let range = random(500)..501 + random(500);
            if writes {
                let _guard = lock.write(range).unwrap();
                section();
            } else {
                let _guard = lock.read(range).unwrap();
                section();
            }
        });
        assert!(!lock.is_locked());
    }
}

#[test]
fn ticket_locks_exclude() {
    let alone = |with: &dyn Fn(&dyn Fn())| {
        for (machine, threads) in machines() {
            let (_, operations, met) = visits(&machine, threads, 1, &|_, section| with(section));
            assert_eq!(met, 0);
            assert!(operations.iter().sum::<u32>() > 100, "{}: {operations:?}", machine.name());
        }
    };
    let fixed = BatchedTicketLock::<Sim, 8>::new();
    alone(&|section| {
        fixed.lock();
        section();
        // SAFETY: taken above.
        unsafe { fixed.unlock() };
    });
    let adaptive = AdaptiveTicketLock::<Sim>::new();
    alone(&|section| {
        adaptive.lock();
        section();
        // SAFETY: taken above.
        unsafe { adaptive.unlock() };
    });
}

/// A lock that looks before it takes: two can see it free.
#[repr(align(64))]
struct Broken<P: Platform>(P::AtomicU32);

impl Broken<Sim> {
    fn with(&self, section: &dyn Fn()) {
        while self.0.load(Ordering::Acquire) != 0 {
            Sim::spin_until(&self.0, 1_000, |word: u32| word == 0);
        }
        self.0.store(1, Ordering::Relaxed);
        section();
        self.0.store(0, Ordering::Release);
    }
}

#[test]
fn a_lock_that_does_not_exclude_is_noticed() {
    for (machine, threads) in machines() {
        let lock = Broken::<Sim>(Atomic::new(0));
        let met = |seed| visits(&machine, threads, seed, &|_, section| lock.with(section)).2;
        // With a few CPUs two are seldom there at once.
        assert!((1..=8).any(|seed| met(seed) > 0), "{}", machine.name());
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for (machine, threads) in machines() {
        let run = |seed| {
            let lock = lock_of(Policy::DEFAULT);
            let (report, operations, _) = visits(&machine, threads, seed, &|writes, section| {
                with_rw_sem(&lock, writes, section)
            });
            format!("{report:?} {operations:?}")
        };
        let first = run(1);
        // Elsewhere in memory, and on another OS thread.
        let elsewhere = fairlock_testing::scope(|s| {
            s.spawn(|| {
                let _moved = vec![0_u8; 12_345];
                run(1)
            })
            .join()
            .unwrap()
        });
        assert_eq!(first, elsewhere, "{}", machine.name());
        assert_ne!(first, run(2), "{}", machine.name());
    }
}

#[test]
fn a_free_lock_can_be_used_outside_of_a_simulation() {
    let lock = lock_of(Policy::DEFAULT);
    with_rw_sem(&lock, true, &|| assert!(lock.is_write_locked()));
    with_rw_sem(&lock, false, &|| assert!(lock.is_locked()));
}

#[test]
#[should_panic(expected = "outside of a simulation")]
fn waiting_outside_of_a_simulation_panics() {
    let lock = published::RwSem::<Sim>::new(published::Policy::UNFAIR);
    lock.write();
    lock.write();
}

/// Threads that read and write by turns have no sides that could take turns: whoever
/// has the lock goes on until its tenure ends, and a lock that nobody is inside is not
/// left alone until a timer expires.
#[test]
fn threads_that_read_and_write_by_turns_do_not_hand_over_at_each_turn() {
    let machine = Machine::builtin("opteron_4").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let mut simulation = Simulation::new(&machine, 1);
    let handles: Vec<_> = (0..8)
        .map(|_| {
            simulation.spawn(|| {
                let mut operations = 0_u32;
                while !stopped() {
                    with_rw_sem(&lock, random(11) == 0, &|| busy(50));
                    operations += 1;
                }
                operations
            })
        })
        .collect();
    const RUN_NS: u64 = 20_000_000;
    simulation.run_for(RUN_NS).unwrap_or_else(|stuck| panic!("{stuck}"));
    let operations: u32 = handles.into_iter().map(|handle| handle.join()).sum();
    println!("{operations}");
    // Of those that one thread alone could make, a good part.
    assert!(u64::from(operations) > RUN_NS / 50 / 8, "{operations}");
}
