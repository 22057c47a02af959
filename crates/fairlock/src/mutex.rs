//! The typed mutex, through `lock_api`.

use lock_api::GuardSend;

use crate::platform::Native;
use crate::ticket::AdaptiveTicketLock;

/// The raw mutex: an [`AdaptiveTicketLock`] on this platform. 96 bytes.
///
/// It implements `lock_api`'s `RawMutex` and `RawMutexFair`: after a fair release those that
/// wait already, as far as their batch goes, have the lock before anyone who comes later.
#[derive(Debug)]
pub struct RawMutex(AdaptiveTicketLock<Native>);

// Stated above; the test build's lock is larger.
#[cfg(all(not(test), target_pointer_width = "64"))]
const _: () = assert!(size_of::<RawMutex>() == 96);

/// Mutual exclusion that starves nobody and is fast with more threads than CPUs.
///
/// A waiter is overtaken by at most 65,535 later ones, in practice by as many
/// as take the lock in a few milliseconds, and in about as long again as the system
/// kept it from running; see [`Adaptive`](crate::ticket::Adaptive) for how
/// the bound is found. It counts from the waiter's ticket: a thread that met
/// another here less than a microsecond ago first stands back, once, for 16. There is no order among those that wait at the same
/// time. Not promised: timed locking (a place in the order cannot be given
/// back) and priority inheritance. A guard may be sent to another thread.
/// Locking a mutex that the thread already holds blocks for ever.
///
/// ```
/// static COUNT: fairlock::Mutex<u32> = fairlock::Mutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`]; releases it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A [`MutexGuard`] for a part of the value.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

impl RawMutex {
    /// Whether a thread waits for the lock.
    pub fn is_contended(&self) -> bool {
        self.0.is_contended()
    }
}

// SAFETY: one holder at a time (see `ticket`); nothing in a lock without
// waiters points into it or names its holder, so it may be moved, dropped, or
// released by another thread.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self(AdaptiveTicketLock::new_const());
    type Guard = GuardSend;

    #[inline]
    fn lock(&self) -> GuardSend {
        self.0.lock_with_backoff();
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.0.try_lock().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardSend) {
        // SAFETY: the guard proves that the lock is held.
        unsafe { self.0.unlock() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as for `RawMutex`.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self, _guard: GuardSend) {
        // SAFETY: the guard proves that the lock is held.
        unsafe { self.0.unlock_fair() }
    }
}
