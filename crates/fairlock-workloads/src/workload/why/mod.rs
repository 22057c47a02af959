//! Why waits of real threads were long: what each thread did meanwhile, as the kernel says.
//!
//! To ask the kernel takes three calls, 1 to 2 us: too much to do at each wait. So a thread looks after
//! each wait of more than 1 ms; and, that this look can be compared with one not long before the wait,
//! also when it asks for a lock and its last look is 1 ms old. Nothing is asked while it waits, nor
//! while it holds a lock.
//!
//! What lies between the two looks but outside the wait is the *gap*: up to 1 ms before the wait, and the
//! section after it. The thread is taken to have run in the gap as far as it ran at all, so no more than
//! the gap, or than the time in which it did not run, is in a wrong part: [`Seen::uncertain_ns`].

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::cell::{Cell, RefCell};

#[cfg(not(target_os = "linux"))]
use elsewhere::Kernel;
#[cfg(target_os = "linux")]
use linux::Kernel;

use super::team::{Gate, Phase};
use crate::cell::{LONG_NS, LongWaits, Seen, Split};
use crate::clock::Clock;

/// What the kernel counts of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    /// How long it has run.
    ran_ns: u64,
    /// How long it could have run but had no CPU.
    runnable_ns: u64,
    /// How often it went to sleep.
    sleeps: u64,
    /// How often another thread got its CPU although it was awake.
    preemptions: u64,
}

/// A thread's look at what the kernel counts.
#[derive(Clone, Copy)]
struct Reading {
    /// When, in ticks.
    at: u64,
    counts: Counts,
}

/// A thread that looks.
struct Watched {
    kernel: Kernel,
    last: Reading,
    found: LongWaits,
}

thread_local! {
    /// From when on this thread's last look is too old, in ticks. At first it has none.
    static DUE: Cell<u64> = const { Cell::new(0) };
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Whether this thread's last look is too old to ask for a lock now.
#[inline(always)]
pub fn is_due(now: u64) -> bool {
    now >= DUE.get()
}

/// Has this thread look before it asks for a lock. Returns the time after that.
#[cold]
#[inline(never)]
pub fn look(clock: &Clock) -> u64 {
    WATCHED.with_borrow_mut(|watched| {
        if watched.is_none() {
            *watched = Watched::begin(clock);
        } else if let Some(watched) = watched {
            watched.look(clock);
        }
        if watched.is_none() {
            // The kernel does not say.
            DUE.set(u64::MAX);
        }
    });
    clock.now()
}

/// This thread has waited for a lock from `asked` to `acquired`, and given it back.
#[cold]
#[inline(never)]
pub fn waited(clock: &Clock, gate: &Gate, asked: u64, acquired: u64) {
    let ns_per_tick = clock.ns_per_tick();
    let ns = |ticks: u64| (ticks as f64 * ns_per_tick) as u64;
    let wait_ns = ns(acquired.saturating_sub(asked));
    if wait_ns <= LONG_NS {
        return;
    }
    WATCHED.with_borrow_mut(|watched| {
        let Some(watched) = watched else { return };
        let before = watched.last;
        watched.look(clock);
        let Reading { at, counts } = watched.last;
        if gate.phase() != Phase::WarmUp {
            let wait = counts.since(&before.counts).split(ns(at - before.at), wait_ns);
            watched.found = watched.found.and(wait);
        }
    });
}

/// This thread's long waits, after which it takes part no more; `None` if it has never looked.
pub fn finish() -> Option<LongWaits> {
    WATCHED.take().map(|watched| watched.found)
}

impl Watched {
    fn begin(clock: &Clock) -> Option<Self> {
        let kernel = Kernel::of_this_thread()?;
        let last = Reading { at: clock.now(), counts: kernel.counts()? };
        let mut watched = Self { kernel, last, found: LongWaits::default() };
        watched.look(clock);
        Some(watched)
    }

    fn look(&mut self, clock: &Clock) {
        let at = clock.now();
        // What could be read once can be read again.
        if let Some(counts) = self.kernel.counts() {
            self.last = Reading { at, counts };
        }
        DUE.set(at + (LONG_NS as f64 / clock.ns_per_tick()) as u64);
    }
}

impl Counts {
    /// What was counted after `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns),
            runnable_ns: self.runnable_ns.saturating_sub(earlier.runnable_ns),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
        }
    }

    /// A wait within the time in which this was counted.
    fn split(&self, counted_ns: u64, wait_ns: u64) -> LongWaits {
        let ran = self.ran_ns.min(counted_ns);
        let runnable = self.runnable_ns.min(counted_ns - ran);
        let asleep = counted_ns - ran - runnable;
        let mut gap = counted_ns.saturating_sub(wait_ns);
        let uncertain_ns = gap.min(runnable + asleep).min(wait_ns);
        let mut without_gap = |ns: u64| {
            let less = ns.min(gap);
            gap -= less;
            ns - less
        };
        let mut split = Split {
            running_ns: Some(without_gap(ran)),
            on_the_way_ns: Some(0),
            without_cpu_ns: Some(0),
            runnable_ns: Some(0),
            ..Split::default()
        };
        let of_runnable = match (self.sleeps, self.preemptions) {
            (0, _) => &mut split.without_cpu_ns,
            (_, 0) => &mut split.on_the_way_ns,
            _ => &mut split.runnable_ns,
        };
        *of_runnable = Some(without_gap(runnable));
        split.asleep_ns = Some(without_gap(asleep));
        let Self { sleeps, preemptions, .. } = *self;
        LongWaits::one(split, Some(Seen { uncertain_ns, sleeps, preemptions }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A wait of 10 ms between looks 12 ms apart.
    fn wait(ran: u64, runnable: u64, sleeps: u64, preemptions: u64) -> (Split, Seen) {
        let counts = Counts { ran_ns: ran * MS, runnable_ns: runnable * MS, sleeps, preemptions };
        let LongWaits { all, seen, .. } = counts.split(12 * MS, 10 * MS);
        (all, seen.unwrap())
    }

    fn split(running: u64, asleep: u64, [on_the_way, without_cpu, either]: [u64; 3]) -> Split {
        Split {
            running_ns: Some(running * MS),
            asleep_ns: Some(asleep * MS),
            on_the_way_ns: Some(on_the_way * MS),
            without_cpu_ns: Some(without_cpu * MS),
            runnable_ns: Some(either * MS),
            ..Split::default()
        }
    }

    #[test]
    fn the_gap_is_taken_from_the_time_that_the_thread_ran() {
        let (all, seen) = wait(5, 3, 1, 0);
        assert_eq!((all, all.total_ns()), (split(3, 4, [3, 0, 0]), 10 * MS));
        assert_eq!(seen.uncertain_ns, 2 * MS);
        // It cannot have run for the whole gap.
        assert_eq!(wait(1, 4, 1, 0).0, split(0, 7, [3, 0, 0]));
    }

    #[test]
    fn what_the_thread_lacked_was_lost_while_awake_unless_it_slept() {
        assert_eq!(wait(4, 8, 0, 2).0, split(2, 0, [0, 8, 0]));
        assert_eq!(wait(4, 6, 2, 0).0, split(2, 2, [6, 0, 0]));
        assert_eq!(wait(4, 6, 2, 1).0, split(2, 2, [0, 0, 6]));
    }

    #[test]
    fn no_more_is_uncertain_than_can_be() {
        // It ran all the time, so it ran in the wait.
        assert_eq!(wait(12, 0, 0, 0).1.uncertain_ns, 0);
        assert_eq!(wait(11, 1, 0, 1).1.uncertain_ns, MS);
        assert_eq!(wait(0, 0, 1, 0).1.uncertain_ns, 2 * MS);
        // The wait was the shorter part of the time.
        let counts = Counts { ran_ns: 0, runnable_ns: 0, sleeps: 1, preemptions: 0 };
        assert_eq!(counts.split(9 * MS, 2 * MS).seen.unwrap().uncertain_ns, 2 * MS);
    }

    /// Clocks that disagree make no part negative, nor the wait longer.
    #[test]
    fn more_cannot_be_counted_than_the_time_between_the_looks() {
        assert_eq!(wait(13, 9, 0, 1).0, split(10, 0, [0, 0, 0]));
        assert_eq!(wait(4, 9, 0, 1).0, split(2, 0, [0, 8, 0]));
    }

    /// Why this wait of a thread was long, which ended in `phase`.
    #[cfg(target_os = "linux")]
    fn of_thread(phase: Phase, wait: impl FnOnce() + Send) -> thread::Result<LongWaits> {
        let gate = Gate::new();
        gate.set_phase(phase);
        let thread = || {
            let clock = Clock::start();
            let asked = look(&clock);
            wait();
            waited(&clock, &gate, asked, clock.now());
            finish().expect("Linux counts")
        };
        thread::scope(|scope| scope.spawn(thread).join())
    }

    /// As at a lock whose waiters sleep.
    #[cfg(target_os = "linux")]
    fn sleep_on_a_condvar() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let wait = condvar.wait_timeout_while(
            mutex.lock().unwrap(),
            Duration::from_nanos(20 * MS),
            |()| true,
        );
        assert!(wait.unwrap().1.timed_out());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_slept_was_asleep() {
        let found = of_thread(Phase::Measure, sleep_on_a_condvar).unwrap();
        let LongWaits { count, all, seen, .. } = found;
        assert_eq!((count, all.without_cpu_ns), (1, Some(0)), "{all:?}");
        assert!(all.asleep_ns > Some(19 * MS) && seen.unwrap().sleeps > 0, "{all:?}");
        let LongWaits { count, all, .. } = of_thread(Phase::WarmUp, sleep_on_a_condvar).unwrap();
        assert_eq!((count, all.total_ns()), (0, 0));
    }

    /// As at a lock whose waiters spin, on a machine with fewer CPUs than threads.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_spun_beside_busy_loops_had_no_cpu() {
        const LACKED: u64 = 5 * MS;
        let ends = AtomicBool::new(false);
        let loops = 3 * thread::available_parallelism().map_or(8, usize::from);
        let found = thread::scope(|scope| {
            for _ in 0..loops {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let found = of_thread(Phase::Measure, || {
                let kernel = Kernel::of_this_thread().unwrap();
                let before = kernel.counts().unwrap();
                while kernel.counts().unwrap().since(&before).runnable_ns < LACKED {}
            });
            ends.store(true, Ordering::Relaxed);
            found
        });
        let LongWaits { count, all, seen, .. } = found.unwrap();
        assert_eq!((count, all.on_the_way_ns), (1, Some(0)), "{all:?}");
        let seen = seen.unwrap();
        let lacked = all.without_cpu_ns.max(all.runnable_ns).unwrap();
        assert!(lacked + seen.uncertain_ns >= LACKED && seen.preemptions > 0, "{all:?} {seen:?}");
    }
}
