//! What the queue lock guards for the discipline.

use super::clock::TenureClock;
use super::mode::Modes;
use crate::platform::Platform;
use crate::wait::Waiter;

pub(in crate::rwsem) struct Tenure<P: Platform> {
    /// The waiter that is next, and was told so: null if nobody waits. It is in the queue.
    pub(super) next: *const Waiter<P>,
    /// Whose turn it is and until when.
    pub(in crate::rwsem) clock: TenureClock,
    /// How threads that are not queued share the lock.
    pub(super) modes: Modes,
    /// The CPU of the last thread that took the lock from the queue, plus one; zero if unknown.
    pub(super) holder_cpu: u32,
    /// When the closed lock became free; zero if it has not.
    pub(super) freed: u64,
    /// The waiter that is next was not woken yet, and `WAKE_NEXT` was set for it.
    pub(super) unwoken: bool,
}

// SAFETY: `next` is used as an address, or under the queue lock while the waiter is queued.
unsafe impl<P: Platform> Send for Tenure<P> {}

impl<P: Platform> Tenure<P> {
    pub(in crate::rwsem) const fn new() -> Self {
        Self {
            next: core::ptr::null(),
            clock: TenureClock::new(),
            modes: Modes::new(),
            holder_cpu: 0,
            freed: 0,
            unwoken: false,
        }
    }

    /// The waiter that is next.
    pub(in crate::rwsem) fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: queued (see the field), so alive: nobody leaves the queue without the
        // queue lock, which the caller has.
        unsafe { self.next.as_ref() }
    }

    /// Whether this waiter is next.
    pub(in crate::rwsem) fn is_next(&self, waiter: *const Waiter<P>) -> bool {
        core::ptr::eq(self.next, waiter)
    }
}
