//! A task that waits: how it is woken.
//!
//! A thread that is woken runs as soon as it has a CPU. A task that is woken is polled when its runtime does so, which may
//! be never: the future that waits may lie in a task that polls another one. All that is here is changed under the queue lock.
//!
//! Wakers are the program's code. They are cloned, called and dropped while no queue lock is held, and their panics end
//! there ([`survive`]): the caller may have a waiter in its frame, or hold the lock.

use core::task::Waker;

use super::{MISSED_NS, MOST_DOUBLINGS};
use crate::system::Cell;

/// What a waiter that is a task has and a thread has not.
pub(crate) struct Task {
    is_task: bool,
    /// None: it was called, or is about to be, and the task was not polled since.
    waker: Cell<Option<Waker>>,
    /// The waker's address and its functions', which stay while the waker is away.
    identity: Cell<(usize, usize)>,
    /// When it is to be called, if the task is next, and nobody calls it before.
    due: Cell<u64>,
    /// Since when it was missed in the end, if it was late.
    missed: Cell<u64>,
    /// How long it may be missed.
    grace_ns: Cell<u64>,
}

impl Task {
    /// Of a thread.
    pub(crate) fn none() -> Self {
        Self {
            is_task: false,
            waker: Cell::new(None),
            identity: Cell::new((0, 0)),
            due: Cell::new(u64::MAX),
            missed: Cell::new(0),
            grace_ns: Cell::new(MISSED_NS),
        }
    }

    /// Of the task that has this waker, and is just polled.
    pub(crate) fn polled_by(waker: Waker) -> Self {
        let identity = Cell::new(identity(&waker));
        Self { is_task: true, identity, waker: Cell::new(Some(waker)), ..Self::none() }
    }

    /// Whether it is a task that waits, and not a thread.
    #[inline(always)]
    pub(crate) fn is_task(&self) -> bool {
        self.is_task
    }

    /// The waker, which the caller calls, or drops if the task waits no longer, when it has released the queue lock; none if that
    /// was done.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.waker.take()
    }

    /// The task is polled, and has this waker from here on. Returns the one that it had, which the caller drops when it has
    /// released the queue lock.
    pub(crate) fn polled(&self, waker: Waker) -> Option<Waker> {
        self.identity.set(identity(&waker));
        self.due.set(u64::MAX);
        self.waker.replace(Some(waker))
    }

    /// How long it may be missed: twice as long as it took to come the last time, if that was late. A future that is never polled
    /// does not come to have more than the least.
    pub(crate) fn grace_ns(&self) -> u64 {
        self.grace_ns.get()
    }

    /// It was missed since then, and did not come.
    pub(crate) fn is_passed(&self, missed: u64) {
        self.missed.set(missed);
    }

    /// It was late, and is polled at `now`.
    pub(crate) fn comes_late(&self, now: u64) {
        let took = now.saturating_sub(self.missed.get());
        self.grace_ns.set(took.saturating_mul(2).clamp(MISSED_NS, MISSED_NS << MOST_DOUBLINGS));
    }

    /// Whether both are futures of one task.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is_task && self.identity.get() == other.identity.get()
    }

    /// Nobody may call the task, which is next, before this time: then it is to be polled.
    pub(crate) fn set_due(&self, due: u64) {
        self.due.set(due);
    }

    /// When it is to be polled.
    pub(crate) fn due(&self) -> u64 {
        self.due.get()
    }
}

/// Two wakers of one identity wake the same task. (The other direction may fail, as for [`Waker::will_wake`].)
fn identity(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), core::ptr::from_ref(waker.vtable()).addr())
}

/// Runs `f`, which is the program's code, and ends its panic, if any: after the report of the panic nothing is left to do.
pub(crate) fn survive(f: impl FnOnce()) {
    #[cfg(feature = "std")]
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        // Its drop might panic, too.
        core::mem::forget(panic);
    }
    // A second panic, while the first one unwinds, aborts the program.
    #[cfg(not(feature = "std"))]
    {
        struct Aborts;
        impl Drop for Aborts {
            fn drop(&mut self) {
                panic!("the waker of a task has panicked");
            }
        }
        let aborts = Aborts;
        f();
        core::mem::forget(aborts);
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_came_late_may_be_missed_for_twice_as_long() {
        let task = Task::polled_by(Waker::noop().clone());
        for (took, grace_ns) in [
            (0, MISSED_NS),
            (3 * MISSED_NS, 6 * MISSED_NS),
            (1000 * MISSED_NS, MISSED_NS << MOST_DOUBLINGS),
            (MISSED_NS, 2 * MISSED_NS),
        ] {
            task.is_passed(7);
            task.comes_late(7 + took);
            assert_eq!(task.grace_ns(), grace_ns);
        }
    }
}
