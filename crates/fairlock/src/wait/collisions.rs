//! Whether a thread that finds a mutex held should stand back: leave the mutex to others for a while.
//!
//! If two running threads contend for a mutex again and again, its data spends more time in transfer
//! between their CPUs than in use, and both are faster if one of them keeps the mutex for some time. But a
//! needless pause costs a hundred short sections. So a thread stands back only if it collides with others
//! *closely*: recently, on average, the time from having the mutex to wanting it again was less than
//! [`CLOSE`] times its wait before that. This scales with the length of sections.
//!
//! Threads that work outside as long as inside run in parallel if they take the mutex by turns: one is
//! outside while the other is inside. Only an average tells them from threads that slow each other down.
//! The clock is read while the thread holds the mutex, so it is not read at each collision.

use core::cell::Cell;

use super::{SOON_NS, WaitContext};
use crate::system::System;

/// The limit for *closely* (see above), in halves of the wait. In halves; compared with the average
/// time between two collisions, for the average wait.
const CLOSE: u64 = 3;
/// One collision in this many is timed, from its beginning to the beginning of the next one.
/// Averages run over about this many timed collisions. A thread stands back only once this many
/// have been timed, one after the other at the same mutex. In collisions; compared with those since
/// the last timed one, and with those timed at this mutex.
const ENOUGH: u32 = 4;
/// How long a thread that stands back leaves the mutex to the others: about a wake-up.
const STAND_BACK: u64 = 8 * SOON_NS;

/// A thread's last collisions with others: it found one mutex held. Used by that thread only.
pub(crate) struct Collisions {
    /// The address of the mutex.
    mutex: Cell<usize>,
    /// Which collision the next one is, from the last timed one on.
    next: Cell<u32>,
    /// Of the collision that is timed: for how long the thread waited (zero if it is not known, or says
    /// nothing), and when it had the mutex.
    waited: Cell<u64>,
    ended: Cell<u64>,
    /// How many collisions have been timed.
    timed: Cell<u32>,
    /// Averages over them: of the waits, and of the times from there to the next collision.
    waits: Cell<u64>,
    gaps: Cell<u64>,
}

/// What a thread has to do at a collision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// It times its wait.
    Times,
    /// It says when this collision began, as the one before was timed.
    Follows,
    Nothing,
}

impl Collisions {
    pub(crate) const fn new() -> Self {
        Self {
            mutex: Cell::new(0),
            next: Cell::new(0),
            waited: Cell::new(0),
            ended: Cell::new(0),
            timed: Cell::new(0),
            waits: Cell::new(0),
            gaps: Cell::new(0),
        }
    }

    /// The thread finds the mutex at this address held.
    fn begin(&self, mutex: usize) -> Part {
        if self.mutex.replace(mutex) != mutex {
            self.next.set(0);
            self.timed.set(0);
        }
        let this = self.next.get();
        self.next.set((this + 1) % ENOUGH);
        match this {
            0 => {
                self.waited.set(0);
                Part::Times
            }
            1 => Part::Follows,
            _ => Part::Nothing,
        }
    }

    /// The collision that follows the timed one began at `now`: whether to stand back. A longer wait than
    /// the time to stand back was a sleep, or for a long section, and a longer gap is none: after these
    /// timing begins anew.
    fn follows(&self, now: u64) -> bool {
        let (waited, gap) = (self.waited.get(), now.saturating_sub(self.ended.get()));
        if waited == 0 || waited > STAND_BACK || gap > STAND_BACK {
            self.timed.set(0);
            return false;
        }
        let timed = self.timed.get();
        for (average, last) in [(&self.waits, waited), (&self.gaps, gap)] {
            let before = if timed == 0 { last } else { average.get() };
            average.set((before * u64::from(ENOUGH - 1) + last) / u64::from(ENOUGH));
        }
        self.timed.set(ENOUGH.min(timed + 1));
        self.timed.get() == ENOUGH && 2 * self.gaps.get() < CLOSE * self.waits.get()
    }

    /// The thread has the mutex at `now`, for which it waited since then.
    fn end(&self, since: u64, now: u64) {
        self.waited.set(now.saturating_sub(since));
        self.ended.set(now);
    }
}

/// A wait of the calling thread for a mutex, if it has to wait.
pub(crate) struct Collision {
    begun: bool,
    /// If it is timed: since when, and of which thread.
    timed: Option<(u64, &'static Collisions)>,
}

impl Collision {
    pub(crate) const fn none() -> Self {
        Self { begun: false, timed: None }
    }

    /// The thread, which had these collisions, finds the mutex at this address held. The first time, it stands back if it should.
    /// Returns whether it is the first time.
    pub(crate) fn begin<P: System>(
        &mut self,
        collisions: &'static Collisions,
        mutex: usize,
        until: &WaitContext<'_, P>,
    ) -> bool {
        if self.begun {
            return false;
        }
        self.begun = true;
        match collisions.begin(mutex) {
            Part::Times => self.timed = Some((P::now(), collisions)),
            Part::Follows => {
                if collisions.follows(P::now()) {
                    until.stand_back(STAND_BACK);
                }
            }
            Part::Nothing => {}
        }
        true
    }

    /// The thread has the mutex.
    pub(crate) fn end<P: System>(&self) {
        if let Some((since, collisions)) = self.timed {
            collisions.end(since, P::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 4,000 collisions are too many, with waits of so many nanoseconds, and so much time
    /// until the thread wants one of the mutexes again.
    fn too_many(waited: u64, gap: impl Fn(usize) -> u64, mutexes: usize) -> usize {
        let collisions = Collisions::new();
        let mut now = 1_000_000;
        (0..4_000)
            .filter(|i| {
                let part = collisions.begin(1 + i % mutexes);
                let stands_back = part == Part::Follows && collisions.follows(now);
                if part == Part::Times {
                    collisions.end(now, now + waited);
                }
                now += waited + gap(*i);
                stands_back
            })
            .count()
    }

    #[test]
    fn only_threads_that_are_back_at_once_stand_back() {
        assert_eq!(too_many(50, |_| 50, 1), 997);
        assert_eq!(too_many(50, |_| 70, 1), 997);
        assert_eq!(too_many(50, |_| 80, 1), 0);
    }

    #[test]
    fn one_short_gap_among_long_ones_is_no_reason_to_stand_back() {
        assert_eq!(too_many(50, |i| if i % 16 == 12 { 40 } else { 100 }, 1), 0);
    }

    #[test]
    fn collisions_at_several_mutexes_are_none_in_a_row() {
        assert_eq!(too_many(50, |_| 0, 2), 0);
    }

    #[test]
    fn waits_asleep_are_no_reason_to_stand_back() {
        assert_eq!(too_many(5_000_000, |_| 0, 1), 0);
    }

    #[test]
    fn a_wait_that_was_given_up_is_not_counted() {
        let collisions = Collisions::new();
        collisions.end(1_000_000, 1_000_050);
        for _ in 0..1_000 {
            let part = collisions.begin(1);
            assert!(part != Part::Follows || !collisions.follows(1_000_060));
        }
    }

    #[test]
    fn after_a_sleep_timing_begins_anew() {
        let collisions = Collisions::new();
        let stands_back = |wait| {
            for _ in 0..ENOUGH {
                match collisions.begin(1) {
                    Part::Times => collisions.end(1_000, 1_000 + wait),
                    Part::Follows if collisions.follows(1_010 + wait) => return true,
                    _ => {}
                }
            }
            false
        };
        let close = 50;
        assert_eq!([close; 4].map(stands_back), [false, false, false, true]);
        assert_eq!(
            [2 * STAND_BACK, close, close, close, close].map(stands_back),
            [false, false, false, false, true]
        );
    }
}
