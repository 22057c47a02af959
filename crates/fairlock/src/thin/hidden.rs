//! For concurrency testers: thin locks and their pool, seen between two steps of their threads.

use std::vec::Vec;

use super::inflate::{Codec, Inflates, Slot, Slots};
use super::{ThinMutex, ThinRwSem};
use crate::platform::PooledPlatform;
use crate::pool::name;
use crate::rwsem::{RwSem, Snapshot};
use crate::wait::Access;

/// What the word of a reader/writer lock says.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinSnapshot {
    /// So many readers are inside.
    Read(usize),
    Written,
    /// It has the slot of this index.
    Full(u32),
    Visible,
    Uninit,
}

impl<P: PooledPlatform> ThinRwSem<P> {
    #[doc(hidden)]
    pub fn snapshot(&self) -> ThinSnapshot {
        let word = self.load();
        match word {
            _ if word.is_inflated() => ThinSnapshot::Full(self.slot(word).index),
            _ if word.is_visible() => ThinSnapshot::Visible,
            _ if word.is_uninit() => ThinSnapshot::Uninit,
            _ if word.is_written() => ThinSnapshot::Written,
            _ => ThinSnapshot::Read(word.readers()),
        }
    }

    /// The lock, if it is inflated, becomes thin as soon as a thread leaves that is alone, and is no reader that remembers it.
    #[doc(hidden)]
    pub fn seem_uncontended(&self) {
        let word = self.load();
        if word.is_inflated() {
            let slot = self.slot(word);
            while !slot.seems_uncontended(word.name()) {
                slot.note(true);
            }
        }
    }
}

impl<P: PooledPlatform> ThinMutex<P> {
    /// Calls `f` with the hint of each thread that is queued; false if somebody is changing the queue.
    ///
    /// # Safety
    /// As [`RwSem::check`].
    #[doc(hidden)]
    pub unsafe fn for_each_queued(&self, mut f: impl FnMut(usize)) -> bool {
        let place = self.load();
        // SAFETY: the caller's promise.
        !place.is_inflated()
            || unsafe { self.slot(place).full.lock.for_each_queued(|hint, _| f(hint)) }
    }
}

/// A slot.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct SlotSnapshot {
    pub is_pooled: bool,
    /// The word of its full lock.
    pub full: Snapshot,
    /// How many threads are queued.
    pub waiters: usize,
    /// How many threads have pinned it; and who closes it: `n` who trims its lock, `r` a reader, `w` a writer.
    pub pins: u32,
    pub closed: Option<char>,
}

impl<P: PooledPlatform> Slots<P, RwSem<P>> {
    fn all(&self) -> impl Iterator<Item = &Slot<P, RwSem<P>>> {
        (0..self.made()).map(|index| self.get(name(index)))
    }

    /// The slots in the order in which they were made, and whether somebody changes the queue of one.
    ///
    /// # Safety
    /// As [`RwSem::check`].
    #[doc(hidden)]
    pub unsafe fn snapshot(&self) -> (Vec<SlotSnapshot>, bool) {
        let mut is_changing = false;
        let mut slots: Vec<_> = self
            .all()
            .map(|slot| {
                let mut waiters = 0;
                // SAFETY: the caller's promise.
                is_changing |= !unsafe { slot.full.for_each_queued(|_, _| waiters += 1) };
                let (pins, closed) = slot.pins.now();
                let closed = closed.map(|by| match by {
                    None => 'n',
                    Some(Access::Exclusive) => 'w',
                    Some(_) => 'r',
                });
                SlotSnapshot { is_pooled: false, full: slot.full.snapshot(), waiters, pins, closed }
            })
            .collect();
        self.for_each_free(|index| slots[index as usize].is_pooled = true);
        (slots, is_changing)
    }

    /// Which part of the [`snapshot`](Self::snapshot) depends on what is at an address: zero which slots are in the
    /// pool, and then, for each slot, its word and its pins.
    ///
    /// # Safety
    /// As [`RwSem::check`]: a slot that is being made is not to be looked at.
    #[doc(hidden)]
    pub unsafe fn part_at(&self, address: usize) -> Option<usize> {
        let list = core::ptr::from_ref(self).addr();
        if (list..list + size_of::<Self>()).contains(&address) {
            return Some(0);
        }
        self.all().find_map(|slot| {
            let is_word = slot.full.field_at(address) == Some("word");
            let is_pins = core::ptr::from_ref(&slot.pins).addr() == address;
            (is_word || is_pins).then(|| 1 + 2 * slot.index as usize + usize::from(is_pins))
        })
    }
}
