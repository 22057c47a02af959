//! What the discipline remembers of a lock: under its queue lock ([`Tenure`]), and without it ([`Holder`]).

use core::sync::atomic::Ordering;

use super::clock::TenureClock;
use super::mode::Modes;
use crate::platform::{Atomic, Platform, Thread};
use crate::rwsem::sem::set;
use crate::system::{System, all_zero};
use crate::wait::{Hint, Waiter};

/// What the queue lock guards for the discipline.
pub(crate) struct Tenure<P: System> {
    /// The waiter that is next, and was told so: null if nobody waits. It is in the queue.
    pub(super) next: *const Waiter<P>,
    /// A fair release left the lock to that waiter: nobody goes before it.
    pub(super) is_promised: bool,
    /// Whose turn it is and until when.
    pub(crate) clock: TenureClock,
    /// How threads that are not queued share the lock.
    pub(super) modes: Modes,
    /// When the closed lock became free; zero if it has not.
    pub(super) freed: u64,
    /// The waiter that is next was not woken yet, and `WAKE_NEXT` was set for it.
    pub(super) unwoken: bool,
}

// SAFETY: `next` is used as an address, or under the queue lock while the waiter is queued.
unsafe impl<P: System> Send for Tenure<P> {}

impl<P: System> Tenure<P> {
    pub(crate) const fn new() -> Self {
        Self {
            next: core::ptr::null(),
            is_promised: false,
            clock: TenureClock::new(),
            modes: Modes::new(),
            freed: 0,
            unwoken: false,
        }
    }

    /// The waiter that is next.
    pub(crate) fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: queued (see the field), so alive: nobody leaves the queue without the
        // queue lock, which the caller has.
        unsafe { self.next.as_ref() }
    }

    /// Whether this waiter is next.
    pub(crate) fn is_next(&self, waiter: *const Waiter<P>) -> bool {
        core::ptr::eq(self.next, waiter)
    }
}

/// Hints about whoever takes the lock past the queue. Relaxed throughout: a stale one costs
/// time, never exclusion.
#[repr(align(64))] // its own cache line: read by who waits, while `word` changes hands
pub(crate) struct Holder<P: Platform> {
    /// When the tenure ends.
    end: P::AtomicU64,
    /// Counts acquisitions past the queue, to tell a lock that is idle from one that is busy with
    /// short sections, and what sharing and turns yield.
    steals: Hint,
    /// Who took the lock last while somebody waited: a thread hint.
    thread: Hint,
    /// Whether threads take turns at the lock (1): see [`mode`](super::mode).
    in_turns: Hint,
    /// How many are queued.
    queued: Hint,
}

all_zero!(Holder of [AtomicU64]: [end, steals, thread, in_turns, queued], []);

impl<P: Platform> Holder<P> {
    /// A thread has taken the lock so often. A load and a store, not one step: a lost count does not
    /// matter.
    #[inline(always)]
    pub(super) fn count(&self, steals: u32) {
        let before = self.steals.load(Ordering::Relaxed);
        self.steals.store(before.wrapping_add(steals as usize), Ordering::Relaxed);
    }

    /// The calling thread, `me`, has taken the lock.
    pub(crate) fn set(&self, me: &Thread<P>) {
        set(&self.thread, core::ptr::from_ref(me).addr());
    }

    /// Whether `thread` took the lock last.
    #[inline(always)]
    pub(super) fn is(&self, thread: &Thread<P>) -> bool {
        self.thread.load(Ordering::Relaxed) == core::ptr::from_ref(thread).addr()
    }

    pub(super) fn is_in_turns(&self) -> bool {
        self.in_turns.load(Ordering::Relaxed) != 0
    }

    /// Whether anybody is queued, most likely.
    #[inline(always)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.queued() != 0
    }

    /// How many are queued, most likely.
    #[inline(always)]
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn set_queued(&self, queued: usize) {
        set(&self.queued, queued);
    }

    pub(super) fn set_in_turns(&self, in_turns: bool) {
        set(&self.in_turns, in_turns.into());
    }

    /// When the tenure ends.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    pub(super) fn set_end(&self, end: u64) {
        if self.end() != end {
            self.end.store(end, Ordering::Relaxed);
        }
    }

    pub(super) fn steals(&self) -> usize {
        self.steals.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: Platform<AtomicU64 = loom::sync::atomic::AtomicU64>> Holder<P> {
    /// Has loom check that every access so far happens before this one.
    pub(crate) fn access_mut(&mut self) {
        self.end.with_mut(|_| ());
    }
}
