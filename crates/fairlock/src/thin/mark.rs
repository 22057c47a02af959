//! What thin locks remember of a thread: see `marks`.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr;

/// How many locks a thread remembers. A power of two.
const MARKS: usize = 16;

/// The locks that a thread found inflated. Used by that thread only.
pub(crate) struct Marks<P>([Mark<P>; MARKS]);

// SAFETY: a slot is only used by reference, as by any thread: its pool is shared.
unsafe impl<P> Send for Marks<P> {}

/// A lock that a thread found inflated, or visible.
// Aligned, so that where it is takes no multiplication.
#[repr(align(32))]
pub(super) struct Mark<P> {
    /// The lock's address; zero if there is none.
    pub(super) lock: Cell<usize>,
    /// A slot of the pool of `P`, or null.
    pub(super) slot: Cell<*const ()>,
    /// The lock seemed calm when the thread took it. The thread should not look at that again as it
    /// leaves: another reader may have come meanwhile, and have fetched the line.
    pub(super) calm: Cell<bool>,
    /// The lock was not inflated, but visible.
    pub(super) is_visible: Cell<bool>,
    /// The thread has read a lock that is watched with this number so often in a row.
    pub(super) watched: Cell<u64>,
    pub(super) reads: Cell<u32>,
    platform: PhantomData<P>,
}

impl<P> Marks<P> {
    pub(crate) const fn new() -> Self {
        Self([const { Mark::none() }; MARKS])
    }

    /// Where the lock of this address has its mark. Neighbouring locks have different places.
    #[inline(always)]
    pub(super) fn of(&self, address: usize) -> &Mark<P> {
        &self.0[(address >> 3 ^ address >> 7) % MARKS]
    }
}

impl<P> Mark<P> {
    const fn none() -> Self {
        Self {
            lock: Cell::new(0),
            slot: Cell::new(ptr::null()),
            calm: Cell::new(false),
            is_visible: Cell::new(false),
            watched: Cell::new(0),
            reads: Cell::new(0),
            platform: PhantomData,
        }
    }
}
