//! What a thread remembers of the locks that it took: which are inflated.
//!
//! Right after the exchange that released a lock, a look at its word costs a third of an
//! uncontended acquisition on some CPUs (7 of 20 ns on an Intel Xeon). Without the look, an
//! exchange is tried at once; that costs more where the lock is inflated, as it fails, and takes
//! the line from all others that read it. So a thread remembers which locks it found inflated, by
//! their addresses, in the bits of a word. To be wrong costs time, nothing else.

use core::cell::Cell;

use crate::platform::PooledPlatform;

/// What a thread remembers. Used by that thread only.
pub(crate) struct Marks {
    inflated: Cell<u64>,
}

impl Marks {
    pub(crate) const fn new() -> Self {
        Self { inflated: Cell::new(0) }
    }
}

/// The bit of a lock. Neighbouring locks have different bits.
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
