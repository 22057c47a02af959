//! What the queue lock guards.

use core::cell::UnsafeCell;

use super::published::Turns;
use super::tenure::Tenure;
use crate::platform::{ConstZero, Platform, Thread};
use crate::ticket::AdaptiveTicketLock;
use crate::wait::Queue;

/// The queue, and what either discipline knows about whose turn it is.
pub(super) struct Queued<P: Platform> {
    pub(super) waiters: Queue<P>,
    pub(super) tenure: Tenure<P>,
    /// The thread that holds the lock upgradably and waits for the readers inside to leave.
    pub(super) upgrader: Option<&'static Thread<P>>,
    /// For `ReaderSpin::Adaptive`.
    pub(super) turns: Turns,
}

impl<P: Platform> Queued<P> {
    pub(super) const fn new() -> Self {
        Self { waiters: Queue::new(), tenure: Tenure::new(), upgrader: None, turns: Turns::new() }
    }
}

/// The queue behind its lock.
pub(super) struct LockedQueue<P: Platform> {
    lock: AdaptiveTicketLock<P>,
    /// Guarded by `lock`.
    queued: UnsafeCell<Queued<P>>,
}

// SAFETY: `queued` is reached under `lock` only.
unsafe impl<P: Platform> Send for LockedQueue<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for LockedQueue<P> {}

impl<P: Platform> LockedQueue<P> {
    pub(super) fn new() -> Self {
        Self { lock: AdaptiveTicketLock::new(), queued: UnsafeCell::new(Queued::new()) }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self { lock: AdaptiveTicketLock::new_const(), queued: UnsafeCell::new(Queued::new()) }
    }

    /// Runs `f` on the queue, under its lock. `f` does not panic.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Queued<P>) -> R) -> R {
        self.lock.lock();
        // SAFETY: `lock` is held, so this is the only reference to the queue; nothing in the
        // crate panics while it is held.
        let result = f(unsafe { &mut *self.queued.get() });
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
        result
    }

    /// The queue of a lock that nobody else uses.
    pub(super) fn get_mut(&mut self) -> &mut Queued<P> {
        self.queued.get_mut()
    }

    /// Leaves the queue lock held, as a fork does while another thread is in the queue.
    #[cfg(test)]
    pub(super) fn leave_locked(&self) {
        self.lock.lock();
    }

    /// Whether nobody has the queue lock or waits for it.
    pub(super) fn is_quiet(&self) -> bool {
        !self.lock.is_locked() && !self.lock.is_contended()
    }

    /// For testers, between two steps of all threads: the queue, unless one of them is
    /// changing it.
    ///
    /// # Safety
    /// No thread runs in a method of the lock meanwhile.
    pub(super) unsafe fn peek(&self) -> Option<&Queued<P>> {
        // SAFETY: nobody has the queue lock, and nobody runs who could take it.
        (!self.lock.is_locked()).then(|| unsafe { &*self.queued.get() })
    }

    /// For testers: what is left in the queue lock, which nobody uses.
    pub(super) fn check_idle(&self) -> Result<(), &'static str> {
        self.lock.check_idle()
    }
}

/// The last reader has left a lock that is being upgraded, or one that was only passing through.
#[cold]
pub(super) fn wake_upgrader<P: Platform>(queue: &LockedQueue<P>) {
    // The record outlives the wait (rule 12).
    if let Some(thread) = queue.with(|q| q.upgrader) {
        thread.parker.unpark();
    }
}

#[cfg(all(test, fairlock_loom))]
impl<
    P: Platform<
            AtomicUsize = loom::sync::atomic::AtomicUsize,
            AtomicU32 = loom::sync::atomic::AtomicU32,
            AtomicU64 = loom::sync::atomic::AtomicU64,
        >,
> LockedQueue<P>
{
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.lock.access_mut();
    }
}
