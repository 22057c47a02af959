//! What a slot tells threads without its queue lock. Hints: a stale one costs time, never exclusion.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform, Thread};
use crate::system::all_zero;
use crate::wait::{Hint, MISSED_NS, WAKE_NS};

/// How often the times in [`Holder::next_came_late`] double: up to half of that after which a waiter is late.
const OFTEN: u32 = (MISSED_NS / 2 / WAKE_NS).ilog2();

/// Hints about the threads that take the lock past the queue. Relaxed throughout.
#[repr(align(64))] // its own cache line: read by threads that wait, while the queue changes
pub(crate) struct Holder<P: Platform> {
    /// When the tenure ends.
    end: P::AtomicU64,
    /// Counts acquisitions past the queue, to tell a lock that is idle from one that is busy with short sections, and
    /// what sharing and turns yield.
    steals: Hint,
    /// The thread that took the lock last while others waited.
    thread: Hint,
    /// Whether threads take turns at the lock (1): see [`mode`](super::mode).
    in_turns: Hint,
    /// How often the waiter that is next was waited for and did not come, times two; and one if it has not run since.
    absent: Hint,
    /// Twice as many as are queued; and one more if the waiter that is next is a task.
    queued: Hint,
    /// Whether real-time threads go first (1).
    priorities: Hint,
    /// Whether the lock keeps the slot until it is dropped (1): it has a policy of its own, or counts events. Changed under
    /// the queue lock.
    stays: Hint,
}

all_zero!(Holder of [AtomicU64]: [end, steals, thread, in_turns, absent, queued, priorities, stays], []);

impl<P: Platform> Holder<P> {
    /// A thread has taken the lock so often. A load and a store, not one step: a lost count does not matter.
    #[inline(always)]
    pub(super) fn count(&self, steals: u32) {
        let before = self.steals.load(Ordering::Relaxed);
        self.steals.store(before.wrapping_add(steals as usize), Ordering::Relaxed);
    }

    /// The calling thread, `me`, has taken the lock.
    pub(super) fn set(&self, me: &Thread<P>) {
        set(&self.thread, core::ptr::from_ref(me).addr());
    }

    /// Whether `thread` took the lock last.
    #[inline(always)]
    pub(super) fn is(&self, thread: &Thread<P>) -> bool {
        self.thread.load(Ordering::Relaxed) == core::ptr::from_ref(thread).addr()
    }

    #[inline(always)]
    pub(super) fn is_in_turns(&self) -> bool {
        self.in_turns.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_in_turns(&self, in_turns: bool) {
        set(&self.in_turns, in_turns.into());
    }

    /// How many are queued, most likely.
    #[inline(always)]
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed) / 2
    }

    /// Whether the waiter that is next is a task.
    pub(super) fn is_next_task(&self) -> bool {
        self.queued.load(Ordering::Relaxed) % 2 != 0
    }

    pub(super) fn set_queued(&self, queued: usize, is_next_task: bool) {
        set(&self.queued, queued * 2 + usize::from(is_next_task));
    }

    /// Whether real-time threads go first.
    #[inline(always)]
    pub(super) fn has_priorities(&self) -> bool {
        self.priorities.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_priorities(&self, priorities: bool) {
        set(&self.priorities, priorities.into());
    }

    /// Whether the lock keeps the slot.
    #[inline(always)]
    pub(super) fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_stays(&self, stays: bool) {
        set(&self.stays, stays.into());
    }

    /// When the tenure ends.
    #[inline(always)]
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    pub(super) fn set_end(&self, end: u64) {
        set(&self.end, end);
    }

    /// Whether the waiter that is next was waited for at a closed, free lock, and has not run since.
    pub(super) fn is_next_absent(&self) -> bool {
        self.absent.load(Ordering::Relaxed) & 1 != 0
    }

    /// How often it was waited for there and came too late, at most [`OFTEN`]. Each time the next thread waits twice as long for it,
    /// and it watches twice as long: where a wake-up takes longer than usual, it would come too late repeatedly.
    pub(super) fn next_came_late(&self) -> u32 {
        OFTEN.min((self.absent.load(Ordering::Relaxed) / 2) as u32)
    }

    /// It was waited for there, and did not come.
    pub(super) fn next_is_absent(&self) {
        let before = self.absent.load(Ordering::Relaxed);
        if before & 1 == 0 {
            self.absent.store(before.wrapping_add(3), Ordering::Relaxed);
        }
    }

    /// It runs.
    pub(super) fn next_runs(&self) {
        set(&self.absent, self.absent.load(Ordering::Relaxed) & !1);
    }

    /// Another waiter is next, or none.
    pub(super) fn next_is_new(&self) {
        set(&self.absent, 0);
    }

    pub(super) fn steals(&self) -> usize {
        self.steals.load(Ordering::Relaxed)
    }

    /// The slot is another lock's from here on.
    pub(super) fn begin(&self) {
        self.set_in_turns(false);
        self.next_is_new();
        set(&self.thread, 0);
    }
}

/// Stores a hint only if it has changed: all threads read the line.
#[inline(always)]
fn set<T: Copy + PartialEq>(hint: &impl Atomic<T>, value: T) {
    if hint.load(Ordering::Relaxed) != value {
        hint.store(value, Ordering::Relaxed);
    }
}
