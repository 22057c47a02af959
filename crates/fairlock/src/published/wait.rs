//! Stealing, and the waits in the queue.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::grant::Turn;
use super::word::{Flags, Word};
use crate::events::Event;
use crate::platform::{Platform, Thread};
use crate::wait::{
    Access, GRANTED, Kind, Queue, WATCH_NS, WaitContext, WaitError, Waiter, WakeList,
};

impl<P: Platform> RwSem<P> {
    // ---- the ways in ----

    /// A writer takes the lock past the queue, if it is free and open.
    pub(super) fn steal_as_writer(&self, word: Word) -> bool {
        self.word.take_while(word, Kind::Writer, Word::is_write_stealable)
    }

    /// A reader that may not stay takes its count back. The count may have kept a woken writer out:
    /// then that writer is woken again (rule 15).
    pub(crate) fn take_back_count(&self) {
        // Release: the reader owned nothing, but whoever has the lock next may free it.
        let before = self.word.leave(Ordering::Release);
        if before.has_waiters() && !before.is_written() && before.readers() == 1 {
            self.wake_after_release();
        }
    }

    // ---- waiting ----

    /// Queues the calling thread, which then waits until it owns the lock.
    pub(super) fn wait(
        &self,
        access: Access,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let discourages = self.knows_of_vain_spin(access.kind());
        me.parker.forget_notification();
        let waiter = Waiter::new(access, me, P::now(), 0);
        // SAFETY: `waiter` stays in this frame until it is out of the queue:
        // every return below is after it took the lock, was granted, or left.
        let acquired = self.with_wakes(|q, wakes| unsafe { self.queue_up(q, &waiter, wakes) });
        if !acquired {
            context.listed(me, || self.wait_queued(&waiter, context))?;
        }
        if discourages {
            self.discourage_readers();
        }
        Ok(())
    }

    /// Queues `waiter`, and runs the wake check (rule 7). Returns whether the waiter has the lock
    /// at once.
    ///
    /// # Safety
    /// The waiter stays where it is until it is out of the queue.
    unsafe fn queue_up(
        &self,
        q: &mut Queue<P>,
        waiter: &Waiter<P>,
        wakes: &mut WakeList<P>,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { q.push(waiter) };
        if q.len() == 1 {
            let phase = waiter.kind == Kind::Writer && self.policy.writer_phase;
            let flags = Flags::WAITERS.with(Flags::WRITER_PHASE.only_if(phase));
            // Relaxed: see "no wake-up is lost" in the module documentation.
            self.word.set(flags, Ordering::Relaxed);
        }
        if waiter.kind == Kind::Writer && q.is_head(waiter) {
            return self.take_as_head(q, waiter) == Turn::Taken;
        }
        let free = self.word.load(Ordering::Relaxed).is_free();
        self.wake_check(q, free, wakes);
        let acquired = waiter.state() == GRANTED;
        if acquired {
            self.events.count(Event::ReadFast);
        }
        acquired
    }

    fn wait_queued(
        &self,
        waiter: &Waiter<P>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let mut spun = false;
        let mut ended = context.expired(P::now);
        loop {
            if waiter.state() == GRANTED {
                return Ok(());
            }
            // After the end of the wait: its last act is a try.
            let turn = self.try_queued(waiter);
            if turn == Turn::Taken {
                return Ok(());
            }
            if let Some(error) = ended {
                return self.give_up(waiter, error);
            }
            // Rule 10: only the head, and only once between two sleeps.
            if turn == Turn::Next && !spun && self.spin_as_head(context) {
                spun = true;
                continue;
            }
            spun = false;
            self.events.count(Event::sleep(waiter.kind));
            ended = context.sleep(&waiter.thread.parker, None);
        }
    }

    /// A queued writer looks whether it is its turn. Readers are granted the lock, and do not look.
    fn try_queued(&self, waiter: &Waiter<P>) -> Turn {
        if waiter.kind == Kind::Reader {
            return Turn::Later;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.is_free() && !word.is_closed() && !self.is_due(waiter) {
            // The thread that lets the lock go wakes the head.
            return Turn::Later;
        }
        self.queue.with(|q| self.take_as_head(q, waiter))
    }

    /// The head of the queue, which the lock is about to be handed to, waits awake for it to be let go, twice as long
    /// as whoever watches a lock; false if that would be no use.
    fn spin_as_head(&self, context: &WaitContext<'_, P>) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let spin = P::cpus() > 1 && self.holder_is_worth_it(word);
        spin && self.word.spin(2 * WATCH_NS, context, Word::is_free)
    }

    /// Gives up, unless the grant came first: then the waiter owns the lock.
    fn give_up(&self, waiter: &Waiter<P>, error: WaitError) -> Result<(), WaitError> {
        self.with_wakes(|q, wakes| {
            if waiter.state() == GRANTED {
                return Ok(());
            }
            self.events.count(Event::fail(waiter.kind));
            let was_head = q.is_head(waiter);
            q.remove(waiter);
            self.after_change(q, Flags::NONE);
            // Rules 8 and 14: the new head is always woken. It inherits HANDOFF.
            let free = self.word.load(Ordering::Relaxed).is_free();
            self.wake_check(q, was_head || free, wakes);
            Err(error)
        })
    }
}
