//! A full lock that thin locks have one after the other.

use super::slot_word::{Holder, Pins};
use crate::platform::{Atomic, Platform};
use crate::rwsem::Head;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slots in the first chunk.
pub(super) const SMALLEST: u32 = 16;
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

/// A lock whose slot has this name or a later one is calm at once: slots should not be many.
const MANY: u32 = name(1 << 10);

/// A full lock that locks may have one after the other.
#[doc(hidden)]
pub trait Full<P: Platform> {
    /// A lock that follows the default policy, and is sealed.
    fn sealed() -> Self;

    /// Seals the lock, which belonged to a thin one that is no more, if it follows the default
    /// policy and nobody holds it. It may be tried again later.
    fn try_seal(&self) -> bool;

    /// The word of the lock, and how often it was free of late.
    fn head(&self) -> &Head<P>;
}

/// A full lock of type `F`, in a pool. See [`thin`](super).
#[doc(hidden)]
// In cache lines of its own, as its neighbour is the lock of other data. The words that pin it are
// not in the lines of the full lock.
#[repr(C, align(128))]
pub struct Slot<P: Platform, F> {
    pub(super) pins: Pins<P>,
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
    /// that while it is just being taken from that lock: then by whom, and a pin that keeps the slot
    /// from being given to another. So if the word of a lock names it, it is that lock which is about to
    /// be made thin.
    pub(super) fn pin(&self) -> Result<Pin<'_, P, F>, (Holder, Pin<'_, P, F>)> {
        let added = self.pins.add();
        let pin = Pin(self);
        match added {
            Ok(()) => Ok(pin),
            Err(by) => Err((by, pin)),
        }
    }
}

impl<P: Platform, F: Full<P>> Slot<P, F> {
    /// The calling thread has the full lock, which it found free or not; or is about to wait for
    /// it.
    #[inline(always)]
    pub(super) fn note(&self, found_free: bool) {
        self.full.head().calm.note(found_free);
    }

    /// Whether the thread that leaves the lock should make it thin; then counting begins anew.
    /// `name` is the slot's: the caller has it at hand, and the slot's own is in a line that
    /// pinning writes.
    #[inline(always)]
    pub(super) fn is_calm(&self, name: u32) -> bool {
        let is_calm = self.seems_calm(name);
        if is_calm {
            self.full.head().calm.reset();
        }
        is_calm
    }

    /// As [`is_calm`](Self::is_calm), and nothing begins anew.
    #[inline(always)]
    pub(super) fn seems_calm(&self, name: u32) -> bool {
        name >= MANY || self.full.head().calm.is_enough()
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
