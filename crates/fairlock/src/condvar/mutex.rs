//! The locks that condition variables are for.

use crate::platform::Platform;
use crate::ticket::{BatchSize, BatchedTicketLock, TicketLock};

/// A lock that a [`LockCondvar`](super::LockCondvar) can wait with.
///
/// Sealed: only the locks of this crate are.
#[doc(hidden)]
pub trait Mutex<P: Platform>: Send + Sync + 'static {
    /// The queue lock of a condition variable.
    type Queue: Mutex<P> + Default;

    fn lock(&self);

    fn try_lock(&self) -> bool;

    fn is_locked(&self) -> bool;

    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self);
}

/// Implements the trait by the type's own functions of the same names.
macro_rules! mutex {
    ($lock:ty, $queue:ty) => {
        type Queue = $queue;

        fn lock(&self) {
            <$lock>::lock(self);
        }

        fn try_lock(&self) -> bool {
            <$lock>::try_lock(self)
        }

        fn is_locked(&self) -> bool {
            <$lock>::is_locked(self)
        }

        unsafe fn unlock(&self) {
            // SAFETY: the caller's promise.
            unsafe { <$lock>::unlock(self) }
        }
    };
}

impl<P: Platform, S: BatchSize> Mutex<P> for TicketLock<P, S> {
    mutex!(TicketLock<P, S>, BatchedTicketLock<P>);
}

#[cfg(any(feature = "std", fairlock_loom))]
impl<P: crate::platform::PooledPlatform> Mutex<P> for crate::thin::ThinMutex<P> {
    mutex!(crate::thin::ThinMutex<P>, Self);
}
