//! Nobody sleeps at a range that is free for longer than a wake-up takes: in virtual
//! time, on machines where one takes 5 to 30 µs.
//!
//! (It took 4 ms at times, until the one that slept was not to be overtaken any longer.
//! The full range, which is had by the gate, is a matter of `RwSem`.)

use std::cell::{Cell, RefCell};
use std::time::Duration;

use fairlock::range::{RangePolicy, RangeRwLock};
use fairlock::wait::Wait;
use fairlock_sim::{Machine, Sim, Simulation, begin_locks, busy, now, random, sleep, stopped};
use fairlock_testing as _; // the watchdog

const MACHINES: [&str; 2] = ["two_cpu", "cascade_lake_96"];
/// From the release until who was asleep has its range.
const WAKE_UP_NS: u64 = 60_000;
/// The same if ranges were just in use: a nap, the timer's slack, and a wake-up.
const NAP_NS: u64 = 140_000;

type Lock = RangeRwLock<Sim>;

/// A lock for a simulation that is about to begin.
fn lock_of(policy: RangePolicy) -> Lock {
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    Lock::on_platform(policy)
}
type Positions = (u64, u64);

fn with<R>(lock: &Lock, writes: bool, (start, last): Positions, stay: impl FnOnce() -> R) -> R {
    if writes {
        let _guard = lock.write(start..=last).unwrap();
        stay()
    } else {
        let _guard = lock.read(start..=last).unwrap();
        stay()
    }
}

fn run(simulation: Simulation<'_>) {
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
}

fn sleep_until(ns: u64) {
    sleep(ns.saturating_sub(now()));
}

/// The longest time from a release until the waiter is inside. The holder is inside for
/// so long, then away for some milliseconds.
fn longest_wait(
    machine: &Machine,
    section_ns: u64,
    [holder_writes, waiter_writes]: [bool; 2],
    [held, wanted]: [Positions; 2],
) -> u64 {
    const ROUNDS: u64 = 20;
    let lock = lock_of(RangePolicy::DEFAULT);
    let (round, released, longest) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let mut simulation = Simulation::new(machine, 7);
    simulation.spawn(|| {
        for _ in 0..ROUNDS {
            with(&lock, holder_writes, held, || {
                round.set(round.get() + 1);
                match section_ns {
                    0..3_000_000 => busy(section_ns),
                    _ => sleep(section_ns),
                }
                released.set(now());
            });
            sleep(6_000_000 + random(1_000_000));
        }
    });
    simulation.spawn(|| {
        for turn in 1..=ROUNDS {
            while round.get() < turn {
                busy(1_000);
            }
            with(&lock, waiter_writes, wanted, || {
                assert_eq!(round.get(), turn);
                longest.set((now() - released.get()).max(longest.get()));
            });
        }
    });
    run(simulation);
    longest.get()
}

#[test]
fn one_that_sleeps_has_its_range_a_wake_up_after_it_fell_free() {
    for machine in MACHINES.map(|name| Machine::builtin(name).unwrap()) {
        for section_us in [30, 70, 100, 300, 1_000, 3_000, 10_000] {
            for kinds in [[true, true], [true, false], [false, true]] {
                for wanted in [(0, 9), (0, u64::MAX)] {
                    let ns = longest_wait(&machine, 1_000 * section_us, kinds, [(5, 14), wanted]);
                    assert!(
                        ns <= WAKE_UP_NS,
                        "{}: {ns} ns, {kinds:?} {wanted:?} after {section_us} us",
                        machine.name(),
                    );
                }
            }
        }
    }
}

/// For how long at a time a range was free that somebody waited for.
#[derive(Default)]
struct Idle {
    waiting: Cell<u32>,
    inside: Cell<u32>,
    since: Cell<u64>,
    longest: Cell<u64>,
}

impl Idle {
    fn change(&self, count: &Cell<u32>, by: i32) {
        if self.waiting.get() > 0 && self.inside.get() == 0 {
            self.longest.set(self.longest.get().max(now() - self.since.get()));
        }
        count.set(count.get().strict_add_signed(by));
        self.since.set(now());
    }
}

/// Threads that use a range for a while, then stay away, again and again.
#[test]
fn a_range_that_was_in_use_a_moment_ago_is_not_left_idle() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    for section_ns in [200, 3_000, 20_000, 70_000, 150_000] {
        for writes in [100, 50] {
            let (lock, idle) = (lock_of(RangePolicy::DEFAULT), Idle::default());
            let mut simulation = Simulation::new(&machine, 3);
            for _ in 0..8 {
                simulation.spawn(|| {
                    while !stopped() {
                        for _ in 0..random(40) {
                            idle.change(&idle.waiting, 1);
                            with(&lock, random(100) < writes, (0, 9), || {
                                idle.change(&idle.inside, 1);
                                idle.change(&idle.waiting, -1);
                                busy(section_ns);
                                idle.change(&idle.inside, -1);
                            });
                            busy(500);
                        }
                        sleep(random(4_000_000));
                    }
                });
            }
            simulation.run_for(100_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
            let longest = idle.longest.get();
            assert!(longest <= NAP_NS, "{longest} ns, sections of {section_ns}, {writes} % writes");
        }
    }
}

/// Who still has to wait does not stand in the way of who has not.
#[test]
fn one_that_sleeps_behind_a_wider_one_goes_on_when_it_can() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let (lock, released) = (lock_of(RangePolicy::DEFAULT), Cell::new(0));
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(|| with(&lock, true, (0, 9), || sleep(3_500_000)));
    simulation.spawn(|| {
        with(&lock, true, (20, 29), || {
            sleep_until(2_000_000);
            released.set(now());
        });
    });
    simulation.spawn(|| {
        sleep_until(300_000);
        with(&lock, true, (5, 25), || ());
    });
    simulation.spawn(|| {
        sleep_until(600_000);
        let arrived = with(&lock, true, (22, 27), now);
        assert!(released.get() > 0 && arrived - released.get() <= WAKE_UP_NS);
    });
    run(simulation);
}

/// Who is in the tree is in the way of those that may be overtaken, until it gives up.
#[test]
fn one_that_sleeps_goes_on_when_one_that_is_queued_gives_up() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let lock = lock_of(RangePolicy { overtaken_for: Duration::from_micros(10) });
    let gave_up = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(|| with(&lock, true, (0, 9), || sleep(20_000_000)));
    simulation.spawn(|| {
        sleep_until(300_000);
        assert!(lock.write_with(5..=25, Wait::within(Duration::from_micros(3_000))).is_err());
        gave_up.set(now());
    });
    simulation.spawn(|| {
        sleep_until(3_000_000);
        let arrived = with(&lock, true, (20, 25), now);
        assert!(gave_up.get() > 0 && arrived - gave_up.get() <= WAKE_UP_NS);
    });
    run(simulation);
}

/// How often the one that waits fell asleep within 3 ms in which another one uses a part
/// of what it waits for, every so often.
fn sleeps_beside_uses(every_ns: u64) -> u64 {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let lock = lock_of(RangePolicy::DEFAULT);
    let mut simulation = Simulation::new(&machine, 1);
    // The one that comes and goes has the first slot, and so is seen to be in the way.
    simulation.spawn(|| {
        with(&lock, false, (20, 25), || sleep(150_000));
        sleep_until(300_000);
        while now() < 3_200_000 {
            with(&lock, false, (20, 25), || busy(200));
            busy(every_ns);
        }
    });
    simulation.spawn(|| {
        sleep_until(100_000);
        with(&lock, true, (0, 9), || sleep_until(3_300_000));
    });
    simulation.spawn(|| {
        sleep_until(120_000);
        with(&lock, true, (5, 25), || ());
    });
    let report = simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    report.threads[2].sleeps
}

#[test]
fn a_release_that_lets_nobody_in_wakes_nobody() {
    let sleeps = sleeps_beside_uses(60_000);
    assert!(sleeps <= 5, "{sleeps} sleeps");
}

#[test]
fn a_range_in_use_pays_no_wake_up_for_each_use() {
    let sleeps = sleeps_beside_uses(300);
    // A nap takes 100 us with the timer's slack.
    assert!(sleeps <= 35, "{sleeps} sleeps");
}

/// One wake-up at a time, and every one that can go on is woken in the end.
#[test]
fn all_that_can_go_on_do() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    let (lock, released) = (lock_of(RangePolicy::DEFAULT), Cell::new(0));
    let waits = RefCell::new(vec![]);
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(|| {
        with(&lock, true, (0, 999), || {
            sleep_until(2_000_000);
            released.set(now());
        });
    });
    for part in 0..40 {
        let (lock, released, waits) = (&lock, &released, &waits);
        simulation.spawn(move || {
            sleep_until(300_000);
            let arrived = with(lock, true, (10 * part, 10 * part + 9), now);
            waits.borrow_mut().push(arrived - released.get());
        });
    }
    run(simulation);
    let longest = waits.into_inner().into_iter().max().unwrap();
    // Three rounds of up to sixteen.
    assert!(longest <= 5 * WAKE_UP_NS, "{longest} ns");
}
