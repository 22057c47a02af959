//! The state word of [`RwSem`](super::RwSem).
//!
//! | bits (64) | bits (32) | name | meaning | set by | cleared by |
//! |---|---|---|---|---|---|
//! | 0 | 0 | `WRITER_LOCKED` | a writer holds the lock | the writer, or its granter | the writer |
//! | 1 | 1 | `WAITERS` | the wait queue is not empty | the first waiter | whoever takes out the last one |
//! | 2 | 2 | `HANDOFF` | no stealing: the next grant goes to the queue | anyone, with `WAITERS` in the same step | a grant, or whoever takes out the last waiter |
//! | 3 | 3 | `WRITER_PHASE` | a writer heads the queue: readers may not steal | under the queue lock | under the queue lock |
//! | 4-7 | 4-7 | | reserved | | |
//! | 8-62 | 8-30 | count | readers in, plus readers that added themselves and will back out | | |
//! | 63 | 31 | `READFAIL` | the count's own top bit: it is full, no further reader stays | | |
//!
//! `WAITERS`, `HANDOFF` and `WRITER_PHASE` are cleared by and-not only, and only
//! under the queue lock (rule 4). `HANDOFF` and `WRITER_PHASE` are never set
//! while `WAITERS` is clear (rule 6).
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
//! | any | 1 | 1 | any | closed: the last one out grants the lock to the queue |
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

/// A writer holds the lock.
pub(crate) const WRITER_LOCKED: usize = 1 << 0;
/// The wait queue is not empty.
pub(crate) const WAITERS: usize = 1 << 1;
/// No stealing: the next grant goes to the queue.
pub(crate) const HANDOFF: usize = 1 << 2;
/// A writer heads the queue: readers may not steal.
pub(crate) const WRITER_PHASE: usize = 1 << 3;
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
pub(crate) const QUEUE_FLAGS: usize = WAITERS | HANDOFF | WRITER_PHASE;

/// How many readers the word counts, those passing through included.
#[inline(always)]
pub(crate) const fn readers(word: usize) -> usize {
    word >> READER_SHIFT
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

/// A writer may steal: free, and nothing in the way but sleeping waiters.
#[inline(always)]
pub(crate) const fn write_stealable(word: usize) -> bool {
    is_free(word) && word & HANDOFF == 0
}
