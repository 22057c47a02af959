//! A full lock that locks have one after the other.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform};

/// Whoever is alone in the lock is about to make it thin: too late to pin.
const CLOSED: u32 = 1 << 31;
/// The full lock is held by nobody in particular, until somebody who has pinned the slot, and
/// verified that it is its lock's, lets it go.
const SEALED: u32 = 1 << 30;
/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// A full lock of type `F`, in a pool. See [`thin`](super).
#[doc(hidden)]
pub struct Slot<P: Platform, F> {
    pub(super) full: F,
    /// How many threads have pinned it, and the flags.
    users: P::AtomicU32,
    /// The next one in the list of free slots: the pool's.
    pub(super) next: P::AtomicU32,
    pub(super) index: u32,
}

impl<P: Platform, F> Slot<P, F> {
    /// With a lock that is held by nobody in particular.
    pub(super) fn sealed(full: F, index: u32) -> Self {
        Self::new(full, SEALED, index)
    }

    /// With a lock that is free.
    pub(super) fn open(full: F, index: u32) -> Self {
        Self::new(full, 0, index)
    }

    fn new(full: F, users: u32, index: u32) -> Self {
        Self { full, users: P::AtomicU32::new(users), next: P::AtomicU32::new(NONE), index }
    }

    /// The slot stays with the lock whose word names it *after* this; unless it is just taken
    /// from it.
    pub(super) fn pin(&self) -> Option<Pin<'_, P, F>> {
        // Acquire: who finds the flags as they were left after an earlier lock finds that
        // lock's word as it was left, too.
        let before = self.users.fetch_add(1, Ordering::Acquire);
        let pin = Pin { slot: self, sealed: before & SEALED != 0 };
        (before & CLOSED == 0).then_some(pin)
    }

    /// Keeps threads from pinning the slot, if none has.
    pub(super) fn close(&self) -> bool {
        // A load at first: whoever has pinned it is about to write the line again. Acquire:
        // what those did who had pinned it comes before what is done to the slot next.
        self.users.load(Ordering::Relaxed) == 0
            && self.users.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Threads may pin the slot again: its lock's word names it no longer, or will go on to.
    pub(super) fn reopen(&self) {
        // Release: see `pin`.
        self.users.fetch_and(!CLOSED, Ordering::Release);
    }

    /// No word names the slot, and the full lock is held by nobody in particular.
    pub(super) fn seal(&self) {
        // Release: see `pin`.
        self.users.fetch_or(SEALED, Ordering::Release);
    }

    /// Whether it was sealed; then the caller has the full lock. No word names the slot, or
    /// the caller has pinned it and verified that.
    pub(super) fn unseal(&self) -> bool {
        // Acquire and Release: between whoever held the lock and whoever will.
        self.users.fetch_and(!SEALED, Ordering::AcqRel) & SEALED != 0
    }
}

/// Keeps a slot with its lock.
pub(super) struct Pin<'a, P: Platform, F> {
    slot: &'a Slot<P, F>,
    /// As it was found.
    pub(super) sealed: bool,
}

impl<P: Platform, F> Drop for Pin<'_, P, F> {
    fn drop(&mut self) {
        // Release: comes before whatever is done to the slot next.
        self.slot.users.fetch_sub(1, Ordering::Release);
    }
}
