//! A place in the mutex's queue for a thread that sleeps, and is told nothing: whoever would wake it
//! while somebody has the mutex queues it instead, and the release wakes it.
//!
//! Only an inflated mutex has a queue. The place keeps it inflated, as that of any thread that waits
//! does: the slot is pinned for the thread that sleeps, which pays the pin back once it has the mutex.

use super::{FullMutex, ThinMutex};
use crate::may_dangle::MayDangle;
use crate::platform::PooledPlatform;
use crate::thin::inflate::{Codec, Inflates};
use crate::thin::pool::{Pin, Slot};
use crate::wait::{Access, Sleeper, WaitContext, Waiter};

/// A sleeping thread's place in the queue of a [`ThinMutex`].
#[doc(hidden)]
pub struct Seat<P: PooledPlatform>(MayDangle<Queued<P>>);

struct Queued<P: PooledPlatform> {
    waiter: Waiter<P>,
    pin: Pin<'static, P, FullMutex<P>>,
}

impl<P: PooledPlatform> ThinMutex<P> {
    /// A seat for `thread`, if that sleeps; `None` if nobody has the mutex, or it has no queue.
    pub(crate) fn seat(&self, thread: &'static Sleeper<P>) -> Option<Seat<P>> {
        let place = self.load();
        let slot = place.is_inflated().then(|| self.slot(place))?;
        // The mutex first: the thread's record may be on another CPU.
        if !slot.full.lock.is_locked() || !thread.is_asleep() {
            return None;
        }
        let pin = self.pin(place).ok()??;
        // The locks of mutexes ask for no priorities.
        let waiter = Waiter::new(Access::Exclusive, thread, P::now(), 0);
        Some(Seat(MayDangle::new(Queued { waiter, pin })))
    }

    /// The calling thread was given the seat, and [queued](Seat::queue) or is just being: waits until
    /// it has the mutex.
    #[cold]
    pub(crate) fn lock_seated(&self, seat: &Seat<P>) {
        let slot = seat.slot();
        slot.note(false);
        slot.full.lock.write_queued(&seat.0.waiter);
        let taken = self.follow(slot, &WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }
}

impl<P: PooledPlatform> Seat<P> {
    /// Queues the thread that has the seat. It is woken once it is next and the mutex is left free.
    ///
    /// # Safety
    /// This is done once, and the seat stays where it is until the thread has the mutex.
    pub(crate) unsafe fn queue(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.slot().full.lock.queue_sleeping_writer(&self.0.waiter) };
    }

    fn slot(&self) -> &'static Slot<P, FullMutex<P>> {
        self.0.pin.slot()
    }
}
