//! What a thread does at a lock, drawn by chance.

use std::fmt;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::threads::now;

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Wait,
    Try,
    For(Duration),
    /// Until the watchdog cancels it.
    Cancellable,
    /// Until a signal comes.
    Interruptible,
}

impl How {
    /// Whether the wait ends at a time that is known.
    pub(super) fn timeout(self) -> Option<Duration> {
        match self {
            How::For(timeout) => Some(timeout),
            _ => None,
        }
    }
}

/// What to do. Each lock knows which of these it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    /// Read, and read again recursively.
    ReadAgain,
    Upgradable,
    /// Read upgradably, and become the writer, in the way in which the lock was asked for.
    Upgrade,
    /// The same, if that needs no waiting.
    TryUpgrade,
    /// Write, and become a reader.
    Downgrade,
    /// Write, become an upgradable reader, and the writer again.
    DownAndUp,
    /// Write a range, and give up a part of it.
    Shrink,
    /// Write a range, and leave its halves one after the other.
    Split,
    /// Take some permits.
    Permits(u32),
    /// Lock a mutex that the thread holds, again.
    LockAgain,
    /// Put one item, and notify one.
    Put,
    /// Put some items, and notify all.
    PutMany,
    /// Wait for an item.
    Take,
}

/// The time inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Nothing,
    Busy(Duration),
    Sleep(Duration),
    /// The holder offers its CPU to others.
    Yield,
}

impl Section {
    pub(super) fn stay(self) {
        match self {
            Section::Nothing => {}
            Section::Busy(time) => {
                let until = now() + time.as_nanos() as u64;
                while now() < until {
                    black_box(until);
                }
            }
            Section::Sleep(time) => thread::sleep(time),
            Section::Yield => thread::yield_now(),
        }
    }

    fn draw(random: &mut StdRng) -> Self {
        match random.random_range(0..32) {
            0 => Section::Sleep(one_of(random, &[20, 200, 2_000])),
            1..=2 => Section::Yield,
            3..=9 => Section::Busy(one_of(random, &[1, 10, 100])),
            _ => Section::Nothing,
        }
    }
}

/// One visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) op: Op,
    pub(super) how: How,
    pub(super) section: Section,
    pub(super) fair: bool,
    /// Of a range lock: first and last position.
    pub(super) range: (u64, u64),
}

/// Positions of a range lock.
pub(super) const POSITIONS: u64 = 32;

impl Visit {
    /// What thread `number` does next at a lock that can do `ops`.
    pub(super) fn draw(random: &mut StdRng, ops: &[Op], number: usize) -> Self {
        let mut op = ops[random.random_range(0..ops.len())];
        let mut how = match random.random_range(0..16) {
            0..=1 => How::Try,
            2 => How::For(one_of(random, &[0, 10, 100])),
            3 => How::For(one_of(random, &[1_000, 10_000, 100_000])),
            4 => How::Cancellable,
            5 => How::Interruptible,
            _ => How::Wait,
        };
        // Those that put do not wait for those that take without an end, nor the other way round for ever.
        if op == Op::Take && number.is_multiple_of(2) {
            op = Op::Put;
        }
        if op == Op::Take && how == How::Try {
            how = How::Wait;
        }
        let start = random.random_range(0..POSITIONS);
        let range = match random.random_range(0..10) {
            0 => (0, POSITIONS - 1),
            _ => (start, (start + random.random_range(0..6)).min(POSITIONS - 1)),
        };
        let fair = random.random_range(0..8) == 0;
        Self { op, how, section: Section::draw(random), fair, range }
    }

    /// What a thread does between two visits.
    pub(super) fn away(random: &mut StdRng) -> Section {
        match random.random_range(0..64) {
            0 => Section::Sleep(one_of(random, &[100, 1_000, 10_000])),
            1..=4 => Section::Yield,
            5..=20 => Section::Busy(one_of(random, &[1, 5, 50])),
            _ => Section::Nothing,
        }
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, how, section, range, .. } = self;
        write!(f, "{op:?} ({how:?}), section {section:?}")?;
        if matches!(op, Op::Shrink | Op::Split) {
            write!(f, ", {}..={}", range.0, range.1)
        } else {
            Ok(())
        }
    }
}

fn one_of(random: &mut StdRng, micros: &[u64]) -> Duration {
    Duration::from_micros(micros[random.random_range(0..micros.len())])
}
