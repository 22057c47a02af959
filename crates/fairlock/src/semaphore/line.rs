//! The queue of a semaphore: what threads and tasks do that wait for permits. All steps are under the queue lock.

use super::word::Permits;
use crate::lock::{FewWakes, Flags, Line, Lookout, Names, Queued, Raw, Slot, Word};
#[cfg(feature = "async")]
use crate::lock::{Task, TaskLine};
use crate::platform::{Native, System};
use crate::wait::{
    Access, Duty, Kind, MISSED_NS, MOST_DOUBLINGS, NEXT, WAITING, WaitContext, WaitError, Waiter,
    nap,
};

/// A semaphore and its slot, which it keeps while the caller has the queue lock, or is queued.
pub(crate) struct PermitLine<'a> {
    pub(super) semaphore: &'a Raw<Permits>,
    pub(super) slot: &'static Slot<Native>,
}

type Wakes = FewWakes<Native>;

/// How a waiter of a semaphore stands in its queue: all on one side.
const ACCESS: Access = Access::Exclusive;
const SIDE: Kind = Kind::Writer;

// ---- a thread ----

/// Takes `count` permits; the calling thread waits for them.
#[cold]
pub(super) fn wait(
    semaphore: &Raw<Permits>,
    count: u32,
    until: &WaitContext<'_, Native>,
) -> Result<(), WaitError> {
    // An attempt whose time is over does not queue. It has tried.
    if let Some(why) = until.expired(Native::now) {
        return Err(why);
    }
    let me = Native::thread();
    me.parker.forget_notification();
    let mut waiter = Waiter::new(ACCESS, me, Native::now(), 0);
    waiter.permits = count;
    loop {
        // SAFETY: it stays in this frame until it is out of the queue: `wait_queued` returns only then.
        match unsafe { queue(semaphore, &waiter) } {
            Some((slot, true)) => {
                let line = PermitLine { semaphore, slot };
                return until.listed(me, || line.wait_queued(&waiter, until));
            }
            Some((_, false)) => return Ok(()),
            // No slot is to be had: the thread looks from time to time, and has the permits in no order.
            None => {
                nap::<Native>();
                if semaphore.0.take(count) {
                    return Ok(());
                }
                if let Some(why) = until.expired(Native::now) {
                    return Err(why);
                }
            }
        }
    }
}

/// Queues the waiter, unless it has its permits immediately: the slot, and whether it is queued. Nothing if no slot is to be had.
///
/// # Safety
/// It stays where it is until it is out of the queue.
pub(super) unsafe fn queue(
    semaphore: &Raw<Permits>,
    waiter: &Waiter<Native>,
) -> Option<(&'static Slot<Native>, bool)> {
    let mut wakes = Wakes::new();
    let queued = semaphore.with_slot(|q, slot| {
        let line = PermitLine { semaphore, slot };
        // SAFETY: the caller's promise.
        unsafe { line.arrive(q, waiter, &mut wakes) }.map(|waits| (slot, waits))
    });
    wakes.wake_all();
    queued.ok()
}

/// Takes `count` permits beside waiters, if no waiter is in time. Never blocks.
#[cold]
pub(super) fn take_past_late(semaphore: &Raw<Permits>, count: u32) -> bool {
    if semaphore.0.state().permits() < count {
        return false;
    }
    let word = semaphore.here(semaphore.load());
    if word.name() == 0 {
        return semaphore.0.take(count);
    }
    // As an attempt does not block.
    let Some(mut queued) = semaphore.try_lock_queue(word) else { return false };
    let mut wakes = Wakes::new();
    let line = PermitLine { semaphore, slot: queued.slot() };
    let taken = line.take_if_open(&mut queued, count, &mut wakes);
    if queued.waiters.is_empty() {
        semaphore.drop_slot(queued);
    } else {
        drop(queued);
    }
    wakes.wake_all();
    taken
}

/// Permits were given to the semaphore at `semaphore`, and it had this word: the waiter that is next is woken, if they suffice. The
/// semaphore may be gone.
#[cold]
pub(super) fn given(semaphore: *const Raw<Permits>, before: Word) {
    let mut wakes = Wakes::new();
    Raw::with_waiters(semaphore, before, |semaphore, slot, q| {
        PermitLine { semaphore, slot }.offer(q, Native::now(), &mut wakes);
    });
    wakes.wake_all();
}

impl PermitLine<'_> {
    /// Waits until the calling thread, whose waiter this is, has its permits, or the wait ends.
    fn wait_queued(
        &self,
        waiter: &Waiter<Native>,
        until: &WaitContext<'_, Native>,
    ) -> Result<(), WaitError> {
        // The lookout may be late, too; that is rare.
        let mut lookout = Lookout::new(MISSED_NS << MOST_DOUBLINGS);
        let mut ended = until.expired(Native::now);
        loop {
            // After the end of the wait: its last act is a try.
            if ended.is_some() || waiter.state() == NEXT {
                if self.run(waiter, ended.is_some()) {
                    return Ok(());
                }
                if let Some(why) = ended {
                    return Err(why);
                }
            }
            // The one that is next is woken by the thread that gives it enough.
            let timer = match waiter.state() {
                NEXT => None,
                _ => match self.look_out(waiter, &mut lookout) {
                    // Loom's clock stands still.
                    Some(timer) => (!cfg!(fairlock_loom)).then_some(timer),
                    None => continue,
                },
            };
            ended = until.sleep(&waiter.thread.parker, timer);
        }
    }

    /// The waiter's thread runs: whether it has its permits now. If not, it leaves the queue if it `ends`.
    pub(super) fn run(&self, waiter: &Waiter<Native>, ends: bool) -> bool {
        let mut wakes = Wakes::new();
        let taken = self.with_queue(|q| {
            let taken = self.comes(q, waiter, &mut wakes);
            if !taken && ends {
                self.leaves(q, waiter, &mut wakes);
            }
            taken
        });
        wakes.wake_all();
        taken
    }
}

// ---- the steps ----

impl PermitLine<'_> {
    /// Queues the waiter, unless it has its permits immediately: whether it is queued. Nothing if the semaphore has another slot
    /// by now.
    ///
    /// # Safety
    /// It stays where it is until it is out of the queue.
    unsafe fn arrive(
        &self,
        q: &mut Queued<Native>,
        waiter: &Waiter<Native>,
        wakes: &mut Wakes,
    ) -> Option<bool> {
        if self.take_if_open(q, waiter.permits, wakes) {
            return Some(false);
        }
        if q.waiters.is_empty() {
            // Those that give permits after this step see that somebody waits. What was given before is seen below.
            self.semaphore.announce(self.slot)?;
        }
        // SAFETY: the caller's promise.
        unsafe { q.waiters.push(waiter) };
        self.recheck(q, Some(waiter), wakes);
        q.is_asked(waiter, waiter.arrived);
        let taken = self.comes(q, waiter, wakes);
        if q.waiters.is_empty() {
            self.semaphore.0.unname(self.slot.name());
        }
        Some(!taken)
    }

    /// Takes permits, if there are so many, and no waiter is in time.
    fn take_if_open(&self, q: &mut Queued<Native>, count: u32, wakes: &mut Wakes) -> bool {
        if !q.waiters.is_empty() {
            let now = Native::now();
            self.look(q, None, now, wakes);
            // If it is overdue still, there is none but late ones behind it.
            if q.awaited().is_some() && !q.is_overdue(now) {
                return false;
            }
        }
        self.semaphore.0.take_queued(count, false)
    }

    /// The waiter runs, or is polled: it takes its permits, if it is next and there are enough.
    fn comes(&self, q: &mut Queued<Native>, waiter: &Waiter<Native>, wakes: &mut Wakes) -> bool {
        if waiter.is_late() {
            waiter.set_duty(if waiter.task.is_task() { Duty::Sleeps } else { Duty::Looks });
            self.recheck(q, Some(waiter), wakes);
        }
        if !q.is_next(waiter) {
            self.look(q, Some(waiter), Native::now(), wakes);
        }
        if !q.is_next(waiter) {
            return false;
        }
        self.miss_no_more(q);
        let is_last = q.waiters.len() == 1;
        if !self.semaphore.0.take_queued(waiter.permits, is_last) {
            return false;
        }
        self.remove(q, waiter);
        self.recheck(q, None, wakes);
        true
    }

    /// Gives up: out of the queue, without permits.
    fn leaves(&self, q: &mut Queued<Native>, waiter: &Waiter<Native>, wakes: &mut Wakes) {
        self.remove(q, waiter);
        if q.waiters.is_empty() {
            self.semaphore.0.clear(Flags::QUEUE);
        }
        self.recheck(q, None, wakes);
    }

    fn remove(&self, q: &mut Queued<Native>, waiter: &Waiter<Native>) {
        q.waiters.remove(waiter);
        q.looks_no_more(waiter);
        if q.is_next(waiter) {
            q.set_next(core::ptr::null());
            self.miss_no_more(q);
        }
    }

    /// Wakes the waiter that is next, if there are enough permits for it, and it was not woken for them.
    fn offer(&self, q: &mut Queued<Native>, now: u64, wakes: &mut Wakes) {
        let Some(next) = q.awaited().filter(|next| q.missed == 0 && self.is_left_to(next)) else {
            return;
        };
        wakes.push_waiter(next);
        self.miss(q, now, wakes);
        q.ask_lookout(now, wakes);
    }
}

impl Line for PermitLine<'_> {
    type P = Native;

    fn slot(&self) -> &'static Slot<Native> {
        self.slot
    }

    /// The slot goes back when the last waiter has left.
    fn with_queue<R>(&self, f: impl FnOnce(&mut Queued<Native>) -> R) -> R {
        let mut queued = self.slot.lock();
        let result = f(&mut queued);
        if queued.waiters.is_empty() {
            self.semaphore.drop_slot(queued);
        }
        result
    }

    fn is_left_to(&self, waiter: &Waiter<Native>) -> bool {
        self.semaphore.0.state().permits() >= waiter.permits
    }

    fn found_left(&self, q: &mut Queued<Native>, now: u64, wakes: &mut Wakes) {
        self.offer(q, now, wakes);
    }

    fn next_look(&self, q: &mut Queued<Native>, waiter: &Waiter<Native>, now: u64) -> Option<u64> {
        q.looks_on(waiter, now)
    }

    fn passed(&self, q: &mut Queued<Native>, caller: Option<&Waiter<Native>>, wakes: &mut Wakes) {
        if !caller.is_some_and(|caller| q.is_next(caller)) {
            self.miss_no_more(q);
            self.offer(q, Native::now(), wakes);
        }
    }

    fn recheck(&self, q: &mut Queued<Native>, caller: Option<&Waiter<Native>>, wakes: &mut Wakes) {
        let Some(next) = q.waiters.first_present(SIDE).map(core::ptr::from_ref) else { return };
        if !q.is_next(next) {
            if let Some(dismissed) = q.next() {
                dismissed.set_state(WAITING);
            }
            q.set_next(next);
            self.miss_no_more(q);
        }
        let Some(next) = q.next() else { return };
        next.set_state(NEXT);
        if !caller.is_some_and(|caller| core::ptr::eq(caller, next)) {
            self.offer(q, Native::now(), wakes);
        }
    }
}

// ---- a task ----

/// The waiter of a task that wants `count` permits.
#[cfg(feature = "async")]
pub(super) fn waiter(count: u32, task: Task<Native>) -> Waiter<Native> {
    let mut waiter = task.waiter(ACCESS);
    waiter.permits = count;
    waiter
}

#[cfg(feature = "async")]
impl TaskLine for PermitLine<'_> {
    unsafe fn arrive_task(
        &self,
        q: &mut Queued<Native>,
        waiter: &Waiter<Native>,
        wakes: &mut Wakes,
        _: &mut Wakes,
    ) -> Option<bool> {
        // SAFETY: the caller's promise.
        unsafe { self.arrive(q, waiter, wakes) }
    }

    fn look_as_task(
        &self,
        q: &mut Queued<Native>,
        waiter: &Waiter<Native>,
        now: u64,
        wakes: &mut Wakes,
    ) -> bool {
        self.end_offer_to_task(q, waiter, now, wakes);
        self.comes(q, waiter, wakes)
    }

    fn leave(&self, q: &mut Queued<Native>, waiter: &Waiter<Native>, wakes: &mut Wakes) {
        self.leaves(q, waiter, wakes);
    }
}
