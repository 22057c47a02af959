//! `scenario`: what the user's file says. Groups of threads, each with a round of steps that it
//! repeats: take one of these locks, work, sleep, take another one inside.

pub mod file;

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::platform::Atomic;

use super::random::Random;
use super::tally::{Both, Durations, Tally};
use super::team::{Padded, Phase};
use super::testbed::{Testbed, Wanted};
use crate::cell::scenario::{ALWAYS, Group, Scenario, Step, Taken};
use crate::cell::{Case, Cell, CellReport, GroupReport, Side, SideReport};
use crate::error::Error;
use crate::locks::range::{BenchRange, Range};

/// The section is what the file says.
pub const CASES: [Case; 1] = [Case::Busy];

/// What the threads of a cell share.
struct Visitor<'a, L: BenchRange, T: Testbed> {
    testbed: &'a T,
    gate: &'a T::Gate,
    lock: &'a L,
    thread: usize,
    /// What the locks guard: for each of them as many lines as the step with most data needs.
    data: &'a [Padded<T::Word>],
    data_lines: u64,
}

/// What a thread has for itself.
struct Own {
    random: Random,
    both: Both,
    /// For how long it waited: to write, and to read.
    waited: [u64; 2],
    rounds: u64,
    lengths: Durations,
    /// How many locks it holds.
    held: usize,
}

/// Runs one cell.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let scenario =
        cell.scenario.as_ref().ok_or_else(|| Error::usage("a cell without its scenario"))?;
    let lock = Padded(L::create(scenario.locks, cell.threads)?);
    let data_lines = scenario.data_lines();
    let data: Vec<_> = (0..scenario.locks * data_lines).map(|_| Padded(T::Word::new(0))).collect();
    let (window, all) = testbed.run_team(cell, cell.threads, |index, gate| {
        let place =
            Visitor { testbed, gate, lock: &lock.0, thread: index, data: &data, data_lines };
        let mut own = Own {
            random: Random::new(cell.seed, index),
            both: Both::new(),
            waited: [0; 2],
            rounds: 0,
            lengths: Durations::new(),
            held: 0,
        };
        place.rounds(&scenario.groups[scenario.group_of(index)], &mut own);
        own
    })?;
    Ok(report(scenario, window, all, testbed.ns_per_tick()))
}

impl<L: BenchRange, T: Testbed> Visitor<'_, L, T> {
    /// One thread of a group.
    fn rounds(&self, group: &Group, own: &mut Own) {
        let begin = self.testbed.now();
        let mut due_ns = group.start_ns;
        self.sleep_until(begin, due_ns);
        loop {
            let began = self.testbed.now();
            self.steps(&group.round, own);
            let phase = self.testbed.phase(self.gate);
            match phase {
                Phase::WarmUp => {}
                Phase::Measure => {
                    own.rounds += 1;
                    own.lengths.record(self.testbed.now() - began);
                }
                Phase::Stop => return,
            }
            if let Some(ns) = group.every_ns {
                // Half to one and a half times the average, or threads would fall into step.
                due_ns += ns / 2 + own.random.below(ns + 1);
                self.sleep_until(begin, due_ns);
            }
        }
    }

    /// Sleeps until `due_ns` after `begin`, which may be over.
    fn sleep_until(&self, begin: u64, due_ns: u64) {
        let passed_ns = (self.testbed.now() - begin) as f64 * self.testbed.ns_per_tick();
        if due_ns as f64 > passed_ns {
            self.testbed.sleep(Duration::from_nanos(due_ns - passed_ns as u64));
        }
    }

    fn steps(&self, steps: &[Step], own: &mut Own) {
        for step in steps {
            if step.chance < ALWAYS && own.random.below(ALWAYS.into()) >= step.chance.into() {
                continue;
            }
            for _ in 0..step.times {
                if self.testbed.phase(self.gate) == Phase::Stop {
                    return;
                }
                match step.lock {
                    Some(lock) => self.locked(lock, step, own),
                    None => self.inside(step, own),
                }
            }
        }
    }

    /// What a step does, apart from its lock.
    fn inside(&self, step: &Step, own: &mut Own) {
        if step.work_ns > 0 {
            self.testbed.work(step.work_ns);
        }
        if step.sleep_ns > 0 {
            self.testbed.sleep(Duration::from_nanos(step.sleep_ns));
        }
        self.steps(&step.steps, own);
    }

    /// Reads, or changes, the first `lines` lines that a lock guards.
    fn touch(&self, lock: u64, lines: u64, reads: bool) {
        let first = (lock * self.data_lines) as usize;
        for Padded(line) in &self.data[first..first + lines as usize] {
            // The lock orders these accesses.
            let before = line.load(Ordering::Relaxed);
            if !reads {
                line.store(before.wrapping_add(1), Ordering::Relaxed);
            }
        }
    }

    /// Makes a step with its lock held.
    fn locked(&self, taken: Taken, step: &Step, own: &mut Own) {
        let position = taken.first + own.random.below(taken.count);
        let range: Range = position..=position;
        let side = Side::of(taken.reads);
        // Whatever measures how long locks are free knows only one lock of a thread: the first.
        let is_first = own.held == 0;
        let asked = if is_first {
            self.testbed.asks_for(side, Wanted::Lock(position as usize))
        } else {
            self.testbed.now()
        };
        let section = || {
            let acquired = if is_first { self.testbed.acquired(side) } else { self.testbed.now() };
            own.held += 1;
            self.touch(position, step.data_lines, taken.reads);
            self.inside(step, own);
            own.held -= 1;
            if is_first {
                self.testbed.leaves(side);
            }
            acquired
        };
        let acquired = self.lock.hold(side, self.thread, &range, section);
        if is_first {
            self.testbed.released(side, asked, acquired);
        }
        let phase = self.testbed.phase(self.gate);
        let waited = acquired.saturating_sub(asked);
        own.both.side(side).count(phase, waited);
        if phase != Phase::WarmUp {
            own.waited[usize::from(taken.reads)] += waited;
        }
    }
}

/// Whether a thread was starved. It is not enough that it had locks at most once: it may have asked
/// no more often. Then it did not wait for most of the window.
fn is_starved(ops: u64, waited: u64, window: f64) -> bool {
    ops <= 1 && waited as f64 > window / 2.0
}

/// What the threads of a group, or of a side, did.
#[derive(Default)]
struct Sums {
    tallies: Vec<Tally>,
    lengths: Vec<Durations>,
    starved: usize,
}

impl Sums {
    fn report(self, ns_per_tick: f64) -> Option<SideReport> {
        let starved = Some(self.starved);
        let latency = Durations::summarize(self.lengths, ns_per_tick);
        Tally::report(self.tallies, ns_per_tick).map(|report| SideReport {
            starved,
            latency,
            ..report
        })
    }
}

fn report(scenario: &Scenario, window: Duration, all: Vec<Own>, ns_per_tick: f64) -> CellReport {
    let window_ticks = window.as_nanos() as f64 / ns_per_tick;
    let mut sides = [Sums::default(), Sums::default()];
    let mut groups: Vec<_> = scenario.groups.iter().map(|_| Sums::default()).collect();
    for (index, own) in all.into_iter().enumerate() {
        let number = scenario.group_of(index);
        let waits = own.both.waits();
        let Both { read, write } = own.both;
        let group = &mut groups[number];
        let (ops, waited) = (read.ops + write.ops, own.waited.iter().sum());
        group.starved += usize::from(is_starved(ops, waited, window_ticks));
        group.tallies.push(Tally { ops: own.rounds, waits });
        group.lengths.push(own.lengths);
        // The threads of a side are those whose rounds may be on it.
        for (at, side, tally) in [(0, Side::Write, write), (1, Side::Read, read)] {
            if scenario.groups[number].takes(side) {
                let starved = is_starved(tally.ops, own.waited[at], window_ticks);
                sides[at].starved += usize::from(starved);
                sides[at].tallies.push(tally);
            }
        }
    }
    let groups = scenario.groups.iter().zip(groups).filter_map(|(group, sums)| {
        Some(GroupReport { name: group.name.clone(), report: sums.report(ns_per_tick)? })
    });
    let groups = groups.collect();
    let [write, read] = sides.map(|side| side.report(ns_per_tick));
    CellReport { groups, ..CellReport::of(window, read, write) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Form;

    /// What a thread did in a window of a second whose ticks are milliseconds.
    fn thread(writes: u64, waited: u64) -> Own {
        let mut both = Both::new();
        (0..writes).for_each(|_| _ = both.write.count(Phase::Measure, 0));
        let random = Random::new(1, 0);
        Own { random, both, waited: [waited, 0], rounds: 1, lengths: Durations::new(), held: 0 }
    }

    #[test]
    fn a_thread_that_seldom_asks_for_a_lock_is_not_starved() {
        let lock = Some(Taken { first: 0, count: 1, reads: false });
        let step = Step {
            lock,
            data_lines: 0,
            work_ns: 0,
            sleep_ns: 0,
            steps: vec![],
            chance: ALWAYS,
            times: 1,
        };
        let group = |name: &str, threads| Group {
            name: name.to_owned(),
            threads,
            start_ns: 0,
            every_ns: None,
            round: vec![step.clone()],
        };
        let groups = vec![group("seldom", 2), group("often", 3)];
        let scenario = Scenario { name: "x".into(), form: Form::Mutex, locks: 1, groups };
        // A round that never ends may have many sections, and long waits.
        let all = [thread(0, 0), thread(1, 400), thread(0, 1_000), thread(1, 900), thread(50, 900)];
        let report = report(&scenario, Duration::from_secs(1), all.into(), 1e6);
        let of_groups: Vec<_> = report.groups.iter().map(|group| group.report.starved()).collect();
        assert_eq!(of_groups, [0, 2]);
        let writes = report.write.as_ref().unwrap();
        assert_eq!((writes.starved(), report.starved(&writes.ops)), (2, 2));
    }
}
