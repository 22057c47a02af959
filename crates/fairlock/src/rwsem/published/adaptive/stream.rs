//! A stream of readers past the queue, under `ReaderSpin::Adaptive`.
//!
//! The published rule is that a reader does not join others past the queue, as a stream of readers
//! would then keep the lock from writers for ever. So with a writer in the queue each reader inside
//! reads once, however many CPUs there are. In a turn of the readers
//! ([`adaptive`](super)) they may join, until the writer at the head of the queue is past
//! its deadline. Two things follow:
//!
//! * The lock may never be free, and then no release wakes that writer. So readers look at the
//!   clock now and then, and set `HANDOFF` in the writer's place, which might not run for long
//!   where there are more threads than CPUs. In case readers do not look, the writer sleeps on a
//!   timer.
//! * Where the lock is free now and then, releases would wake that writer in vain again and again.
//!   So a release wakes it once. If readers go on, the writer asks to be left asleep (`quiet`) for
//!   as long as it has waited, and sets its timer to end then. An idle lock is thus taken at the
//!   first release, or when the wait has doubled.
//!
//! Invariant: while the lock is not closed, the writer at the head is awake, about to be woken, or
//! asleep with a timer that ends at its deadline or before; where releases leave it asleep, the
//! timer does not end after the time that the writer asked for.

use core::sync::atomic::Ordering;

use super::preference::TurnEnd;
use crate::events::Event;
use crate::platform::{Platform, Thread};
use crate::rwsem::Kernel;
use crate::rwsem::published::Queued;
use crate::rwsem::published::grant::due_at;
use crate::rwsem::word::Word;
use crate::wait::{Kind, SOON_NS, WATCH_NS, Waiter, WakeList};

/// How often a reader in the stream tells how many reads it made: others write that word, too. In
/// ns, a power of two; compared with the bits of the time in which two looks differ.
const MARK_NS: u64 = 1 << 17;

impl<P: Platform> Kernel<P> {
    /// Whether a reader that found `word` may join the stream: it is the readers' turn, and all
    /// readers that were queued when the turn began have been let in.
    pub(crate) fn is_stream(&self, word: Word) -> bool {
        self.stream(word).is_some()
    }

    /// The readers' turn, if a reader that found `word` may join it.
    fn stream(&self, word: Word) -> Option<TurnEnd> {
        if !word.has_waiters() || !word.is_open_past_queue() || !self.adapts() {
            return None;
        }
        Some(self.lines.preference.turn()).filter(|turn| turn.side() == Kind::Reader)
    }

    /// A reader, counted already, that found `before`: may it stay?
    pub(crate) fn join_stream(&self, before: Word, me: &'static Thread<P>) -> bool {
        let Some(turn) = self.stream(before) else { return false };
        me.published.past_queue.set(me.published.past_queue.get() + 1);
        if let Some(look) = me.steals.tick::<P>() {
            if turn.is_over(look.now) {
                self.close();
                self.events.count(Event::WriteHandoff);
            }
            if look.passed_multiple_of(MARK_NS) {
                self.lines.preference.count_past_queue(me.published.past_queue.take());
            }
        }
        true
    }

    /// Whether the head of the queue asked that a release leave it asleep. It is awake, or its
    /// timer will wake it; not if `HANDOFF` is set, as then it waits for just this release.
    pub(crate) fn leaves_head_asleep(&self) -> bool {
        self.adapts()
            && self.lines.preference.is_quiet()
            && !self.word.load(Ordering::Relaxed).is_closed()
    }

    /// Whether a queued writer, which found `word`, leaves a lock that is free at the
    /// moment to the stream. A lock that is free for half of the time in which a thread that runs comes back is idle,
    /// and no stream.
    pub(crate) fn leaves_to_stream(&self, word: Word) -> bool {
        self.holds_back(Kind::Writer, word)
            && self.word.spin_until(SOON_NS / 2, |word| !word.is_free())
    }

    /// When a queued waiter wakes by itself; `again` if it does not go to sleep for the first time.
    /// Only the head does: whoever makes another waiter the head wakes that one. It does not while
    /// the lock is closed, as whoever lets the lock go then wakes the head.
    pub(crate) fn timer(&self, waiter: &Waiter<P>, again: bool) -> Option<u64> {
        if !self.adapts() || waiter.kind == Kind::Reader {
            return None;
        }
        let is_head = self.with_queue(|q| q.waiters.is_head(waiter));
        if !is_head || self.word.load(Ordering::Relaxed).is_closed() {
            return None;
        }
        let due = due_at(waiter, self.policy.handoff_after?);
        let due = self.lines.preference.least(P::now()).map_or(due, |least| least.max(due));
        if !again || !self.holds_back(Kind::Writer, Word::AWAITED) {
            return Some(due);
        }
        let now = P::now();
        // Not for a shorter time than that for which a waiter watches a lock.
        let until = due.min(now + (now - waiter.arrived).max(WATCH_NS));
        self.lines.preference.keep_quiet(until);
        Some(until)
    }

    /// Readers got in before the writer that heads the queue now: that writer needs a timer.
    pub(crate) fn wake_new_head(&self, q: &Queued<P>, wakes: &mut WakeList<P>) {
        let head = q.waiters.head().filter(|head| self.adapts() && head.kind == Kind::Writer);
        if let Some(head) = head {
            self.events.count(Event::WakeWriter);
            wakes.push(head.thread);
        }
    }
}
