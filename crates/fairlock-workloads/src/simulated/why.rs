//! Why waits were long: what each nanosecond of them went into, exactly, as a simulated machine
//! knows who has a CPU, and the workload knows who is inside.
//!
//! What the waiter itself lacks counts first, as it could not have taken the lock meanwhile: it is
//! on its way after a wake-up, or was awake and has lost its CPU. Otherwise the lock made it wait,
//! and what counts is who is inside; see [`Split`]. A thread is inside as in [`free`](super::free):
//! until the end of its section, and while it has no CPU in the call that gives the lock back.
//!
//! A lock keeps clocks of its own, and a waiter reads them when its own state changes. So an
//! operation costs the same however many wait. Locks on ranges are not watched: who is in the way
//! differs for each waiter.

use std::collections::{BTreeSet, VecDeque};

use fairlock_sim::ThreadState;

use super::{Stage, change};
use crate::cell::{LONG_NS, LongWaits, Split};

/// The waits of one simulation.
#[derive(Default)]
pub struct Waits {
    /// Waits that end before this time do not count.
    pub begins_ns: u64,
    threads: Vec<Thread>,
    /// The locks, by number.
    locks: Vec<Lock>,
    found: LongWaits,
}

/// A thread: what it does with the lock that it asked for last, and what it lacks.
#[derive(Clone, Default)]
struct Thread {
    stage: Stage,
    lock: usize,
    /// Of a waiter: how many acquisitions there were when it asked. Of a holder: how many before
    /// its own.
    entry: u64,
    asked: u64,
    lacks: Lacks,
    /// Whether it is awake, and without a CPU.
    is_short_of_cpu: bool,
    /// Whether one that was inside when it asked still is.
    is_behind_first: bool,
    /// Until when its wait has been counted, and the lock's clocks then.
    counted_until: u64,
    clocks: Clocks,
    split: Split,
}

/// What a waiter lacks to take the lock.
#[derive(Clone, Copy, Default, PartialEq)]
enum Lacks {
    /// The lock alone: it has a CPU, or sleeps.
    #[default]
    Lock,
    /// It was woken, and has not had a CPU since.
    WakeUp,
    /// It was awake, and has lost its CPU.
    Cpu,
}

/// For how long a lock was in each of its states.
#[derive(Clone, Copy, Default)]
struct Clocks {
    free: u64,
    held: u64,
    /// It was held, and none of those inside had a CPU.
    held_without_cpu: u64,
}

#[derive(Clone, Default)]
struct Lock {
    /// How many acquisitions there were.
    entries: u64,
    /// Those inside, by the number of their acquisition.
    inside: BTreeSet<u64>,
    /// How many of them have no CPU.
    short_of_cpu: usize,
    clocks: Clocks,
    clocks_until: u64,
    /// Who left it last, and when.
    left: Option<(usize, u64)>,
    /// Waiters, each with the time when it asked, that found somebody inside who may still be; in
    /// the order in which they asked.
    behind_first: VecDeque<(usize, u64)>,
}

/// A long wait that has ended.
pub struct Long {
    pub split: Split,
    /// Who left the lock last before it was had, and when, if that was in the wait.
    pub let_in_by: Option<(usize, u64)>,
}

impl Lock {
    /// Brings the clocks up to now, before something changes.
    fn count(&mut self, now: u64) {
        let clock = if self.inside.is_empty() {
            &mut self.clocks.free
        } else if self.short_of_cpu == self.inside.len() {
            &mut self.clocks.held_without_cpu
        } else {
            &mut self.clocks.held
        };
        *clock += now - self.clocks_until;
        self.clocks_until = now;
    }
}

impl Waits {
    fn thread(&mut self, thread: usize) -> &mut Thread {
        super::at(&mut self.threads, thread)
    }

    /// A thread asks for a lock.
    pub fn asks(&mut self, now: u64, thread: usize, number: usize) {
        let lock = super::at(&mut self.locks, number);
        lock.count(now);
        let is_behind_first = !lock.inside.is_empty();
        if is_behind_first {
            lock.behind_first.push_back((thread, now));
        }
        let (entry, clocks) = (lock.entries, lock.clocks);
        let this = self.thread(thread);
        (this.stage, this.lock, this.entry, this.asked) = (Stage::Waits, number, entry, now);
        (this.counted_until, this.clocks, this.split) = (now, clocks, NOTHING);
        this.is_behind_first = is_behind_first;
    }

    /// The thread has the lock that it asked for. Returns its wait, if that was a long one.
    pub fn acquired(&mut self, now: u64, thread: usize) -> Option<Long> {
        if self.thread(thread).stage != Stage::Waits {
            return None;
        }
        self.count(now, thread);
        let this = &mut self.threads[thread];
        let lock = &mut self.locks[this.lock];
        this.stage = Stage::Inside;
        this.entry = lock.entries;
        lock.entries += 1;
        lock.inside.insert(this.entry);
        if now < self.begins_ns || now - this.asked <= LONG_NS {
            return None;
        }
        self.found = self.found.and(LongWaits::one(this.split, None));
        let let_in_by = lock.left.filter(|&(_, left)| left >= this.asked);
        Some(Long { split: this.split, let_in_by })
    }

    /// The thread's section is over, and it is about to give the lock back.
    pub fn leaves(&mut self, now: u64, thread: usize) {
        if self.thread(thread).stage == Stage::Inside {
            self.threads[thread].stage = Stage::Leaves;
            self.is_outside(now, thread);
        }
    }

    /// The thread has given the lock back.
    pub fn released(&mut self, thread: usize) {
        self.thread(thread).stage = Stage::Elsewhere;
    }

    /// The machine does something else with a thread.
    pub fn state(&mut self, now: u64, thread: usize, state: ThreadState) {
        let is_short = state.lacks_cpu();
        let this = self.thread(thread);
        let lacks = match state {
            ThreadState::Woken => Lacks::WakeUp,
            _ if !is_short => Lacks::Lock,
            _ if this.lacks == Lacks::WakeUp => Lacks::WakeUp,
            _ => Lacks::Cpu,
        };
        let loses_or_gets_cpu = this.is_short_of_cpu != is_short;
        if this.stage == Stage::Waits && this.lacks != lacks {
            self.count(now, thread);
        }
        let this = &mut self.threads[thread];
        (this.lacks, this.is_short_of_cpu) = (lacks, is_short);
        let lock = this.lock;
        match this.stage {
            Stage::Inside if loses_or_gets_cpu => {
                let lock = &mut self.locks[lock];
                lock.count(now);
                lock.short_of_cpu = change(lock.short_of_cpu, is_short);
            }
            Stage::Leaves if loses_or_gets_cpu && is_short => {
                let entry = this.entry;
                let lock = &mut self.locks[lock];
                lock.count(now);
                lock.inside.insert(entry);
                lock.short_of_cpu += 1;
            }
            Stage::Leaves if loses_or_gets_cpu => {
                self.locks[lock].count(now);
                self.locks[lock].short_of_cpu -= 1;
                self.is_outside(now, thread);
            }
            _ => {}
        }
    }

    /// A thread is no longer inside.
    fn is_outside(&mut self, now: u64, thread: usize) {
        let Thread { lock: number, entry, .. } = self.threads[thread];
        let lock = &mut self.locks[number];
        lock.count(now);
        lock.inside.remove(&entry);
        lock.left = Some((thread, now));
        let first = lock.inside.first().copied().unwrap_or(u64::MAX);
        while let Some(&(waiter, asked)) = self.locks[number].behind_first.front() {
            let this = &self.threads[waiter];
            let waits = (this.stage, this.lock, this.asked) == (Stage::Waits, number, asked);
            if waits && first < this.entry {
                return;
            }
            if waits {
                self.count(now, waiter);
                self.threads[waiter].is_behind_first = false;
            }
            self.locks[number].behind_first.pop_front();
        }
    }

    /// Counts a waiter's time, before something changes.
    fn count(&mut self, now: u64, waiter: usize) {
        let this = &mut self.threads[waiter];
        let lock = &mut self.locks[this.lock];
        lock.count(now);
        let split = &mut this.split;
        match this.lacks {
            Lacks::WakeUp => add(&mut split.on_the_way_ns, now - this.counted_until),
            Lacks::Cpu => add(&mut split.without_cpu_ns, now - this.counted_until),
            Lacks::Lock => {
                let (before, after) = (&this.clocks, &lock.clocks);
                let held = if this.is_behind_first {
                    &mut split.holder_inside_ns
                } else {
                    &mut split.behind_others_ns
                };
                add(held, after.held - before.held);
                let without_cpu = after.held_without_cpu - before.held_without_cpu;
                add(&mut split.holder_without_cpu_ns, without_cpu);
                add(&mut split.lock_free_ns, after.free - before.free);
            }
        }
        (this.counted_until, this.clocks) = (now, lock.clocks);
    }

    /// The long waits that have ended; `None` if no lock was asked for that is watched.
    pub fn found(&self) -> Option<LongWaits> {
        (!self.locks.is_empty()).then_some(self.found)
    }
}

/// The parts that a simulation knows, of a wait that has just begun.
const NOTHING: Split = Split {
    on_the_way_ns: Some(0),
    without_cpu_ns: Some(0),
    holder_without_cpu_ns: Some(0),
    holder_inside_ns: Some(0),
    behind_others_ns: Some(0),
    lock_free_ns: Some(0),
    running_ns: None,
    asleep_ns: None,
    runnable_ns: None,
};

fn add(part: &mut Option<u64>, ns: u64) {
    *part = part.map(|before| before + ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadState::{Runnable, Running, Sleeping, Spinning, Stalled, Woken};

    const MS: u64 = 1_000_000;

    /// The thread takes the lock, which is free.
    fn enters(waits: &mut Waits, now: u64, thread: usize) {
        waits.asks(now, thread, 0);
        waits.acquired(now, thread);
    }

    fn releases(waits: &mut Waits, now: u64, thread: usize) {
        waits.leaves(now, thread);
        waits.released(thread);
    }

    /// The one long wait that was found.
    fn one(waits: &Waits) -> Split {
        let LongWaits { count, all, longest, .. } = waits.found().unwrap();
        assert_eq!((count, all), (1, longest));
        all
    }

    /// Each part of a wait has a length of its own, so that none can stand for another.
    #[test]
    fn every_part_of_a_wait_is_known() {
        let mut waits = Waits::default();
        enters(&mut waits, 0, 0);
        waits.asks(0, 1, 0);
        waits.state(0, 1, Spinning);
        waits.state(MS, 0, Runnable); // 1: holder inside
        waits.state(3 * MS, 0, Running); // 2: holder without a CPU
        waits.state(3 * MS, 1, Runnable);
        waits.state(6 * MS, 1, Running); // 3: without a CPU after it was awake
        waits.state(6 * MS, 1, Sleeping);
        releases(&mut waits, 6 * MS, 0);
        enters(&mut waits, 6 * MS, 2);
        releases(&mut waits, 10 * MS, 2); // 4: behind others
        waits.state(15 * MS, 1, Woken); // 5: nobody is inside
        waits.state(20 * MS, 1, Runnable);
        waits.state(21 * MS, 1, Running); // 6: on the way
        let long = waits.acquired(21 * MS, 1).unwrap();
        assert_eq!(long.let_in_by, Some((2, 10 * MS)));
        let expected = Split {
            holder_inside_ns: Some(MS),
            holder_without_cpu_ns: Some(2 * MS),
            without_cpu_ns: Some(3 * MS),
            behind_others_ns: Some(4 * MS),
            lock_free_ns: Some(5 * MS),
            on_the_way_ns: Some(6 * MS),
            ..Split::default()
        };
        assert_eq!(one(&waits), expected);
        assert_eq!(expected.total_ns(), 21 * MS);
    }

    #[test]
    fn a_writer_waits_for_the_last_reader_that_was_inside_and_then_for_others() {
        let mut waits = Waits::default();
        enters(&mut waits, 0, 0);
        enters(&mut waits, 0, 1);
        waits.asks(0, 2, 0);
        enters(&mut waits, MS, 3);
        releases(&mut waits, 2 * MS, 0);
        // Another is inside that was when the writer asked.
        releases(&mut waits, 5 * MS, 1);
        // Now only one that came later.
        releases(&mut waits, 6 * MS, 3);
        waits.acquired(6 * MS, 2);
        let split = one(&waits);
        assert_eq!((split.holder_inside_ns, split.behind_others_ns), (Some(5 * MS), Some(MS)));
    }

    #[test]
    fn readers_inside_have_no_cpu_only_if_none_of_them_has() {
        let mut waits = Waits::default();
        enters(&mut waits, 0, 0);
        enters(&mut waits, 0, 1);
        waits.asks(0, 2, 0);
        waits.state(MS, 0, Runnable);
        waits.state(2 * MS, 1, Stalled);
        waits.state(5 * MS, 1, Running);
        releases(&mut waits, 5 * MS, 1);
        waits.state(9 * MS, 0, Running);
        releases(&mut waits, 10 * MS, 0);
        waits.acquired(10 * MS, 2);
        let split = one(&waits);
        let held = (split.holder_inside_ns, split.holder_without_cpu_ns);
        assert_eq!(held, (Some(3 * MS), Some(7 * MS)));
    }

    #[test]
    fn who_loses_its_cpu_while_it_lets_go_is_a_holder_without_one() {
        let mut waits = Waits::default();
        enters(&mut waits, 0, 0);
        waits.asks(0, 1, 0);
        waits.leaves(MS, 0);
        waits.state(MS, 0, Runnable);
        waits.state(5 * MS, 0, Running);
        waits.released(0);
        waits.acquired(7 * MS, 1);
        let split = one(&waits);
        let held = (split.holder_inside_ns, split.holder_without_cpu_ns);
        assert_eq!(held, (Some(MS), Some(4 * MS)));
        assert_eq!((split.lock_free_ns, split.total_ns()), (Some(2 * MS), 7 * MS));
    }

    #[test]
    fn short_waits_and_those_before_the_window_do_not_count() {
        let mut waits = Waits { begins_ns: 3 * MS, ..Waits::default() };
        enters(&mut waits, 0, 0);
        waits.asks(0, 1, 0);
        releases(&mut waits, 2 * MS, 0);
        waits.acquired(2 * MS, 1); // 2 ms, before the window
        waits.asks(3 * MS, 0, 0);
        releases(&mut waits, 4 * MS, 1);
        waits.acquired(4 * MS, 0); // 1 ms
        assert_eq!(waits.found(), Some(LongWaits::default()));
    }

    /// A wait that was given up does not end the next one's first part.
    #[test]
    fn a_wait_that_was_given_up_is_forgotten() {
        let mut waits = Waits::default();
        enters(&mut waits, 0, 0);
        waits.asks(0, 1, 0);
        waits.asks(2 * MS, 1, 0);
        releases(&mut waits, 5 * MS, 0);
        waits.acquired(5 * MS, 1);
        assert_eq!(one(&waits).holder_inside_ns, Some(3 * MS));
    }
}
