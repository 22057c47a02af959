//! The state word of [`RwSem`](super::RwSem).
//!
//! | bits (64) | bits (32) | name | meaning | set by | cleared by |
//! |---|---|---|---|---|---|
//! | 0 | 0 | `WRITER_LOCKED` | a writer holds the lock | the writer | the writer |
//! | 1 | 1 | `WAITERS` | the wait queue is not empty | the first waiter | the thread that takes out the last waiter |
//! | 2 | 2 | `HANDOFF` | no stealing: the next grant goes to the queue | any thread, with `WAITERS` in the same step | a grant, or the thread that takes out the last waiter |
//! | 3 | 3 | `WRITER_PHASE` | a writer heads the queue: readers may not steal | under the queue lock | under the queue lock |
//! | 4-7 | 4-7 | | reserved | | |
//! | 8-62 | 8-30 | count | readers in, plus readers that added themselves and will back out | | |
//! | 63 | 31 | `READFAIL` | the count's own top bit: it is full, no further reader stays | | |
//!
//! `WAITERS`, `HANDOFF` and `WRITER_PHASE` are cleared by and-not only, and only under the queue lock (rule 4).
//! `HANDOFF` and `WRITER_PHASE` are never set while `WAITERS` is clear (rule 6).
//!
//! What each combination means (L = `WRITER_LOCKED`, W = `WAITERS`, H = `HANDOFF`):
//!
//! | L | W | H | count | state |
//! |---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | free: anyone takes it on the fast path |
//! | 0 | 0 | 0 | n | read by n; readers join on the fast path |
//! | 1 | 0 | 0 | 0 or passing | written, nobody waits |
//! | 0 | 1 | 0 | 0 | free with waiters: a thread that may steal takes it, else the queue does |
//! | 0 | 1 | 0 | n | read by n with waiters |
//! | 1 | 1 | 0 | 0 or passing | written with waiters |
//! | any | 1 | 1 | any | closed: only the queue gets in, when those inside have left |
//!
//! # How many readers there can be
//!
//! There can be `READERS_LIMIT` readers: at that count `READFAIL` is set. A reader stays only if
//! there was room ([`Word::has_room`]) in the word that it found when it added itself. A reader
//! that was counted before (it waited, or was granted the lock) checks the word at some time after
//! that. A reader that finds no room takes its count back. So the word counts the readers that
//! stay, and at most one more for each thread that is on its way in: a thread adds itself once, and
//! a granter adds one only for a queued thread, which has taken its own count back. The word has
//! room for another `READERS_LIMIT` of these, and there are never so many threads. So the count
//! does not wrap, however many readers are forgotten.
//!
//! # Orderings
//!
//! Every step that ends in ownership is an Acquire, on every path (rule 3); every step that gives
//! ownership up is a Release. Readers leave with Release and the granter takes over with Acquire,
//! so all reads come before the next writer's section. Steps that only set or clear a flag are
//! Relaxed: the queue lock orders what they announce.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform};
use crate::system::all_zero;
use crate::wait::{Kind, WaitContext};

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(usize);

/// Some of the flags of a [`Word`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(usize);

/// One reader.
const READER: usize = 1 << READER_SHIFT;
const READER_SHIFT: u32 = 8;
const COUNT: usize = !(READER - 1);
/// The count is full.
const READFAIL: usize = 1 << (usize::BITS - 1);
/// As many readers stay, and as many again fit beside them, one for each thread that
/// is on its way in.
#[cfg(test)]
pub(crate) const READERS_LIMIT: usize = READFAIL >> READER_SHIFT;

// A thread needs at least a page of memory, so there are no more threads than pages.
const _: () = assert!(usize::MAX / 4096 < READFAIL >> READER_SHIFT);

const WRITER_LOCKED: usize = Flags::WRITER_LOCKED.0;

/// A reader that finds none of these may steal.
const READ_STEAL_BLOCKED: usize =
    WRITER_LOCKED | Flags::HANDOFF.0 | Flags::WRITER_PHASE.0 | READFAIL;
/// A reader that finds none of these may take the lock at once.
const READ_BLOCKED: usize = READ_STEAL_BLOCKED | Flags::WAITERS.0;

crate::system::word::flags!(pub(crate) Flags of Word);

impl Flags {
    /// A writer holds the lock.
    pub(crate) const WRITER_LOCKED: Self = Self(1 << 0);
    /// The wait queue is not empty.
    pub(crate) const WAITERS: Self = Self(1 << 1);
    /// No stealing: the next grant goes to the queue.
    pub(crate) const HANDOFF: Self = Self(1 << 2);
    /// A writer heads the queue: readers may not steal.
    pub(crate) const WRITER_PHASE: Self = Self(1 << 3);
    /// What goes when the queue is empty.
    pub(crate) const QUEUE: Self = Self::WAITERS.with(Self::HANDOFF).with(Self::WRITER_PHASE);
}

impl Word {
    /// Nobody holds the lock or waits for it.
    pub(crate) const FREE: Self = Self(0);
    /// A writer holds the lock, and nobody waits.
    pub(crate) const WRITTEN: Self = Self::FREE.with(Flags::WRITER_LOCKED);
    /// The lock is free with waiters.
    #[cfg(test)]
    pub(crate) const AWAITED: Self = Self::FREE.with(Flags::WAITERS);

    // ---- what it says ----

    /// How many readers the word counts, those passing through included.
    #[inline(always)]
    pub(crate) const fn readers(self) -> usize {
        self.0 >> READER_SHIFT
    }

    /// Whether one of these flags is set in one of the two words only.
    #[inline(always)]
    pub(crate) const fn differs(self, other: Self, flags: Flags) -> bool {
        (self.0 ^ other.0) & flags.0 != 0
    }

    /// Somebody is queued.
    #[inline(always)]
    pub(crate) const fn has_waiters(self) -> bool {
        self.has_any(Flags::WAITERS)
    }

    /// Only the queue gets in.
    #[inline(always)]
    pub(crate) const fn is_closed(self) -> bool {
        self.has_any(Flags::HANDOFF)
    }

    /// A writer holds the lock.
    #[inline(always)]
    pub(crate) const fn is_written(self) -> bool {
        self.has_any(Flags::WRITER_LOCKED)
    }

    /// Readers hold the lock, and a thread that may be one of them can be counted once more. The
    /// count may also be that of a reader passing through: then the last of the two to leave wakes
    /// waiters if that is due.
    pub(crate) const fn is_joinable(self) -> bool {
        !self.is_written() && self.has_room() && self.readers() > 0
    }

    /// A writer heads the queue: readers may not steal.
    #[inline(always)]
    pub(crate) const fn is_writer_phase(self) -> bool {
        self.has_any(Flags::WRITER_PHASE)
    }

    /// Nothing is in the way of a reader that comes.
    #[inline(always)]
    pub(crate) const fn is_open_to_readers(self) -> bool {
        self.0 & READ_BLOCKED == 0
    }

    /// Nothing but waiters is in the way of a reader that comes.
    #[inline(always)]
    pub(crate) const fn is_open_past_queue(self) -> bool {
        self.0 & READ_STEAL_BLOCKED == 0
    }

    /// One more reader may stay.
    #[inline(always)]
    pub(crate) const fn has_room(self) -> bool {
        self.0 & READFAIL == 0
    }

    /// Nobody holds the lock, as far as the word tells.
    #[inline(always)]
    pub(crate) const fn is_free(self) -> bool {
        self.0 & (WRITER_LOCKED | COUNT) == 0
    }

    /// A writer may steal: free, and nothing in the way but sleeping waiters.
    #[inline(always)]
    pub(crate) const fn is_write_stealable(self) -> bool {
        self.is_free() && !self.is_closed()
    }

    /// A reader may take the lock past the queue: nobody waits, or no readers are inside.
    #[inline(always)]
    pub(crate) const fn is_read_stealable(self) -> bool {
        self.is_open_past_queue() && (!self.has_waiters() || self.readers() == 0)
    }

    // ---- what it becomes ----

    /// The same with one more reader.
    #[inline(always)]
    pub(crate) const fn with_reader(self) -> Self {
        Self(self.0 + READER)
    }

    /// The same with one reader less.
    #[inline(always)]
    pub(crate) const fn without_reader(self) -> Self {
        Self(self.0 - READER)
    }

    /// The word after a thread of this kind has taken the lock.
    #[inline(always)]
    const fn taken(self, kind: Kind) -> Self {
        match kind {
            Kind::Reader => self.with_reader(),
            Kind::Writer => self.with(Flags::WRITER_LOCKED),
        }
    }

    /// The same with so many more readers.
    #[cfg(test)]
    pub(crate) const fn with_readers(self, count: usize) -> Self {
        Self(self.0 + count * READER)
    }
}

/// The state word, which threads change. The orderings have their reasons where they are asked
/// for.
pub(crate) struct AtomicWord<P: Platform>(P::AtomicUsize);

all_zero!(AtomicWord of [AtomicUsize]: [0], []);

crate::system::word::exchanges!(pub(crate) AtomicWord of Word on Platform);

impl<P: Platform> AtomicWord<P> {
    /// A reader counts itself in; returns the word before.
    #[inline(always)]
    pub(crate) fn enter(&self, order: Ordering) -> Word {
        Word(self.0.fetch_add(READER, order))
    }

    /// Counts `count` readers in.
    pub(crate) fn enter_readers(&self, count: usize, order: Ordering) {
        self.0.fetch_add(count * READER, order);
    }

    /// Takes the lock, as long as `may` allows it for the word, which was last seen as `seen`. Returns
    /// whether it took the lock.
    #[inline(always)]
    pub(crate) fn take_while(
        &self,
        mut seen: Word,
        kind: Kind,
        may: impl Fn(Word) -> bool,
    ) -> bool {
        while may(seen) {
            // Acquire: owns the lock on success (rule 3).
            let next = seen.taken(kind);
            match self.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// A reader counts itself out; returns the word before.
    #[inline(always)]
    pub(crate) fn leave(&self, order: Ordering) -> Word {
        Word(self.0.fetch_sub(READER, order))
    }

    /// The writer becomes a reader, in one step; returns the word before.
    pub(crate) fn downgrade(&self, order: Ordering) -> Word {
        // `WRITER_LOCKED` is the caller's own, so the subtraction takes off exactly that bit.
        Word(self.0.fetch_add(READER - WRITER_LOCKED, order))
    }

    /// Sets flags; returns the word before.
    #[inline(always)]
    pub(crate) fn set(&self, flags: Flags, order: Ordering) -> Word {
        Word(self.0.fetch_or(flags.0, order))
    }

    /// Clears flags; returns the word before.
    #[inline(always)]
    pub(crate) fn clear(&self, flags: Flags, order: Ordering) -> Word {
        Word(self.0.fetch_and(!flags.0, order))
    }

    /// Sets `HANDOFF` if anyone is queued, in the same step (rule 6); returns the word after it. Relaxed: the
    /// flag is no ownership.
    pub(crate) fn close(&self) -> Word {
        let mut seen = self.load(Ordering::Relaxed);
        while seen.has_waiters() && !seen.is_closed() {
            let closed = seen.with(Flags::HANDOFF);
            match self.compare_exchange_weak(seen, closed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return closed,
                Err(now) => seen = now,
            }
        }
        seen
    }

    /// Spins until the word is as `done` wants it; tells whether it was.
    #[inline(always)]
    pub(crate) fn spin(
        &self,
        bound_ns: u64,
        until: &WaitContext<'_, P>,
        done: impl Fn(Word) -> bool,
    ) -> bool {
        until.spin(&self.0, bound_ns, |word| done(Word(word)))
    }

    #[cfg(all(test, not(fairlock_loom)))]
    pub(crate) fn store(&self, word: Word) {
        self.0.store(word.0, Ordering::SeqCst);
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: Platform<AtomicUsize = loom::sync::atomic::AtomicUsize>> AtomicWord<P> {
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.0.with_mut(|_| ());
    }
}
