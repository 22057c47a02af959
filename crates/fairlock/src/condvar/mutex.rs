//! The locks that condition variables are for.

use crate::platform::Platform;
use crate::ticket::{BatchSize, BatchedTicketLock, MovedIn, Movers, Parked, TicketLock};

/// A lock that a [`LockCondvar`](super::LockCondvar) can wait with: see `ticket::move_in` for
/// what it has to do.
///
/// Sealed: only the locks of this crate are.
#[doc(hidden)]
pub trait Mutex<P: Platform>: Send + Sync + 'static {
    /// The queue lock of a condition variable.
    type Queue: Mutex<P> + Default;

    fn lock(&self);

    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self);

    /// # Safety
    /// As [`TicketLock::move_in`].
    unsafe fn move_in(&self, movers: &mut impl Movers<P>) -> Option<MovedIn<P>>;

    /// # Safety
    /// As [`TicketLock::move_in_held`].
    unsafe fn move_in_held(&self, movers: &mut impl Movers<P>) -> MovedIn<P>;

    /// For a waiter that was moved in, and woken.
    fn lock_moved(&self, entry: &Parked<P>);
}

/// By the type's own functions, of the same names.
macro_rules! mutex {
    ($lock:ty, $queue:ty) => {
        type Queue = $queue;

        fn lock(&self) {
            <$lock>::lock(self);
        }

        unsafe fn unlock(&self) {
            // SAFETY: the caller's promise.
            unsafe { <$lock>::unlock(self) }
        }

        unsafe fn move_in(&self, movers: &mut impl Movers<P>) -> Option<MovedIn<P>> {
            // SAFETY: the caller's promise.
            unsafe { <$lock>::move_in(self, movers) }
        }

        unsafe fn move_in_held(&self, movers: &mut impl Movers<P>) -> MovedIn<P> {
            // SAFETY: the caller's promise.
            unsafe { <$lock>::move_in_held(self, movers) }
        }

        fn lock_moved(&self, entry: &Parked<P>) {
            <$lock>::lock_moved(self, entry);
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
