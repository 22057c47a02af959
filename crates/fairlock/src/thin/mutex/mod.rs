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

mod seat;
mod slow;
mod word;

use core::fmt;
pub use seat::Seat;
pub(super) use word::Place;

use super::inflate::{AtomicOf, Codec, Inflates};
use super::pool::FullMutex;
use crate::platform::{ConstZero, PooledPlatform};
use crate::rwsem::{TenurePolicy, Turns};
use crate::ticket::Solo;
use crate::wait::{Access, Wait, WaitError};

/// A mutex of eight bytes, without data; see [`Mutex`](crate::Mutex) for the one with data.
///
/// It is an [`RwSem`](crate::rwsem::RwSem) of the default policy that is only written while somebody waits, which it
/// has of a pool. A lock that is dropped while a forgotten guard holds it keeps it for good.
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

    /// Takes the lock; blocks until it has it. A thread that meets others at it time and again, as soon
    /// as it has left it, leaves it to them for 16 microseconds, if nobody is queued.
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

    /// As [`lock`](Self::lock); gives up as `wait` says.
    pub fn lock_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.take_thin() { Ok(()) } else { self.enter(&wait.begin()) }
    }

    /// Releases the lock. Nothing touches it after another thread can have it, so the next owner
    /// may free it even before this returns.
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

    /// Gives the full lock back to the pool, unless somebody holds it or waits. Returns whether the
    /// lock has none now. Others may use it meanwhile.
    pub fn trim(&self) -> bool {
        if self.is_inflated() && self.try_full() {
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
        let planned = |lock: &Turns<P>| lock.planned_ns(waiters_ahead, false);
        let new = |_| planned(&Turns::new(TenurePolicy::DEFAULT));
        self.look(new, |full| planned(&full.lock))
    }

    /// Whether the lock has a full one of the pool at this instant.
    #[doc(hidden)]
    pub fn is_inflated(&self) -> bool {
        self.load().is_inflated()
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
