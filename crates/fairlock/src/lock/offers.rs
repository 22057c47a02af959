//! The timer of tasks: a thread that ends offers of locks to tasks that do not come, if nobody else does.
//!
//! It looks at the slots in which tasks are queued: every millisecond while a task has an offer, and for 16 ms after that.
//! Otherwise it *dozes*: it sleeps until the end of a tenure that a task waits for, or until it is told. The thread that wakes
//! a task wakes the timer, too, if that dozes; so locks that tasks pass on all the time wake it once. A program whose tasks never
//! wait has no such thread. It also wakes tasks whose waits end ([`alarms`](super::alarms)).
//!
//! The timer uses only slots. It never follows the address of a lock: see [`task`](super::task).

use alloc::vec::Vec;

use super::slot::{FewWakes, PooledPlatform, Queued, Slot, Slots};
use crate::wait::{MISSED_NS, Sleeper};

/// For so many looks without an offer the timer looks on, so that it need not be woken for each offer at a busy lock. In
/// looks; compared with those since the last offer.
const AWAKE: u32 = 16;

impl<P: PooledPlatform> Slots<P> {
    /// Whether there is a timer, which begins now if it has not.
    pub(super) fn has_timer(&'static self) -> bool {
        self.timer.runs(P::start_timer)
    }

    /// The timer is to look at the slot from here on. It was not watched, and the caller was the one to say that it is.
    pub(super) fn watch(&'static self, slot: &'static Slot<P>) {
        self.timer.push(slot, &slot.watched);
        if let Some(timer) = self.dozing_timer() {
            timer.parker.unpark();
        }
    }

    /// The timer, if it dozes. The caller has changed a slot under its queue lock: the timer dozes before it looks at that for
    /// the last time, so it is seen here, or sees the change.
    pub(super) fn dozing_timer(&self) -> Option<&'static Sleeper<P>> {
        self.timer.dozing()
    }

    /// What the thread does for ever that [`start_timer`](PooledPlatform::start_timer) starts. One thread: where several do it,
    /// offers may end late.
    pub fn keep_time(&'static self) -> ! {
        let me = P::thread();
        let (mut slots, mut wakers) = (Vec::new(), Vec::new());
        self.alarms.bell.serve(me);
        let mut idle = 0;
        loop {
            let dozes = idle >= AWAKE;
            if dozes {
                self.timer.doze(Some(me));
            }
            self.timer.take(|slot| &slot.watched, |slot| slots.push(slot));
            let (due, is_missed) = look_at(&mut slots);
            idle = if is_missed { 0 } else { idle.saturating_add(1) };
            let soon = (!dozes || is_missed).then(|| P::now().saturating_add(MISSED_NS));
            let until = [due, soon].into_iter().flatten().min();
            let until = self.alarms.sound(P::now(), until, &mut wakers);
            self.timer.doze_until(until.unwrap_or(u64::MAX));
            me.parker.park(until, false);
            self.timer.doze(None);
        }
    }
}

/// Looks at all slots, and forgets those in which no task is queued. Returns when the first of them is to be looked at again,
/// and whether a waiter that is next may be late soon.
fn look_at<P: PooledPlatform>(slots: &mut Vec<&'static Slot<P>>) -> (Option<u64>, bool) {
    let (mut first, mut is_missed) = (None::<u64>, false);
    slots.retain(|slot| {
        let mut wakes = FewWakes::new();
        let is_watched = slot.with(|q| {
            q.is_watched = q.waiters.tasks() > 0;
            if let Some(due) = look_at_next(slot, q, P::now(), &mut wakes) {
                first = Some(first.map_or(due, |first| first.min(due)));
                is_missed |= q.missed != 0;
            }
            q.is_watched
        });
        wakes.wake_all();
        is_watched
    });
    (first, is_missed)
}

/// Passes over the waiter that is next if it has not come; wakes it if it is a task that is to look at the lock. Returns when to
/// look at it again.
fn look_at_next<P: PooledPlatform>(
    slot: &Slot<P>,
    q: &mut Queued<P>,
    now: u64,
    wakes: &mut FewWakes<P>,
) -> Option<u64> {
    let next = q.awaited()?;
    if q.is_overdue(now) {
        // The lock stays closed, if it is, also for those that are all late: the next thread or task that comes opens it.
        if !slot.pass_over(q, now, wakes) || q.is_next_late() {
            return None;
        }
        wakes.push_waiter(q.next()?);
    } else if q.missed != 0 {
        return Some(q.overdue_at());
    } else if !next.task.is_task() || now < next.task.due() {
        return Some(next.task.due()).filter(|&due| due < u64::MAX);
    } else {
        wakes.push_waiter(next);
        q.miss(now);
    }
    Some(now.saturating_add(MISSED_NS))
}
