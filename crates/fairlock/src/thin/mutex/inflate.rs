//! How a mutex comes to a full lock of the pool, and becomes thin again.

use core::sync::atomic::Ordering;

use super::{FullMutex, ThinMutex};
use crate::fault::{Fault, active};
use crate::platform::{Atomic, PooledPlatform};
use crate::thin::pins_word::Holder;
use crate::thin::slot::Slot;
#[cfg(test)]
use crate::wait::WaitContext;

impl<P: PooledPlatform> ThinMutex<P> {
    /// Gives the thin lock, which somebody may hold, a full one, which the caller has then. `None`
    /// if another thread did so first.
    #[cold]
    pub(super) fn inflate(&self) -> Option<&'static Slot<P, FullMutex<P>>> {
        let slots = P::mutex_slots();
        let slot = slots.take_sealed();
        slot.full.lock.word.adopt_sealed_writer();
        slot.full.follows.set(true);
        // Acquire and Release: orders the thread that made the lock thin before those that find the
        // place.
        let made = self.place.compare_exchange(0, slot.name, Ordering::AcqRel, Ordering::Relaxed);
        if made.is_err() {
            slot.full.lock.word.seal();
            slots.give(slot);
        }
        made.ok().map(|_| slot)
    }

    /// The holder of the full lock makes the lock thin, and free, in place of a release. Not if
    /// somebody waits. Nothing of the lock is touched after the store.
    #[cold]
    pub(super) fn deflate(&self, slot: &'static Slot<P, FullMutex<P>>) -> bool {
        if !slot.close(Holder::Writer) && !active(Fault::DeflatesPinned) {
            return false;
        }
        slot.full.lock.word.seal();
        // Release: the section comes before what is done by whoever finds the lock thin.
        self.place.store(0, Ordering::Release);
        slot.reopen();
        P::mutex_slots().give(slot);
        true
    }
}

#[cfg(test)]
impl<P: PooledPlatform> ThinMutex<P> {
    /// Takes the lock as a thread does that inflates it.
    pub(crate) fn lock_inflating(&self) {
        match self.inflate() {
            Some(slot) => self.follow(slot, &WaitContext::FOREVER).unwrap(),
            None => self.lock(),
        }
    }
}
