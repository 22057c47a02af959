//! What thin locks remember of a thread: see `marks`.

use core::cell::Cell;
use core::marker::PhantomData;

/// How many locks a thread remembers. A power of two.
const MARKS: usize = 16;

/// What is no name in [`Mark::what`]. No word of a lock has both of these bits, and slots are aligned to more.
pub(super) const SLOT: u64 = 0b11;

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
    /// The address of a slot of the pool of `P`, or zero, each with [`SLOT`]; or what the readers of a visible lock show.
    pub(super) what: Cell<u64>,
    /// The lock seemed calm when the thread took it. The thread should not look at that again as it
    /// leaves: another reader may have come meanwhile, and have fetched the line.
    pub(super) calm: Cell<bool>,
    /// The thread has read a lock that is watched with this number so often in a row.
    pub(super) watched: Cell<u64>,
    pub(super) reads: Cell<u32>,
    platform: PhantomData<P>,
}

impl<P> Marks<P> {
    pub(crate) const fn new() -> Self {
        Self([const { Mark::none() }; MARKS])
    }

    /// Where the lock of this address has its mark, and shows its readers. Neighbouring locks have different places.
    #[inline(always)]
    pub(super) fn place(address: usize) -> usize {
        // Of 600 factors by chance the one with which locks that are 8 to 4,096 bytes apart meet least.
        ((address as u32).wrapping_mul(0x5745_0E65) >> (u32::BITS - MARKS.trailing_zeros()))
            as usize
    }

    #[inline(always)]
    pub(super) fn of(&self, address: usize) -> &Mark<P> {
        &self.0[Self::place(address)]
    }
}

impl<P> Mark<P> {
    /// The slot's address, or zero; none if the lock was visible.
    #[inline(always)]
    pub(super) fn slot_address(&self) -> Option<u64> {
        let what = self.what.get();
        (what % (SLOT + 1) == SLOT).then(|| what - SLOT)
    }

    const fn none() -> Self {
        Self {
            lock: Cell::new(0),
            what: Cell::new(SLOT),
            calm: Cell::new(false),
            watched: Cell::new(0),
            reads: Cell::new(0),
            platform: PhantomData,
        }
    }
}
