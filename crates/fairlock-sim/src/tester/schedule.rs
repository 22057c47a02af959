//! Who goes next, and when time passes: chosen by chance, or replayed.
//!
//! If nothing is chosen a thread goes on until it cannot, then the next one does, and time passes
//! only when nobody can go on. A schedule is a list of [`Deviation`]s from that, each at a point of
//! its thread's own course: so it still makes sense when others, or what other threads do, are left
//! out.

use std::collections::HashMap;

use rand_xoshiro::Xoshiro256PlusPlus;

use super::script::below;

/// A point in a run: after this step of this action of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Point {
    pub(super) thread: usize,
    pub(super) action: u32,
    pub(super) step: u32,
}

/// What happens at a point that would not have happened without a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// This thread goes on next.
    Run(usize),
    /// Time passes until the next timer.
    Advance,
    /// This thread does not run for this many nanoseconds.
    Stall(usize, u64),
    /// This thread's sleep ends for no reason.
    Wake(usize),
    /// A host takes the CPU of this number for this many nanoseconds: none of its threads runs.
    Steal(usize, u64),
    /// The timer of this thread's sleep is late by this many nanoseconds.
    Late(usize, u64),
    /// The clock stands for this many nanoseconds, and is then what it would have been.
    Stand(u64),
}

/// One decision of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deviation {
    pub(super) at: Point,
    pub(super) event: Event,
}

/// Makes the decisions.
pub(super) enum Schedule {
    /// At each step, another thread goes on with this chance in 256.
    Random { random: Xoshiro256PlusPlus, switch: u64, noise: Noise },
    /// The thread of the highest priority; at some steps that one gets the lowest.
    /// (Burckhardt and others, "A randomized scheduler with probabilistic
    /// guarantees of finding bugs", 2010.)
    Priorities { random: Xoshiro256PlusPlus, priorities: Vec<i64>, changes: Vec<u64>, noise: Noise },
    /// The decisions of an earlier run.
    Replay(HashMap<Point, Vec<Event>>),
}

/// What else happens by chance: once in this many steps, never if zero.
pub(super) struct Noise {
    advance: u64,
    stall: u64,
    wake: u64,
    faults: Option<Faults>,
}

/// What machines do to threads, in one of four schedules; by a source of chance of its own, so that all others are
/// as they were before there was this.
struct Faults {
    random: Xoshiro256PlusPlus,
    /// Once in so many steps, each.
    rate: u64,
}

const STALL_NS: [u64; 3] = [50_000, 1_000_000, 100_000_000];
const STEAL_NS: [u64; 2] = [500_000, 8_000_000];
const LATE_NS: u64 = 10_000_000;
const STAND_NS: [u64; 2] = [20_000, 1_000_000];

impl Faults {
    fn new(random: &Xoshiro256PlusPlus) -> Option<Self> {
        let mut random = random.clone();
        random.long_jump();
        let rates = [60, 250, 1_000];
        (below(&mut random, 4) == 0).then(|| {
            let rate = rates[below(&mut random, rates.len() as u64) as usize];
            Self { random, rate }
        })
    }

    fn events(&mut self, threads: usize) -> Option<Event> {
        let Self { random, rate } = self;
        if below(random, *rate) != 0 {
            return None;
        }
        let thread = below(random, threads as u64) as usize;
        let which = below(random, 2) as usize;
        Some(match below(random, 3) {
            0 => Event::Steal(thread, STEAL_NS[which]),
            1 => Event::Late(thread, LATE_NS),
            _ => Event::Stand(STAND_NS[which]),
        })
    }
}

impl Noise {
    fn new(random: &mut Xoshiro256PlusPlus) -> Self {
        let faults = Faults::new(random);
        let mut one_of = |choices: &[u64]| choices[below(random, choices.len() as u64) as usize];
        Self {
            faults,
            advance: one_of(&[0, 20, 100, 400]),
            stall: one_of(&[0, 0, 200, 1_000]),
            wake: one_of(&[0, 0, 0, 0, 0, 0, 0, 100]),
        }
    }

    fn events(&mut self, random: &mut Xoshiro256PlusPlus, threads: usize) -> Vec<Event> {
        let mut happens = |rate| rate != 0 && below(random, rate) == 0;
        let (advance, stall, wake) =
            (happens(self.advance), happens(self.stall), happens(self.wake));
        let mut events = vec![];
        let thread = |random: &mut _| below(random, threads as u64) as usize;
        if stall {
            let ns = STALL_NS[below(random, STALL_NS.len() as u64) as usize];
            events.push(Event::Stall(thread(random), ns));
        }
        if wake {
            events.push(Event::Wake(thread(random)));
        }
        if advance {
            events.push(Event::Advance);
        }
        events.extend(self.faults.as_mut().and_then(|faults| faults.events(threads)));
        events
    }
}

impl Schedule {
    /// A schedule for `threads` threads that take about `steps` steps together.
    pub(super) fn new(mut random: Xoshiro256PlusPlus, threads: usize, steps: u64) -> Self {
        let noise = Noise::new(&mut random);
        match below(&mut random, 4) {
            0 => Self::Random { random, switch: 256, noise },
            1 => Self::Random { random, switch: 24, noise },
            _ => {
                let mut priorities: Vec<i64> = (1..=threads as i64).collect();
                for i in (1..threads).rev() {
                    priorities.swap(i, below(&mut random, i as u64 + 1) as usize);
                }
                let changes = 1 + below(&mut random, 6);
                let changes = (0..changes).map(|_| below(&mut random, steps)).collect();
                Self::Priorities { random, priorities, changes, noise }
            }
        }
    }

    pub(super) fn replay(deviations: &[Deviation]) -> Self {
        let mut events: HashMap<_, Vec<_>> = HashMap::new();
        for deviation in deviations {
            events.entry(deviation.at).or_default().push(deviation.event);
        }
        Self::Replay(events)
    }

    /// What happens at a point before the next thread is chosen.
    pub(super) fn events(&mut self, at: Point, threads: usize) -> Vec<Event> {
        match self {
            Self::Random { random, noise, .. } | Self::Priorities { random, noise, .. } => {
                noise.events(random, threads)
            }
            Self::Replay(events) => events
                .get(&at)
                .into_iter()
                .flatten()
                .filter(|event| !matches!(event, Event::Run(_)))
                .copied()
                .collect(),
        }
    }

    /// The next thread, of those that can go on. Without a choice it is `default`; `yielded` gives
    /// way.
    pub(super) fn pick(
        &mut self,
        at: Point,
        step: u64,
        can_run: &[usize],
        default: usize,
        yielded: Option<usize>,
    ) -> usize {
        match self {
            Self::Random { random, switch, .. } => {
                if below(random, 256) < *switch {
                    can_run[below(random, can_run.len() as u64) as usize]
                } else {
                    default
                }
            }
            Self::Priorities { priorities, changes, .. } => {
                let lowest = priorities.iter().min().copied().unwrap_or(0);
                let demoted = yielded.or_else(|| changes.contains(&step).then_some(at.thread));
                if let Some(priority) = demoted.and_then(|thread| priorities.get_mut(thread)) {
                    *priority = lowest - 1;
                }
                can_run.iter().copied().max_by_key(|&thread| priorities[thread]).unwrap_or(default)
            }
            Self::Replay(events) => events
                .get(&at)
                .into_iter()
                .flatten()
                .find_map(|event| match event {
                    Event::Run(thread) if can_run.contains(thread) => Some(*thread),
                    _ => None,
                })
                .unwrap_or(default),
        }
    }
}
