//! The published discipline ([`Policy::published`](super::Policy::published)).
//!
//! ```text
//! arrive   steal if nothing forbids it; spin if the policy says so; queue
//! release  let the lock go, then run the wake check
//! wake     a reader heads the queue: grant all readers, writers keep their place
//! check    a writer does: wake it; it takes the lock itself, or, past its
//!          deadline, sets HANDOFF, after which only the head gets in
//! ```
//!
//! The wake check is run by whoever lets the lock go (or takes back a count that made it look
//! held), by every waiter that arrives and by every one that leaves (rules 2, 7, 8, 14 and 15). A
//! release never leaves the check to a spinner; it leaves it to a stream of readers only if the
//! head has asked for that, and has a timer.
//!
//! Why no wake-up is lost: every change of the word is one atomic step, so all changes have one
//! order. The lock becomes free with somebody queued by a step that finds `WAITERS`, and whoever
//! made it runs the check; or by a step before the one that set `WAITERS`, and the check of the
//! waiter that set it comes afterwards.
//!
//! `WAITERS`, `HANDOFF` and `WRITER_PHASE` change under the queue lock only
//! (rule 4), but for the fair unlocks, which set `HANDOFF` in one step with
//! seeing `WAITERS`.
//!
//! | what | where |
//! |---|---|
//! | who is granted, and the ways out | `grant` |
//! | the ways in, and waiting | `wait` |
//! | optimistic spinning, and its queue | `spin`, `osq` |
//! | what spinners know of who is inside | `owner` |
//! | `ReaderSpin::Adaptive`: which side goes past the queue | [`adaptive`] |

mod adaptive;
mod grant;
mod local;
mod osq;
mod owner;
#[cfg(all(test, fairlock_loom))]
mod published_loom;
mod spin;
mod wait;

pub(super) use adaptive::{Favour, Turns};
pub(crate) use local::PublishedLocal;
pub(super) use owner::Owner;
pub(super) use spin::Spinners;

use super::RwSem;
use super::policy::PublishedPolicy;
use super::queued::{LockedQueue, Queued};
use super::word::{AtomicWord, Flags};
use crate::events::Sink;
use crate::platform::Platform;

/// What the discipline sees of a lock.
pub(super) struct Published<'a, P: Platform> {
    word: &'a AtomicWord<P>,
    owner: &'a Owner<P>,
    favour: &'a Favour<P>,
    spinners: &'a Spinners<P>,
    queue: &'a LockedQueue<P>,
    events: &'a Sink,
    rules: PublishedPolicy,
}

impl<'a, P: Platform> Published<'a, P> {
    /// The lock as the discipline sees it.
    #[inline(always)]
    pub(super) fn of(lock: &'a RwSem<P>, rules: PublishedPolicy) -> Self {
        Self {
            word: &lock.word,
            owner: &lock.owner,
            favour: &lock.favour,
            spinners: &lock.spinners,
            queue: &lock.queue,
            events: &lock.events,
            rules,
        }
    }

    /// Runs `f` on the queue, under the queue lock.
    fn with_queue<R>(&self, f: impl FnOnce(&mut Queued<P>) -> R) -> R {
        self.queue.with(f)
    }

    /// Sets `HANDOFF` if anyone is queued. From here on only the queue gets in.
    fn close(&self) {
        self.word.flag_queue(Flags::HANDOFF);
    }

    /// The priority with which the calling thread waits.
    fn priority(&self) -> u8 {
        if self.rules.priorities { P::priority() } else { 0 }
    }
}
