//! The word that has the list of a pool's free slots.
//!
//! | bits | meaning |
//! |---|---|
//! | 0-28 | the index of the first one plus one; zero if there is none |
//! | 29-63 | how often the list has changed, so that a thread that is late does not take it for what it was |

use core::sync::atomic::Ordering;

use super::slot::SLOTS_LIMIT;
use crate::platform::{Atomic, ConstZero, Platform};

const CHANGES_SHIFT: u32 = 29;
const FIRST: u64 = (1 << CHANGES_SHIFT) - 1;
const _: () = assert!((SLOTS_LIMIT as u64) < FIRST);

/// A value of the word.
#[derive(Clone, Copy)]
pub(super) struct List(u64);

impl List {
    /// The index of the first slot.
    pub(super) fn first(self) -> Option<u32> {
        ((self.0 & FIRST) as u32).checked_sub(1)
    }

    /// The list with this slot, or none, as the first one.
    fn changed(self, first: u32) -> Self {
        let changes = (self.0 >> CHANGES_SHIFT).wrapping_add(1) << CHANGES_SHIFT;
        Self(changes | u64::from(first.wrapping_add(1)))
    }
}

/// The word, which threads change.
pub(super) struct AtomicList<P: Platform>(P::AtomicU64);

impl<P: Platform> AtomicList<P> {
    pub(super) fn new() -> Self {
        Self(P::AtomicU64::new(0))
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self(ConstZero::ZERO)
    }

    /// Acquire: whoever gave a slot back is done with it.
    pub(super) fn load(&self) -> List {
        List(self.0.load(Ordering::Acquire))
    }

    /// Makes this slot, or none, the first one of a list that nobody has changed.
    pub(super) fn change(&self, list: List, first: u32) -> Result<(), List> {
        // Release: what was done to the slot comes before what is done to it next. Acquire: as in
        // `load`.
        self.0
            .compare_exchange(list.0, list.changed(first).0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(List)
    }

    /// Empties the list. The caller is the only thread.
    pub(super) fn clear(&self) {
        // Relaxed: there is nobody else.
        self.0.store(0, Ordering::Relaxed);
    }
}
