//! Threads that wait by retries, and those that wait beside them: whatever anybody does with timeouts, all have
//! the lock within what is planned. In virtual time, on several machines.
//!
//! A test build tries the machines and timeouts that found mistakes; a release build, as in `.ci/sim`, tries all.

#[allow(dead_code, unreachable_pub, reason = "the example needs more of it")]
#[path = "../examples/bound/victim.rs"]
mod victim;

use std::cell::Cell;

use fairlock::condvar::WordCondvar;
use fairlock::lock::{RawMutex, RawRwLock};
use fairlock::wait::Wait;
use fairlock_sim::{Machine, Sim, Simulation, begin_locks, busy, now, sleep, stopped};
use fairlock_testing as _; // the watchdog
use victim::{Apart, How, Victim};

fn take_until(lock: &dyn Victim, how: How, deadline: u64) -> bool {
    let taken = lock.take_with(how, Wait::until_nanos(deadline));
    if taken {
        // SAFETY: just taken, in this way.
        unsafe { lock.change(how) };
    }
    taken
}

fn take(lock: &dyn Victim, how: How) {
    assert!(take_until(lock, how, u64::MAX));
}

/// Two locks of a sort.
struct Victims {
    name: &'static str,
    lock: Box<dyn Victim>,
    other: Box<dyn Victim>,
}

/// The locks of a test: made anew for each, before any thread runs.
fn victims() -> [Victims; 2] {
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    let rwlock = || Box::new(Apart(RawRwLock::<Sim>::new_const()));
    let mutex = || Box::new(Apart(RawMutex::<Sim>::new_const()));
    [
        Victims { name: "rwlock", lock: rwlock(), other: rwlock() },
        Victims { name: "mutex", lock: mutex(), other: mutex() },
    ]
}

fn section(lock: &dyn Victim, how: How, ns: u64) {
    take(lock, how);
    busy(ns);
    // SAFETY: taken above, in this way.
    unsafe { lock.leave(how) };
}

/// Waits for the lock by attempts of `timeout`; `between` is done after each that failed.
fn retry(lock: &dyn Victim, how: How, timeout: u64, between: impl Fn()) -> bool {
    while !stopped() {
        if take_until(lock, how, now() + timeout) {
            return true;
        }
        between();
    }
    false
}

/// What is planned to be the longest wait among `threads` with sections of `section`, at a lock that has measured
/// the dearest handoff in which it believes: as `RawRwLock::planned_wait_ns` says it for 40 others.
fn planned(threads: u64, section: u64) -> u64 {
    const DEAREST_NS: u64 = 60_000_000;
    DEAREST_NS + 2 * threads * section
}

/// The longest of the waits of a thread, the unfinished one included, and how many ended.
#[derive(Default)]
struct Waits {
    longest: Cell<u64>,
    ended: Cell<u64>,
    /// Since when it waits; zero: it does not.
    since: Cell<u64>,
}

impl Waits {
    fn begin(&self) {
        self.since.set(now());
    }

    fn end(&self) {
        let waited = now() - self.since.replace(0);
        self.longest.set(self.longest.get().max(waited));
        self.ended.set(self.ended.get() + 1);
    }

    fn longest(&self, run: u64) -> u64 {
        let unfinished =
            if self.since.get() == 0 { 0 } else { run.saturating_sub(self.since.get()) };
        self.longest.get().max(unfinished)
    }
}

/// Runs a simulation for so long, and says what it found beyond what is planned.
fn verdict(
    simulation: Simulation,
    run: u64,
    what: &str,
    planned: u64,
    waits: &[Waits],
) -> Option<String> {
    simulation.run_for(run).unwrap_or_else(|stuck| panic!("{what}: {stuck}"));
    let found: Vec<_> = waits.iter().map(|w| (w.longest(run), w.ended.get())).collect();
    eprintln!("{what}: (longest, waits) {found:?}, planned {planned}");
    let starves = found.iter().any(|&(longest, ended)| longest > planned || ended < 2);
    starves.then(|| format!("{what}: {found:?}, planned {planned}"))
}

/// A thread that polls a lock, and takes another in between, which is contended as well, had no turn for ever:
/// with the other lock it forgot how long it had waited. It even did if it was away for longer than it had waited.
#[test]
fn who_polls_a_lock_and_takes_another_in_between_has_its_turn() {
    const SECTION: u64 = 100_000;
    const WRITERS: u64 = 16;
    const RUN: u64 = 400_000_000;
    let machines: &[&str] =
        if DEEP { &["nvme_8", "opteron_4", "skylake_80", "cascade_lake_96"] } else { &["nvme_8"] };
    let mut failures = vec![];
    for machine in machines {
        for index in 0..victims().len() {
            let victims = victims();
            let Victims { name, lock: polled, other } = &victims[index];
            let (polled, other) = (&**polled, &**other);
            let waits = [Waits::default()];
            let [poller] = &waits;
            let mut simulation = Simulation::new(&Machine::builtin(machine).unwrap(), 1);
            for (lock, section_ns, threads) in [(polled, SECTION, WRITERS), (other, 20_000, 2)] {
                for _ in 0..threads {
                    simulation.spawn(move || {
                        while !stopped() {
                            section(lock, How::Write, section_ns);
                        }
                    });
                }
            }
            simulation.spawn(|| {
                while !stopped() {
                    poller.begin();
                    if retry(polled, How::Write, 1_000_000, || section(other, How::Write, 1_000)) {
                        poller.end();
                        // SAFETY: taken above.
                        unsafe { polled.leave(How::Write) };
                    }
                    sleep(1_000_000);
                }
            });
            let what = format!("{machine}, {name}");
            failures.extend(verdict(simulation, RUN, &what, planned(WRITERS + 3, SECTION), &waits));
        }
    }
    assert!(failures.is_empty(), "beyond what is planned:\n{}", failures.join("\n"));
}

/// Attempts that end before they can be served kept those that wait patiently from their turn: each came back to
/// a place before them, and its age outlived what it took meanwhile.
#[test]
fn short_attempts_do_not_starve_those_that_wait_patiently() {
    const SECTION: u64 = 10_000;
    const POLLERS: u64 = 40;
    const RUN: u64 = 200_000_000;
    // Attempts of a few microseconds take all CPUs, and where these are short the patient thread waits for one.
    let timeouts: &[u64] = if DEEP {
        &[0, 1_000, 5_000, 50_000, 1_000_000, 10_000_000]
    } else {
        &[0, 5_000, 1_000_000]
    };
    // On four CPUs readers lose theirs inside, all of them at times, and each has it again after a round of the 44 threads,
    // slices of 4 ms. (With sections 0 to 5 % longer waits are 50 ms in the median, and up to 178.)
    const ROUND: u64 = 44 / 4 * 4_000_000;
    let machines: &[(&str, u64, u64)] = if DEEP {
        &[
            ("skylake_80", 0, 0),
            ("cascade_lake_96", 0, 0),
            ("nvme_8", 50_000, 0),
            ("opteron_4", 50_000, ROUND),
            ("two_cpu", 1_000_000, 0),
        ]
    } else {
        &[("skylake_80", 0, 0)]
    };
    let kinds = [
        ("writers", [How::Write, How::Write]),
        ("readers", [How::Read, How::Read]),
        ("both", [How::Read, How::Write]),
    ];
    let mut failures = vec![];
    for (machine, shortest, without_cpu) in machines {
        let cases = timeouts.iter().filter(|&timeout| timeout >= shortest).flat_map(|&timeout| {
            // Of a mutex all are writers.
            let locks = [(0, 0), (0, 1), (0, 2), (1, 0)];
            let most = if DEEP { locks.len() } else { 3 };
            locks.into_iter().take(most).map(move |(lock, kind)| (timeout, lock, kind))
        });
        for (timeout, index, kind) in cases {
            let victims = victims();
            let Victims { name, lock, .. } = &victims[index];
            let lock = &**lock;
            let (pollers, ways) = kinds[kind];
            let waits: [Waits; 4] = Default::default();
            let mut simulation = Simulation::new(&Machine::builtin(machine).unwrap(), 1);
            for thread in 0..POLLERS {
                simulation.spawn(move || {
                    let how = ways[thread as usize % 2];
                    while retry(lock, how, timeout, || busy(500)) {
                        busy(SECTION);
                        // SAFETY: taken above.
                        unsafe { lock.leave(how) };
                    }
                });
            }
            for (how, waits) in
                [How::Read, How::Upgradable, How::Upgrade, How::Write].into_iter().zip(&waits)
            {
                simulation.spawn(move || {
                    while !stopped() {
                        waits.begin();
                        take(lock, how);
                        waits.end();
                        busy(SECTION);
                        // SAFETY: taken above, in this way.
                        unsafe { lock.leave(how) };
                        busy(100_000);
                    }
                });
            }
            let what = format!("{machine}, {name}, {pollers} with attempts of {timeout} ns");
            // An upgrader waits twice.
            let planned = 2 * (planned(POLLERS + 4, SECTION) + without_cpu);
            failures.extend(verdict(simulation, RUN, &what, planned, &waits));
        }
    }
    assert!(failures.is_empty(), "beyond what is planned:\n{}", failures.join("\n"));
}

/// As above, for a thread that is notified while others poll the mutex.
#[test]
fn short_attempts_do_not_starve_those_that_are_notified() {
    const SECTION: u64 = 10_000;
    const POLLERS: u64 = 40;
    const RUN: u64 = 200_000_000;
    let mut failures = vec![];
    let timeouts: &[u64] =
        if DEEP { &[0, 1_000, 5_000, 50_000, 1_000_000, 10_000_000] } else { &[5_000] };
    for &timeout in timeouts {
        // SAFETY: no lock of an earlier simulation is used any more.
        unsafe { begin_locks() };
        let (apart, changed) = (Apart(RawMutex::<Sim>::new_const()), WordCondvar::<Sim>::new());
        let mutex = &apart.0;
        let waits = [Waits::default()];
        let [notified] = &waits;
        let pending = Cell::new(false);
        let mut simulation = Simulation::new(&Machine::builtin("skylake_80").unwrap(), 1);
        for _ in 0..POLLERS {
            simulation.spawn(|| {
                while retry(&apart, How::Write, timeout, || busy(500)) {
                    busy(SECTION);
                    // SAFETY: taken above.
                    unsafe { mutex.unlock() };
                }
            });
        }
        simulation.spawn(|| {
            while !stopped() {
                mutex.lock();
                while !pending.get() {
                    // SAFETY: taken above.
                    unsafe { changed.wait(mutex) };
                }
                pending.set(false);
                notified.end();
                // SAFETY: taken above.
                unsafe { mutex.unlock() };
            }
        });
        simulation.spawn(|| {
            while !stopped() {
                sleep(2_000_000);
                mutex.lock();
                if !pending.replace(true) {
                    notified.begin();
                    changed.notify_one();
                }
                // SAFETY: taken above.
                unsafe { mutex.unlock() };
            }
        });
        let what = format!("notified beside attempts of {timeout} ns");
        failures.extend(verdict(simulation, RUN, &what, planned(POLLERS + 2, SECTION), &waits));
    }
    assert!(failures.is_empty(), "beyond what is planned:\n{}", failures.join("\n"));
}

/// A waiter that has its CPU back only after its deadline, when the lock is free by then, takes it: the last act of
/// a wait is a try.
#[test]
fn a_wait_does_not_time_out_at_a_lock_that_is_free() {
    for how in [How::Read, How::Upgradable, How::Write] {
        for index in 0..victims().len() {
            let victims = victims();
            let Victims { name, lock, .. } = &victims[index];
            let lock = &**lock;
            let taken = Cell::new(None);
            let mut simulation = Simulation::new(&Machine::builtin("two_cpu").unwrap(), 1);
            simulation.spawn(|| {
                take(lock, How::Write);
                sleep(2_000_000);
                // SAFETY: taken above.
                unsafe { lock.leave(How::Write) };
            });
            simulation.spawn(|| {
                sleep(100_000);
                taken.set(Some(take_until(lock, how, 1_500_000)));
            });
            for _ in 0..2 {
                simulation.spawn(|| {
                    sleep(1_000_000);
                    // Nobody else runs when the deadline passes, nor when the lock comes free.
                    busy(3_000_000);
                });
            }
            simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
            assert_eq!(taken.get(), Some(true), "{how:?}, {name}");
        }
    }
}

/// A test build simulates at a twentieth of the speed.
const DEEP: bool = !cfg!(debug_assertions);
