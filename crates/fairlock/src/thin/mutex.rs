//! The mutex of eight bytes.
//!
//! Two words of four bytes: `solo` says who holds the thin lock, as in a ticket lock
//! (`ticket::solo`); `place` is zero while the lock is thin, and otherwise says which full lock it
//! has: an [`RwSem`] that is only written. An uncontended acquisition is one read-modify-write of
//! `solo`, and its release a plain store.
//!
//! ```text
//! thin holder                          who has the full lock
//!   solo: FREE -> HELD   (RMW)           place: 0 -> slot   (RMW)
//!   place is 0? else leave               solo is FREE?      (RMW) else wait for it
//! ```
//!
//! So *Exclusion*, *Order* and *Wake-up* are as there, with `place` for the ticket lock's word: the
//! thread that inflates the lock has the full one, which it took out of the pool as its holder, and
//! waits for the thread that is still inside the thin one. The slot says that there may be such a
//! thread (`follows`). While the slot says so, whoever has the full lock waits for it: the first
//! holder or, if that gave up, the next. From then on the full lock is all there is, until nobody
//! but its holder uses it: that one sets `place` back to zero in place of a release.
//!
//! *Freeing.* The last access of a release is to `solo`, to `place`, or to a slot or a thread
//! record, which are never freed. The name of a slot that is in `solo` is read in the step that lets
//! the lock go, while the memory is still the lock's.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::Ordering;

use super::calm::Calm;
use super::pool::Full;
use super::slot::Slot;
use super::{LOOK_NS, LOOKS, marks};
use crate::fault::{Fault, active};
use crate::platform::{Atomic, ConstZero, PooledPlatform};
use crate::rwsem::{Policy, RwSem};
use crate::ticket::Solo;
use crate::wait::{Access, CancelToken, Meeting, Parker, WaitContext, WaitError};

/// A mutex of eight bytes, without data; see [`Mutex`](crate::Mutex) for the one with data.
///
/// It is an [`RwSem`] of the default policy that is only written while somebody waits, which it
/// has of a pool. A lock that is dropped while a forgotten guard holds it keeps it for good.
pub struct ThinMutex<P: PooledPlatform> {
    solo: Solo<P, u32>,
    /// The name of the slot; zero if there is none.
    pub(super) place: P::AtomicU32,
}

/// What a [`ThinMutex`] has while somebody waits.
#[doc(hidden)]
pub struct FullMutex<P: PooledPlatform> {
    /// Only written.
    lock: RwSem<P>,
    /// Somebody may still be inside the thin lock. Belongs to the holder of `lock`, who does not
    /// change it while there is somebody.
    follows: Cell<bool>,
    /// Where the thread sleeps that waits for the thin lock's holder.
    sleeper: P::AtomicUsize,
}

// SAFETY: `follows` is touched by the holder of `lock`, who is the only one to change it, and
// by holders of the thin lock, each of whom is gone before it is changed (acquired from `solo`).
unsafe impl<P: PooledPlatform> Sync for FullMutex<P> {}

impl<P: PooledPlatform> Full for FullMutex<P> {
    fn sealed() -> Self {
        Self {
            lock: RwSem::sealed(Policy::DEFAULT),
            follows: Cell::new(false),
            sleeper: P::AtomicUsize::new(0),
        }
    }

    fn try_seal(&self) -> bool {
        self.lock.try_seal()
    }

    fn calm(&self) -> &Calm {
        self.lock.calm()
    }
}

impl<P: PooledPlatform> ThinMutex<P> {
    /// A free lock.
    pub fn new() -> Self {
        Self { solo: Solo::new(), place: P::AtomicU32::new(0) }
    }

    /// A free lock, for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
    {
        Self { solo: Solo::new_const(), place: ConstZero::ZERO }
    }

    /// Takes the lock; blocks until it has it. A thread that has met others at it several times in a
    /// row, as soon as it had left it, leaves it to them for 16 microseconds, if nobody is queued.
    #[inline]
    pub fn lock(&self) {
        if !self.take_thin() && !self.lock_again() {
            self.lock_for_ever();
        }
    }

    /// Takes the lock if that needs no waiting. It may fail while another thread begins to wait.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_lock(&self) -> bool {
        self.take_thin() || self.try_full()
    }

    /// As [`lock`](Self::lock), or gives up at `deadline` (nanoseconds of
    /// [`Platform::now`](crate::platform::Platform::now)).
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut), not before `deadline`.
    pub fn lock_until(&self, deadline: u64) -> Result<(), WaitError> {
        self.lock_within(&WaitContext::until(deadline))
    }

    /// As [`lock`](Self::lock), or gives up when a signal handler ran.
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted).
    pub fn lock_interruptible(&self) -> Result<(), WaitError> {
        self.lock_within(&WaitContext::interruptible())
    }

    /// As [`lock`](Self::lock), or gives up when `token` is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled).
    pub fn lock_cancellable(&self, token: &CancelToken<P>) -> Result<(), WaitError> {
        self.lock_within(&WaitContext::cancellable(token))
    }

    /// Takes the lock, or gives up when `until` says so.
    pub(crate) fn lock_within(&self, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if self.take_thin() { Ok(()) } else { self.enter(until) }
    }

    /// Releases the lock. Nothing touches it after another thread can have it, so the next owner
    /// may free it even before this returns.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Whoever inflates the lock from now on waits for `solo`.
        let place = self.place();
        if place == 0 {
            self.solo.leave();
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.unlock_again(place) }
        }
    }

    /// Releases the lock, to the queue if anyone waits: nobody gets in before the waiter whose turn
    /// it is.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        let place = self.place();
        if place == 0 {
            self.solo.leave();
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.unlock_elsewhere(place, true) }
        }
    }

    /// Gives the full lock back to the pool, unless somebody holds it or waits. Returns whether the
    /// lock has none now. Others may use it meanwhile.
    pub fn trim(&self) -> bool {
        if self.is_inflated() && self.try_full() {
            // Taken, so it stays.
            let slot = self.slot(self.place());
            if !self.deflate(slot) {
                // SAFETY: just taken.
                unsafe { slot.full.lock.unlock_write() };
            }
        }
        !self.is_inflated()
    }

    // ---- looking ----

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.solo.is_held() || self.look(RwSem::is_locked)
    }

    /// Whether somebody waits for the lock.
    pub fn is_contended(&self) -> bool {
        // A thread that waits for the thin lock's holder has the full lock.
        let has_first = self.solo.is_held();
        self.look(|full| full.has_waiters() || (has_first && full.is_locked()))
    }

    /// As [`RwSem::planned_wait_ns`]; that of a thin lock is that of a new full one.
    pub fn planned_wait_ns(&self, waiters_ahead: usize) -> u64 {
        loop {
            let place = self.place();
            let planned = match place {
                0 => RwSem::<P>::new(Policy::DEFAULT).planned_wait_ns(waiters_ahead),
                _ => self.slot(place).full.lock.planned_wait_ns(waiters_ahead),
            };
            if self.place() == place {
                return planned.unwrap_or(u64::MAX);
            }
        }
    }

    /// Whether the lock has a full one of the pool at this instant.
    #[doc(hidden)]
    pub fn is_inflated(&self) -> bool {
        self.place() != 0
    }

    /// What `full` finds in the full lock; false if there is none.
    fn look(&self, full: impl Fn(&RwSem<P>) -> bool) -> bool {
        loop {
            let place = self.place();
            if place == 0 {
                return false;
            }
            let seen = full(&self.slot(place).full.lock);
            if self.place() == place {
                return seen;
            }
        }
    }

    // ---- the ways in ----

    /// Takes the lock if it is thin and free.
    #[inline(always)]
    pub(crate) fn take_thin(&self) -> bool {
        // Relaxed: `place` is looked at again below.
        if self.place.load(Ordering::Relaxed) != 0 || !self.solo.enter() {
            return false;
        }
        // Acquire: the section of whoever made the lock thin.
        if self.place() != 0 && !active(Fault::EntersBlindly) {
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
    fn lock_again(&self) -> bool {
        let Some(me) = marks::known::<P>() else { return false };
        let place = self.place();
        if place == 0 {
            return false;
        }
        let slot = self.slot(place);
        if !slot.full.lock.take_again(me, Access::Exclusive) {
            return false;
        }
        if !self.is_verified(place) {
            return self.leave_other(place);
        }
        slot.note(false);
        slot.full.lock.note_again(me);
        !slot.full.follows.get() || self.follow_for_ever(slot)
    }

    #[inline(never)]
    fn lock_for_ever(&self) {
        let taken = self.enter(&WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    /// The way in where one exchange does not do.
    fn enter(&self, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut looks = 0;
        let mut meeting = Meeting::none();
        loop {
            let place = self.place();
            if place == 0 {
                if self.take_thin() {
                    meeting.end::<P>();
                    return Ok(());
                }
                if let Some(why) = until.expired(P::now) {
                    return Err(why);
                }
                if meeting.begin(self.address(), until) {
                    continue;
                }
                if looks < LOOKS {
                    self.solo.spin(LOOK_NS << looks);
                    looks += 1;
                    continue;
                }
                match self.inflate() {
                    Some(slot) => return self.follow(slot, until),
                    None => continue,
                }
            }
            let slot = self.slot(place);
            let full = &slot.full.lock;
            if let Some(found_free) = self.awake(full, &mut meeting, until) {
                if self.verify(place) {
                    slot.note(found_free);
                    meeting.end::<P>();
                    return self.follow(slot, until);
                }
                continue;
            }
            let Some(pin) = slot.pin() else {
                // The holder is about to make it thin.
                P::yield_now();
                continue;
            };
            if self.place() != place && !active(Fault::PinsAnySlot) {
                continue;
            }
            slot.note(false);
            full.write_asleep(until)?;
            drop(pin);
            return self.follow(slot, until);
        }
    }

    /// Takes the full lock without going to sleep for it. `Some` if it did: whether the lock was
    /// free, and nobody waited.
    fn awake(
        &self,
        full: &RwSem<P>,
        meeting: &mut Meeting,
        until: &WaitContext<'_, P>,
    ) -> Option<bool> {
        full.take_past_queue().or_else(|| {
            let met = !full.has_waiters() && meeting.begin(self.address(), until);
            (met && full.try_write() || full.write_awake(until)).then_some(false)
        })
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the full lock if there is one, and it is free.
    #[inline(never)]
    fn try_full(&self) -> bool {
        loop {
            let place = self.place();
            if place == 0 {
                return false;
            }
            let slot = self.slot(place);
            match slot.full.lock.take_past_queue() {
                Some(found_free) if self.verify(place) => {
                    slot.note(found_free);
                    return self.try_follow(slot);
                }
                None if self.place() == place => return false,
                _ => {}
            }
        }
    }

    /// The caller has just taken the full lock of `place`: returns whether that is this lock's. If
    /// not, the caller does not have it any more.
    #[inline(always)]
    fn verify(&self, place: u32) -> bool {
        self.is_verified(place) || self.leave_other(place)
    }

    /// The caller has just taken the full lock of `place`: whether that is this lock's.
    #[inline(always)]
    fn is_verified(&self, place: u32) -> bool {
        self.place() == place || active(Fault::TakesAnySlot)
    }

    /// The caller has just taken another lock's slot: not any more. False.
    #[cold]
    #[inline(never)]
    fn leave_other(&self, place: u32) -> bool {
        // SAFETY: the caller has just taken it.
        unsafe { self.slot(place).full.lock.unlock_write() };
        false
    }

    /// The caller has the full lock, and waits for the thread that is inside the thin one.
    #[inline(always)]
    fn follow(
        &self,
        slot: &'static Slot<P, FullMutex<P>>,
        until: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if !slot.full.follows.get() || active(Fault::OvertakesSolo) {
            Ok(())
        } else {
            self.wait_for_thin(slot, until)
        }
    }

    #[cold]
    #[inline(never)]
    fn follow_for_ever(&self, slot: &'static Slot<P, FullMutex<P>>) -> bool {
        self.follow(slot, &WaitContext::FOREVER).is_ok()
    }

    #[cold]
    fn wait_for_thin(
        &self,
        slot: &'static Slot<P, FullMutex<P>>,
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
        let waited = match until.cancel {
            Some(token) => token.with_registered(P::thread(), wait),
            None => wait(),
        };
        match waited {
            Ok(()) => follows.set(false),
            // SAFETY: the caller has it. Whoever has it next does the waiting.
            Err(_) => unsafe { lock.unlock_write() },
        }
        waited
    }

    /// As [`follow`](Self::follow), without waiting.
    #[inline]
    fn try_follow(&self, slot: &'static Slot<P, FullMutex<P>>) -> bool {
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

    // ---- the ways out ----

    /// The short way out where others wait, as [`lock_again`](Self::lock_again) is the way in; or the
    /// long one.
    ///
    /// # Safety
    /// The caller holds the lock, so `place` is its slot's.
    #[inline(never)]
    unsafe fn unlock_again(&self, place: u32) {
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
    unsafe fn unlock_elsewhere(&self, place: u32, fair: bool) {
        let slot = self.slot(place);
        let FullMutex { lock, follows, .. } = &slot.full;
        if follows.get() {
            // The caller holds the thin lock; whoever has the full one is next.
            self.leave_thin();
            return;
        }
        if slot.is_calm(place) && self.deflate(slot) {
            return;
        }
        // SAFETY: the caller holds it.
        unsafe { if fair { lock.unlock_write_fair() } else { lock.unlock_write() } }
    }

    /// Leaves the thin lock, and wakes the thread that waits for that.
    #[cold]
    fn leave_thin(&self) {
        let Some(place) = self.solo.leave_noted() else { return };
        // Relaxed: published with the note; or by now it is another's, who is woken in vain.
        let sleeper = self.slot(place).full.sleeper.load(Ordering::Relaxed);
        // SAFETY: the address of a parker in a thread record, which is never freed.
        unsafe { &*(sleeper as *const Parker<P>) }.unpark();
    }

    /// The holder of the full lock makes the lock thin, and free, in place of a release. Not if
    /// somebody waits. Nothing of the lock is touched after the store.
    #[cold]
    fn deflate(&self, slot: &'static Slot<P, FullMutex<P>>) -> bool {
        if !slot.close() && !active(Fault::DeflatesPinned) {
            return false;
        }
        slot.full.lock.seal();
        // Release: the section comes before what is done by whoever finds the lock thin.
        self.place.store(0, Ordering::Release);
        slot.reopen();
        P::mutex_slots().give(slot);
        true
    }

    // ---- the full lock ----

    /// Gives the thin lock, which somebody may hold, a full one, which the caller has then. `None`
    /// if another thread did so first.
    #[cold]
    fn inflate(&self) -> Option<&'static Slot<P, FullMutex<P>>> {
        let slots = P::mutex_slots();
        let slot = slots.take_sealed();
        slot.full.lock.adopt_sealed_writer();
        slot.full.follows.set(true);
        // Acquire and Release: orders the thread that made the lock thin before those that find the
        // place.
        let made = self.place.compare_exchange(0, slot.name, Ordering::AcqRel, Ordering::Relaxed);
        if made.is_err() {
            slot.full.lock.seal();
            slots.give(slot);
        }
        made.ok().map(|_| slot)
    }

    /// The slot of a place.
    #[inline(always)]
    fn slot(&self, place: u32) -> &'static Slot<P, FullMutex<P>> {
        P::mutex_slots().get(place)
    }

    /// Acquire: whoever finds a place may look into the slot; and what came before the lock became
    /// thin is seen.
    #[inline(always)]
    fn place(&self) -> u32 {
        self.place.load(Ordering::Acquire)
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: PooledPlatform> ThinMutex<P> {
    /// Takes the lock as a thread does that inflates it.
    pub(super) fn lock_inflating(&self) {
        match self.inflate() {
            Some(slot) => self.follow(slot, &WaitContext::FOREVER).unwrap(),
            None => self.lock(),
        }
    }
}

impl<P: PooledPlatform> Drop for ThinMutex<P> {
    fn drop(&mut self) {
        let place = self.place();
        if place != 0 {
            P::mutex_slots().give_up(self.slot(place));
        }
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
