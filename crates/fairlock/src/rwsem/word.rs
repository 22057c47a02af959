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
//! | 63 | 31 | `READFAIL` | the count overflowed: every reader takes the slow path | | |
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
//! Orderings: every step that ends in ownership is an Acquire, on success and
//! by every path (rule 3); every step that gives ownership up is a Release.
//! Readers give up with Release and the granter takes over with Acquire, so a
//! writer sees what the readers before it did not do. Steps that only set or
//! clear a flag are Relaxed: the queue lock orders what they announce.

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
/// The reader count overflowed.
pub(crate) const READFAIL: usize = 1 << (usize::BITS - 1);

const READER_SHIFT: u32 = 8;
const COUNT: usize = !(READER - 1) & !READFAIL;

/// A reader that finds none of these has the lock.
pub(crate) const READ_BLOCKED: usize = WRITER_LOCKED | WAITERS | HANDOFF | WRITER_PHASE | READFAIL;
/// A reader that finds none of these may steal.
pub(crate) const READ_STEAL_BLOCKED: usize = READ_BLOCKED & !WAITERS;
/// What goes when the queue is empty.
pub(crate) const QUEUE_FLAGS: usize = WAITERS | HANDOFF | WRITER_PHASE;

/// How many readers the word counts, those passing through included.
#[inline(always)]
pub(crate) const fn readers(word: usize) -> usize {
    (word & COUNT) >> READER_SHIFT
}

/// Nobody holds the lock, as far as the word tells.
#[inline(always)]
pub(crate) const fn is_free(word: usize) -> bool {
    word & (WRITER_LOCKED | COUNT | READFAIL) == 0
}

/// A writer may steal: free, and nothing in the way but sleeping waiters.
#[inline(always)]
pub(crate) const fn write_stealable(word: usize) -> bool {
    is_free(word) && word & HANDOFF == 0
}
