//! A waiter that does not come: a thread that does not run, as it is stopped or has no CPU, or a task that is not polled.
//! It does not stop those behind it.
//!
//! The slot notes since when the waiter that is next is *missed*: since it was woken for a lock that was left free, or since
//! another thread found the lock left to it; a task, since its waker was called. The waiter clears the note when it runs,
//! or is polled. A waiter that has been missed for [`MISSED_NS`] is *late*: the one behind it becomes next. A late waiter keeps
//! its place, and has it again when it runs. Real-time threads are not passed, nor is a thread to which a fair release has left
//! the lock. If all that wait are late, a thread stays next as if it were not. For a task, which may never be polled, nothing
//! is kept then: the lock is open to all.
//!
//! Who looks for a late waiter, so that no wake-up hangs on one other thread:
//!
//! * a thread or task that queues, a thread that meets a closed, free lock, and a task that is polled;
//! * each thread that sleeps behind the next waiter, when it has waited for longer than planned, and then at intervals
//!   that double. A release that comes long after the end of the tenure wakes one of them for that;
//! * a thread that sleeps at a condition variable and was queued here has no timer: a thread that wakes the next waiter wakes
//!   one of them if no other waiter has a timer;
//! * the [timer](super::offers) of tasks, while a task waits.

use super::slot::{FewWakes, Queued, Slot};
use super::turn::{Turns, next_kind};
use super::word::Flags;
use super::words::Words;
use crate::platform::{Platform, System};
use crate::wait::{Duty, MISSED_NS, NEXT, WAITING, WAKE_NS, Waiter, WakeList};

/// When a waiter that is not next looks for the one that is.
pub(super) struct Lookout {
    /// How long its next sleep is: each time twice as long, so that a long wait costs few wake-ups.
    nap: u64,
    /// When it looks, however often it wakes before; nothing: it has not slept.
    due: Option<u64>,
}

impl Lookout {
    /// Of a waiter that has just queued, and is patient for so long.
    pub(super) const fn new(patience: u64) -> Self {
        Self { nap: patience.saturating_add(MISSED_NS), due: None }
    }

    /// Of a waiter that another thread has queued: it looks immediately.
    pub(super) const fn of_seat() -> Self {
        Self { nap: MISSED_NS, due: Some(0) }
    }

    /// When the next sleep ends.
    fn end_of_nap(&mut self, now: u64) -> u64 {
        let end = now.saturating_add(self.nap);
        self.nap = self.nap.saturating_mul(2);
        self.due = Some(end);
        end
    }
}

impl<P: System> Queued<P> {
    /// The waiter that is next is missed since then. Whether it was not before.
    pub(super) fn miss(&mut self, since: u64) -> bool {
        let is_first = self.missed == 0 && !self.next.is_null();
        if is_first {
            self.missed = since;
        }
        is_first
    }

    /// For how long the waiter that is next is missed; zero: it is not, or only now.
    fn missed_ns(&self, now: u64) -> u64 {
        if self.missed == 0 { 0 } else { now.saturating_sub(self.missed) }
    }

    /// Whether the waiter that is next was missed for too long.
    pub(super) fn is_overdue(&self, now: u64) -> bool {
        self.missed_ns(now) >= MISSED_NS
    }

    /// The waiter that is next, unless it is late.
    pub(super) fn awaited(&self) -> Option<&Waiter<P>> {
        self.next().filter(|next| !next.is_late())
    }

    /// Whether the waiter that is next is late: then all that wait are, and nothing is kept for them.
    pub(super) fn is_next_late(&self) -> bool {
        self.next().is_some_and(|next| next.is_late())
    }

    /// If threads wait that have no timer, one of them looks for the waiter that is next, unless another waiter does.
    pub(super) fn needs_lookout<const MOST: usize>(&self, wakes: &mut WakeList<P, MOST>) {
        let has_lookout =
            || self.behind_next().any(|other| matches!(other.duty(), Duty::Looks | Duty::Asked));
        if self.waiters.seated() > 0 && !has_lookout() {
            self.wake_lookout(wakes);
        }
    }

    /// The last thread that sleeps behind the waiter that is next looks for that from here on.
    pub(super) fn wake_lookout<const MOST: usize>(&self, wakes: &mut WakeList<P, MOST>) {
        let sleeps = |other: &&Waiter<P>| {
            other.state() == WAITING && !other.is_late() && !other.task.is_task()
        };
        if let Some(last) = self.behind_next().filter(sleeps).last() {
            last.set_duty(Duty::Asked);
            wakes.push(last.thread);
        }
    }

    fn behind_next(&self) -> impl Iterator<Item = &Waiter<P>> {
        self.waiters.iter().filter(|other| !self.is_next(*other))
    }
}

impl<P: Platform> Slot<P> {
    /// The waiter that is next did not come: the first one that is not late is next, and is to be woken. Returns
    /// whether another is next, or, if all are late, nothing is kept for them.
    pub(super) fn pass_over(&self, q: &mut Queued<P>, now: u64, wakes: &mut FewWakes<P>) -> bool {
        let Some(late) = q.next().filter(|_| q.waiters.urgent().is_none()) else { return false };
        let is_task = late.task.is_task();
        if q.is_promised && !is_task {
            return false;
        }
        late.set_duty(Duty::Late);
        match next_kind(q).and_then(|kind| q.waiters.present(kind)) {
            Some(other) => {
                late.set_state(WAITING);
                // If it was missed without being woken, nobody else would wake it.
                wakes.push_waiter(late);
                other.set_state(NEXT);
                q.next = other;
            }
            None if is_task => {}
            None => {
                late.set_duty(Duty::Looks);
                return false;
            }
        }
        (q.is_promised, q.unwoken, q.freed) = (false, false, 0);
        // That one may not come either.
        q.missed = now;
        self.holder.set_next_absent(false);
        true
    }
}

impl<W: Words> Turns<'_, W> {
    /// The waiter that is next runs, or is another one.
    pub(super) fn miss_no_more(&self, q: &mut Queued<W::P>) {
        q.missed = 0;
        self.holder().set_next_absent(false);
    }

    /// The waiter that is next is missed since then.
    pub(super) fn miss<const MOST: usize>(
        &self,
        q: &mut Queued<W::P>,
        since: u64,
        wakes: &mut WakeList<W::P, MOST>,
    ) {
        if q.miss(since) {
            self.tell_timer(q, wakes);
        }
    }

    /// If tasks wait, their timer is to see whether the waiter that is next comes.
    fn tell_timer<const MOST: usize>(&self, q: &Queued<W::P>, wakes: &mut WakeList<W::P, MOST>) {
        #[cfg(feature = "async")]
        if q.waiters.tasks() > 0 {
            let timer = <W::P as super::PooledPlatform>::slots().dozing_timer();
            timer.into_iter().for_each(|timer| wakes.push(timer));
        }
        #[cfg(not(feature = "async"))]
        let _ = (q, wakes);
    }

    /// How long the waiter, whose thread has just queued it, sleeps before it looks: for as long as is planned for its wait,
    /// unless the waiter that is next seems to lack a CPU already.
    pub(super) fn patience(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) -> u64 {
        if q.missed != 0 {
            let now = W::P::now();
            self.look(q, Some(waiter), now, wakes);
            if q.missed_ns(now) >= WAKE_NS {
                return 0;
            }
        }
        q.clock.planned_wait_ns(q.waiters.len(), W::HAS_READERS, q.shape())
    }

    /// The calling thread, whose waiter is not next, is about to sleep: returns until when. Nothing if it is next by now.
    pub(super) fn look_out(&self, waiter: &Waiter<W::P>, lookout: &mut Lookout) -> Option<u64> {
        let now = W::P::now();
        if waiter.duty() == Duty::Looks {
            match lookout.due {
                // It has been in the queue for a moment only.
                None => return Some(lookout.end_of_nap(now)),
                Some(due) if now < due => return Some(due),
                Some(_) => {}
            }
        }
        let mut wakes = FewWakes::new();
        let due = self.with_queue(|q| {
            let was_late = waiter.is_late();
            waiter.set_duty(Duty::Looks);
            if was_late {
                self.recheck(q, Some(waiter), &mut wakes);
            }
            self.look(q, Some(waiter), now, &mut wakes);
            q.missed.saturating_add(MISSED_NS)
        });
        wakes.wake_all();
        let waits = waiter.state() == WAITING;
        waits.then(|| {
            if due > now {
                lookout.due = Some(due);
                return due;
            }
            lookout.end_of_nap(now)
        })
    }

    /// Looks whether the waiter that is next comes, and passes it if it is late. Returns whether another one is next now, or
    /// nothing is kept any more.
    pub(super) fn look(
        &self,
        q: &mut Queued<W::P>,
        caller: Option<&Waiter<W::P>>,
        now: u64,
        wakes: &mut FewWakes<W::P>,
    ) -> bool {
        let Some(next) = q.awaited() else { return false };
        if !q.is_overdue(now) {
            // It may be about to take it: then it clears the note.
            if self.lock.load().may_take_next(next.access) {
                self.miss(q, now, wakes);
            }
            return false;
        }
        self.pass(q, caller, now, wakes)
    }

    /// Passes the waiter that is next, and wakes the one that is next then, unless that is the caller's. Returns as
    /// [`pass_over`](Slot::pass_over).
    pub(super) fn pass(
        &self,
        q: &mut Queued<W::P>,
        caller: Option<&Waiter<W::P>>,
        now: u64,
        wakes: &mut FewWakes<W::P>,
    ) -> bool {
        if !self.slot.pass_over(q, now, wakes) {
            return false;
        }
        if q.is_next_late() {
            self.lock.0.clear(Flags::CLOSED);
        } else if !caller.is_some_and(|caller| q.is_next(caller)) {
            self.wake_appointed(q, wakes);
            self.tell_timer(q, wakes);
        }
        self.invite_beside_upgradable(q, wakes);
        true
    }
}
