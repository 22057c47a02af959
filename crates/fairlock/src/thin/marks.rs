//! What a thread remembers of the locks that it took: which are inflated, and how calm it is.
//!
//! Right after the exchange that released a lock, a look at its word costs a third of an
//! uncontended acquisition on some CPUs (7 of 20 ns on an Intel Xeon). To do without, and try
//! an exchange at once, costs more where the lock is inflated: it fails, and takes the line
//! from all others that read it. So a thread remembers which locks it found inflated, by their
//! addresses, in the bits of a word. To be wrong costs time, nothing else.

use core::cell::Cell;

use crate::platform::PooledPlatform;

/// What a thread remembers. Used by that thread only.
pub(crate) struct Marks {
    inflated: Cell<u64>,
    /// How often it found an inflated lock free, less [`CONFLICT`] for each time it did not.
    calm: Cell<u32>,
}

impl Marks {
    pub(crate) const fn new() -> Self {
        Self { inflated: Cell::new(0), calm: Cell::new(0) }
    }
}

/// The calling thread has an inflated lock, which it found free, or not. It counts for itself,
/// whichever locks: a count in the lock would be one more line that each acquisition fetches.
#[inline(always)]
pub(super) fn note_calm<P: PooledPlatform>(found_free: bool) {
    let calm = &P::thread().marks.calm;
    calm.set(if found_free {
        calm.get().saturating_add(1)
    } else {
        calm.get().saturating_sub(CONFLICT)
    });
}

/// A thread that found inflated locks free so often makes the next one thin.
const CALM: u32 = if cfg!(fairlock_loom) { 1 } else { 64 };
/// The same for a lock whose slot is beyond the first [`MANY`].
const CALM_OF_MANY: u32 = 0;
const MANY: u32 = 1 << 10;

/// Whether the lock of the slot of this index may become thin, as far as the calling thread has seen; then
/// it counts anew.
#[inline(always)]
pub(super) fn is_calm<P: PooledPlatform>(index: u32) -> bool {
    let calm = &P::thread().marks.calm;
    let enough = if index < MANY { CALM } else { CALM_OF_MANY };
    let is_calm = calm.get() >= enough;
    if is_calm {
        calm.set(0);
    }
    is_calm
}

/// One inflated lock that is found taken is worth so many that are found free: where one in ten is
/// taken, locks stay inflated.
const CONFLICT: u32 = 8;

/// The bit of a lock. Neighbours have different ones.
#[inline(always)]
fn bit<L>(lock: &L) -> u64 {
    let address = core::ptr::from_ref(lock).addr();
    1 << ((address >> 3 ^ address >> 9) & 63)
}

/// Whether the calling thread found the lock inflated when it last looked.
#[inline(always)]
pub(super) fn is_marked<P: PooledPlatform, L>(lock: &L) -> bool {
    let record = P::thread_hint() as *const crate::wait::Thread<P>;
    // SAFETY: zero, or the address of the calling thread's record (`PooledPlatform`).
    !record.is_null() && unsafe { &*record }.marks.inflated.get() & bit(lock) != 0
}

/// The calling thread has found the lock inflated.
#[inline]
pub(super) fn mark<P: PooledPlatform, L>(lock: &L) {
    let marks = &P::thread().marks.inflated;
    marks.set(marks.get() | bit(lock));
}

/// The calling thread has found the lock thin.
#[inline]
pub(super) fn unmark<P: PooledPlatform, L>(lock: &L) {
    let marks = &P::thread().marks.inflated;
    marks.set(marks.get() & !bit(lock));
}
