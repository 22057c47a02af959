//! The queue of waiters, behind its lock.

use core::cell::UnsafeCell;

use crate::platform::{ConstZero, Platform};
use crate::ticket::AdaptiveTicketLock;
use crate::wait::Queue;

pub(super) struct LockedQueue<P: Platform> {
    lock: AdaptiveTicketLock<P>,
    /// Guarded by `lock`.
    queue: UnsafeCell<Queue<P>>,
}

// SAFETY: `queue` is reached under `lock` only.
unsafe impl<P: Platform> Send for LockedQueue<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for LockedQueue<P> {}

impl<P: Platform> LockedQueue<P> {
    pub(super) fn new() -> Self {
        Self { lock: AdaptiveTicketLock::new(), queue: UnsafeCell::new(Queue::new()) }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self { lock: AdaptiveTicketLock::new_const(), queue: UnsafeCell::new(Queue::new()) }
    }

    /// Runs `f` on the queue, under its lock. `f` does not panic.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Queue<P>) -> R) -> R {
        self.lock.lock();
        // SAFETY: `lock` is held, so this is the only reference to the queue; nothing in the
        // crate panics while it is held.
        let result = f(unsafe { &mut *self.queue.get() });
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
        result
    }

    /// For testers, between two steps of all threads: the queue, unless one of them is
    /// changing it.
    ///
    /// # Safety
    /// No thread runs in a method of the lock meanwhile.
    pub(super) unsafe fn peek(&self) -> Option<&Queue<P>> {
        // SAFETY: nobody has the queue lock, and nobody runs who could take it.
        (!self.lock.is_locked()).then(|| unsafe { &*self.queue.get() })
    }

    /// For testers: what is left in the queue lock, which nobody uses.
    pub(super) fn check_idle(&self) -> Result<(), &'static str> {
        self.lock.check_idle()
    }
}
