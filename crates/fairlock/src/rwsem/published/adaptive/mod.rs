//! Who goes past the queue: `ReaderSpin::Adaptive`.
//!
//! Readers run side by side, but each has to be woken, one after the other; writers
//! run one by one, but those that spin follow each other at the cost of a cache line.
//! Which of the two is faster depends on the machine and on the sections, so the lock
//! measures it: what the [`turns`] of either side yield.
//!
//! While somebody is queued, the side that yields more is *preferred*. Its writers spin and steal;
//! its readers steal, one of them spins for a writer, and they join readers inside (a [`stream`]).
//! The other side *holds back*: it does none of that, and has its turns by handoff. A turn of that
//! side may go on as if it were preferred for a part ([`SHARE`]) of `handoff_after`, so that its
//! yield can be measured, and also while nobody of the preferred side is queued. All queued writers
//! that are past their deadlines go first. Preferred readers are kept out meanwhile
//! (`WRITER_PHASE`), but then get several times as long as that took.
//!
//! While nobody is queued all may spin: nobody sleeps, and nobody is passed over.

mod preference;
mod stream;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod stream_tests;
mod turns;

use core::sync::atomic::Ordering;

pub(super) use preference::Preference;
use preference::TurnEnd;
pub(super) use turns::Turns;

use crate::platform::Platform;
use crate::rwsem::Kernel;
use crate::rwsem::policy::{CENTURIES, ReaderSpin, at_most};
use crate::rwsem::published::Queued;
use crate::rwsem::word::Word;
use crate::wait::{Kind, Waiter};

/// A turn of the side that is not preferred lasts at most this part of `handoff_after`, if the other
/// side waits. In parts of `handoff_after`; compared, as a time, with how long the turn has lasted.
const SHARE: u64 = 32;
/// A turn of preferred readers lasts at least this many times as long as the last one of the
/// writers. Otherwise readers would have none where waking the writers one by one takes longer than
/// `handoff_after`, as those are then always past their deadlines. In turns of the writers;
/// compared, as a time, with how long that of the readers has lasted.
const LEAST: u64 = 4;

impl<P: Platform> Kernel<P> {
    /// Not without handoffs: the side that holds back would starve. Then all may spin.
    pub(crate) fn adapts(&self) -> bool {
        self.policy.reader_spin == ReaderSpin::Adaptive && self.policy.handoff_after.is_some()
    }

    /// Which readers spin at this time.
    pub(crate) fn reader_spin(&self) -> ReaderSpin {
        if !self.adapts() {
            return self.policy.reader_spin;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.has_waiters() {
            ReaderSpin::On
        } else if word.is_written() && !self.holds_back(Kind::Reader, word) {
            ReaderSpin::One
        } else {
            ReaderSpin::Off
        }
    }

    /// Whether a thread of this side that found `word` leaves the lock to others.
    pub(crate) fn holds_back(&self, side: Kind, word: Word) -> bool {
        if !self.adapts() || !word.has_waiters() || self.lines.preference.side() == side {
            return false;
        }
        let turn = self.lines.preference.turn();
        turn.side() != side || (!turn.is_open() && turn.is_over(P::now()))
    }

    /// Whether the queue's writers are kept from being overtaken by readers: so it is while a
    /// writer that holds back is past its deadline.
    pub(crate) fn is_writers_phase(&self, head: &Waiter<P>) -> bool {
        self.adapts() && self.lines.preference.side() == Kind::Reader && self.is_due(head)
    }

    /// A writer got in by a slow path, and is not noted as the owner yet: was the last owner a
    /// reader?
    pub(crate) fn note_change_to_writer(&self) {
        if self.adapts() && self.near.is_reader_owned() {
            self.lines.preference.note_written(P::now());
        }
    }

    // ---- under the queue lock ----

    /// A waiter queued; the first one found `word`.
    pub(crate) fn note_queued(&self, q: &mut Queued<P>, waiter: &Waiter<P>, word: Word) {
        if !self.adapts() {
            return;
        }
        if q.waiters.len() == 1 {
            let side = if word.is_written() { Kind::Writer } else { Kind::Reader };
            if side == Kind::Reader {
                self.note_readers();
            }
            q.own.begin(side, waiter.arrived);
            self.lines.preference.end_quiet();
            self.begin_turn(q, side, waiter.arrived);
        } else {
            let turn = self.lines.preference.turn();
            if turn.is_open() {
                self.begin_turn(q, turn.side(), waiter.arrived);
            }
        }
    }

    /// A writer leaves, and somebody is queued.
    pub(crate) fn count_write(&self, q: &mut Queued<P>) {
        self.count_turn(q, Kind::Writer, 1, || self.lines.preference.written());
    }

    /// Readers got in.
    pub(crate) fn count_reads(&self, q: &mut Queued<P>, reads: usize) {
        if self.adapts() {
            self.note_readers();
            self.count_turn(q, Kind::Reader, reads as u64, P::now);
        }
    }

    /// A reader queued although the lock is free. If it held back, the writers' turn costs the time
    /// until the head has been woken.
    pub(crate) fn count_idle(&self, q: &mut Queued<P>, since: u64) {
        if self.holds_back(Kind::Reader, Word::AWAITED) {
            self.count_turn(q, Kind::Writer, 0, || since);
        }
    }

    /// The last waiter left.
    pub(crate) fn end_turns(&self, q: &mut Queued<P>) {
        if self.adapts() {
            q.own.count_past_queue(self.lines.preference.take_past_queue());
            q.own.end(P::now());
            self.note_preference(q);
        }
    }

    fn count_turn(
        &self,
        q: &mut Queued<P>,
        side: Kind,
        acquisitions: u64,
        since: impl FnOnce() -> u64,
    ) {
        if !self.adapts() {
            return;
        }
        if side == Kind::Writer {
            q.own.count_past_queue(self.lines.preference.take_past_queue());
        }
        if let Some(since) = q.own.count(side, acquisitions, since) {
            self.note_preference(q);
            self.begin_turn(q, side, since);
        }
    }

    /// The turn is this side's. A waiter of the other side may wait for its end, which comes with
    /// that waiter's deadline, or sooner if that waiter is of the preferred side.
    fn begin_turn(&self, q: &Queued<P>, side: Kind, now: u64) {
        let after = self.policy.handoff_after.map_or(0, |after| at_most(after, CENTURIES));
        let preferred = self.lines.preference.side() == side;
        let mut least = 0;
        if preferred && side == Kind::Reader {
            let writers = q.own.last_ns(Kind::Writer).min(after);
            let length = writers.saturating_mul(LEAST).min(CENTURIES);
            least = now.wrapping_add(length).max(1);
        }
        self.lines.preference.set_least(least);
        let end = q.waiters.first(side.other()).map(|waiter| {
            if !preferred {
                return now.wrapping_add(after / SHARE);
            }
            let due = waiter.arrived.wrapping_add(after);
            let sooner = least != 0 && (due.wrapping_sub(least) as i64) < 0;
            if sooner { least } else { due }
        });
        let turn = end.map_or(TurnEnd::open(side), |end| TurnEnd::at(side, end));
        self.lines.preference.set_turn(turn);
    }

    fn note_preference(&self, q: &Queued<P>) {
        self.lines.preference.set_side(q.own.better());
    }
}
