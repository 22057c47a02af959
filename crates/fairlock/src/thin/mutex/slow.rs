//! The slow path: the ways in and out where one exchange does not do, and how a mutex comes to a full lock
//! of the pool and becomes thin again (what [`Inflates`] leaves to it).

use core::sync::atomic::Ordering;

use super::{FullMutex, Place, ThinMutex};
use crate::platform::{Atomic, PooledPlatform};
use crate::rwsem::Turns;
use crate::thin::inflate::{AtomicOf, Codec, Inflates, SlotOf};
use crate::thin::marks;
use crate::thin::pool::Slots;
use crate::thin::slot_word::Holder;
use crate::wait::{Access, LOOK_NS, LOOKS, Meeting, Parker, WaitContext, WaitError};

impl<P: PooledPlatform> ThinMutex<P> {
    /// Takes the lock if it is thin and free.
    #[inline(always)]
    pub(crate) fn take_thin(&self) -> bool {
        // Relaxed: `place` is looked at again below.
        if Place::of(self.place.0.load(Ordering::Relaxed)).is_inflated() || !self.solo.enter() {
            return false;
        }
        // Acquire: the section of whoever made the lock thin.
        if self.load().is_inflated() {
            // Somebody inflated the lock first, and may wait for this thread to leave.
            self.leave_thin();
            return false;
        }
        true
    }

    /// The calling thread takes the full lock, if it had it last, others wait, and nothing else is
    /// in the way: this is how a busy lock is taken nearly always. It needs no frame on the stack:
    /// all calls are its last step.
    #[inline(never)] // or it would be in every caller's loop
    pub(super) fn lock_again(&self) -> bool {
        let Some(me) = marks::known::<P>() else { return false };
        let place = self.load();
        if !place.is_inflated() {
            return false;
        }
        let slot = self.slot(place);
        let Some(again) = slot.full.lock.take_again(me, Access::Exclusive) else { return false };
        self.entered(place, slot, Access::Exclusive, false, || {
            again.note(me);
            !slot.full.follows.get() || self.follow_for_ever(slot)
        })
    }

    #[inline(never)]
    pub(super) fn lock_for_ever(&self) {
        let taken = self.enter(&WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    /// The way in where one exchange does not do.
    pub(super) fn enter(&self, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut looks = 0;
        let mut meeting = Meeting::none();
        loop {
            let place = self.load();
            if !place.is_inflated() {
                // Before the look, as the last act of a wait is a try.
                let ended = until.expired(P::now);
                // Not before a look: trying would take the line from whoever is inside.
                if !self.solo.is_held() && self.take_thin() {
                    meeting.end::<P>();
                    return Ok(());
                }
                if let Some(why) = ended {
                    return Err(why);
                }
                if meeting.begin(&P::thread().meetings, self.address(), until) {
                    continue;
                }
                if looks < LOOKS {
                    self.solo.spin(LOOK_NS << looks);
                    looks += 1;
                    continue;
                }
                match self.inflate(place) {
                    Ok(place) => return self.follow(self.slot(place), until),
                    Err(_) => continue,
                }
            }
            let slot = self.slot(place);
            let full = &slot.full.lock;
            if let Some(found_free) = self.take_awake(full, &mut meeting, until) {
                if self.entered(place, slot, Access::Exclusive, found_free, || true) {
                    meeting.end::<P>();
                    return self.follow(slot, until);
                }
                continue;
            }
            let Ok(pin) = self.pin(place) else {
                // The holder is about to make it thin.
                P::yield_now();
                continue;
            };
            let Some(pin) = pin else { continue };
            slot.note(false);
            full.take_asleep(Access::Exclusive, until)?;
            drop(pin);
            return self.follow(slot, until);
        }
    }

    /// Takes the full lock without going to sleep for it. `Some` if it did: whether the lock was
    /// free, and nobody waited.
    fn take_awake(
        &self,
        full: &Turns<P>,
        meeting: &mut Meeting,
        until: &WaitContext<'_, P>,
    ) -> Option<bool> {
        full.take_past_queue().or_else(|| {
            let met =
                !full.has_waiters() && meeting.begin(&P::thread().meetings, self.address(), until);
            (met && full.try_write() || full.take_awake(Access::Exclusive, until)).then_some(false)
        })
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the full lock if there is one, and it is free.
    #[inline(never)]
    pub(super) fn try_full(&self) -> bool {
        loop {
            let place = self.load();
            if !place.is_inflated() {
                return false;
            }
            let slot = self.slot(place);
            match slot.full.lock.take_past_queue() {
                Some(found_free)
                    if self.entered(place, slot, Access::Exclusive, found_free, || true) =>
                {
                    return self.try_follow(slot);
                }
                None if self.names(place) => return false,
                _ => {}
            }
        }
    }

    /// The caller has the full lock, and waits for the thread that is inside the thin one.
    #[inline(always)]
    pub(super) fn follow(
        &self,
        slot: &'static SlotOf<Self>,
        until: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if slot.full.follows.get() { self.wait_for_thin(slot, until) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn follow_for_ever(&self, slot: &'static SlotOf<Self>) -> bool {
        self.follow(slot, &WaitContext::FOREVER).is_ok()
    }

    #[cold]
    fn wait_for_thin(
        &self,
        slot: &'static SlotOf<Self>,
        until: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let FullMutex { lock, sleeper, follows } = &slot.full;
        let wait = || {
            self.solo.wait_noted(until, |parker| {
                // Relaxed: published with the note.
                sleeper.store(core::ptr::from_ref(parker) as usize, Ordering::Relaxed);
                slot.name
            })
        };
        let waited = until.listed(P::thread(), wait);
        match waited {
            Ok(()) => follows.set(false),
            // SAFETY: the caller has it. Whoever has it next does the waiting.
            Err(_) => unsafe { lock.unlock_write() },
        }
        waited
    }

    /// As [`follow`](Self::follow), without waiting.
    #[inline]
    fn try_follow(&self, slot: &'static SlotOf<Self>) -> bool {
        let FullMutex { lock, follows, .. } = &slot.full;
        if follows.get() {
            if !self.solo.is_left() {
                // SAFETY: the caller has it.
                unsafe { lock.unlock_write() };
                return false;
            }
            follows.set(false);
        }
        true
    }
}

impl<P: PooledPlatform> ThinMutex<P> {
    /// The short way out where others wait, as [`lock_again`](Self::lock_again) is the way in; or the
    /// long one.
    ///
    /// # Safety
    /// The caller holds the lock, so `place` is its slot's.
    #[inline(never)]
    pub(super) unsafe fn unlock_again(&self, place: Place) {
        let FullMutex { lock, follows, .. } = &self.slot(place).full;
        if marks::known::<P>().is_some_and(|me| !follows.get() && lock.leave_again(me)) {
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
