//! The mutex of eight bytes.
//!
//! Two words of four bytes: `solo` says who holds the thin lock, as in a ticket lock
//! (`ticket::solo`); `place` is zero while the lock is thin, and otherwise says which full lock it
//! has: an [`RwSem`](crate::rwsem::RwSem) that is only written. An uncontended acquisition is one read-modify-write of
//! `solo`, and its release a plain store.
//!
//! ```text
//! thin holder                          who has the full lock
//!   solo: FREE -> HELD   (RMW)           place: 0 -> slot   (RMW)
//!   place is 0? else leave               solo is FREE?      (RMW) else wait for it
//! ```
//!
//! So *Exclusion*, *Order* and *Wake-up* hold as in `ticket::solo`, with `place` for the ticket
//! lock's word: the thread that inflates the lock holds the full lock, as it took it out of the
//! pool, and waits for the thread that is still inside the thin lock. The slot says that there may
//! be such a thread (`follows`). While it says so, the holder of the full lock waits for that
//! thread: the first holder or, if that gave up, the next. From then on the full lock alone counts,
//! until nobody but its holder uses it: then the holder sets `place` back to zero instead of
//! releasing.
//!
//! *Freeing.* The last access of a release is to `solo`, to `place`, or to a slot or a thread
//! record, which are never freed. The name of a slot in `solo` is read in the step that releases
//! the lock, while the memory is still the lock's.

use core::fmt;
use core::sync::atomic::Ordering;

use super::inflate::{AtomicOf, Codec, FullMutex, Inflates, Pin, Slot, SlotOf, Slots, leave_other};
use super::local::Mark;
use super::marks;
use super::word::{Holder, Place};
use crate::may_dangle::MayDangle;
use crate::platform::{Atomic, ConstZero, PooledPlatform, Thread};
use crate::rwsem::{Policy, Turns};
use crate::ticket::Solo;
use crate::wait::{
    Access, Collision, LOOK_NS, Parker, Sleeper, Wait, WaitContext, WaitError, Waiter,
};

/// A mutex of eight bytes, without data; see [`Mutex`](crate::Mutex) for the one with data.
///
/// While somebody waits, it has an [`RwSem`](crate::rwsem::RwSem) of the default policy from a
/// pool, which is only written. If the mutex is dropped while a forgotten guard holds it, that
/// `RwSem` is lost.
pub struct ThinMutex<P: PooledPlatform> {
    solo: Solo<P, u32>,
    place: AtomicOf<Place, P::AtomicU32>,
}

impl<P: PooledPlatform> ThinMutex<P> {
    /// A free lock.
    pub fn new() -> Self {
        Self { solo: Solo::new(), place: AtomicOf::new(Place::NONE) }
    }

    /// A free lock, for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
    {
        Self { solo: Solo::new_const(), place: AtomicOf::new_const() }
    }

    /// Takes the lock; blocks until it has it. A thread that repeatedly wants the lock back soon
    /// after releasing it, and finds it held, leaves it to the others for 16 microseconds if nobody
    /// is queued.
    #[inline]
    pub fn lock(&self) {
        let at_once = match marks::find::<P, _>(self) {
            None => self.enter_thin(),
            Some((me, mark)) => self.lock_marked(me, mark),
        };
        if !at_once {
            self.lock_for_ever();
        }
    }

    /// Takes the lock if that needs no waiting. Never blocks. May also fail while another thread
    /// begins to wait.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_lock(&self) -> bool {
        self.take_thin() || self.try_full()
    }

    /// As [`lock`](Self::lock); gives up as `wait` says.
    pub fn lock_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.take_thin() { Ok(()) } else { self.enter(&wait.begin()) }
    }

    /// Releases the lock. The call does not touch the lock after another thread can acquire it, so
    /// the next owner may free it even before the call returns.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Whoever inflates the lock from now on waits for `solo`.
        let place = self.load();
        if place.is_inflated() {
            // SAFETY: the caller's promise.
            unsafe { self.unlock_again(place) }
        } else {
            self.solo.leave();
        }
    }

    /// Releases the lock, to the queue if anyone waits: nobody gets in before the waiter whose turn
    /// it is.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        let place = self.load();
        if place.is_inflated() {
            // SAFETY: the caller's promise.
            unsafe { self.unlock_elsewhere(place, true) }
        } else {
            self.solo.leave();
        }
    }

    /// Gives the full lock back to the pool, unless somebody holds the lock or waits for it.
    /// Returns whether it has none now. Other threads may use the lock meanwhile.
    pub fn trim(&self) -> bool {
        if self.try_full() {
            // Taken, so it stays.
            let place = self.load();
            let slot = self.slot(place);
            if !self.deflate(place, slot, Some(Access::Exclusive)) {
                // SAFETY: just taken.
                unsafe { slot.full.lock.unlock_write() };
            }
        }
        !self.is_inflated()
    }

    // ---- looking ----

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.solo.is_held() || self.look(|_| false, |full| full.lock.is_locked())
    }

    /// Whether somebody waits for the lock.
    pub fn is_contended(&self) -> bool {
        // A thread that waits for the thin lock's holder has the full lock.
        let has_first = self.solo.is_held();
        self.look(|_| false, |full| full.lock.has_waiters() || (has_first && full.lock.is_locked()))
    }

    /// As [`RwSem::planned_wait_ns`](crate::rwsem::RwSem::planned_wait_ns); that of a thin lock is that of a new full one.
    pub fn planned_wait_ns(&self, waiters_ahead: usize) -> u64 {
        let planned = |lock: &Turns<P>| lock.planned_wait_ns(waiters_ahead, false);
        let new = |_| planned(&Turns::new(Policy::DEFAULT));
        self.look(new, |full| planned(&full.lock))
    }

    /// Whether the lock has a full one of the pool at this instant.
    #[doc(hidden)]
    pub fn is_inflated(&self) -> bool {
        self.load().is_inflated()
    }
}

// ---- the slow path: where one exchange does not do ----

impl<P: PooledPlatform> ThinMutex<P> {
    // ---- in ----

    /// Takes the lock if it is thin and free. A thread that remembers it as inflated looks first.
    #[inline(always)]
    pub(crate) fn take_thin(&self) -> bool {
        if let Some((_, mark)) = marks::find::<P, _>(self) {
            if self.load().is_inflated() {
                return false;
            }
            mark.set_lock(0);
        }
        self.enter_thin()
    }

    /// Takes the lock if it is thin and free. Without looking first: that would fetch the line twice, to read it and to
    /// write it.
    #[inline(always)]
    fn enter_thin(&self) -> bool {
        if !self.solo.enter() {
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

    /// The calling thread, `me`, takes the full lock that it remembers, if it had the lock last, others wait, and nothing
    /// else is in the way: this is how a busy lock is taken nearly always.
    #[inline(never)] // or it would be in every caller's loop
    fn lock_marked(&self, me: &Thread<P>, mark: &Mark<P>) -> bool {
        let Some(slot) = mark.slot::<FullMutex<P>>() else { return false };
        let Some(again) = slot.full.lock.take_again(me, Access::Exclusive) else { return false };
        if !self.names(Place::inflated(slot.name)) {
            leave_other::<Self>(slot, Access::Exclusive);
            return false;
        }
        again.note(me);
        !slot.full.follows.get() || self.follow_for_ever(slot)
    }

    #[inline(never)]
    fn lock_for_ever(&self) {
        let taken = self.enter(&WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    /// The slow way in.
    fn enter(&self, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut looks = 0;
        let mut collision = Collision::none();
        loop {
            let place = self.load();
            if !place.is_inflated() {
                // Before the look, as the last act of a wait is a try.
                let ended = until.expired(P::now);
                // Not before a look: trying would take the line from whoever is inside.
                if !self.solo.is_held() && self.take_thin() {
                    collision.end::<P>();
                    return Ok(());
                }
                if let Some(why) = ended {
                    return Err(why);
                }
                if collision.begin(&P::thread().collisions, self.address(), until) {
                    continue;
                }
                if looks < until.most_looks(0) {
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
            marks::mark(P::thread(), self, slot);
            let full = &slot.full.lock;
            if let Some(found_free) = self.take_awake(full, &mut collision, until) {
                if self.entered(place, slot, Access::Exclusive, found_free) {
                    collision.end::<P>();
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

    /// Takes the full lock without sleeping. If it succeeds, `Some` says whether the lock was free
    /// and nobody waited.
    fn take_awake(
        &self,
        full: &Turns<P>,
        collision: &mut Collision,
        until: &WaitContext<'_, P>,
    ) -> Option<bool> {
        full.take_past_queue().or_else(|| {
            let collided = !full.has_waiters()
                && collision.begin(&P::thread().collisions, self.address(), until);
            (collided && full.try_write() || full.take_awake(Access::Exclusive, until))
                .then_some(false)
        })
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the full lock if there is one, and it is free.
    #[inline(never)]
    fn try_full(&self) -> bool {
        loop {
            let place = self.load();
            if !place.is_inflated() {
                return false;
            }
            let slot = self.slot(place);
            match slot.full.lock.take_past_queue() {
                Some(found_free) if self.entered(place, slot, Access::Exclusive, found_free) => {
                    return self.try_follow(slot);
                }
                None if self.names(place) => return false,
                _ => {}
            }
        }
    }

    /// The caller has the full lock, and waits for the thread that is inside the thin one.
    #[inline(always)]
    fn follow(
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

    // ---- out ----

    /// The short way out while others wait, like [`lock_marked`](Self::lock_marked) on the way in; or
    /// the long one.
    ///
    /// # Safety
    /// The caller holds the lock, so `place` is its slot's.
    #[inline(never)]
    unsafe fn unlock_again(&self, place: Place) {
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
    unsafe fn unlock_elsewhere(&self, place: Place, fair: bool) {
        if self.slot(place).full.follows.get() {
            // The caller holds the thin lock; the holder of the full lock is next.
            self.leave_thin();
            return;
        }
        self.leave_full(place, Access::Exclusive, fair);
    }

    /// Leaves the thin lock, and wakes the thread that waits for that.
    #[cold]
    fn leave_thin(&self) {
        let Some(name) = self.solo.leave_noted() else { return };
        // Relaxed: published with the note. By now the slot may be another lock's, whose thread is
        // woken needlessly.
        let sleeper = self.slot(Place::inflated(name)).full.sleeper.load(Ordering::Relaxed);
        // SAFETY: the address of a parker in a thread record, which is never freed.
        unsafe { &*(sleeper as *const Parker<P>) }.unpark();
    }
}

// ---- thin to full, and back ----

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

// ---- a seat in the queue ----
//
// A place in the mutex's queue for a thread that goes on sleeping: if the mutex is held, a thread
// that would wake the sleeper queues it instead, and the release wakes it.
//
// Only an inflated mutex has a queue. Like any waiter, the seat keeps the mutex inflated: the slot
// is pinned for the sleeping thread, which removes the pin once it has the mutex.

/// A sleeping thread's place in the queue of a [`ThinMutex`].
#[doc(hidden)]
pub struct Seat<P: PooledPlatform>(MayDangle<Queued<P>>);

struct Queued<P: PooledPlatform> {
    waiter: Waiter<P>,
    pin: Pin<'static, P, FullMutex<P>>,
}

impl<P: PooledPlatform> ThinMutex<P> {
    /// A seat for `thread`, if that sleeps; `None` if nobody holds the mutex, or the mutex has no
    /// queue.
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

    /// The calling thread was given the seat, and [has been queued](Seat::queue) or is just being
    /// queued: waits until it has the mutex.
    #[cold]
    pub(crate) fn lock_seated(&self, seat: &Seat<P>) {
        let slot = seat.slot();
        slot.note(false);
        let for_ever = &WaitContext::FOREVER;
        let taken = slot.full.lock.wait_queued(&seat.0.waiter, for_ever);
        let taken = taken.and_then(|()| self.follow(slot, for_ever));
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

impl<P: PooledPlatform> Drop for ThinMutex<P> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl<P: PooledPlatform> ConstZero for ThinMutex<P>
where
    P::AtomicU32: ConstZero,
{
    const ZERO: Self = Self::new_const();
}

impl<P: PooledPlatform> Default for ThinMutex<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: PooledPlatform> fmt::Debug for ThinMutex<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThinMutex")
            .field("locked", &self.is_locked())
            .field("waiting", &self.is_contended())
            .field("inflated", &self.is_inflated())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<P: PooledPlatform> ThinMutex<P> {
        /// Takes the lock, which is inflated, as a thread that remembers it.
        fn lock_again(&self) -> bool {
            let me = P::thread();
            self.lock_marked(me, marks::mark(me, self, self.slot(self.load())))
        }

        /// Takes the lock as a thread does that inflates it.
        pub(crate) fn lock_inflating(&self) {
            match self.inflate(Place::NONE) {
                Ok(place) => self.follow(self.slot(place), &WaitContext::FOREVER).unwrap(),
                Err(_) => self.lock(),
            }
        }
    }

    /// It had the full lock before, in vain, as its wait for the thread inside ended.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[test]
    fn who_comes_again_the_short_way_waits_for_a_thread_inside_the_thin_lock() {
        use std::sync::atomic::AtomicBool;
        use std::time::Duration;

        use fairlock_testing::{join, scope, until};

        use crate::platform::Native;

        let lock = &ThinMutex::<Native>::new();
        let (inside, second) = (&AtomicBool::new(true), &AtomicBool::new(false));
        let full = || &lock.slot(lock.load()).full;
        // Again, that is: after the first wait it is set back.
        let sleeps =
            || second.load(Ordering::Acquire) && full().sleeper.load(Ordering::Relaxed) != 0;
        lock.lock();
        scope(|s| {
            let again = s.spawn(move || {
                let in_vain = lock.lock_with(Wait::within(Duration::from_millis(1)));
                assert_eq!(in_vain, Err(WaitError::TimedOut));
                let full = full();
                assert!(full.follows.get());
                full.sleeper.store(0, Ordering::Relaxed);
                second.store(true, Ordering::Release);
                // Others wait, and it had the lock last.
                full.lock.seem_last();
                full.lock.seem_awaited(true);
                assert!(lock.lock_again());
                assert!(!inside.load(Ordering::Relaxed));
                full.lock.seem_awaited(false);
                // SAFETY: taken above.
                unsafe { lock.unlock() };
            });
            until(|| again.is_finished() || sleeps());
            inside.store(false, Ordering::Relaxed);
            // SAFETY: taken above.
            unsafe { lock.unlock() };
            join(again);
        });
    }

    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[test]
    fn an_age_ends_where_a_thread_takes_the_mutex_again() {
        use crate::platform::{Native, System};

        let lock = ThinMutex::<Native>::new();
        lock.lock_inflating();
        // SAFETY: just taken.
        unsafe { lock.unlock() };
        let full = &lock.slot(lock.load()).full.lock;
        full.seem_last();
        full.seem_awaited(true);
        let ages = &Native::thread().tenure.ages;
        ages.note(full.word.address(), 5_000_000, Native::now());
        assert!(lock.lock_again() && ages.at(full.word.address()).is_none());
        full.seem_awaited(false);
        // SAFETY: just taken.
        unsafe { lock.unlock() };
    }

    /// A stale mark costs time: of a lock that is thin by now, or of a slot that another lock has.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[test]
    fn a_mutex_is_taken_whatever_the_thread_remembers_of_it() {
        use crate::platform::{Native, System};

        let me = Native::thread();
        let (lock, other) = (ThinMutex::<Native>::new(), ThinMutex::<Native>::new());
        let slot_of = |lock: &ThinMutex<Native>| {
            lock.lock_inflating();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
            lock.slot(lock.load())
        };
        let slot = slot_of(&lock);
        let remembers = || marks::find::<Native, _>(&lock).is_some();
        assert!(lock.trim() && !lock.is_inflated());
        let ways: [fn(&ThinMutex<Native>) -> bool; 3] = [
            |lock| lock.try_lock(),
            |lock| lock.lock_with(Wait::within(core::time::Duration::ZERO)).is_ok(),
            |lock| {
                lock.lock();
                true
            },
        ];
        for take in ways {
            marks::mark(me, &lock, slot);
            assert!(take(&lock) && !remembers());
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        }
        marks::mark(me, &lock, slot);
        assert!(lock.trim() && !lock.is_locked(), "there is nothing to trim");
        // The thread had the other one last, and others wait there.
        let others = slot_of(&other);
        slot_of(&lock);
        others.full.lock.seem_last();
        others.full.lock.seem_awaited(true);
        marks::mark(me, &lock, others);
        lock.lock();
        assert!(lock.is_locked() && !other.is_locked() && remembers());
        // SAFETY: just taken.
        unsafe { lock.unlock() };
        others.full.lock.seem_awaited(false);
    }

    /// It took the slot for the lock, which another thread has inflated first.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[test]
    fn a_slot_that_a_lock_did_not_get_is_sealed_as_before() {
        type Lock = ThinMutex<crate::platform::Native>;
        let slot = Lock::slots().take_sealed();
        let is_sealed = || slot.full.lock.word.load(Ordering::Relaxed).is_sealed();
        Lock::adopt(&slot.full, Place::NONE);
        assert!(!is_sealed());
        Lock::disown(&slot.full, Place::NONE);
        assert!(is_sealed());
        Lock::slots().give(slot);
    }

    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[test]
    fn a_thin_mutex_is_free_after_a_fair_release() {
        let lock = ThinMutex::<crate::platform::Native>::new();
        lock.lock();
        // SAFETY: just taken.
        unsafe { lock.unlock_fair() };
        assert!(!lock.is_locked() && lock.try_lock());
    }
}
