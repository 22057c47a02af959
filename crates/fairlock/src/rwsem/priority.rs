//! Real-time priorities, for locks whose policy asks for them.
//!
//! What POSIX wants ("Thread Execution Scheduling"), and what follows from it:
//!
//! * When the lock becomes available it goes to the waiter with the highest
//!   priority, and among equals to a writer: the order of [`Queue`](crate::wait).
//! * A reader gets in unless a writer is inside, or a waiter of its own or a higher priority waits:
//!   it passes waiters of a lower priority, and those that have none.
//! * A thread that does not have to wait takes nothing from one that does: while a
//!   real-time thread is queued, the lock is closed (`HANDOFF`), whoever's tenure it
//!   is. It is closed under the queue lock when such a thread queues, and a grant
//!   opens it only if none is left.
//!
//! Priorities are asked of threads that wait, and of nobody else.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::word::Word;
use crate::events::Event;
use crate::platform::Platform;
use crate::wait::{Access, Kind, Queue};

impl<P: Platform> RwSem<P> {
    /// The priority with which the calling thread waits.
    pub(super) fn priority(&self) -> u8 {
        self.policy.priority::<P>()
    }

    /// A reader that found somebody waiting gets in if it passes all writers that wait.
    #[cold]
    pub(super) fn try_read_past_writers(&self) -> bool {
        let priority = self.priority();
        if priority == 0 {
            return false;
        }
        let passed = self.queue.with(|q| {
            // The lock may be closed: then the last one out grants it.
            let may = |word: Word| !word.is_written() && word.has_room();
            let word = self.word.load(Ordering::Relaxed);
            passes_writers(&q.waiters, priority)
                && self.word.take_while(word, Access::Shared, may).is_some()
        });
        if passed {
            self.events.count(Event::ReadSteal);
        }
        passed
    }
}

/// Whether a reader of this priority passes the writers that wait; not if a reader of a higher
/// priority waits, which is about to go first.
pub(super) fn passes_writers<P: Platform>(queue: &Queue<P>, priority: u8) -> bool {
    priority > queue.priority(Kind::Writer) && priority >= queue.priority(Kind::Reader)
}
