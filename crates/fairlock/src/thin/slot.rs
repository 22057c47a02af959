//! A full lock that thin locks have one after the other.

use core::sync::atomic::Ordering;

use super::pool;
use crate::platform::{Atomic, Platform};

/// The only holder of the lock is about to make it thin: it is too late to pin the slot.
const CLOSED: u32 = 1 << 31;
/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// A full lock of type `F`, in a pool. See [`thin`](super).
#[doc(hidden)]
// In cache lines of its own, as its neighbour is the lock of other data. The words that pin it are
// not in the lines of the full lock.
#[repr(C, align(128))]
pub struct Slot<P: Platform, F> {
    /// How many threads have pinned the slot, and the flags.
    users: P::AtomicU32,
    /// The next slot in the list of free ones, which is the pool's.
    pub(super) next: P::AtomicU32,
    pub(super) index: u32,
    /// What the words of locks call the slot: see `pool::name`.
    pub(super) name: u32,
    pub(super) full: F,
}

impl<P: Platform, F> Slot<P, F> {
    pub(super) fn new(full: F, index: u32) -> Self {
        let [users, next] = [0, NONE].map(P::AtomicU32::new);
        Self { full, users, next, index, name: pool::name(index) }
    }

    /// Pins the slot: it stays with the lock whose word names it *after* this. `None` while it is
    /// just being taken from that lock.
    pub(super) fn pin(&self) -> Option<Pin<'_, P, F>> {
        // Acquire: a thread that comes after an earlier lock has left the slot finds that lock's
        // word as it was left, too.
        let before = self.users.fetch_add(1, Ordering::Acquire);
        let pin = Pin(self);
        (before & CLOSED == 0).then_some(pin)
    }

    /// Keeps threads from pinning the slot, if none has.
    pub(super) fn close(&self) -> bool {
        // A load first: threads that have pinned the slot are about to write the line again.
        // Acquire: what threads did that had pinned it comes before what is done to the slot next.
        self.users.load(Ordering::Relaxed) == 0
            && self.users.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Threads may pin the slot again: its lock's word names it no longer, or still does.
    pub(super) fn reopen(&self) {
        // Release: see `pin`.
        self.users.fetch_and(!CLOSED, Ordering::Release);
    }
}

/// Keeps a slot with its lock.
pub(super) struct Pin<'a, P: Platform, F>(&'a Slot<P, F>);

impl<'a, P: Platform, F> Pin<'a, P, F> {
    pub(super) fn slot(&self) -> &'a Slot<P, F> {
        self.0
    }
}

impl<P: Platform, F> Drop for Pin<'_, P, F> {
    fn drop(&mut self) {
        // Release: what the thread did comes before whatever is done to the slot next.
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}
