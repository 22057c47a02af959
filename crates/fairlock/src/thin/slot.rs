//! A full lock that thin locks have one after the other.

use super::pins_word::{Holder, Pins};
use crate::platform::{Atomic, Platform};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slots in the first chunk.
pub(super) const SMALLEST: u32 = 16;
/// Room for nearly 2^27 slots.
pub(super) const CHUNKS: u32 = 23;
pub(super) const SLOTS_LIMIT: u32 = SMALLEST * ((1 << CHUNKS) - 1);
/// Where the slot is in its chunk is in the low bits of a name; in the others is the chunk, of which
/// the first one is 1: zero names no slot.
pub(super) const CHUNK_SHIFT: u32 = 27;

/// The name of the slot of this index: an acquisition finds the slot by it in fewer steps than by
/// the index. Names grow with indices.
pub(super) const fn name(index: u32) -> u32 {
    let from_first = index + SMALLEST;
    let chunk = from_first.ilog2() - SMALLEST.ilog2();
    (chunk + 1) << CHUNK_SHIFT | (from_first - (SMALLEST << chunk))
}

/// A full lock of type `F`, in a pool. See [`thin`](super).
#[doc(hidden)]
// In cache lines of its own, as its neighbour is the lock of other data. The words that pin it are
// not in the lines of the full lock.
#[repr(C, align(128))]
pub struct Slot<P: Platform, F> {
    pins: Pins<P>,
    /// The next slot in the list of free ones, which is the pool's.
    pub(super) next: P::AtomicU32,
    pub(super) index: u32,
    /// What the words of locks call the slot: see [`name`].
    pub(super) name: u32,
    pub(super) full: F,
}

impl<P: Platform, F> Slot<P, F> {
    pub(super) fn new(full: F, index: u32) -> Self {
        Self { full, pins: Pins::new(), next: P::AtomicU32::new(NONE), index, name: name(index) }
    }

    /// Pins the slot: it stays with the lock whose word names it *after* this. It is too late for
    /// that while it is just being taken from that lock.
    pub(super) fn pin(&self) -> Result<Pin<'_, P, F>, Closed<'_, P, F>> {
        let closed = self.pins.add();
        let pin = Pin(self);
        match closed {
            None => Ok(pin),
            Some(by) => Err(Closed { by, pin }),
        }
    }

    /// Whether a thread has pinned the slot, or comes too late for that.
    pub(super) fn is_pinned(&self) -> bool {
        self.pins.any()
    }

    /// Keeps threads from pinning the slot, if no other has.
    pub(super) fn close(&self, by: Holder) -> bool {
        self.pins.close(by)
    }

    /// Threads may pin the slot again: its lock's word names it no longer, or still does.
    pub(super) fn reopen(&self) {
        self.pins.reopen();
    }
}

/// The slot is closed. While this exists no lock gets the slot anew: so if the word of a lock names
/// it, it is that lock which is about to be made thin.
pub(super) struct Closed<'a, P: Platform, F> {
    pub(super) by: Holder,
    pin: Pin<'a, P, F>,
}

impl<'a, P: Platform, F> Closed<'a, P, F> {
    pub(super) fn slot(&self) -> &'a Slot<P, F> {
        self.pin.slot()
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
        self.0.pins.remove();
    }
}
