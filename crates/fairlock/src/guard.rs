//! Guards: whether they may leave their thread, and when there is one.

use crate::deadlock::{self, HeldAs, Id};

/// Whether guards are `Send`: not without the feature `send_guard`, as in `parking_lot`. So holding
/// a guard across an `.await` does not compile if the task may move to another thread.
///
/// ```compile_fail
/// fn check<T: Send>() {}
/// check::<fairlock::MutexGuard<'_, u32>>();
/// ```
#[cfg(not(feature = "send_guard"))]
pub type GuardMarker = lock_api::GuardNoSend;
/// Whether guards are `Send`: with the feature `send_guard` they may be sent to other threads, and
/// dropped there.
///
/// ```
/// fn check<T: Send>() {}
/// check::<fairlock::MutexGuard<'_, u32>>();
/// ```
#[cfg(feature = "send_guard")]
pub type GuardMarker = lock_api::GuardSend;

/// Notes whether an attempt to take the lock in this mode succeeded (`taken`), and returns that.
#[inline]
#[cfg_attr(feature = "deadlock_detection", track_caller)]
pub(crate) fn note_attempt(lock: &Id, mode: HeldAs, taken: bool) -> bool {
    if taken {
        deadlock::acquired(lock, mode);
    }
    taken
}
