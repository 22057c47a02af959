//! Who waits with which priority, and whether a thread was let in before one that goes first.

use std::cell::{Cell, RefCell};

use fairlock::platform::System;

use super::{Complaint, Complaints};
use crate::sim::Sim;
use crate::tester::failure::FailureKind;
use crate::tester::script::How;

/// Where a thread that asks for the lock was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nowhere,
    /// In the queue, for the first time after this step.
    Queued(u64),
    /// In the queue, and then not any more.
    LetIn,
}

/// A thread that asks for the lock.
#[derive(Clone, Copy)]
struct Asking {
    priority: u8,
    writes: bool,
    how: How,
    /// The lock's name for it.
    hint: usize,
    /// When it began.
    since: u64,
    seen: Seen,
}

impl Asking {
    /// Whether this thread, if it stays in the queue, is owed the lock before `other`.
    fn goes_before(&self, other: &Self) -> bool {
        let by_kind = self.priority > 0 && self.writes && !other.writes;
        self.how == How::Wait
            && (self.priority > other.priority || (self.priority == other.priority && by_kind))
    }
}

/// What is known of each thread.
#[derive(Default)]
pub(super) struct Ranks {
    asking: RefCell<Vec<Option<Asking>>>,
    steps: Cell<u64>,
    /// Whether `asking` says who is queued as of the last step.
    knows_queue: Cell<bool>,
    complaints: Complaints,
}

impl Ranks {
    pub(super) fn new(threads: usize) -> Self {
        Self { asking: RefCell::new(vec![None; threads]), ..Self::default() }
    }

    /// The calling thread is about to ask for the lock.
    pub(super) fn ask(&self, writes: bool, how: How) {
        self.asking.borrow_mut()[crate::thread()] = Some(Asking {
            priority: Sim::priority(),
            writes,
            how,
            hint: Sim::thread_hint(),
            since: self.steps.get(),
            seen: Seen::Nowhere,
        });
    }

    /// The calling thread has the lock, or has given up. If it was not seen to queue, it took the
    /// lock from those that were queued when it came.
    pub(super) fn answer(&self, had: bool) {
        let mut asking = self.asking.borrow_mut();
        let Some(mine) = asking[crate::thread()].take() else { return };
        // While somebody changes the queue, a thread that waited there may just have left it.
        if had && mine.seen == Seen::Nowhere && self.knows_queue.get() {
            self.compare(&asking, &mine, mine.since);
        }
    }

    /// Whether somebody asks for the lock, and would wait for it.
    pub(super) fn somebody_waits(&self) -> bool {
        self.asking.borrow().iter().flatten().any(|asking| asking.how != How::Try)
    }

    /// After a step: `look` reports who is queued; false if it could not.
    pub(super) fn look(&self, look: impl FnOnce(&mut dyn FnMut(usize)) -> bool) {
        let now = self.steps.get() + 1;
        self.steps.set(now);
        let mut asking = self.asking.borrow_mut();
        let mut queued = vec![];
        self.knows_queue.set(look(&mut |hint| queued.push(hint)));
        if !self.knows_queue.get() {
            return;
        }
        let mut let_in = vec![];
        for asking in asking.iter_mut().flatten() {
            match (asking.seen, queued.contains(&asking.hint)) {
                (Seen::Nowhere, true) => asking.seen = Seen::Queued(now),
                (Seen::Queued(_), false) => {
                    asking.seen = Seen::LetIn;
                    // A thread that may give up may have done so.
                    if asking.how == How::Wait {
                        let_in.push(*asking);
                    }
                }
                _ => {}
            }
        }
        for mine in let_in {
            self.compare(&asking, &mine, now);
        }
    }

    /// `mine` was let in: no thread that was queued before `since`, and is still, may go before it.
    fn compare(&self, asking: &[Option<Asking>], mine: &Asking, since: u64) {
        let passed = |other: &&Asking| {
            matches!(other.seen, Seen::Queued(when) if when < since) && other.goes_before(mine)
        };
        if let Some(passed) = asking.iter().flatten().find(passed) {
            let what = format!(
                "a thread of priority {} was let in before one of priority {} that waits",
                mine.priority, passed.priority
            );
            self.complaints.note(FailureKind::Order, what);
        }
    }

    pub(super) fn check(&self) -> Result<(), Complaint> {
        self.complaints.check()
    }
}
