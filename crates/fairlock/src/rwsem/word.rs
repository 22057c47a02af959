//! The state word of [`RwSem`](super::RwSem).
//!
//! | bits (64) | bits (32) | name | meaning | set by | cleared by |
//! |---|---|---|---|---|---|
//! | 0 | 0 | `WRITER_LOCKED` | a writer holds the lock | the writer, or its granter | the writer |
//! | 1 | 1 | `WAITERS` | the wait queue is not empty | the first waiter | whoever takes out the last one |
//! | 2 | 2 | `HANDOFF` | no stealing: the next grant goes to the queue | anyone, with `WAITERS` in the same step | a grant, or whoever takes out the last waiter |
//! | 3 | 3 | `WRITER_PHASE` | a writer heads the queue: readers may not steal | under the queue lock | under the queue lock |
//! | 4 | 4 | `READERS_TURN` | tenure: readers may join readers inside past the queue | under the queue lock | under the queue lock |
//! | 5 | 5 | `WAKE_NEXT` | tenure: the waiter that is next sleeps; who leaves the lock free wakes it | that waiter, or who makes it next | whoever wakes it |
//! | 6 | 6 | `UPGRADABLE` | one of the readers, counted, may become the writer; with `WRITER_LOCKED`, it is about to, and waits, not counted, for those inside to leave | that reader | that reader |
//! | 7 | 7 | `SEALED` | with `WRITER_LOCKED`: that belongs to nobody (see `pooled`) | who keeps a lock in a pool | whoever may use it |
//! | 8-62 | 8-30 | count | readers in, plus readers that added themselves and will back out | | |
//! | 63 | 31 | `READFAIL` | the count's own top bit: it is full, no further reader stays | | |
//!
//! `WAITERS`, `HANDOFF`, `WRITER_PHASE` and `READERS_TURN` are cleared by and-not only, and
//! only under the queue lock (rule 4); `WAKE_NEXT` by and-not, and whoever clears it owes the
//! wake-up. None of the others is ever set while `WAITERS` is clear (rule 6).
//!
//! What each combination means (L = `WRITER_LOCKED`, W = `WAITERS`, H = `HANDOFF`):
//!
//! | L | W | H | count | state |
//! |---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | free: anyone takes it on the fast path |
//! | 0 | 0 | 0 | n | read by n; readers join on the fast path |
//! | 1 | 0 | 0 | 0 or passing | written, nobody waits |
//! | 0 | 1 | 0 | 0 | free with waiters: whoever may steal does, else the queue takes it |
//! | 0 | 1 | 0 | n | read by n with waiters |
//! | 1 | 1 | 0 | 0 or passing | written with waiters |
//! | any | 1 | 1 | any | closed: only the queue gets in, when those inside have left |
//!
//! `UPGRADABLE` may be set beside any of these with n readers, of which it says one may write. With L
//! it is being upgraded: n readers are inside beside a writer that is not in yet.
//!
//! # How many readers there can be
//!
//! [`MOST_READERS`], at which `READFAIL` is set. A reader stays only if there was room
//! ([`has_room`]) in the word that it found as it added itself, or, where it was counted
//! before (it waited, or was granted), in the word as it was at some time after that. Whoever
//! finds no room takes its count back. So beyond those that stay the word counts no
//! reader but one for each thread that is on its way in: each adds itself once, and who
//! grants to a queued thread adds that one, which has taken its own count back. For
//! those there is room for `MOST_READERS` once more, and there are never so many
//! threads: the count does not wrap, however many readers are forgotten.
//!
//! # Orderings
//!
//! Every step that ends in ownership is an Acquire, on success and by every path
//! (rule 3); every step that gives ownership up is a Release. Readers give up with
//! Release and the granter takes over with Acquire, so a writer sees what the readers
//! before it did not do. Steps that only set or clear a flag are Relaxed: the queue
//! lock orders what they announce.

use core::sync::atomic::Ordering;

use crate::platform::Atomic;
use crate::wait::Access;

/// A writer holds the lock.
pub(crate) const WRITER_LOCKED: usize = 1 << 0;
/// The wait queue is not empty.
pub(crate) const WAITERS: usize = 1 << 1;
/// No stealing: the next grant goes to the queue.
pub(crate) const HANDOFF: usize = 1 << 2;
/// A writer heads the queue: readers may not steal.
pub(crate) const WRITER_PHASE: usize = 1 << 3;
/// It is the readers' tenure: they join those inside past the queue.
pub(crate) const READERS_TURN: usize = 1 << 4;
/// The waiter that is next sleeps: whoever leaves the lock free wakes it.
pub(crate) const WAKE_NEXT: usize = 1 << 5;
/// One of the readers may become the writer; or, with `WRITER_LOCKED`, is about to.
pub(crate) const UPGRADABLE: usize = 1 << 6;
/// The lock is held, by nobody in particular.
#[cfg(any(feature = "std", fairlock_loom))]
pub(crate) const SEALED: usize = 1 << 7;
/// One reader.
pub(crate) const READER: usize = 1 << READER_SHIFT;
/// The count is full.
pub(crate) const READFAIL: usize = 1 << (usize::BITS - 1);
/// As many readers stay, and as many again fit beside them, one for each thread that
/// is on its way in.
pub(crate) const MOST_READERS: usize = READFAIL >> READER_SHIFT;

/// A thread needs memory of its own to run in: a page at least.
const MOST_THREADS: usize = usize::MAX / 4096;
const _: () = assert!(MOST_THREADS < MOST_READERS);

const READER_SHIFT: u32 = 8;
const COUNT: usize = !(READER - 1);

/// A reader that finds none of these has the lock.
pub(crate) const READ_BLOCKED: usize = WRITER_LOCKED | WAITERS | HANDOFF | WRITER_PHASE | READFAIL;
/// A reader that finds none of these may steal.
pub(crate) const READ_STEAL_BLOCKED: usize = READ_BLOCKED & !WAITERS;
/// What goes when the queue is empty.
pub(crate) const QUEUE_FLAGS: usize = WAITERS | HANDOFF | WRITER_PHASE | READERS_TURN | WAKE_NEXT;

/// Sets `flags` of the queue if anyone is queued, in the same step (rule 6); returns the word
/// after it. Relaxed: the flags are no ownership.
pub(crate) fn flag_queue(word: &impl Atomic<usize>, flags: usize) -> usize {
    let mut seen = word.load(Ordering::Relaxed);
    while seen & WAITERS != 0 && seen & flags != flags {
        let flagged = seen | flags;
        match word.compare_exchange_weak(seen, flagged, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return flagged,
            Err(now) => seen = now,
        }
    }
    seen
}

/// How many readers the word counts, those passing through included.
#[inline(always)]
pub(crate) const fn readers(word: usize) -> usize {
    word >> READER_SHIFT
}

/// Somebody is queued.
#[inline(always)]
pub(crate) const fn has_waiters(word: usize) -> bool {
    word & WAITERS != 0
}

/// Only the queue gets in.
#[inline(always)]
pub(crate) const fn is_closed(word: usize) -> bool {
    word & HANDOFF != 0
}

/// A writer holds the lock, or is about to: it waits for the readers that it was one of.
#[inline(always)]
pub(crate) const fn is_written(word: usize) -> bool {
    word & WRITER_LOCKED != 0
}

/// A writer heads the queue: readers may not steal.
#[inline(always)]
pub(crate) const fn is_writer_phase(word: usize) -> bool {
    word & WRITER_PHASE != 0
}

/// Under tenure, it is the readers' one.
#[inline(always)]
pub(crate) const fn is_readers_turn(word: usize) -> bool {
    word & READERS_TURN != 0
}

/// One of the readers may become the writer, or is about to.
#[inline(always)]
pub(crate) const fn is_upgradable(word: usize) -> bool {
    word & UPGRADABLE != 0
}

/// The lock is held, by nobody in particular.
#[cfg(any(feature = "std", fairlock_loom))]
#[inline(always)]
pub(crate) const fn is_sealed(word: usize) -> bool {
    word & SEALED != 0
}

/// Nothing is in the way of a reader that comes.
#[inline(always)]
pub(crate) const fn is_open_to_readers(word: usize) -> bool {
    word & READ_BLOCKED == 0
}

/// One more reader may stay.
#[inline(always)]
pub(crate) const fn has_room(word: usize) -> bool {
    word & READFAIL == 0
}

/// Nobody holds the lock, as far as the word tells.
#[inline(always)]
pub(crate) const fn is_free(word: usize) -> bool {
    word & (WRITER_LOCKED | COUNT) == 0
}

/// Under tenure, a reader may take the lock past the queue: nobody waits, or the lock is
/// open, and free or the readers'.
#[inline(always)]
pub(crate) const fn read_stealable(word: usize) -> bool {
    word & READ_STEAL_BLOCKED == 0
        && (word & (WAITERS | READERS_TURN) != WAITERS || readers(word) == 0)
}

/// Under tenure, an invited reader may join those inside.
#[inline(always)]
pub(crate) const fn may_join(word: usize) -> bool {
    word & (WRITER_LOCKED | HANDOFF) == 0 && (word & READERS_TURN != 0 || readers(word) > 0)
}

/// Under tenure, the waiter that is next may take the lock, closed or not.
#[inline(always)]
pub(crate) fn may_take_next(access: Access, word: usize) -> bool {
    match access {
        Access::Shared => word & WRITER_LOCKED == 0,
        Access::Upgradable => word & (WRITER_LOCKED | UPGRADABLE | READFAIL) == 0,
        Access::Exclusive => is_free(word),
    }
}

impl Access {
    /// The word when a thread has taken the lock, which was `word`.
    #[inline(always)]
    pub(crate) const fn taken(self, word: usize) -> usize {
        match self {
            Access::Shared => word + READER,
            Access::Upgradable => word + (READER | UPGRADABLE),
            Access::Exclusive => word | WRITER_LOCKED,
        }
    }
}

/// A reader is about to become the writer, and all others have left.
#[inline(always)]
pub(crate) const fn is_drained(word: usize) -> bool {
    word & (WRITER_LOCKED | UPGRADABLE | COUNT) == WRITER_LOCKED | UPGRADABLE
}

/// Under tenure, the lock is free and closed: kept for the waiter that is next.
#[inline(always)]
pub(crate) const fn is_reserved(word: usize) -> bool {
    is_free(word) && word & HANDOFF != 0
}

/// Under tenure, whoever leaves the lock free has somebody to wake.
#[inline(always)]
pub(crate) const fn has_next_to_wake(word: usize) -> bool {
    word & WAKE_NEXT != 0
}

/// A writer may steal: free, and nothing in the way but sleeping waiters.
#[inline(always)]
pub(crate) const fn write_stealable(word: usize) -> bool {
    is_free(word) && word & HANDOFF == 0
}
