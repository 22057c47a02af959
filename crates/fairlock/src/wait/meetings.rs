//! Whether a thread that finds a mutex held should stand back: leave the mutex to others for a while.
//!
//! If two threads that run meet at a mutex time and again, what the mutex guards is on the way
//! between their CPUs more than it is in use, and both are faster if one of them has it for some
//! time. But standing back for nothing costs a hundred short sections. So a thread stands back only if
//! it meets others *closely* several times in a row: it wants the mutex again after less than
//! [`CLOSE`] times as long as it had waited for it before. That is in relation to the length of
//! sections, whatever that is.

use core::cell::Cell;

use super::WaitContext;
use crate::platform::{Atomic, Platform};

/// See above.
const CLOSE: u64 = 2;
/// A thread stands back if it has met others closely so many times in a row.
const IN_A_ROW: u32 = 3;
/// How long it leaves the mutex to the others then.
const STAND_BACK_NS: u64 = 16_000;

/// A thread's last meetings with others, all at one mutex. Used by that thread only.
pub(crate) struct Meetings {
    /// The address of the mutex.
    mutex: Cell<usize>,
    /// For how long the thread waited for it the last time, and until when.
    waited: Cell<u64>,
    ended: Cell<u64>,
    /// How many meetings in a row were close.
    row: Cell<u32>,
}

impl Meetings {
    pub(crate) const fn new() -> Self {
        Self { mutex: Cell::new(0), waited: Cell::new(0), ended: Cell::new(0), row: Cell::new(0) }
    }

    /// The thread finds the mutex at this address held, at `now`: whether to stand back.
    fn begin(&self, mutex: usize, now: u64) -> bool {
        if self.mutex.replace(mutex) != mutex {
            self.waited.set(0);
        }
        let close = now.saturating_sub(self.ended.get()) < CLOSE * self.waited.get();
        self.row.set(if close { self.row.get().saturating_add(1) } else { 0 });
        self.row.get() >= IN_A_ROW
    }

    /// The thread has the mutex at `now`, for which it waited since then. A longer wait than the time
    /// to stand back was a sleep, or for a long section: it says nothing.
    fn end(&self, since: u64, now: u64) {
        let waited = now.saturating_sub(since);
        self.waited.set(if waited <= STAND_BACK_NS { waited } else { 0 });
        self.ended.set(now);
    }
}

/// A wait of the calling thread for a mutex, if it has to wait.
pub(crate) struct Meeting {
    since: Option<u64>,
}

impl Meeting {
    pub(crate) const fn none() -> Self {
        Self { since: None }
    }

    /// The thread finds the mutex at this address held. The first time, it stands back if it should.
    /// Returns whether it is the first time.
    pub(crate) fn begin<P: Platform>(&mut self, mutex: usize, until: &WaitContext<'_, P>) -> bool {
        if self.since.is_some() {
            return false;
        }
        let mut now = P::now();
        if P::thread().meetings.begin(mutex, now) {
            let pause = STAND_BACK_NS.min(until.left(now));
            P::spin_until(&P::AtomicU32::new(0), pause, |_: u32| false);
            now = P::now();
        }
        self.since = Some(now);
        true
    }

    /// The thread has the mutex.
    pub(crate) fn end<P: Platform>(&self) {
        if let Some(since) = self.since {
            P::thread().meetings.end(since, P::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 1,000 meetings are too many, with sections and waits of 50 ns each, and so much
    /// time between them.
    fn too_many(outside: u64, mutexes: usize) -> usize {
        let meetings = Meetings::new();
        let mut now = 1_000_000;
        (0..1_000)
            .filter(|i| {
                let close = meetings.begin(1 + i % mutexes, now);
                meetings.end(now, now + 50);
                now += 50 + 50 + outside;
                close
            })
            .count()
    }

    #[test]
    fn only_threads_that_are_back_at_once_stand_back() {
        assert_eq!(too_many(0, 1), 997);
        assert_eq!(too_many(40, 1), 997);
        assert_eq!(too_many(60, 1), 0);
    }

    #[test]
    fn meetings_at_several_mutexes_are_none_in_a_row() {
        assert_eq!(too_many(0, 2), 0);
    }

    #[test]
    fn waits_asleep_are_no_reason_to_stand_back() {
        let meetings = Meetings::new();
        for now in (0..10).map(|i| 1_000_000 + i * 6_000_000) {
            assert!(!meetings.begin(1, now));
            meetings.end(now, now + 5_000_000);
        }
    }
}
