//! How a mutex comes to a full lock of the pool, and becomes thin again: what [`Inflates`] leaves to it.

use core::sync::atomic::Ordering;

use super::{FullMutex, Place, ThinMutex};
use crate::platform::{Atomic, PooledPlatform};
use crate::thin::inflate::{AtomicOf, Codec, Inflates};
use crate::thin::pool::Slots;
use crate::thin::slot_word::Holder;
use crate::wait::Access;

impl<P: PooledPlatform> Inflates for ThinMutex<P> {
    type P = P;
    type Word = Place;
    type Atomic = P::AtomicU32;
    type Full = FullMutex<P>;

    #[inline(always)]
    fn slots() -> &'static Slots<P, FullMutex<P>> {
        P::mutex_slots()
    }

    #[inline(always)]
    fn word(&self) -> &AtomicOf<Place, P::AtomicU32> {
        &self.place
    }

    /// The caller has the full lock then; somebody may be inside the thin one.
    fn adopt(full: &FullMutex<P>, _: Place) {
        full.lock.word.adopt_sealed_writer();
        full.follows.set(true);
    }

    fn disown(full: &FullMutex<P>, _: Place) {
        full.lock.word.seal();
    }

    #[inline(always)]
    unsafe fn release(full: &FullMutex<P>, _: Access, fair: bool) {
        // SAFETY: the caller's promise.
        unsafe { if fair { full.lock.unlock_write_fair() } else { full.lock.unlock_write() } }
    }

    fn make_thin(&self, _: Place, _: Holder) -> bool {
        // Release: the section comes before what is done by whoever finds the lock thin.
        self.place.0.store(Place::NONE.bits(), Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::WaitContext;

    impl<P: PooledPlatform> ThinMutex<P> {
        /// Takes the lock as a thread does that inflates it.
        pub(crate) fn lock_inflating(&self) {
            match self.inflate(Place::NONE) {
                Ok(place) => self.follow(self.slot(place), &WaitContext::FOREVER).unwrap(),
                Err(_) => self.lock(),
            }
        }
    }
}
