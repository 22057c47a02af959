//! The word by which threads keep a slot with its lock:
//!
//! | bits | meaning |
//! |---|---|
//! | 0-28 | how many threads have pinned the slot, or come too late for that |
//! | 29 | `BY_READER`: the thread that closes the slot holds the lock for reading |
//! | 30 | `BY_WRITER`: it does so for writing |
//! | 31 | `CLOSING`: a thread is about to make the lock thin, and the slot cannot be pinned |
//!
//! And the word that has the list of a pool's free slots:
//!
//! | bits | meaning |
//! |---|---|
//! | 0-28 | the index of the first one plus one; zero if there is none |
//! | 29-63 | how often the list has changed, so that a thread that is late does not take it for what it was |

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform};
use crate::wait::Access;

const BY_READER: u32 = 1 << 29;
const BY_WRITER: u32 = 1 << 30;
const CLOSING: u32 = 1 << 31;
const FLAGS: u32 = CLOSING | BY_WRITER | BY_READER;

/// How the thread that closes a slot holds the lock. `None`: it does not, as it trims the lock, and
/// has pinned the slot.
pub(super) type Holder = Option<Access>;

pub(super) struct Pins<P: Platform>(P::AtomicU32);

impl<P: Platform> Pins<P> {
    pub(super) fn new() -> Self {
        Self(P::AtomicU32::new(0))
    }

    /// Counts the calling thread. An error if the slot is closed: by whom.
    pub(super) fn add(&self) -> Result<(), Holder> {
        // Acquire: a thread that comes after an earlier lock has left the slot finds that lock's
        // word as it was left, too.
        match self.0.fetch_add(1, Ordering::Acquire) & FLAGS {
            0 => Ok(()),
            CLOSING => Err(None),
            flags if flags & BY_READER != 0 => Err(Some(Access::Shared)),
            _ => Err(Some(Access::Exclusive)),
        }
    }

    /// The calling thread is not counted any more.
    pub(super) fn remove(&self) {
        // Release: what the thread did comes before whatever is done to the slot next.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether a thread has pinned the slot, or comes too late for that.
    pub(super) fn any(&self) -> bool {
        // Acquire: what those did that had comes before what is done to the slot next.
        self.0.load(Ordering::Acquire) != 0
    }

    /// Keeps threads from pinning the slot, if no other has.
    pub(super) fn close(&self, by: Holder) -> bool {
        let (own, flags) = match by {
            None => (1, CLOSING),
            Some(Access::Exclusive) => (0, CLOSING | BY_WRITER),
            Some(_) => (0, CLOSING | BY_READER),
        };
        // A load first: threads that have pinned the slot are about to write the line again.
        // Acquire: what threads did that had pinned it comes before what is done to the slot next.
        // Release: who comes too late may make the lock thin, for others to find what was done.
        let exchange =
            || self.0.compare_exchange(own, own | flags, Ordering::AcqRel, Ordering::Relaxed);
        self.0.load(Ordering::Relaxed) == own && exchange().is_ok()
    }

    /// For a thread that came too late to pin the slot: whether it is closed still.
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: the thread has acquired the seal, and so what came before that.
        self.0.load(Ordering::Relaxed) & CLOSING != 0
    }

    /// Threads may pin the slot again: its lock's word names it no longer, or still does.
    pub(super) fn reopen(&self) {
        // Release: see `add`.
        self.0.fetch_and(!FLAGS, Ordering::Release);
    }
}

const CHANGES_SHIFT: u32 = 29;
pub(super) const INDEX: u64 = (1 << CHANGES_SHIFT) - 1;

/// The index of the first slot of a list.
pub(super) fn first(list: u64) -> Option<u32> {
    ((list & INDEX) as u32).checked_sub(1)
}

/// The list with this slot, or none, as the first one.
pub(super) fn with_first(list: u64, index: u32) -> u64 {
    let changes = (list >> CHANGES_SHIFT).wrapping_add(1) << CHANGES_SHIFT;
    changes | u64::from(index.wrapping_add(1))
}
