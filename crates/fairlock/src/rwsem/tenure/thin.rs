//! How thin locks enter and leave a full lock, which they have one after the other. A thread may
//! come late, and take (or count itself in) a full lock that is another thin lock's by now. So an
//! acquisition is noted only afterwards.
//!
//! The shortest paths are for the thread that had the lock last, while others wait. If threads take
//! turns, it is this thread's turn; and the hints about the last holder need no update.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use super::{FewWakes, Queued, TenurePolicy};
use crate::platform::Platform;
use crate::rwsem::Turns;
use crate::rwsem::word::{Flags, Word};
use crate::wait::{Access, Thread, WaitContext, WaitError, Waiter};

/// A lock that its last holder has taken again, while others wait: to be noted, or left at once if it is not the
/// right one.
#[must_use]
pub(crate) struct Again<'a, P: Platform> {
    lock: &'a Turns<P>,
    pub(crate) access: Access,
    /// The word before.
    before: Word,
}

impl<P: Platform> Again<'_, P> {
    /// Notes that the calling thread, `me`, has taken the lock.
    #[inline(always)]
    pub(crate) fn note(self, me: &Thread<P>) {
        let Self { lock, access, before } = self;
        me.tenure.ages.forget(lock.id());
        if access == Access::Exclusive {
            // Later the thread may join readers as one that has written.
            me.tenure.writes(lock.id());
        }
        let alone = lock.is_ones_own(before);
        if alone {
            lock.holder().count(1);
        }
        if me.steals.count() {
            Turns::look_around(&lock.word, lock.holder(), me, false, alone);
        }
    }
}

/// A lock that a thread has taken past its queue, or found without one: to be noted, or left at once if
/// it is not the right one.
#[must_use]
pub(crate) struct PastQueue<'a, P: Platform> {
    /// None under the published discipline, which notes nothing.
    pub(crate) lock: Option<&'a Turns<P>>,
    pub(crate) access: Access,
    /// The word before.
    pub(crate) before: Word,
}

impl<P: Platform> PastQueue<'_, P> {
    /// Whether the lock was free, and nobody waited.
    #[inline(always)]
    pub(crate) fn found_free(&self) -> bool {
        self.before == Word::FREE
    }

    /// Notes that the calling thread, `me`, has taken the lock.
    #[inline(always)]
    pub(crate) fn note(self, me: &Thread<P>) {
        if let Some(lock) = self.lock {
            lock.note_steal(me, self.access.kind(), self.before);
        }
    }
}

impl<P: Platform> Turns<P> {
    /// The calling thread, `me`, takes the lock past the queue, if it had the lock last, somebody waits, and
    /// nothing else is in the way.
    #[inline(always)]
    #[must_use]
    pub(crate) fn take_again(&self, me: &Thread<P>, access: Access) -> Option<Again<'_, P>> {
        // Check the holder first: its cache line is separate, so a failed check leaves the word's line
        // alone. A reader yields before it enters, a writer after it has left.
        let holder = self.holder();
        if !holder.is_awaited() || !holder.is(me) {
            return None;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.is_left_free() || access == Access::Shared && self.holds_off(me, word) {
            return None;
        }
        let taken = word.taken(access);
        // Acquire: owns the lock on success (rule 3).
        let before =
            self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Again { lock: self, access, before })
    }

    /// As [`take_again`](Self::take_again), for writing, with the note.
    pub(crate) fn write_again(&self) -> bool {
        let me = P::thread();
        self.take_again(me, Access::Exclusive).map(|again| again.note(me)).is_some()
    }

    /// The calling thread, `me`, leaves the lock as a writer, if nobody waits, or if it need
    /// neither wake nor yield to anybody. Returns whether it left.
    #[inline(always)]
    pub(crate) fn leave_written(&self, me: &Thread<P>) -> bool {
        if self.holder().is_awaited() {
            return self.leave_again(me);
        }
        // Without looking at the word first, as in `write_past_queue`.
        self.let_go_from(Word::FREE.taken(Access::Exclusive)).is_ok()
    }

    /// The calling thread, `me`, takes the lock for reading if nothing is in the way but those that
    /// wait.
    #[inline(always)]
    #[must_use]
    pub(crate) fn read_past_queue(&self, me: &Thread<P>) -> Option<PastQueue<'_, P>> {
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.enter(Access::Shared, Ordering::Acquire);
        self.stay_past_queue(me, before)
    }

    /// As [`read_past_queue`](Self::read_past_queue), of a thread that is counted already, and found `before`.
    #[inline(always)]
    #[must_use]
    pub(crate) fn stay_past_queue(&self, me: &Thread<P>, before: Word) -> Option<PastQueue<'_, P>> {
        if before.is_open_to_new_readers() || before.has_room() && self.may_stay(me, before) {
            return Some(PastQueue { lock: Some(self), access: Access::Shared, before });
        }
        self.leave_at_once(before);
        None
    }

    /// A reader, counted already, that found `before`, may not stay.
    #[cold]
    #[inline(never)]
    fn leave_at_once(&self, before: Word) {
        if before.has_room() {
            self.take_count_back();
        } else {
            // SAFETY: the thread gives up a count as a reader inside does, and it may be the last
            // one.
            unsafe { self.unlock_read() };
        }
    }

    /// As [`read_past_queue`](Self::read_past_queue), for writing.
    #[inline(always)]
    #[must_use]
    pub(crate) fn write_past_queue(&self, me: &Thread<P>) -> Option<PastQueue<'_, P>> {
        // Without looking at the word first: that would fetch the line twice, to read it and to
        // write it. Where somebody waits the exchange would fail, which costs more.
        let before = match !self.holder().is_awaited() && self.try_write() {
            true => Word::FREE,
            false => self.steal_in_turn(me, Access::Exclusive)?,
        };
        Some(PastQueue { lock: Some(self), access: Access::Exclusive, before })
    }

    /// As [`read_past_queue`](Self::read_past_queue), for reading upgradably.
    #[inline(always)]
    #[must_use]
    pub(crate) fn upgradable_past_queue(&self, me: &Thread<P>) -> Option<PastQueue<'_, P>> {
        let access = Access::Upgradable;
        let before = self.steal_in_turn(me, access)?;
        Some(PastQueue { lock: Some(self), access, before })
    }

    /// As [`write_past_queue`](Self::write_past_queue), with the note. Returns whether the lock was
    /// free, if it did.
    pub(crate) fn take_past_queue(&self) -> Option<bool> {
        let me = P::thread();
        let taken = self.write_past_queue(me)?;
        let found_free = taken.found_free();
        taken.note(me);
        Some(found_free)
    }

    /// Takes the lock in this way if that needs no waiting; `again`: beside readers even past waiting
    /// writers. If not, whether a seal was in the way.
    pub(crate) fn try_take(&self, access: Access, again: bool) -> Result<(), bool> {
        // Only locks of the default policy are sealed.
        if self.policy != TenurePolicy::DEFAULT {
            return self.try_in(access, again).then_some(()).ok_or(false);
        }
        if access == Access::Exclusive {
            return self.write_fast().map_err(Word::is_sealed);
        }
        let sealed = Cell::new(false);
        let may = |word: Word| {
            sealed.set(word.is_sealed());
            word.is_open_to_readers() && !(access == Access::Upgradable && word.is_upgradable())
                || again && word.is_joinable()
        };
        self.take_if(access, may).then_some(()).ok_or(sealed.get())
    }

    /// Takes the lock in this way without going to sleep for it.
    #[cold]
    pub(crate) fn take_awake(&self, access: Access, context: &WaitContext<'_, P>) -> bool {
        match access {
            Access::Shared => self.compete(access, context) && self.keep_if_room().is_ok(),
            Access::Upgradable => self.try_upgradable_read() || self.compete(access, context),
            Access::Exclusive => self.steal_at_once(access) || self.compete(access, context),
        }
    }

    /// The rest of the wait: sleeps.
    pub(crate) fn take_asleep(
        &self,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        match access {
            Access::Shared if self.word.load(Ordering::Relaxed).has_room() => {
                self.wait(access, context)?;
                self.keep_if_room()
            }
            Access::Exclusive => self.wait(access, context),
            _ => self.take_with(access, context.into()),
        }
    }

    // ---- a thread that sleeps at a condition variable ----
    //
    // From the time that it is queued on it waits only for this lock, so it stays asleep until it is next and the
    // lock becomes free.

    /// Queues a writer whose thread sleeps.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until its thread has the lock.
    pub(crate) unsafe fn queue_sleeping_writer(&self, waiter: &Waiter<P>) {
        let mut wakes = FewWakes::new();
        self.with_queue(|q| {
            // SAFETY: the caller's promise.
            unsafe { self.queue_up(q, waiter, &mut wakes) };
            if q.own.is_next(waiter) {
                self.ask_for(q, waiter, &mut wakes);
            }
        });
        wakes.wake_all();
    }

    /// Sets `WAKE_NEXT` for the waiter, which is next and asleep; wakes it if the lock is free.
    fn ask_for(&self, q: &mut Queued<P>, waiter: &Waiter<P>, wakes: &mut FewWakes<P>) {
        // In the same step as seeing the lock taken: whoever leaves it free sees the flag.
        let word = self.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
        if word.may_take_next(waiter.access) {
            self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
            self.wake_appointed(q, wakes);
        } else {
            q.own.unwoken = true;
        }
    }

    /// Waits until the calling thread, whose waiter this is, has the lock. Another thread has
    /// [queued](Self::queue_sleeping_writer) the waiter, or is about to: until then it is a waiter that is not
    /// next.
    pub(crate) fn write_queued(&self, waiter: &Waiter<P>) {
        let taken = self.wait_queued(waiter, &WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    /// As if the calling thread had had the lock last, and another were queued.
    #[cfg(all(test, feature = "std"))]
    pub(crate) fn seem_last(&self) {
        self.holder().set(P::thread());
        self.holder().set_queued(1);
    }
}
