//! The state word of [`RwSem`](super::RwSem).
//!
//! | bits (64) | bits (32) | name | meaning | set by | cleared by |
//! |---|---|---|---|---|---|
//! | 0 | 0 | `WRITER_LOCKED` | a writer holds the lock | the writer, or its granter | the writer |
//! | 1 | 1 | `WAITERS` | the wait queue is not empty | the first waiter | whoever takes out the last one |
//! | 2 | 2 | `HANDOFF` | no stealing: the next grant goes to the queue | anyone, with `WAITERS` in the same step | a grant, or whoever takes out the last waiter |
//! | 4 | 4 | `READERS_TURN` | readers may join readers inside past the queue | under the queue lock | under the queue lock |
//! | 5 | 5 | `WAKE_NEXT` | the waiter that is next sleeps; whoever leaves the lock free wakes it | that waiter, or the thread that makes it next | whoever wakes it, or sees it awake |
//! | 6 | 6 | `UPGRADABLE` | one of the readers, counted, may become the writer; with `WRITER_LOCKED`, it is about to, and waits, not counted, for those inside to leave | that reader | that reader |
//! | 7 | 7 | `SEALED` | with `WRITER_LOCKED`: nobody holds the lock for writing, it is kept in a pool | whoever keeps the lock in a pool | whoever may use it |
//! | 8 | 8 | `AWAKE_WRITER` | a hint: a writer waits, awake, for the readers inside to leave; readers that come pause | that writer | whoever takes the lock for writing, that writer, or a reader that has paused in vain |
//! | 9-62 | 9-30 | count | readers in, plus readers that added themselves and will back out | | |
//! | 63 | 31 | `READFAIL` | the count's own top bit: it is full, no further reader stays | | |
//!
//! `WAITERS`, `HANDOFF` and `READERS_TURN` are cleared by and-not only, and only
//! under the queue lock (rule 4). `WAKE_NEXT` is cleared by and-not, too: by the thread that then
//! wakes the waiter that is next, or, under the queue lock, by a thread that sees that waiter
//! awake. None of the other flags is ever set while `WAITERS` is clear (rule 6).
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
//! `UPGRADABLE` may be set beside any of these with n readers: then one of them may write. With L
//! the lock is being upgraded: n readers are inside beside a writer that is not in yet.
//!
//! # How many readers there can be
//!
//! There can be [`READERS_LIMIT`] readers: at that count `READFAIL` is set. A reader stays only if
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

use core::fmt;
use core::sync::atomic::Ordering;

use crate::platform::{Atomic, Platform};
use crate::system::all_zero;
use crate::wait::Access;

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(usize);

/// Some of the flags of a [`Word`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(usize);

/// One reader.
const READER: usize = 1 << READER_SHIFT;
const READER_SHIFT: u32 = 9;
const COUNT: usize = !(READER - 1);
/// The count is full.
const READFAIL: usize = 1 << (usize::BITS - 1);
/// As many readers stay, and as many again fit beside them, one for each thread that
/// is on its way in.
pub(crate) const READERS_LIMIT: usize = READFAIL >> READER_SHIFT;

// A thread needs at least a page of memory, so there are no more threads than pages.
const _: () = assert!(usize::MAX / 4096 < READERS_LIMIT);

const WRITER_LOCKED: usize = Flags::WRITER_LOCKED.0;
const WAITERS: usize = Flags::WAITERS.0;
const HANDOFF: usize = Flags::HANDOFF.0;
const READERS_TURN: usize = Flags::READERS_TURN.0;
const UPGRADABLE: usize = Flags::UPGRADABLE.0;
const AWAKE_WRITER: usize = Flags::AWAKE_WRITER.0;

/// A reader that finds none of these may steal.
const READ_STEAL_BLOCKED: usize = WRITER_LOCKED | HANDOFF | READFAIL;
/// A reader that finds none of these may take the lock at once.
const READ_BLOCKED: usize = READ_STEAL_BLOCKED | WAITERS;
/// A reader that finds none of these has the lock.
const READ_AWAITED: usize = READ_BLOCKED | AWAKE_WRITER;

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// A writer holds the lock.
    pub(crate) const WRITER_LOCKED: Self = Self(1 << 0);
    /// The wait queue is not empty.
    pub(crate) const WAITERS: Self = Self(1 << 1);
    /// No stealing: the next grant goes to the queue.
    pub(crate) const HANDOFF: Self = Self(1 << 2);
    /// It is the readers' tenure: they join those inside past the queue.
    pub(crate) const READERS_TURN: Self = Self(1 << 4);
    /// The waiter that is next sleeps: whoever leaves the lock free wakes it.
    pub(crate) const WAKE_NEXT: Self = Self(1 << 5);
    /// One of the readers may become the writer; or, with `WRITER_LOCKED`, is about to.
    pub(crate) const UPGRADABLE: Self = Self(1 << 6);
    /// The lock is held, by nobody in particular.
    pub(crate) const SEALED: Self = Self(1 << 7);
    /// A writer waits, awake, for the readers inside to leave.
    pub(crate) const AWAKE_WRITER: Self = Self(1 << 8);
    /// What goes when the queue is empty.
    pub(crate) const QUEUE: Self =
        Self::WAITERS.with(Self::HANDOFF).with(Self::READERS_TURN).with(Self::WAKE_NEXT);

    #[inline(always)]
    pub(crate) const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These flags, or none.
    #[inline(always)]
    pub(crate) const fn only_if(self, set: bool) -> Self {
        if set { self } else { Self::NONE }
    }
}

impl Word {
    /// Nobody holds the lock or waits for it.
    pub(crate) const FREE: Self = Self(0);
    /// A writer holds the lock, and nobody waits.
    pub(crate) const WRITTEN: Self = Self::FREE.taken(Access::Exclusive);
    /// One upgradable reader holds the lock, and nobody waits.
    pub(crate) const UPGRADABLE: Self = Self::FREE.taken(Access::Upgradable);

    // ---- what it says ----

    /// How many readers the word counts, those passing through included.
    #[inline(always)]
    pub(crate) const fn readers(self) -> usize {
        self.0 >> READER_SHIFT
    }

    /// Whether one of these flags is set.
    #[inline(always)]
    pub(crate) const fn has_any(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
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

    /// A writer holds the lock, or is about to: a reader that upgrades waits for the others to
    /// leave.
    #[inline(always)]
    pub(crate) const fn is_written(self) -> bool {
        self.has_any(Flags::WRITER_LOCKED)
    }

    /// Somebody waits for the holders to leave: in the queue, or to upgrade, which `WRITER_LOCKED`
    /// tells.
    #[inline(always)]
    pub(crate) const fn is_waited_for(self) -> bool {
        self.0 & (WAITERS | WRITER_LOCKED) != 0
    }

    /// A writer is inside, not one that upgrades and waits for the readers to leave.
    #[inline(always)]
    pub(crate) const fn has_writer_inside(self) -> bool {
        self.0 & (WRITER_LOCKED | UPGRADABLE) == WRITER_LOCKED
    }

    /// Readers hold the lock, and a thread that may be one of them can be counted once more. The
    /// count may also be that of a reader passing through: then the last of the two to leave wakes
    /// waiters if that is due. A writer that upgrades is not in yet, and may be waiting for this
    /// thread.
    pub(crate) const fn is_joinable(self) -> bool {
        !self.has_writer_inside() && self.has_room() && self.readers() > 0
    }

    /// Several readers hold the lock, none of whom may become the writer, and nobody waits.
    pub(crate) const fn is_shared_only(self) -> bool {
        let others = WRITER_LOCKED | WAITERS | UPGRADABLE;
        self.readers() > 1 && self.0 & others == 0
    }

    /// Somebody holds the lock, and is no seal.
    #[inline(always)]
    pub(crate) const fn is_held(self) -> bool {
        if self.is_sealed() { self.readers() > 0 } else { !self.is_free() }
    }

    /// A writer holds the lock: no seal, and none that upgrades and waits for the readers to leave.
    #[inline(always)]
    pub(crate) const fn is_held_by_writer(self) -> bool {
        self.has_writer_inside() && !self.is_sealed()
    }

    /// It is the readers' tenure.
    #[inline(always)]
    pub(crate) const fn is_readers_turn(self) -> bool {
        self.has_any(Flags::READERS_TURN)
    }

    /// A writer waits, awake, for the readers inside to leave.
    #[inline(always)]
    pub(crate) const fn has_awake_writer(self) -> bool {
        self.has_any(Flags::AWAKE_WRITER)
    }

    /// One of the readers may become the writer, or is about to.
    #[inline(always)]
    pub(crate) const fn is_upgradable(self) -> bool {
        self.has_any(Flags::UPGRADABLE)
    }

    /// The lock is held, by nobody in particular.
    #[inline(always)]
    pub(crate) const fn is_sealed(self) -> bool {
        self.has_any(Flags::SEALED)
    }

    /// Nothing is in the way of a reader that comes.
    #[inline(always)]
    pub(crate) const fn is_open_to_readers(self) -> bool {
        self.0 & READ_BLOCKED == 0
    }

    /// As [`is_open_to_readers`](Self::is_open_to_readers), and no writer waits awake.
    #[inline(always)]
    pub(crate) const fn is_open_to_new_readers(self) -> bool {
        self.0 & READ_AWAITED == 0
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

    /// Under tenure, somebody waits, and nothing else is in the way of a thread that comes.
    #[inline(always)]
    pub(crate) const fn is_left_free(self) -> bool {
        self.0 & (READ_STEAL_BLOCKED | COUNT | WAITERS) == WAITERS
    }

    /// Under tenure, somebody waits, and nobody wants to be woken.
    #[inline(always)]
    pub(crate) const fn is_left_to_sleepers(self) -> bool {
        self.0 & (WAITERS | Flags::WAKE_NEXT.0) == WAITERS
    }

    /// Under tenure, any reader may take the lock past the queue: nobody waits, or the lock is
    /// open, and free or the readers'. (Some may do so at other times: see `Turns::may_read`.)
    #[inline(always)]
    pub(crate) const fn is_read_stealable(self) -> bool {
        self.is_open_past_queue()
            && (self.0 & (WAITERS | READERS_TURN) != WAITERS || self.readers() == 0)
    }

    /// Under tenure, an invited reader may join those inside.
    #[inline(always)]
    pub(crate) const fn may_join(self) -> bool {
        self.0 & (WRITER_LOCKED | HANDOFF) == 0 && (self.is_readers_turn() || self.readers() > 0)
    }

    /// The waiter that is next may take the lock in this way, closed or not.
    #[inline(always)]
    pub(crate) const fn may_take_next(self, access: Access) -> bool {
        match access {
            Access::Shared => !self.is_written(),
            Access::Upgradable => self.0 & (WRITER_LOCKED | UPGRADABLE | READFAIL) == 0,
            Access::Exclusive => self.is_free(),
        }
    }

    /// A reader is about to become the writer, and all others have left.
    #[inline(always)]
    pub(crate) const fn is_drained(self) -> bool {
        self.0 & (WRITER_LOCKED | UPGRADABLE | COUNT) == WRITER_LOCKED | UPGRADABLE
    }

    /// Under tenure, the lock is free and closed: kept for the waiter that is next.
    #[inline(always)]
    pub(crate) const fn is_reserved(self) -> bool {
        self.is_free() && self.is_closed()
    }

    /// Under tenure, whoever leaves the lock free has somebody to wake.
    #[inline(always)]
    pub(crate) const fn has_next_to_wake(self) -> bool {
        self.has_any(Flags::WAKE_NEXT)
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

    /// The word after a thread has taken the lock in this way.
    #[inline(always)]
    pub(crate) const fn taken(self, access: Access) -> Self {
        match access {
            Access::Shared => self.with_reader(),
            Access::Upgradable => Self(self.0 + (READER | UPGRADABLE)),
            Access::Exclusive => self.with(Flags::WRITER_LOCKED).without(Flags::AWAKE_WRITER),
        }
    }

    /// The word after the only reader has become the writer.
    #[inline(always)]
    pub(crate) const fn upgraded(self) -> Self {
        Self((self.0 | WRITER_LOCKED) & !(READER | UPGRADABLE))
    }

    #[inline(always)]
    pub(crate) const fn with(self, flags: Flags) -> Self {
        Self(self.0 | flags.0)
    }

    #[inline(always)]
    pub(crate) const fn without(self, flags: Flags) -> Self {
        Self(self.0 & !flags.0)
    }

    /// The same with so many more readers.
    #[cfg(test)]
    pub(crate) const fn with_readers(self, count: usize) -> Self {
        Self(self.0 + count * READER)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a holder adds to the word.
#[inline(always)]
const fn share(access: Access) -> usize {
    Word::FREE.taken(access).0
}

/// The state word, which threads change. The orderings have their reasons where they are asked
/// for.
pub(crate) struct AtomicWord<P: Platform>(P::AtomicUsize);

all_zero!(AtomicWord of [AtomicUsize]: [0], []);

impl<P: Platform> AtomicWord<P> {
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> Word {
        Word(self.0.load(order))
    }

    /// See [`Atomic::compare_exchange`].
    #[inline(always)]
    pub(crate) fn compare_exchange(
        &self,
        old: Word,
        new: Word,
        ok: Ordering,
        fail: Ordering,
    ) -> Result<Word, Word> {
        self.0.compare_exchange(old.0, new.0, ok, fail).map(Word).map_err(Word)
    }

    /// See [`Atomic::compare_exchange_weak`].
    #[inline(always)]
    pub(crate) fn compare_exchange_weak(
        &self,
        old: Word,
        new: Word,
        ok: Ordering,
        fail: Ordering,
    ) -> Result<Word, Word> {
        self.0.compare_exchange_weak(old.0, new.0, ok, fail).map(Word).map_err(Word)
    }

    /// A thread counts itself in; returns the word before.
    #[inline(always)]
    pub(crate) fn enter(&self, access: Access, order: Ordering) -> Word {
        Word(self.0.fetch_add(share(access), order))
    }

    /// Takes the lock in this way, as long as `may` allows it for the word, which was last seen as
    /// `seen`. Returns the word before, if it took the lock.
    #[inline(always)]
    pub(crate) fn take_while(
        &self,
        mut seen: Word,
        access: Access,
        may: impl Fn(Word) -> bool,
    ) -> Option<Word> {
        while may(seen) {
            // Acquire: owns the lock on success (rule 3).
            let next = seen.taken(access);
            match self.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(before) => return Some(before),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// A holder, or a reader that may not stay, counts itself out; returns the word before.
    #[inline(always)]
    pub(crate) fn leave(&self, access: Access, order: Ordering) -> Word {
        Word(self.0.fetch_sub(share(access), order))
    }

    /// A holder becomes one of another kind, in one step; returns the word before.
    #[inline(always)]
    pub(crate) fn change(&self, from: Access, to: Access, order: Ordering) -> Word {
        Word(self.0.fetch_add(share(to).wrapping_sub(share(from)), order))
    }

    /// Counts `count` readers in.
    pub(crate) fn enter_readers(&self, count: usize, order: Ordering) {
        self.0.fetch_add(count * READER, order);
    }

    /// Counts `count` readers out.
    pub(crate) fn leave_readers(&self, count: usize, order: Ordering) {
        self.0.fetch_sub(count * READER, order);
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

    /// Clears all but these flags, the count too.
    pub(crate) fn keep(&self, flags: Flags, order: Ordering) {
        self.0.fetch_and(flags.0, order);
    }

    /// Sets `flags` of the queue if anyone is queued, in the same step (rule 6); returns the word
    /// after it. Relaxed: the flags are no ownership.
    pub(crate) fn flag_queue(&self, flags: Flags) -> Word {
        let mut seen = self.load(Ordering::Relaxed);
        while seen.has_waiters() && seen.with(flags) != seen {
            let flagged = seen.with(flags);
            match self.compare_exchange_weak(seen, flagged, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return flagged,
                Err(now) => seen = now,
            }
        }
        seen
    }

    /// See [`System::spin_until`](crate::platform::System::spin_until).
    #[inline(always)]
    pub(crate) fn spin_until(&self, bound_ns: u64, done: impl Fn(Word) -> bool) -> bool {
        P::spin_until(&self.0, bound_ns, |word| done(Word(word)))
    }

    /// The identity of the lock, for threads that come back.
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    #[cfg(all(test, not(fairlock_loom)))]
    pub(crate) fn store(&self, word: Word) {
        self.0.store(word.0, Ordering::SeqCst);
    }
}

/// The seal: the lock is held for writing, but by no thread. It stops threads that come late to a
/// lock of a pool.
impl<P: Platform> AtomicWord<P> {
    /// Of a new lock, which nobody knows yet: without an operation on the word.
    pub(crate) fn make_sealed(&mut self) {
        *self = Self(P::AtomicUsize::new(Word::WRITTEN.with(Flags::SEALED).0));
    }

    /// The caller holds the lock for writing; from here on the lock is sealed, and the caller no
    /// longer holds it.
    pub(crate) fn seal(&self) {
        // Release: the caller's section comes before whatever is done to the lock next.
        self.set(Flags::SEALED, Ordering::Release);
    }

    /// The sealed lock becomes a writer's.
    pub(crate) fn adopt_sealed_writer(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.clear(Flags::SEALED, Ordering::Relaxed);
    }

    /// Unseals the lock, which then is free or held by the adopted readers. Nobody waits for it
    /// before this.
    pub(crate) fn unseal(&self) {
        let mut word = self.load(Ordering::Relaxed);
        while word.is_sealed() {
            let open = word.without(Flags::SEALED.with(Flags::WRITER_LOCKED));
            // Both bits in one step, so that a reader that comes again finds no writer. Release: as
            // where a writer leaves.
            match self.compare_exchange_weak(word, open, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// The only reader, upgradable or not, seals the lock, and is still counted; it is not upgradable
    /// any more. Not if anybody waits.
    ///
    /// # Safety
    /// The caller holds the lock in this way; for reading from then on if the result is true.
    pub(crate) unsafe fn seal_alone(&self, access: Access) -> bool {
        // Acquire: the sections of the readers before it, too, come before what follows (rule 3).
        // Release: the next upgradable reader may write what this one has read.
        self.seal_from(Word::FREE.taken(access), Word::FREE.with_reader(), Ordering::AcqRel)
    }

    /// Seals the lock if it is free.
    pub(crate) fn seal_free(&self) -> bool {
        // Acquire: the sections before come before what follows.
        self.seal_from(Word::FREE, Word::FREE, Ordering::Acquire)
    }

    fn seal_from(&self, from: Word, to: Word, order: Ordering) -> bool {
        let sealed = to.with(Flags::SEALED.with(Flags::WRITER_LOCKED));
        self.compare_exchange(from, sealed, order, Ordering::Relaxed).is_ok()
    }

    /// Whether the lock is sealed by the only reader, or, if that is not `counted`, by a thread that trims it.
    pub(crate) fn is_sealed(&self, counted: bool) -> bool {
        // Acquire: an earlier seal was taken off, and the slot opened again, before this one.
        let word = self.load(Ordering::Acquire);
        word.is_sealed() && (counted || word.readers() == 0)
    }

    /// One of the adopted readers is upgradable.
    pub(crate) fn adopt_upgradable(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.change(Access::Shared, Access::Upgradable, Ordering::Relaxed);
    }

    /// Takes `UPGRADABLE` off the readers adopted: the upgradable one is not this lock's, as in
    /// [`disown_readers`](Self::disown_readers).
    pub(crate) fn disown_upgradable(&self) {
        // Relaxed: as it was adopted.
        self.change(Access::Upgradable, Access::Shared, Ordering::Relaxed);
    }

    /// Takes back `count` adopted readers, which are not this lock's. Nobody may have entered the
    /// lock meanwhile.
    pub(crate) fn disown_readers(&self, count: usize) {
        // Relaxed: as they were adopted. By subtraction: a thread that is late may be counted, too.
        self.leave_readers(count, Ordering::Relaxed);
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: Platform<AtomicUsize = loom::sync::atomic::AtomicUsize>> AtomicWord<P> {
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.0.with_mut(|_| ());
    }
}
