//! What a slot tells threads without its queue lock. Hints: a stale one costs time, never exclusion.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform, Thread};
use crate::system::all_zero;
use crate::wait::Hint;

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
    /// Whether the waiter that is next was waited for and did not come (1).
    absent: Hint,
    /// How many are queued.
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
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn set_queued(&self, queued: usize) {
        set(&self.queued, queued);
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
        self.absent.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_next_absent(&self, absent: bool) {
        set(&self.absent, absent.into());
    }

    pub(super) fn steals(&self) -> usize {
        self.steals.load(Ordering::Relaxed)
    }

    /// The slot is another lock's from here on.
    pub(super) fn begin(&self) {
        self.set_in_turns(false);
        self.set_next_absent(false);
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
