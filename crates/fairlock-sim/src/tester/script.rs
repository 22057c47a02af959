//! What the threads of a test do: visits to a lock, chosen by chance from a seed.

use std::fmt;

use fairlock::wait::{CancelToken, Wait};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::sim::Sim;

/// A number below `below`, which is not zero.
pub(super) fn below(random: &mut Xoshiro256PlusPlus, below: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(below)) >> 64) as u64
}

fn one_of<T: Copy>(random: &mut Xoshiro256PlusPlus, choices: &[T]) -> T {
    choices[below(random, choices.len() as u64) as usize]
}

/// What can be done with a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abilities {
    /// Readers may be inside together; otherwise everybody writes.
    pub(super) shared: bool,
    /// Waits can end early.
    pub(super) timed: bool,
    /// There are fair unlocks.
    pub(super) fair: bool,
    /// It locks ranges of numbers.
    pub(super) ranges: bool,
    /// Readers may be upgradable.
    pub(super) upgrades: bool,
    /// It heeds real-time priorities.
    pub(super) priorities: bool,
}

impl Abilities {
    pub(super) const MUTEX: Self = Self {
        shared: false,
        timed: true,
        fair: true,
        ranges: false,
        upgrades: false,
        priorities: false,
    };
}

/// How to ask for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Wait,
    Try,
    /// With a timeout in nanoseconds.
    For(u64),
    /// Until the token of this number is cancelled.
    Cancellable(usize),
}

impl How {
    /// How long that is; for ever where it is not said.
    pub(super) fn wait(self, tokens: &[CancelToken<Sim>]) -> Wait<'_, Sim> {
        match self {
            How::Wait | How::Try => Wait::FOREVER,
            How::For(ns) => Wait::until_nanos(crate::now() + ns),
            How::Cancellable(token) => Wait::FOREVER.cancellable(&tokens[token]),
        }
    }
}

/// What to do before leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Leave,
    LeaveFair,
    /// Become a reader, for another section.
    Downgrade,
    /// Read upgradably from the beginning, then become the writer for another section, if that can
    /// be had in the way in which the lock was asked for.
    Upgrade,
    /// Become an upgradable reader and the writer again, each for another section.
    DownAndUp,
    /// Read again, recursively, for another section.
    ReadAgain,
    /// Give up a part of the range, for another section.
    Shrink,
    /// Leave the two halves of the range one after the other.
    Split,
}

/// The time inside the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Busy(u64),
    Sleep(u64),
}

/// One thing a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Visit {
        writes: bool,
        how: How,
        section: Section,
        then: Then,
        /// First and last position.
        range: (u64, u64),
    },
    /// Cancels the token of this number.
    Cancel(usize),
    /// Spends time outside of the lock.
    Away(Section),
    /// Takes on this real-time priority.
    Priority(u8),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Action::Visit { writes, how, section, then, range } = self else {
            return match self {
                Action::Cancel(token) => write!(f, "cancel token {token}"),
                Action::Away(section) => write!(f, "away: {section:?}"),
                Action::Priority(priority) => write!(f, "priority {priority}"),
                Action::Visit { .. } => Ok(()),
            };
        };
        f.write_str(if *writes { "write" } else { "read" })?;
        if *range != WHOLE {
            write!(f, " {}..={}", range.0, range.1)?;
        }
        match how {
            How::Wait => {}
            How::Try => f.write_str(", try")?,
            How::For(ns) => write!(f, ", for {ns} ns")?,
            How::Cancellable(token) => write!(f, ", until token {token} is cancelled")?,
        }
        write!(f, "; {section:?}")?;
        if *then == Then::Leave { Ok(()) } else { write!(f, "; {then:?}") }
    }
}

/// The range of a lock that has none.
pub(super) const WHOLE: (u64, u64) = (0, u64::MAX);

/// How many positions the specification has.
pub(super) const POSITIONS: u64 = 4;

/// What each thread does, in order. An action has a number, by which it is known even if others are
/// left out.
pub(super) type Script = Vec<Vec<(u32, Action)>>;

/// How many tokens a script uses at most.
pub(super) const TOKENS: usize = 3;

const BUSY_NS: [u64; 3] = [10, 200, 2_000];
const SLEEP_NS: [u64; 4] = [1_000, 30_000, 600_000, 6_000_000];
const TIMEOUT_NS: [u64; 6] = [0, 100, 2_000, 30_000, 700_000, 5_000_000];

fn section(random: &mut Xoshiro256PlusPlus) -> Section {
    match below(random, 4) {
        0 => Section::Sleep(one_of(random, &SLEEP_NS)),
        _ => Section::Busy(one_of(random, &BUSY_NS)),
    }
}

fn visit(random: &mut Xoshiro256PlusPlus, can: Abilities, writes: u64) -> Action {
    let writes = !can.shared || below(random, 100) < writes;
    let how = match below(random, 8) {
        0 => How::Try,
        1 if can.timed => How::For(one_of(random, &TIMEOUT_NS)),
        2 if can.timed => How::Cancellable(below(random, TOKENS as u64) as usize),
        _ => How::Wait,
    };
    let then = match below(random, 8) {
        0 if can.fair => Then::LeaveFair,
        1 if can.shared && writes => Then::Downgrade,
        1 if can.shared => Then::ReadAgain,
        2 if can.upgrades && writes => Then::DownAndUp,
        2 | 3 if can.upgrades && !writes => Then::Upgrade,
        2 if can.ranges => Then::Shrink,
        3 if can.ranges => Then::Split,
        _ => Then::Leave,
    };
    let range = if !can.ranges || below(random, 8) == 0 {
        WHOLE
    } else {
        let start = below(random, 12);
        (start, start + below(random, 6))
    };
    Action::Visit { writes, how, section: section(random), then, range }
}

/// How many threads a script may have.
const FEWEST_THREADS: u64 = 3;
pub(super) const MOST_THREADS: u64 = 8;

/// A script; few threads are more likely than many.
pub(super) fn script(random: &mut Xoshiro256PlusPlus, can: Abilities) -> Script {
    let more = MOST_THREADS - FEWEST_THREADS + 1;
    let threads = FEWEST_THREADS + below(random, more).min(below(random, more));
    let visits = 1 + below(random, 4);
    let writes = one_of(random, &[30, 50, 80]);
    let mut number = 0;
    (0..threads)
        .map(|_| {
            let mut actions = vec![];
            for _ in 0..visits {
                if can.priorities && below(random, 2) == 0 {
                    actions.push(Action::Priority(below(random, 3) as u8));
                }
                let cancels = can.timed && below(random, 8) == 0;
                if cancels {
                    actions.push(Action::Cancel(below(random, TOKENS as u64) as usize));
                } else if below(random, 6) == 0 {
                    actions.push(Action::Away(section(random)));
                }
                actions.push(visit(random, can, writes));
            }
            actions
                .into_iter()
                .map(|action| {
                    number += 1;
                    (number, action)
                })
                .collect()
        })
        .collect()
}
