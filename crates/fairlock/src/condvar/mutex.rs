//! The locks that condition variables are for.

use core::convert::Infallible;

use crate::platform::Platform;
use crate::ticket::{BatchSize, BatchedTicketLock, TicketLock};
use crate::wait::Sleeper;

/// A lock that a [`LockCondvar`](super::LockCondvar) can wait with.
///
/// Sealed: only the locks of this crate are.
#[doc(hidden)]
pub trait Mutex<P: Platform>: Send + Sync + 'static {
    /// The queue lock of a condition variable.
    type Queue: Mutex<P> + Default;
    /// A place in the lock's own queue for a thread that sleeps elsewhere.
    type Seat;

    /// A seat for `thread`, if that sleeps; `None` if nobody has the lock, or it has no queue for it.
    fn seat(&self, thread: &'static Sleeper<P>) -> Option<Self::Seat>;

    /// Queues the thread that has the seat.
    ///
    /// # Safety
    /// This is done once, and the seat stays where it is until the thread has the lock.
    unsafe fn queue(&self, seat: &Self::Seat);

    /// The calling thread was given the seat, and queued or is just being: waits until it has the
    /// lock.
    fn lock_seated(&self, seat: &Self::Seat);

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
    /// It has none: a ticket cannot be taken for another thread.
    type Seat = Infallible;

    fn seat(&self, _: &'static Sleeper<P>) -> Option<Infallible> {
        None
    }

    unsafe fn queue(&self, seat: &Infallible) {
        match *seat {}
    }

    fn lock_seated(&self, seat: &Infallible) {
        match *seat {}
    }
}

impl<P: crate::lock::PooledPlatform> Mutex<P> for crate::lock::RawMutex<P> {
    mutex!(crate::lock::RawMutex<P>, Self);
    type Seat = crate::lock::Seat<P>;

    fn seat(&self, thread: &'static Sleeper<P>) -> Option<Self::Seat> {
        self.seat(thread)
    }

    unsafe fn queue(&self, seat: &Self::Seat) {
        // SAFETY: the caller's promise.
        unsafe { self.queue(seat) }
    }

    fn lock_seated(&self, seat: &Self::Seat) {
        self.lock_seated(seat);
    }
}
