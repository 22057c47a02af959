//! Guards: whether they may leave their thread, and when there is one.

use crate::deadlock::{self, Mode};

/// What guards hold, beside the lock: nothing. Without the feature `send_guard` it keeps them,
/// as in `parking_lot`, on the thread that took the lock; so a guard that is held across an
/// `.await` does not compile where a task may be moved to another thread.
///
/// ```compile_fail
/// fn check<T: Send>() {}
/// check::<fairlock::MutexGuard<'_, u32>>();
/// ```
#[cfg(not(feature = "send_guard"))]
pub type GuardMarker = lock_api::GuardNoSend;
/// What guards hold, beside the lock: nothing. With the feature `send_guard` they may be sent to
/// other threads, and dropped there.
///
/// ```
/// fn check<T: Send>() {}
/// check::<fairlock::MutexGuard<'_, u32>>();
/// ```
#[cfg(feature = "send_guard")]
pub type GuardMarker = lock_api::GuardSend;

/// Notes what an attempt to take the lock in this mode has `taken`, and returns that.
#[inline]
pub(crate) fn note_attempt<L>(lock: &L, mode: Mode, taken: bool) -> bool {
    if taken {
        deadlock::acquired(lock, mode);
    }
    taken
}
