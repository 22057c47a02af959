//! A full lock that thin locks have one after the other.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform};

/// A thread is about to make the lock thin: the slot can no longer be pinned.
const CLOSING: u32 = 1 << 31;
/// How whoever does that holds the lock.
const BY_WRITER: u32 = 1 << 30;
const BY_READER: u32 = 1 << 29;
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
    /// What the words of locks call the slot: see [`name`].
    pub(super) name: u32,
    pub(super) full: F,
}

impl<P: Platform, F> Slot<P, F> {
    pub(super) fn new(full: F, index: u32) -> Self {
        let [users, next] = [0, NONE].map(P::AtomicU32::new);
        Self { full, users, next, index, name: name(index) }
    }

    /// Pins the slot: it stays with the lock whose word names it *after* this. It is too late for
    /// that while it is just being taken from that lock.
    pub(super) fn pin(&self) -> Result<Pin<'_, P, F>, Closed<'_, P, F>> {
        // Acquire: a thread that comes after an earlier lock has left the slot finds that lock's
        // word as it was left, too.
        let before = self.users.fetch_add(1, Ordering::Acquire);
        let pin = Pin(self);
        if before & CLOSING == 0 { Ok(pin) } else { Err(Closed { by: Holder::of(before), pin }) }
    }

    /// Whether a thread has pinned the slot, or comes too late for that.
    pub(super) fn is_pinned(&self) -> bool {
        // Acquire: what those did that had comes before what is done to the slot next.
        self.users.load(Ordering::Acquire) != 0
    }

    /// Keeps threads from pinning the slot, if no other has.
    pub(super) fn close(&self, by: Holder) -> bool {
        // The thread that trims a lock has pinned the slot.
        let own = u32::from(by == Holder::Nobody);
        // A load first: threads that have pinned the slot are about to write the line again.
        // Acquire: what threads did that had pinned it comes before what is done to the slot next.
        // Release: who comes too late may make the lock thin, for others to find what was done.
        self.users.load(Ordering::Relaxed) == own
            && self
                .users
                .compare_exchange(own, own | by.flags(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Threads may pin the slot again: its lock's word names it no longer, or still does.
    pub(super) fn reopen(&self) {
        // Release: see `pin`.
        self.users.fetch_and(!(CLOSING | BY_WRITER | BY_READER), Ordering::Release);
    }
}

/// How the thread that closes a slot holds the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// It does not: it trims the lock, and has pinned the slot.
    Nobody,
    Reader,
    Writer,
}

impl Holder {
    fn flags(self) -> u32 {
        CLOSING
            | match self {
                Self::Nobody => 0,
                Self::Reader => BY_READER,
                Self::Writer => BY_WRITER,
            }
    }

    fn of(users: u32) -> Self {
        match users & (BY_READER | BY_WRITER) {
            0 => Self::Nobody,
            BY_READER => Self::Reader,
            _ => Self::Writer,
        }
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
        // Release: what the thread did comes before whatever is done to the slot next.
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}
