//! Spinning and yielding before queueing.

use core::sync::atomic::Ordering;

use crate::platform::Platform;
use crate::rwsem::Turns;
use crate::rwsem::word::Word;
use crate::wait::{Access, LOOK_NS, LOOKS, Thread, WAKE_NS, WaitContext, give_way};

/// How often a thread that finds the lock taken, and has spun [`LOOKS`] times, then yields its CPU,
/// before it queues. Never under a model checker, where each look multiplies the number of
/// interleavings. In looks; compared with those of this wait.
pub(crate) const YIELDS: u32 = if cfg!(fairlock_loom) { 0 } else { 7 };

impl<P: Platform> Turns<P> {
    /// A thread that has just come tries for a while, awake: most sections are over sooner than a
    /// sleep, and a holder that has lost its CPU gets one. Returns whether it has the lock.
    pub(crate) fn compete(&self, access: Access, context: &WaitContext<'_, P>) -> bool {
        let mut urgent = None;
        // A real-time thread does not give way to lower priorities, even to the holder's, but
        // sleeps.
        let mut is_urgent = || *urgent.get_or_insert_with(|| self.priority() > 0);
        let me = P::thread();
        // It has competed in earlier attempts: awake, it would take CPU time from the others.
        if me.tenure.ages.at(self.id()).is_some() {
            return self.steal_at_once(access);
        }
        if access == Access::Shared {
            self.give_way_before(me, context);
        }
        let mut outwaits = None;
        let mut held_off = 0;
        let mut looks = 0;
        let in_turns = self.holder().is_in_turns();
        let most = if in_turns { LOOKS } else { LOOKS + YIELDS };
        while looks < most {
            let word = self.word.load(Ordering::Relaxed);
            // Also before anybody waits: else a thread that has just waited for its turn would lose the
            // lock in the gaps between its sections.
            if !word.is_reserved()
                && self.is_others_turn(me, access.kind(), word)
                && (word.has_waiters() || P::now() < self.holder().end())
            {
                let may = word.is_free() && self.is_idle();
                return may && self.steal(access);
            }
            let holds_off = access == Access::Shared
                && looks < LOOKS
                && !word.is_written()
                && self.holder().has_awake_writer();
            if !holds_off && self.steal(access) {
                return true;
            }
            if word.is_reserved() {
                outwaits = None;
                if is_urgent() {
                    return false;
                }
                match self.yield_to_next(me, access, context) {
                    Some(taken) => return taken,
                    None => continue,
                }
            }
            if looks < LOOKS {
                if !in_turns && access == Access::Exclusive && word.readers() > 0 {
                    outwaits.get_or_insert_with(|| self.holder().writer_waits());
                }
                let done = |word: Word| match access {
                    _ if holds_off => word.is_written() || !self.holder().has_awake_writer(),
                    // Readers, who do not see a gap between two sections of others either.
                    Access::Shared => self.may_read(me, word),
                    _ => word.is_free(),
                };
                let ended = self.word.spin_until(LOOK_NS << looks, done);
                held_off += u32::from(holds_off && !ended);
                if held_off == LOOKS {
                    // It waited the whole pause in vain: it clears the hint, so that later readers do not.
                    self.holder().forget_writer();
                }
            } else if is_urgent() {
                break;
            } else {
                outwaits = None;
                if !yield_to_others(context) {
                    break;
                }
            }
            looks += 1;
        }
        self.steal_at_once(access)
    }

    /// Nobody is inside the lock, which is reserved: the waiter that is next should be on its way. The calling
    /// thread, `me`, yields until that one has come (none), until its own deadline, or for as long as a wake-up
    /// takes. In the last case the waiter has no CPU, or is stopped until another thread has had the
    /// lock, as by a collector of garbage: `me` takes the lock, which stays closed, and the waiter stays next.
    /// Not if that is a real-time thread, or if a fair release left the lock to it. Returns whether it did.
    #[cold]
    fn yield_to_next(
        &self,
        me: &Thread<P>,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Option<bool> {
        let began = P::now();
        let mut now = began;
        while now.saturating_sub(began) < WAKE_NS {
            if context.is_late(|| now) {
                return Some(false);
            }
            P::yield_now();
            if !self.word.load(Ordering::Relaxed).is_reserved() {
                return None;
            }
            now = P::now();
        }
        let taken = self.with_queue(|q| {
            let word = self.word.load(Ordering::Relaxed);
            let may = q.waiters.urgent().is_none() && !q.own.is_promised;
            may.then(|| self.word.take_while(word, access, Word::is_reserved))?
        });
        Some(taken.map(|before| self.note_steal(me, access.kind(), before)).is_some())
    }
}

/// The calling thread yields its CPU, so that the holder may run and leave; not past its deadline, as the
/// yield may take long. Returns whether to yield again: not after one that took longer than a wake-up, as the CPU
/// went to a thread that is not about to release the lock.
pub(crate) fn yield_to_others<P: Platform>(context: &WaitContext<'_, P>) -> bool {
    !context.is_late(P::now) && give_way::<P>() <= WAKE_NS && !context.is_late(P::now)
}
