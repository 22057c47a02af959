//! Past the queue: a running thread takes an open, free lock, whoever waits (barging), for a bounded time. What that costs
//! the waiter that is next is seen by the clock.

use super::Raw;
use super::holder::Holder;
use super::policy::HANDOFF_AFTER;
use super::raw::give_way_of;
use super::word::Word;
use super::words::Words;
use crate::events::Event;
use crate::platform::{System, Thread};
use crate::wait::{Access, Kind, LOOK_NS, Look, WAKE_NS, WATCH_NS, WaitContext};

/// A thread that releases the lock this long after the end of a tenure yields its CPU to the waiter that is next. With a
/// smaller value, threads that share the lock lose CPU time to other busy programs; with a larger one, a waiter that is
/// queued on the holder's CPU waits for longer.
const LATE: u64 = 4 * WAKE_NS;
/// A lock is idle if it is free at every look for this long, with no steal between them.
const IDLE: u64 = LOOK_NS * 3 / 2;
/// The holder closes the lock this long after the end of a tenure, as yielding has not helped. As long as a wait should be.
const LOST: u64 = HANDOFF_AFTER.as_nanos() as u64;

impl<W: Words> Raw<W> {
    /// What the slot that this word names tells of those inside.
    #[inline(always)]
    pub(super) fn holder(word: Word) -> Option<&'static Holder<W::P>> {
        Self::slot(word).map(|slot| &slot.holder)
    }

    /// Takes the lock in this way past the queue, if it was last seen as `word`, nothing is in the way, and it is this thread's
    /// turn.
    #[inline]
    pub(super) fn steal_in_turn(&self, word: Word, access: Access) -> bool {
        if word.has_waiters() && self.is_others_turn(W::P::thread(), access.kind(), word) {
            return false;
        }
        self.steal(word, access)
    }

    /// Takes the lock in this way if only tasks are in the way that were offered it, and did not come.
    #[inline(always)]
    pub(super) fn steals_past_late(&self, _access: Access) -> bool {
        #[cfg(feature = "async")]
        return self.steal_past_late(_access);
        #[cfg(not(feature = "async"))]
        false
    }

    /// Takes the lock in this way past the queue, if it was last seen as `word`, and nothing is in the way.
    #[inline]
    pub(super) fn steal(&self, word: Word, access: Access) -> bool {
        let may = |word: Word| match access {
            Access::Shared => self.may_read(word),
            _ => word.is_stealable(access),
        };
        self.enter_while(word, access, may).is_ok()
    }

    /// Takes the lock in this way past the queue, as long as `may` allows it for the word, which was last seen as `word`. An error has
    /// the word for which it may not.
    #[inline(always)]
    pub(super) fn enter_while(
        &self,
        word: Word,
        access: Access,
        may: impl Fn(Word) -> bool,
    ) -> Result<(), Word> {
        let before = self.0.take_while(word, access, may)?;
        self.note(access, before);
        self.ends_age(before);
        Ok(())
    }

    /// The calling thread has taken the lock, which may have lost its slot since the thread gave up waiting there. (If
    /// the lock was free, and the thread took it in one step, the age stays: that step does nothing else.)
    #[inline(always)]
    pub(super) fn ends_age(&self, before: Word) {
        if before.name() == 0 {
            W::P::thread().lock.ages.forget(self.id());
        }
    }

    /// Whether the calling thread may read past the queue; the word is `word`. A thread that has written recently may join
    /// readers in a writers' tenure, too, if threads share the lock: it is the next to write, and gets there sooner.
    #[inline(always)]
    pub(super) fn may_read(&self, word: Word) -> bool {
        word.is_stealable(Access::Shared)
            || word.is_open_past_queue() && self.may_join_as_writer(word)
    }

    #[cold]
    fn may_join_as_writer(&self, word: Word) -> bool {
        W::P::thread().lock.wrote(self.id())
            && word.readers() < W::P::cpus()
            && !Self::holder(word).is_some_and(Holder::is_in_turns)
    }

    /// Whether the calling thread, a reader that found `before` as it was counted, may stay.
    #[inline]
    pub(super) fn may_stay(&self, before: Word) -> bool {
        self.may_read(before)
            && !self.holds_off(before)
            && !(before.has_waiters() && self.is_others_turn(W::P::thread(), Kind::Reader, before))
    }

    /// Whether threads take turns at the lock, and the last was not the turn of the calling thread, `me`.
    #[inline(always)]
    pub(super) fn is_others_turn(&self, me: &Thread<W::P>, kind: Kind, word: Word) -> bool {
        !(kind == Kind::Reader && word.is_readers_turn())
            && Self::holder(word).is_some_and(|holder| holder.is_in_turns() && !holder.is(me))
    }

    /// Whether the lock stays free for a moment, and nobody takes it meanwhile.
    pub(super) fn is_idle(&self, holder: &Holder<W::P>) -> bool {
        let steals = holder.steals();
        !self.0.spin_until(IDLE, |word| !word.is_free()) && holder.steals() == steals
    }

    /// The calling thread has taken the lock past the queue; the word was `before`.
    #[inline(always)]
    pub(super) fn note(&self, access: Access, before: Word) {
        if access == Access::Shared && before.readers() > 0 {
            self.0.reads_beside(before);
        }
        if before.has_waiters() {
            self.note_steal(access, before);
        } else if before.name() != 0 {
            let me = W::P::thread();
            me.lock.ages.forget(self.id());
            self.found_calm(me, before);
        }
    }

    /// Rare work is a tail call that gets only the parts of the lock that it needs: so the path of a busy lock needs no
    /// stack frame.
    #[inline(always)]
    fn note_steal(&self, access: Access, before: Word) {
        let me = W::P::thread();
        me.lock.ages.forget(self.id());
        let Some(slot) = Self::slot(before) else { return };
        let kind = access.kind();
        match kind {
            Kind::Reader => {
                slot.events.count(Event::ReadSteal);
                if !before.is_stealable(Access::Shared) {
                    me.lock.joins_as_writer();
                }
            }
            Kind::Writer => me.lock.writes(self.id()),
        }
        let holder = &slot.holder;
        // A reader may use a moment of the writers' tenure, but that does not become its own.
        let own = kind == Kind::Writer || before.is_readers_turn();
        let comes = own && before.is_free();
        // One thread has the tenure. Where threads share the lock, a store for each acquisition would move a cache line from CPU
        // to CPU.
        let alone = holder.is_in_turns() && !before.is_readers_turn();
        if alone {
            holder.count(1);
        }
        if me.lock.steals.count() || alone && comes && !holder.is(me) {
            self.look_around(holder, me, comes, alone);
        }
    }

    /// The calling thread, `me`, holds the lock, and took it after another thread, or should look at the clock. `comes`: it
    /// found the lock free in a tenure of its own side. `alone`: the tenure belongs to one thread, which has counted already.
    #[cold]
    #[inline(never)]
    fn look_around(&self, holder: &Holder<W::P>, me: &Thread<W::P>, comes: bool, alone: bool) {
        let look = me.lock.steals.look::<W::P>();
        // Steals of a shared lock are added to its counter late, and a few to another lock's counter.
        let unreported =
            me.lock.unreported_steals.take() + look.as_ref().map_or(0, |look| look.steals);
        // About as often as a waiter watches: each store moves a cache line from CPU to CPU.
        let tells = |look: &Look| look.passed_multiple_of(WATCH_NS.next_power_of_two());
        if !alone && !look.as_ref().is_some_and(tells) {
            me.lock.unreported_steals.set(unreported);
        } else {
            if !alone {
                holder.count(unreported);
            }
            if comes {
                holder.set(me);
            }
        }
        if let Some(look) = look {
            self.watch_clock(holder, me, look.now);
        }
    }

    /// The threads of a busy lock may occupy all CPUs, and then the waiter that is next cannot end the tenure. So a holder
    /// reads the clock; if the tenure is over, it yields its CPU when it leaves. If yielding has not helped for long, the
    /// holder closes the lock itself.
    fn watch_clock(&self, holder: &Holder<W::P>, me: &Thread<W::P>, now: u64) {
        let end = holder.end();
        let over = now.saturating_sub(end);
        // A task may be polled only when the one that has the lock suspends: it cannot close the lock itself.
        if over >= LOST || over > 0 && holder.is_next_task() {
            self.close();
        } else if over >= LATE {
            me.lock.is_to_give_way(self.id(), end, now);
        }
    }

    /// Whether the calling thread, a reader, lets others go first: a writer that waits for the readers inside, as `word`
    /// says, or the waiter that is next, which is late.
    #[inline(always)]
    pub(super) fn holds_off(&self, word: Word) -> bool {
        word.has_awake_writer()
            || word.has_waiters() && W::P::thread().lock.gives_way.get() == self.id()
    }

    /// The calling thread, `me`, an arriving reader, yields if it has seen that the waiter that is next is late; not once its
    /// deadline has passed, as it may get its CPU back late.
    pub(super) fn give_way_before(&self, me: &Thread<W::P>, context: &WaitContext<'_, W::P>) {
        if me.lock.gives_way.get() == self.id()
            && self.load().has_waiters()
            && !context.is_late(W::P::now)
        {
            give_way_of(me);
        }
    }
}
