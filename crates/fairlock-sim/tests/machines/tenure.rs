//! What the default discipline of the reader/writer lock promises, in virtual time: nobody
//! sleeps at a free lock, nobody waits longer than is planned, a wait that ends without
//! the lock leaves no trace in the next one, and either side has the lock for as long.

use std::cell::Cell;

use fairlock::lock::{Policy, RawMutex, RawRwLock};
use fairlock::published;
use fairlock::wait::Wait;
use fairlock_sim::{Machine, Sim, Simulation, begin_locks, busy, now, sleep, stopped};
use fairlock_testing as _; // the watchdog

/// A lock for a simulation that is about to begin.
fn lock_of(policy: Policy) -> RawRwLock<Sim> {
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    RawRwLock::new(policy)
}

/// A thread that always wants the lock with sections of 5 us, beside a loop of timed waits:
/// how many of these there were, and how many had the lock.
fn timed_waits_beside_a_busy_writer(timeout_ns: u64, reads: bool) -> (u32, u32) {
    let machine = Machine::builtin("two_cpu").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let counts = Cell::new((0, 0));
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(|| {
        while !stopped() {
            lock.write();
            busy(5_000);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
        }
    });
    simulation.spawn(|| {
        while !stopped() {
            let until = now() + timeout_ns;
            let had = match reads {
                true => lock.read_with(Wait::until_nanos(until)).is_ok(),
                false => lock.write_with(Wait::until_nanos(until)).is_ok(),
            };
            let (tries, taken) = counts.get();
            counts.set((tries + 1, taken + u32::from(had)));
            if had {
                // SAFETY: taken above, in this way.
                unsafe { if reads { lock.unlock_read() } else { lock.unlock_write() } }
            }
            busy(1_000);
        }
    });
    simulation.run_for(500_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    counts.get()
}

/// Each timed wait that failed began the holder's tenure anew: of 477 tries of a millisecond
/// 7 had the lock, of 565 of half a millisecond 2.
#[test]
fn a_loop_of_timed_waits_is_served_as_one_wait_is() {
    for timeout_ns in [100_000, 500_000, 1_000_000] {
        for reads in [false, true] {
            let (tries, taken) = timed_waits_beside_a_busy_writer(timeout_ns, reads);
            // At worst it waits for a tenure of 2 ms, as a single wait would.
            let most = (2_500_000 / timeout_ns + 1) as u32;
            assert!(
                taken * most >= tries && tries > 0,
                "{timeout_ns} ns, reads: {reads}: {taken} of {tries}"
            );
        }
    }
}

/// Each attempt gave the CPU away before it failed: beside busy threads that took milliseconds.
#[test]
fn an_attempt_whose_deadline_has_passed_keeps_its_cpu() {
    let machine = Machine::builtin("two_cpu").unwrap();
    for reads in [false, true] {
        let lock = lock_of(Policy::DEFAULT);
        let took = Cell::new(0);
        let mut simulation = Simulation::new(&machine, 1);
        simulation.spawn(|| {
            lock.write();
            sleep(100_000_000);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
        });
        for _ in 0..4 {
            simulation.spawn(|| busy(100_000_000));
        }
        simulation.spawn(|| {
            sleep(10_000_000);
            let began = now();
            for _ in 0..100 {
                let had = if reads {
                    lock.read_with(Wait::until_nanos(began))
                } else {
                    lock.write_with(Wait::until_nanos(began))
                };
                assert!(had.is_err());
            }
            took.set(now() - began);
        });
        simulation.run_for(200_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert!((1..10_000_000).contains(&took.get()), "{} ns for 100 attempts", took.get());
    }
}

#[derive(Clone, Copy, Debug)]
enum How {
    Read,
    Upgradable,
    Write,
}

fn take(lock: &RawRwLock<Sim>, how: How) {
    match how {
        How::Read => lock.read(),
        How::Upgradable => lock.upgradable_read(),
        How::Write => lock.write(),
    }
}

/// # Safety
/// The caller holds the lock in this way.
unsafe fn leave(lock: &RawRwLock<Sim>, how: How) {
    // SAFETY: the caller's promise.
    unsafe {
        match how {
            How::Read => lock.unlock_read(),
            How::Upgradable => lock.unlock_upgradable(),
            How::Write => lock.unlock_write(),
        }
    }
}

/// The holder is inside for a while, releases, and goes away for 6 ms: from the release until
/// the waiter has the lock passes a wake-up, whatever the section's length. (It was up to a
/// millisecond.) With upgradable readers another reader is inside all the time.
#[test]
fn a_free_lock_is_waited_for_no_longer_than_a_wake_up_takes() {
    use How::*;
    const PAIRS: [[How; 2]; 6] = [
        [Write, Write],
        [Write, Read],
        [Write, Upgradable],
        [Read, Write],
        [Upgradable, Write],
        [Upgradable, Upgradable],
    ];
    const POLICIES: [Policy; 2] = [Policy::DEFAULT, Policy::DEFAULT.with_priorities()];
    let machine = Machine::builtin("two_cpu").unwrap();
    for section in [30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000] {
        for ([holder, waiter], policy) in
            PAIRS.iter().flat_map(|&pair| POLICIES.map(|policy| (pair, policy)))
        {
            let lock = lock_of(policy);
            let (released, longest) = (Cell::new(0), Cell::new(0));
            let mut simulation = Simulation::new(&machine, 1);
            if matches!([holder, waiter], [Upgradable, Upgradable]) {
                simulation.spawn(|| {
                    take(&lock, Read);
                    sleep(20 * (6_000_000 + 2 * section));
                    // SAFETY: taken above, in this way.
                    unsafe { leave(&lock, Read) };
                });
            }
            simulation.spawn(|| {
                for _ in 0..20 {
                    take(&lock, holder);
                    sleep(section);
                    released.set(now());
                    // SAFETY: taken above, in this way.
                    unsafe { leave(&lock, holder) };
                    sleep(6_000_000);
                }
            });
            simulation.spawn(|| {
                for _ in 0..20 {
                    sleep(6_000_000 + section / 2);
                    let came = now();
                    take(&lock, waiter);
                    let free_since = released.get().max(came);
                    longest.set(longest.get().max(now() - free_since));
                    // SAFETY: taken above, in this way.
                    unsafe { leave(&lock, waiter) };
                }
            });
            simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
            let longest = longest.get();
            assert!(longest < 200_000, "{section} ns, {holder:?}, {waiter:?}: {longest} ns");
        }
    }
}

/// A thread that always wants the lock, for sections too short to be seen, leaves for good at a moment that has
/// nothing to do with the tenure: until the waiter has the lock passes no more than a wake-up and a look. (It
/// was up to 565 us: each nap was twice as long as the one before.)
#[test]
fn a_lock_that_a_busy_owner_leaves_for_good_is_waited_for_no_longer_than_a_wake_up_takes() {
    let machine = Machine::builtin("two_cpu").unwrap();
    for reads in [false, true] {
        let mut longest = 0;
        for seed in 1..=60 {
            let lock = lock_of(Policy::DEFAULT);
            let (left, taken) = (Cell::new(0), Cell::new(0));
            let stays = 700_000 + seed * 37_000;
            let mut simulation = Simulation::new(&machine, seed);
            simulation.spawn(|| {
                while now() < stays {
                    section(&lock, false, 200);
                }
                left.set(now());
            });
            simulation.spawn(|| {
                sleep(200_000);
                while taken.get() < stays {
                    take(&lock, if reads { How::Read } else { How::Write });
                    taken.set(now());
                    // SAFETY: taken above, in this way.
                    unsafe { leave(&lock, if reads { How::Read } else { How::Write }) };
                }
            });
            simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
            longest = longest.max(taken.get().saturating_sub(left.get()));
        }
        assert!((1..=150_000).contains(&longest), "reads: {reads}: {longest} ns");
    }
}

/// Threads that sleep inside: the CPU time of a section, in nanoseconds.
fn cpu_of_a_section(threads: u64, sleep_ns: u64) -> u64 {
    const RUN: u64 = 1_000_000_000;
    let machine = Machine::builtin("two_cpu").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let sections = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    for _ in 0..threads {
        simulation.spawn(|| {
            while !stopped() {
                lock.write();
                sleep(sleep_ns);
                sections.set(sections.get() + 1);
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
            }
        });
    }
    let report = simulation.run_for(RUN).unwrap_or_else(|stuck| panic!("{stuck}"));
    report.threads.iter().map(|thread| thread.cpu_ns).sum::<u64>() / sections.get()
}

/// Whoever waits for a holder that sleeps sleeps, too. (With eight threads it was awake for 0.36 ms of each section; then,
/// in short sections, until it had been in vain for 0.1 ms at each turn.)
#[test]
fn waiting_for_a_holder_that_sleeps_takes_hardly_any_cpu() {
    for (threads, sleep_ns, most) in [
        (2, 100_000, 40_000),
        (8, 100_000, 40_000),
        (30, 100_000, 40_000),
        (2, 1_000_000, 40_000),
        (8, 1_000_000, 60_000),
        (60, 400_000, 60_000),
    ] {
        let cpu = cpu_of_a_section(threads, sleep_ns);
        assert!((1..most).contains(&cpu), "{threads} threads, {sleep_ns} ns: {cpu} ns");
    }
}

/// One thread holds the lock as an upgradable reader, until a reader has been in beside it. Both
/// queued while another was inside, which closed the lock for the former. (The reader was
/// appointed, and not woken until the release: the two waited for each other.)
#[test]
fn a_reader_gets_in_beside_an_upgradable_reader_that_waited() {
    let machine = Machine::builtin("two_cpu").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let has_read = Cell::new(false);
    let upgradable = |came: u64, until: &dyn Fn() -> bool| {
        sleep(came);
        lock.upgradable_read();
        while !until() && !stopped() {
            sleep(100_000);
        }
        // SAFETY: taken above.
        unsafe { lock.unlock_upgradable() };
    };
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(|| upgradable(0, &|| now() > 50_000_000));
    simulation.spawn(|| upgradable(1_000_000, &|| has_read.get()));
    simulation.spawn(|| {
        sleep(40_000_000);
        lock.read();
        has_read.set(true);
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
    });
    simulation.run_for(1_000_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    assert!(has_read.get());
}

/// Upgradable readers queue behind one that waits for a reader, which has not come yet: it gets in beside the one
/// inside, as in `parking_lot`. (At the end of the tenure the next one closed the lock, for readers, too.)
#[test]
fn a_reader_that_an_upgradable_reader_waits_for_gets_in_past_other_upgradable_readers() {
    for waiting in 1..=3 {
        let machine = Machine::builtin("two_cpu").unwrap();
        let lock = lock_of(Policy::DEFAULT);
        let reads = Cell::new(0);
        let mut simulation = Simulation::new(&machine, 1);
        for thread in 0..=waiting {
            let (lock, reads) = (&lock, &reads);
            simulation.spawn(move || {
                sleep(thread * 1_000_000);
                lock.upgradable_read();
                let before = reads.get();
                while reads.get() == before && !stopped() {
                    sleep(100_000);
                }
                // SAFETY: taken above.
                unsafe { lock.unlock_upgradable() };
            });
        }
        simulation.spawn(|| {
            while !stopped() {
                sleep(40_000_000);
                section(&lock, true, 1_000);
                reads.set(reads.get() + 1);
            }
        });
        simulation.run_for(1_000_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert!(reads.get() > waiting, "{waiting} wait: {} reads", reads.get());
    }
}

/// Each upgradable reader waited for the end of a tenure, and 4 ms more, as it did not close the lock while another
/// was inside. So did those that had to go before a writer.
#[test]
fn a_writer_behind_upgradable_readers_waits_no_longer_than_planned() {
    const SECTION: u64 = 1_000;
    for others in [4, 8, 40] {
        for among_readers in [false, true] {
            let machine = Machine::builtin("cascade_lake_96").unwrap();
            let lock = lock_of(Policy::DEFAULT);
            let longest = Cell::new(0);
            let mut simulation = Simulation::new(&machine, 1);
            for thread in 0..others {
                let lock = &lock;
                simulation.spawn(move || {
                    while !stopped() {
                        if among_readers && thread % 2 == 0 {
                            section(lock, true, SECTION);
                        } else {
                            lock.upgradable_read();
                            busy(SECTION);
                            // SAFETY: taken above.
                            unsafe { lock.unlock_upgradable() };
                        }
                    }
                });
            }
            simulation.spawn(|| {
                while !stopped() {
                    let came = now();
                    section(&lock, false, SECTION);
                    longest.set(longest.get().max(now() - came));
                }
            });
            simulation.run_for(100_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
            let planned = lock.planned_wait_ns(others + 1) + 2 * (others as u64 + 1) * SECTION;
            let longest = longest.get();
            assert!(
                (1..=planned).contains(&longest),
                "{others} others, among readers: {among_readers}: {longest} of {planned} ns"
            );
        }
    }
}

/// A thousand runs with threads, sections, pauses and sides drawn at random, a CPU for each
/// thread, retry loops among them: nobody waits longer than `planned_wait_ns` says for the
/// threads there are (twice as long in a retry loop), beyond the longest section for each that goes before.
#[test]
fn no_wait_is_longer_than_planned() {
    let machine = Machine::builtin("cascade_lake_96").unwrap();
    for seed in 0..RUNS {
        let mut random = fastrand(seed);
        let mut draw = |most: u64| random(most);
        let threads = 2 + draw(11);
        let section = [200, 2_000, 20_000, 150_000][draw(4) as usize];
        let outside = [0, 0, 1_000, 50_000][draw(4) as usize];
        let sides: Vec<u64> = (0..threads).map(|_| draw(3)).collect();
        let timeout = [0, 0, 100_000, 700_000][draw(4) as usize];
        let lock = lock_of(Policy::DEFAULT);
        let longest = Cell::new(0);
        let mut simulation = Simulation::new(&machine, seed);
        for (thread, &side) in sides.iter().enumerate() {
            let (lock, longest) = (&lock, &longest);
            simulation.spawn(move || {
                let mut turn = thread as u64;
                while !stopped() {
                    turn += 1;
                    let reads = side == 0 || (side == 1 && !turn.is_multiple_of(3));
                    let came = now();
                    loop {
                        let until = if timeout == 0 { u64::MAX } else { now() + timeout };
                        let had = match reads {
                            true => lock.read_with(Wait::until_nanos(until)).is_ok(),
                            false => lock.write_with(Wait::until_nanos(until)).is_ok(),
                        };
                        if had {
                            break;
                        }
                    }
                    longest.set(longest.get().max(now() - came));
                    busy(section);
                    // SAFETY: taken above, in this way.
                    unsafe { if reads { lock.unlock_read() } else { lock.unlock_write() } }
                    if outside > 0 {
                        busy(outside);
                    }
                }
            });
        }
        simulation.run_for(30_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
        let ahead = threads as usize;
        // A thread that retries waits at most twice as long.
        let retries = if timeout == 0 { 1 } else { 2 };
        let planned = retries * (lock.planned_wait_ns(ahead) + 2 * threads * section);
        assert!(
            longest.get() <= planned,
            "seed {seed}: {threads} threads, sections of {section}, outside {outside}, \
             timeout {timeout}: waited {} ns, planned {planned}",
            longest.get()
        );
    }
}

/// Reads or writes for so many nanoseconds.
fn section(lock: &RawRwLock<Sim>, reads: bool, ns: u64) {
    let how = if reads { How::Read } else { How::Write };
    take(lock, how);
    busy(ns);
    // SAFETY: taken above, in this way.
    unsafe { leave(lock, how) };
}

/// A writer that waits for a writer sets no timer for the end of the tenure: whoever leaves after that
/// end closes the lock. (Woken, and passed by once more, it waited for a section longer.)
#[test]
fn a_tenure_ends_with_the_section_that_it_ends_in() {
    const SECTION: u64 = 7_000_000;
    let machine = Machine::builtin("two_cpu").unwrap();
    for reads in [false, true] {
        let lock = lock_of(Policy::DEFAULT);
        let longest = Cell::new(0);
        let mut simulation = Simulation::new(&machine, 1);
        simulation.spawn(|| {
            while !stopped() {
                section(&lock, false, SECTION);
            }
        });
        simulation.spawn(|| {
            while !stopped() {
                sleep(20_000_000);
                let began = now();
                section(&lock, reads, 1_000);
                longest.set(longest.get().max(now() - began));
            }
        });
        simulation.run_for(1_000_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
        let longest = longest.get();
        assert!((1..SECTION * 3 / 2).contains(&longest), "reads: {reads}: {longest} ns");
    }
}

/// A writer that sleeps until the writer inside leaves learns that this has become a reader: threads that
/// have written may join it, one after the other, and not leave the lock free for long.
#[test]
fn a_writer_that_becomes_a_reader_tells_the_one_that_sleeps() {
    const READ: u64 = 100_000;
    let machine = Machine::builtin("nvme_8").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let done = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    simulation.spawn(|| {
        section(&lock, false, 1_000_000);
        sleep(1_000_000);
        lock.write();
        busy(1_400_000);
        // SAFETY: taken above.
        unsafe { lock.downgrade() };
        busy(500_000);
        // SAFETY: downgraded above.
        unsafe { lock.unlock_read() };
    });
    for thread in 0..4 {
        let lock = &lock;
        simulation.spawn(move || {
            sleep(100_000);
            section(lock, false, 1_000);
            sleep(2_500_000 + thread * 10_000);
            while !stopped() {
                section(lock, true, READ);
            }
        });
    }
    simulation.spawn(|| {
        sleep(2_200_000);
        section(&lock, false, 1_000);
        done.set(now());
    });
    simulation.run_for(100_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    assert!((1..7_000_000).contains(&done.get()), "{} ns", done.get());
}

/// Half readers, half writers, that always want the lock: in how much of the time each side had
/// it, in thousandths, if two readers are inside at a time. With a few threads chance has a large part
/// in it, so this is the average of several runs.
fn shares(threads: usize) -> [u64; 2] {
    const SECTION: u64 = 3_000;
    const RUN: u64 = 100_000_000;
    const SEEDS: u64 = 6;
    let machine = Machine::builtin("two_cpu").unwrap();
    let sections = [Cell::new(0), Cell::new(0)];
    for seed in 1..=SEEDS {
        let lock = lock_of(Policy::DEFAULT);
        let mut simulation = Simulation::new(&machine, seed);
        for thread in 0..threads {
            let (lock, sections) = (&lock, &sections);
            simulation.spawn(move || {
                let reads = thread % 2 == 0;
                while !stopped() {
                    section(lock, reads, SECTION);
                    let sections = &sections[usize::from(!reads)];
                    sections.set(sections.get() + 1);
                }
            });
        }
        simulation.run_for(RUN).unwrap_or_else(|stuck| panic!("{stuck}"));
    }
    let [reads, writes] = sections.map(|count| count.get() * SECTION * 1_000 / (RUN * SEEDS));
    [reads / 2, writes]
}

/// The writer that is next had to wait for one of the CPUs, all of which readers had, and so
/// writers had a fifth of the time, with 96 threads.
#[test]
fn readers_and_writers_have_the_lock_for_equally_long() {
    for (threads, least) in [(4, 333), (16, 333), (96, 300)] {
        let [readers, writers] = shares(threads);
        assert!(readers.min(writers) >= least, "{threads}: {readers} and {writers} thousandths");
    }
}

/// Readers that always want a lock, by the way of `read`, and two writers, on two CPUs: how
/// many writes there are, in several runs: chance has a large part in one.
fn writes_beside_readers(read: fn(&RawRwLock<Sim>)) -> u64 {
    (1..=8).map(|seed| writes_beside_readers_once(seed, read)).sum()
}

fn writes_beside_readers_once(seed: u64, read: fn(&RawRwLock<Sim>)) -> u64 {
    let machine = Machine::builtin("two_cpu").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let writes = Cell::new(0);
    let mut simulation = Simulation::new(&machine, seed);
    for thread in 0..8 {
        let (lock, writes) = (&lock, &writes);
        simulation.spawn(move || {
            while !stopped() {
                if thread < 6 {
                    read(lock);
                    busy(1_000);
                    // SAFETY: taken above.
                    unsafe { lock.unlock_read() };
                } else {
                    lock.write();
                    busy(1_000);
                    writes.set(writes.get() + 1);
                    // SAFETY: taken above.
                    unsafe { lock.unlock_write() };
                }
            }
        });
    }
    simulation.run_for(30_000_000).unwrap_or_else(|stuck| panic!("{stuck}"));
    writes.get()
}

/// Readers that would not wait for ever kept their CPU though the writer that is next was late: there
/// were a quarter of the writes.
#[test]
fn writers_get_as_much_done_beside_readers_that_have_a_deadline() {
    let plain = writes_beside_readers(|lock| lock.read());
    let timed =
        writes_beside_readers(|lock| assert!(lock.read_with(Wait::until_nanos(u64::MAX)).is_ok()));
    assert!(timed * 10 >= plain * 8, "{timed}, not {plain}");
}

/// Threads that read nine times out of ten: how many sections of `SECTION` fit into the time in
/// which one thread alone would have had a hundred.
fn sections_of_mostly_readers(threads: u64) -> u64 {
    const SECTION: u64 = 1_000;
    const RUN: u64 = 50_000_000;
    let machine = Machine::builtin("nvme_8").unwrap();
    let lock = lock_of(Policy::DEFAULT);
    let sections = Cell::new(0);
    let mut simulation = Simulation::new(&machine, 1);
    for thread in 0..threads {
        let (lock, sections) = (&lock, &sections);
        simulation.spawn(move || {
            let mut below = fastrand(thread + 1);
            while !stopped() {
                let reads = below(10) > 0;
                section(lock, reads, SECTION);
                sections.set(sections.get() + 1);
            }
        });
    }
    simulation.run_for(RUN).unwrap_or_else(|stuck| panic!("{stuck}"));
    // All hardware threads of a core work, and slow each other down.
    let section = SECTION as f64 * machine.description().instructions.shared_core;
    sections.get() * section as u64 * 100 / RUN
}

/// A writer found no gap between the sections of several readers, and slept; and in its tenure
/// those that read waited for one another. So threads with CPUs enough hardly ran side by side.
#[test]
fn threads_that_mostly_read_run_side_by_side() {
    for threads in [8, 32] {
        let sections = sections_of_mostly_readers(threads);
        assert!(sections > 200, "{threads} threads: {sections} sections for one thread's hundred");
    }
}

/// A test build simulates at a twentieth of the speed.
const RUNS: u64 = if cfg!(debug_assertions) { 60 } else { 1_000 };

/// Numbers below a bound, the same for the same seed (xorshift).
fn fastrand(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |most| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % most
    }
}

/// A lock as one that is attempted.
trait Attempted {
    fn attempt(&self, wait: Wait<'_, Sim>) -> bool;
    fn take(&self);
    /// # Safety
    /// The caller has taken it.
    unsafe fn leave(&self);
}

macro_rules! attempted {
    ($lock:ty, $with:ident, $take:ident, $leave:ident) => {
        impl Attempted for $lock {
            fn attempt(&self, wait: Wait<'_, Sim>) -> bool {
                self.$with(wait).is_ok()
            }

            fn take(&self) {
                self.$take();
            }

            unsafe fn leave(&self) {
                // SAFETY: the caller's promise.
                unsafe { self.$leave() }
            }
        }
    };
}
attempted!(RawRwLock<Sim>, write_with, write, unlock_write);
attempted!(published::RwSem<Sim>, write_with, write, unlock_write);
attempted!(RawMutex<Sim>, lock_with, lock, unlock);

/// How long attempts of `timeout` take at the most, if another thread has the lock, for which threads have waited.
fn longest_attempt(make: fn() -> Box<dyn Attempted>, timeout: u64) -> u64 {
    // SAFETY: no lock of an earlier simulation is used any more.
    unsafe { begin_locks() };
    let lock = make();
    let longest = Cell::new(0);
    let mut simulation = Simulation::new(&Machine::builtin("nvme_8").unwrap(), 1);
    for _ in 0..2 {
        simulation.spawn(|| {
            lock.take();
            busy(100_000);
            // SAFETY: just taken.
            unsafe { lock.leave() };
        });
    }
    simulation.spawn(|| {
        sleep(1_000_000);
        lock.take();
        busy(20_000_000);
        // SAFETY: just taken.
        unsafe { lock.leave() };
    });
    simulation.spawn(|| {
        sleep(2_000_000);
        while now() < 20_000_000 {
            let began = now();
            assert!(!lock.attempt(Wait::until_nanos(began + timeout)));
            longest.set(longest.get().max(now() - began));
            busy(1_000);
        }
    });
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    longest.get()
}

/// The waiter that is next stayed awake for 100 us past its deadline, if the tenure was over; and each spin ended when
/// it would have without a deadline.
#[test]
fn an_attempt_ends_at_its_deadline() {
    let makes: [fn() -> Box<dyn Attempted>; 4] = [
        || Box::new(RawRwLock::<Sim>::new_const()),
        || Box::new(RawMutex::<Sim>::new_const()),
        || Box::new(published::RwSem::<Sim>::new(published::Policy::HANDOFF)),
        || Box::new(published::RwSem::<Sim>::new(published::Policy::UNFAIR)),
    ];
    for (number, make) in makes.into_iter().enumerate() {
        for timeout in [0, 1_000, 5_000, 8_000] {
            let longest = longest_attempt(make, timeout);
            // What it costs to queue and to leave the queue.
            assert!(longest < timeout + 1_500, "lock {number}, {timeout} ns: {longest} ns");
        }
        // It may sleep.
        let longest = longest_attempt(make, 50_000);
        assert!(longest < 100_000, "lock {number}: {longest} ns");
    }
}

/// It spun for 10 us.
#[test]
fn an_upgrade_that_gives_up_ends_at_its_deadline() {
    let lock = lock_of(Policy::DEFAULT);
    let took = Cell::new(0);
    let mut simulation = Simulation::new(&Machine::builtin("nvme_8").unwrap(), 1);
    simulation.spawn(|| section(&lock, true, 1_000_000));
    simulation.spawn(|| {
        sleep(100_000);
        lock.upgradable_read();
        let began = now();
        // SAFETY: just taken; and still held.
        unsafe {
            assert!(lock.upgrade_with(Wait::until_nanos(began + 1_000)).is_err());
            took.set(now() - began);
            lock.unlock_upgradable();
        }
    });
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    assert!((1..2_500).contains(&took.get()), "{} ns", took.get());
}
