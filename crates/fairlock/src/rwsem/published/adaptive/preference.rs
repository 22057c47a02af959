//! What `ReaderSpin::Adaptive` knows without the queue lock.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform};
use crate::rwsem::sem::set;
use crate::system::all_zero;
use crate::wait::Kind;

/// Hints that are read without the queue lock: Relaxed throughout.
#[repr(C, align(64))] // its own cache line: read by all, while `word` changes hands
pub(crate) struct Preference<P: Platform> {
    /// The side whose turns yield more, as a number.
    side: P::AtomicUsize,
    /// The current turn, while somebody is queued.
    turn: P::AtomicU64,
    /// Until when no writer's deadline ends the readers' turn; zero in other turns.
    least: P::AtomicU64,
    /// Until when releases leave the head of the queue asleep; zero if they do not.
    quiet: P::AtomicU64,
    /// When a writer last got in after readers.
    written: P::AtomicU64,
    /// Reads past the queue that are not in the account of a turn yet.
    past_queue: P::AtomicUsize,
}

/// The side whose turn it is, and when that ends, in one word.
#[derive(Clone, Copy)]
pub(crate) struct TurnEnd(u64);

impl TurnEnd {
    const SIDE: u64 = 1;

    /// A turn whose end nobody waits for.
    pub(crate) const fn open(side: Kind) -> Self {
        Self(side as u64)
    }

    pub(crate) fn at(side: Kind, end: u64) -> Self {
        Self((end & !Self::SIDE).max(Self::SIDE + 1) | side as u64)
    }

    pub(crate) fn is_open(self) -> bool {
        self.0 & !Self::SIDE == 0
    }

    pub(crate) fn side(self) -> Kind {
        side_of((self.0 & Self::SIDE) as usize)
    }

    pub(crate) fn is_over(self, now: u64) -> bool {
        !self.is_open() && !is_ahead(self.0, now)
    }
}

all_zero!(Preference of [AtomicUsize, AtomicU64]: [side, turn, least, quiet, written, past_queue], []);

impl<P: Platform> Preference<P> {
    pub(crate) fn side(&self) -> Kind {
        side_of(self.side.load(Ordering::Relaxed))
    }

    pub(crate) fn set_side(&self, side: Kind) {
        set(&self.side, side as usize);
    }

    pub(crate) fn turn(&self) -> TurnEnd {
        TurnEnd(self.turn.load(Ordering::Relaxed))
    }

    pub(crate) fn set_turn(&self, turn: TurnEnd) {
        set(&self.turn, turn.0);
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(crate) fn note_written(&self, now: u64) {
        self.written.store(now, Ordering::Relaxed);
    }

    pub(crate) fn set_least(&self, until: u64) {
        set(&self.least, until);
    }

    /// Until when the readers' turn lasts at least, if that time is still to come.
    pub(crate) fn least(&self, now: u64) -> Option<u64> {
        let least = self.least.load(Ordering::Relaxed);
        (least != 0 && is_ahead(least, now)).then_some(least)
    }

    /// Whether releases leave the head of the queue asleep at this time.
    pub(crate) fn is_quiet(&self) -> bool {
        let quiet = self.quiet.load(Ordering::Relaxed);
        quiet != 0 && is_ahead(quiet, P::now())
    }

    /// The head of the queue wakes itself at `until`; releases leave it asleep before that.
    pub(crate) fn keep_quiet(&self, until: u64) {
        self.quiet.store(until, Ordering::Relaxed);
    }

    /// The queue has another head, which did not ask to be left asleep.
    pub(crate) fn end_quiet(&self) {
        set(&self.quiet, 0);
    }

    pub(crate) fn count_past_queue(&self, reads: usize) {
        self.past_queue.fetch_add(reads, Ordering::Relaxed);
    }

    pub(crate) fn take_past_queue(&self) -> u64 {
        // Mostly there are none, and then a plain load does.
        match self.past_queue.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.past_queue.swap(0, Ordering::Relaxed) as u64,
        }
    }
}

/// A side from its number.
fn side_of(number: usize) -> Kind {
    if number == Kind::Reader as usize { Kind::Reader } else { Kind::Writer }
}

/// Whether a time is still to come. It may be past the end of the clock.
fn is_ahead(time: u64, now: u64) -> bool {
    (time.wrapping_sub(now) as i64) > 0
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_a_side_and_ends_when_it_says() {
        for side in [Kind::Reader, Kind::Writer] {
            assert_eq!(TurnEnd::open(side).side(), side);
            assert!(!TurnEnd::open(side).is_over(u64::MAX));
            // Also where the clock wraps, or is zero.
            for end in [0, 1, 1_000, u64::MAX] {
                let turn = TurnEnd::at(side, end);
                assert_eq!((turn.side(), turn.is_open()), (side, false));
                // A minute is more than 32 bits of nanoseconds.
                for (before, after) in [(2, 4), (60_000_000_000, 60_000_000_000)] {
                    let around = [end.wrapping_sub(before), end.wrapping_add(after)];
                    assert_eq!(around.map(|now| turn.is_over(now)), [false, true]);
                }
            }
        }
    }
}
