//! Trying for a while, awake, before queueing.

use core::sync::atomic::Ordering;

use super::{InTenure, RESERVED_NS};
use crate::platform::Platform;
use crate::rwsem::word::Word;
use crate::wait::{Access, WaitContext};

/// How often a thread that finds the lock taken looks again before it queues: awake,
const SPINS: u32 = 3;
/// and giving its CPU to others that want it. Under a model checker, where every look
/// multiplies what there is to try, not at all.
pub(crate) const YIELDS: u32 = if cfg!(fairlock_loom) { 0 } else { 7 };
/// The first pause between two such looks; each is twice as long as the one before.
const PAUSE_NS: u64 = 200;
/// A thread that got its CPU back only after so long does not give it away again: the thread that
/// wants the CPU is not about to leave the lock.
const LONG_YIELD_NS: u64 = 50_000;

impl<P: Platform> InTenure<'_, P> {
    /// A thread that has just come tries for a while, awake: most sections are over sooner than a
    /// sleep, and a holder that has lost its CPU gets one. Returns whether it has the lock.
    pub(in crate::rwsem) fn compete(&self, access: Access, context: &WaitContext<'_, P>) -> bool {
        let mut reserved = None;
        let mut urgent = None;
        // A real-time thread does not give way to lower priorities, even to the holder's, but
        // sleeps.
        let mut is_urgent =
            || *urgent.get_or_insert_with(|| self.policy.priorities && P::priority() > 0);
        let me = P::thread();
        // It has competed for long: awake it would keep others from their work.
        if me.ages.at(self.id()).is_some() {
            return self.steal_at_once(access);
        }
        if access == Access::Shared {
            self.give_way_before(me, context);
        }
        let mut outwaits = None;
        let mut held_off = 0;
        let mut looks = 0;
        let in_turns = self.holder.is_in_turns();
        let most = if in_turns { SPINS } else { SPINS + YIELDS };
        while looks < most {
            let word = self.word.load(Ordering::Relaxed);
            // Also before anybody waits: a thread that has just waited for its turn would hardly get
            // one if whoever comes took the lock in the gaps between its sections.
            if !word.is_reserved()
                && self.is_others_turn(me, access.kind(), word)
                && (word.has_waiters() || P::now() < self.holder.end())
            {
                let may = word.is_free() && self.is_idle();
                return may && self.steal(access);
            }
            let holds_off = access == Access::Shared
                && looks < SPINS
                && !word.is_written()
                && self.holder.has_awake_writer();
            if !holds_off && self.steal(access) {
                return true;
            }
            if word.is_reserved() {
                outwaits = None;
                if is_urgent() {
                    return false;
                }
                // Nobody is inside; the waiter that the lock is kept for should be on its way.
                let now = P::now();
                if context.is_late(|| now) {
                    return false;
                }
                if now.saturating_sub(*reserved.get_or_insert(now)) >= RESERVED_NS {
                    if !self.reopen() {
                        return false;
                    }
                    reserved = None;
                }
                P::yield_now();
                continue;
            }
            reserved = None;
            if looks < SPINS {
                if !in_turns && access == Access::Exclusive && word.readers() > 0 {
                    outwaits.get_or_insert_with(|| self.holder.writer_waits());
                }
                let done = |word: Word| match access {
                    _ if holds_off => word.is_written() || !self.holder.has_awake_writer(),
                    // Readers, who do not see a gap between two sections of others either.
                    Access::Shared => self.may_read(me, word),
                    _ => word.is_free(),
                };
                let ended = self.word.spin_until(PAUSE_NS << looks, done);
                held_off += u32::from(holds_off && !ended);
                if held_off == SPINS {
                    // All the time, and in vain: readers that come after this one need not.
                    self.holder.forget_writer();
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
}

/// The calling thread lets others have its CPU, which may let the holder leave; not once its deadline
/// has passed, as the CPU may come back late. Returns whether it is worth while to do so again.
pub(crate) fn yield_to_others<P: Platform>(context: &WaitContext<'_, P>) -> bool {
    let before = P::now();
    if context.is_late(|| before) {
        return false;
    }
    P::yield_now();
    let now = P::now();
    !context.is_late(|| now) && now.saturating_sub(before) <= LONG_YIELD_NS
}
