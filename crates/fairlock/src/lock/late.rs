//! A waiter that does not come: a thread that does not run, as it is stopped or has no CPU, or a task that is not polled.
//! It does not stop those behind it.
//!
//! The slot notes since when the waiter that is next is *missed*: since it was woken for a lock that was left free, or since
//! another thread found the lock left to it; a task, since its waker was called. The waiter clears the note when it runs,
//! or is polled. A waiter that has been missed for [`MISSED_NS`] is *late*: the one behind it becomes next. A late waiter keeps
//! its place, and has it again when it runs. (A task that was late, and is polled after all, may be missed for twice as long the
//! next time: its runtime may take that long, and it would be late for ever.) Real-time threads are not passed, nor is a thread
//! to which a fair release has left the lock. If all that wait are late, a thread stays next as if it were not. For a task, which
//! may never be polled, nothing is kept then: the lock is open to all.
//!
//! Who looks for a late waiter, so that no wake-up hangs on one other thread:
//!
//! * a thread or task that queues, a thread that meets a closed, free lock, and a task that is polled;
//! * each thread that sleeps behind the next waiter, when it has waited for longer than planned, and then at intervals
//!   that double. A release that comes long after the end of the tenure wakes one of them for that;
//! * a thread that sleeps at a condition variable and was queued here has no timer: a thread that wakes the next waiter wakes
//!   one of them if no other waiter has a timer;
//! * the timer of tasks (`offers`), while a task waits.
//!
//! At a [semaphore](crate::Semaphore) the same rule holds. Nobody plans there how long a wait takes. So, when the waiter that is next is
//! woken, one thread behind it is the *lookout*: the last sleeper is woken to look, and looks again in a millisecond, and for as long as
//! it finds somebody missed. All others sleep for 32 ms at first: they look in case the lookout does not run.

use super::slot::{FewWakes, PooledPlatform, Queued, Slot};
use crate::platform::{Platform, System};
use crate::wait::{Duty, Kind, MISSED_NS, NEXT, WAITING, Waiter, WakeList};

/// When a waiter that is not next looks for the one that is.
pub(crate) struct Lookout {
    /// How long its next sleep is: each time twice as long, so that a long wait costs few wake-ups.
    nap: u64,
    /// When it looks, however often it wakes before; nothing: it has not slept.
    due: Option<u64>,
}

impl Lookout {
    /// Of a waiter that has just queued, and is patient for so long.
    pub(crate) const fn new(patience: u64) -> Self {
        Self { nap: patience.saturating_add(MISSED_NS), due: None }
    }

    /// Of a waiter that another thread has queued: it looks immediately.
    pub(super) const fn of_seat() -> Self {
        Self { nap: MISSED_NS, due: Some(0) }
    }

    /// When the next sleep of a waiter that has looked ends: when the next look is `due`, if that is known.
    pub(crate) fn next_look(&mut self, due: Option<u64>, now: u64) -> u64 {
        if due.is_some() {
            self.due = due;
        }
        due.unwrap_or_else(|| self.end_of_nap(now))
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
    pub(super) fn missed_ns(&self, now: u64) -> u64 {
        if self.missed == 0 { 0 } else { now.saturating_sub(self.missed) }
    }

    /// Whether the waiter that is next was missed for too long.
    pub(crate) fn is_overdue(&self, now: u64) -> bool {
        self.missed != 0 && now >= self.overdue_at()
    }

    /// When the waiter that is next, and is missed, will have been missed for too long.
    pub(super) fn overdue_at(&self) -> u64 {
        let grace_ns = self.next().map_or(MISSED_NS, |next| next.task.grace_ns());
        self.missed.saturating_add(grace_ns)
    }

    /// The waiter that is next, unless it is late.
    pub(crate) fn awaited(&self) -> Option<&Waiter<P>> {
        self.next().filter(|next| !next.is_late())
    }

    /// Whether the waiter that is next is late: then all that wait are, and nothing is kept for them.
    pub(crate) fn is_next_late(&self) -> bool {
        self.next().is_some_and(|next| next.is_late())
    }

    /// If threads wait that have no timer, one of them looks for the waiter that is next, unless another waiter does.
    pub(super) fn needs_lookout<const MOST: usize>(&self, wakes: &mut WakeList<P, MOST>) {
        let looks = |other: &Waiter<P>| matches!(other.duty(), Duty::Looks | Duty::Asked);
        let has_lookout = || self.waiters.iter().any(|other| !self.is_next(other) && looks(other));
        if self.waiters.seated() > 0 && !has_lookout() {
            self.wake_lookout(wakes);
        }
    }

    /// The last thread that sleeps behind the waiter that is next looks for that from here on.
    pub(super) fn wake_lookout<const MOST: usize>(
        &self,
        wakes: &mut WakeList<P, MOST>,
    ) -> Option<&Waiter<P>> {
        let sleeps = |other: &&Waiter<P>| {
            other.state() == WAITING && !other.is_late() && !other.task.is_task()
        };
        let others = || self.waiters.iter_back().filter(|other| !self.is_next(*other));
        let last = self.waiters.has_threads().then(|| others().find(sleeps)).flatten()?;
        last.set_duty(Duty::Asked);
        wakes.push(last.thread);
        Some(last)
    }

    /// The waiter that is next is missed: a thread behind it looks, unless one does that already.
    pub(crate) fn ask_lookout<const MOST: usize>(
        &mut self,
        now: u64,
        wakes: &mut WakeList<P, MOST>,
    ) {
        if !self.has_lookout(now) {
            self.lookout = self.wake_lookout(wakes).map_or(core::ptr::null(), core::ptr::from_ref);
            self.looks_at = now.saturating_add(MISSED_NS);
        }
    }

    /// A thread has queued, and is about to sleep: it looks, if the waiter that is next is missed, and nobody else looks.
    pub(crate) fn is_asked(&mut self, waiter: &Waiter<P>, now: u64) {
        let sleeps = !waiter.task.is_task() && !self.is_next(waiter);
        if self.missed != 0 && sleeps && !self.has_lookout(now) {
            waiter.set_duty(Duty::Asked);
            (self.lookout, self.looks_at) = (waiter, now.saturating_add(MISSED_NS));
        }
    }

    /// Whether a thread behind the waiter that is next looks, and is not late itself.
    fn has_lookout(&self, now: u64) -> bool {
        let is_late = now > self.looks_at.saturating_add(MISSED_NS);
        !self.lookout.is_null() && !self.is_next(self.lookout) && !is_late
    }

    /// The waiter has looked at `now`: when it looks again, if it is the lookout. It is that for a millisecond, at least, so that
    /// no more than one is asked in that time.
    pub(crate) fn looks_on(&mut self, waiter: &Waiter<P>, now: u64) -> Option<u64> {
        if !core::ptr::eq(self.lookout, waiter) {
            return None;
        }
        if self.missed != 0 {
            self.looks_at = self.missed.saturating_add(MISSED_NS);
        }
        let looks_on = self.looks_at > now;
        if !looks_on {
            self.lookout = core::ptr::null();
        }
        looks_on.then_some(self.looks_at)
    }

    /// The waiter leaves the queue.
    pub(crate) fn looks_no_more(&mut self, waiter: &Waiter<P>) {
        if core::ptr::eq(self.lookout, waiter) {
            self.lookout = core::ptr::null();
        }
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
        #[cfg(feature = "async")]
        late.task.is_passed(q.missed);
        match next_kind(q).and_then(|kind| q.waiters.present(kind)) {
            Some(other) => {
                late.set_state(WAITING);
                // If it was missed without being woken, nobody else would wake it.
                wakes.push_waiter(late);
                other.set_state(NEXT);
                q.set_next(other);
            }
            None if is_task => q.set_next(q.next),
            None => {
                late.set_duty(Duty::Looks);
                return false;
            }
        }
        q.freed = 0;
        // That one may not come either.
        q.missed = now;
        self.holder.next_is_new();
        true
    }
}

/// A queue in a slot, and what is waited for there.
pub(crate) trait Line {
    type P: PooledPlatform;

    fn slot(&self) -> &'static Slot<Self::P>;

    /// Runs `f` on the queue, under the queue lock.
    fn with_queue<R>(&self, f: impl FnOnce(&mut Queued<Self::P>) -> R) -> R {
        self.slot().with(f)
    }

    /// Whether the waiter could have what it waits for, if it were next.
    fn is_left_to(&self, waiter: &Waiter<Self::P>) -> bool;

    /// What the waiter that is next waits for was found to be left to it, and it has not come yet.
    fn found_left(&self, q: &mut Queued<Self::P>, now: u64, wakes: &mut FewWakes<Self::P>) {
        // It may be about to take it: then it clears the note.
        self.miss(q, now, wakes);
    }

    /// When the waiter, which sleeps and has looked at `now`, looks again; nothing: after a nap that is longer than the last one.
    fn next_look(&self, q: &mut Queued<Self::P>, _: &Waiter<Self::P>, now: u64) -> Option<u64> {
        Some(q.overdue_at()).filter(|&due| due > now)
    }

    /// Another waiter is next, or all are late, as the one that was next is. It is woken, unless that is the caller's.
    fn passed(
        &self,
        q: &mut Queued<Self::P>,
        caller: Option<&Waiter<Self::P>>,
        wakes: &mut FewWakes<Self::P>,
    );

    /// The queue changed, or what is waited for: tells the waiter that is next that it is, and wakes it to look. The `caller`, if
    /// it waits, is awake. (Rules 7, 8 and 14.)
    fn recheck(
        &self,
        q: &mut Queued<Self::P>,
        caller: Option<&Waiter<Self::P>>,
        wakes: &mut FewWakes<Self::P>,
    );

    /// Another waiter is next; or it is a task, or waits at a semaphore, and runs.
    fn miss_no_more(&self, q: &mut Queued<Self::P>) {
        q.missed = 0;
        self.slot().holder.next_is_new();
    }

    /// The waiter that is next is missed since then.
    fn miss<const MOST: usize>(
        &self,
        q: &mut Queued<Self::P>,
        since: u64,
        wakes: &mut WakeList<Self::P, MOST>,
    ) {
        if q.miss(since) {
            self.tell_timer(q, wakes);
        }
    }

    /// If tasks wait, their timer is to see whether the waiter that is next comes.
    fn tell_timer<const MOST: usize>(
        &self,
        q: &Queued<Self::P>,
        wakes: &mut WakeList<Self::P, MOST>,
    ) {
        #[cfg(feature = "async")]
        if q.waiters.tasks() > 0 {
            let timer = Self::P::slots().dozing_timer();
            timer.into_iter().for_each(|timer| wakes.push(timer));
        }
        #[cfg(not(feature = "async"))]
        let _ = (q, wakes);
    }

    /// The calling thread, whose waiter is not next, is about to sleep: returns until when. Nothing if it is next by now.
    fn look_out(&self, waiter: &Waiter<Self::P>, lookout: &mut Lookout) -> Option<u64> {
        let now = Self::P::now();
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
            self.next_look(q, waiter, now)
        });
        wakes.wake_all();
        let waits = waiter.state() == WAITING;
        waits.then(|| lookout.next_look(due, now))
    }

    /// Looks whether the waiter that is next comes, and passes it if it is late. Returns whether another one is next now, or
    /// nothing is kept any more.
    fn look(
        &self,
        q: &mut Queued<Self::P>,
        caller: Option<&Waiter<Self::P>>,
        now: u64,
        wakes: &mut FewWakes<Self::P>,
    ) -> bool {
        let Some(next) = q.awaited() else { return false };
        if !q.is_overdue(now) {
            if self.is_left_to(next) {
                self.found_left(q, now, wakes);
            }
            return false;
        }
        self.pass(q, caller, now, wakes)
    }

    /// Passes the waiter that is next, and wakes the one that is next then, unless that is the caller's. Returns as
    /// [`pass_over`](Slot::pass_over).
    fn pass(
        &self,
        q: &mut Queued<Self::P>,
        caller: Option<&Waiter<Self::P>>,
        now: u64,
        wakes: &mut FewWakes<Self::P>,
    ) -> bool {
        let passes = self.slot().pass_over(q, now, wakes);
        if passes {
            self.passed(q, caller, wakes);
        }
        passes
    }
}

/// Which side is next: that of a waiting real-time thread, or else the side whose tenure it is not,
/// if that side waits. A side of which all are late does so only if no other waits.
pub(super) fn next_kind<P: Platform>(q: &Queued<P>) -> Option<Kind> {
    if let Some(urgent) = q.waiters.urgent() {
        return Some(urgent.kind);
    }
    let current = q.clock.side();
    let sides = [current.other(), current];
    let present = sides.into_iter().find(|&kind| q.waiters.present(kind).is_some());
    present.or_else(|| sides.into_iter().find(|&kind| q.waiters.first(kind).is_some()))
}
