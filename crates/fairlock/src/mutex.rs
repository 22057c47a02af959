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
/// # Fairness
///
/// Waiters take tickets, and tickets form batches: a batch is served before any later one, in
/// any order among themselves. So a waiter is overtaken by at most 65,535 later ones, in
/// practice by as many as take the lock in the 6 milliseconds that a batch may last, and in about as long again as the system kept the waiter from running; see
/// [`AdaptiveTicketLock`] for how the lock finds the size of its batches. The bound counts from the
/// moment the waiter takes its ticket. A thread that has met another thread at this mutex
/// twice within a microsecond stands back for 16 microseconds before it takes one, once in
/// each wait: what the mutex guards then stays in one CPU's caches for a while.
///
/// Not promised: any order among those that wait at the same time, and priority inheritance.
///
/// # Blocking
///
/// `lock` waits for as long as it takes: it spins for some microseconds, then the thread sleeps.
/// There is no timed form, as a ticket cannot be given back. A thread that locks a mutex it
/// holds waits for itself, for ever.
///
/// # Panics
///
/// Nothing here panics. A panic while a guard is alive releases the mutex as the guard is
/// dropped; there is no poisoning. A guard may be sent to another thread; one that is
/// forgotten keeps the mutex locked for good.
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
