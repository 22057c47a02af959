//! The ways out.

use core::sync::atomic::Ordering;

use super::{FullMutex, Place, ThinMutex};
use crate::platform::{Atomic, PooledPlatform};
use crate::thin::inflate::{Codec, Inflates};
use crate::thin::marks;
use crate::wait::{Access, Parker};

impl<P: PooledPlatform> ThinMutex<P> {
    /// The short way out where others wait, as [`lock_again`](Self::lock_again) is the way in; or the
    /// long one.
    ///
    /// # Safety
    /// The caller holds the lock, so `place` is its slot's.
    #[inline(never)]
    pub(super) unsafe fn unlock_again(&self, place: Place) {
        let FullMutex { lock, follows, .. } = &self.slot(place).full;
        if let Some(me) = marks::known::<P>()
            && !follows.get()
            && lock.leave_again(me)
        {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.unlock_elsewhere(place, false) }
    }

    /// # Safety
    /// The caller holds the lock, so `place` is its slot's.
    #[inline(never)]
    pub(super) unsafe fn unlock_elsewhere(&self, place: Place, fair: bool) {
        if self.slot(place).full.follows.get() {
            // The caller holds the thin lock; whoever has the full one is next.
            self.leave_thin();
            return;
        }
        self.leave_full(place, Access::Exclusive, fair);
    }

    /// Leaves the thin lock, and wakes the thread that waits for that.
    #[cold]
    pub(super) fn leave_thin(&self) {
        let Some(name) = self.solo.leave_noted() else { return };
        // Relaxed: published with the note; or by now it is another's, who is woken in vain.
        let sleeper = self.slot(Place::inflated(name)).full.sleeper.load(Ordering::Relaxed);
        // SAFETY: the address of a parker in a thread record, which is never freed.
        unsafe { &*(sleeper as *const Parker<P>) }.unpark();
    }
}
