//! The memory of a word, as the slow path changes it. A reader/writer lock has one atomic of 64 bits ([`One`]); a mutex
//! has two of 32, so that an uncontended release can be a plain store ([`Two`](super::mutex::Two)).
//!
//! A thread becomes the writer of a lock in one of two steps. One that is not queued does it by [`take`](One::take), once of a free
//! word, and in [`take_while`](Words::take_while) for as long as the lock is open to the thread. The waiter that is next does it by
//! [`take_queued`](Words::take_queued), under the queue lock.

use core::sync::atomic::Ordering;

use super::slot::PooledPlatform;
use super::word::{Flags, Word};
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::Access;

/// The queue's half of a word, which says where those that wait are queued: what it takes to find the slot, and to give it
/// back. The orderings are those of [`word`](super::word).
pub(crate) trait Names: Send + Sync {
    type P: PooledPlatform;

    /// Words of several kinds have slots of one pool: what is added to the address of a word of this kind, for its slot, less than
    /// its alignment.
    const KIND: usize;

    /// Acquire: a name that is found may be followed.
    fn load(&self) -> Word;

    /// Under the queue lock of the slot of this name: the lock has that slot from here on, and waiters. Returns the
    /// word before; an error if the lock has a slot, or is visible.
    fn name(&self, name: u32) -> Result<Word, Word>;

    /// A holder, or under the queue lock of the slot of this name: the lock has no slot from here on. Not if it has
    /// waiters, or another slot.
    fn unname(&self, name: u32) -> bool;

    /// The child of a fork: the lock has no slot of the parent, with this name, from here on, but the one that is next, if
    /// that is not zero; and nobody waits. Not if it has another one already.
    fn forget_queue(&self, name: u32, next: u32) -> bool;

    /// Sets flags; returns the word before.
    fn set(&self, flags: Flags) -> Word;

    /// Clears flags; returns the word before.
    fn clear(&self, flags: Flags) -> Word;
}

/// What the slow path of a lock does to its word. The orderings are those of [`word`](super::word).
pub(crate) trait Words: Names {
    /// Whether the lock may be read.
    const HAS_READERS: bool;

    /// The lock is visible or unused, with this word: takes it in this way if that needs no waiting, or else makes it one
    /// that has slots. Returns whether it took the lock.
    fn enter_odd(&self, word: Word, access: Access) -> bool;

    /// The calling thread reads beside others; the word was `before`.
    #[inline(always)]
    fn reads_beside(&self, _before: Word) {}

    /// Takes the lock in this way past the queue, as long as `may` allows it for the word, which was last seen as `seen`.
    /// Returns the word before; as an error the word for which it may not.
    fn take_while(
        &self,
        seen: Word,
        access: Access,
        may: impl Fn(Word) -> bool,
    ) -> Result<Word, Word>;

    /// Under the queue lock: makes the word what `step` says, which takes the lock for a queued thread and may change
    /// flags; not if that says nothing. Returns the word before, if it did.
    fn take_queued(&self, step: impl Fn(Word) -> Option<Word>) -> Option<Word>;

    /// Sets `flags` of the queue if anybody is queued, in the same step; returns the word after it.
    fn flag_queue(&self, flags: Flags) -> Word;

    /// Spins until `done` accepts the word, for at most so long; returns whether it did. Of the queue's half the word may
    /// show nothing.
    fn spin_until(&self, bound_ns: u64, done: impl Fn(Word) -> bool) -> bool;

    /// Whether the release of the holder that is inside, as this word says, sees the flag `WAKE_NEXT`.
    fn is_seen(word: Word) -> bool;
}

/// What a reader adds to the word.
const READ: u64 = Word::FREE.taken(Access::Shared).bits();

/// The word of a reader/writer lock.
#[repr(transparent)]
pub(crate) struct One<P: Platform>(P::AtomicU64);

impl<P: Platform> One<P> {
    pub(super) fn new(word: Word) -> Self {
        Self(P::AtomicU64::new(word.bits()))
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self(ConstZero::ZERO)
    }

    pub(super) const fn of(word: P::AtomicU64) -> Self {
        Self(word)
    }

    /// As a program that copies a lock, or writes anything there.
    #[cfg(test)]
    pub(super) fn put(&self, word: Word) {
        self.0.store(word.bits(), Ordering::Release);
    }

    /// Acquire where it fails: the word found may have a name.
    #[inline(always)]
    pub(super) fn exchange(&self, word: Word, next: Word, order: Ordering) -> Result<(), Word> {
        let made = self.0.compare_exchange(word.bits(), next.bits(), order, Ordering::Acquire);
        made.map(|_| ()).map_err(Word::of)
    }
}

impl<P: PooledPlatform> One<P> {
    /// Makes the word what `step` says, as long as it says anything. Returns the word before, if it did; as an
    /// error the word for which it says nothing.
    #[inline(always)]
    pub(super) fn change(
        &self,
        order: Ordering,
        step: impl Fn(Word) -> Option<Word>,
    ) -> Result<Word, Word> {
        let mut word = self.load();
        while let Some(next) = step(word) {
            match self.0.compare_exchange_weak(word.bits(), next.bits(), order, Ordering::Acquire) {
                Ok(_) => return Ok(word),
                Err(now) => word = Word::of(now),
            }
        }
        Err(word)
    }

    /// Takes the lock in this way, if it has this word, for which it is open. An error has the word that it has.
    #[inline(always)]
    pub(super) fn take(&self, word: Word, access: Access) -> Result<(), Word> {
        // Acquire: owns the lock on success.
        self.exchange(word, word.taken(access), Ordering::Acquire)
    }

    /// A thread counts itself in; returns the word before.
    #[inline(always)]
    pub(super) fn enter(&self, access: Access, order: Ordering) -> Word {
        let share = Word::FREE.taken(access).bits();
        Word::of(self.0.fetch_add(share, order))
    }

    /// A holder, or a reader that may not stay, counts itself out; returns the word before.
    #[inline(always)]
    pub(super) fn leave(&self, access: Access) -> Word {
        let share = Word::FREE.taken(access).bits();
        // Release: what was done under the lock comes before what the next owner does. Acquire: the name that is found may be
        // followed.
        Word::of(self.0.fetch_sub(share, Ordering::AcqRel))
    }

    /// A holder becomes one of another kind, in one step; returns the word before.
    #[inline(always)]
    pub(super) fn convert(&self, from: Access, to: Access) -> Word {
        let change = Word::FREE.changed(from, to).bits();
        // Release: readers that are let in see what was written. Acquire: as in `leave`.
        Word::of(self.0.fetch_add(change, Ordering::AcqRel))
    }

    /// Under the queue lock of the slot of this name: the lock has that slot from here on. An error as for
    /// [`name`](Names::name).
    pub(super) fn keep(&self, name: u32) -> Result<Word, Word> {
        let is_free = |word: Word| word.name() == 0 && !word.is_odd();
        // Release: as in `name`.
        self.change(Ordering::AcqRel, |word| is_free(word).then(|| word.named(name)))
    }

    /// Counts so many readers out, one at least; returns the word before the last of them has left.
    pub(super) fn leave_readers(&self, count: usize) -> Word {
        let share = READ * count as u64;
        // As in `leave`.
        let before = self.0.fetch_sub(share, Ordering::AcqRel);
        Word::of(before - share + READ)
    }

    /// Counts so many readers in, which the caller answers for.
    pub(super) fn enter_readers(&self, count: usize) {
        let share = READ * count as u64;
        // Relaxed: the readers come after the caller by other means.
        self.0.fetch_add(share, Ordering::Relaxed);
    }
}

impl<P: PooledPlatform> Names for One<P> {
    type P = P;

    const KIND: usize = 1;

    #[inline(always)]
    fn load(&self) -> Word {
        Word::of(self.0.load(Ordering::Acquire))
    }

    fn name(&self, name: u32) -> Result<Word, Word> {
        let is_free = |word: Word| word.name() == 0 && !word.is_odd();
        // Release: the slot is as it should be for a thread that follows the name.
        self.change(Ordering::AcqRel, |word| {
            is_free(word).then(|| word.named(name).with(Flags::WAITERS))
        })
    }

    fn unname(&self, name: u32) -> bool {
        // Relaxed: a name is followed under the queue lock.
        self.change(Ordering::Relaxed, |word| {
            let is_due = word.name() == name && !word.has_waiters() && !word.is_draining();
            is_due.then(|| word.without_name())
        })
        .is_ok()
    }

    fn forget_queue(&self, name: u32, next: u32) -> bool {
        let forgotten = Flags::QUEUE.with(Flags::AWAKE_WRITER);
        // Release: as in `name`.
        self.change(Ordering::AcqRel, |word| {
            (word.name() == name).then(|| word.without_name().without(forgotten).named(next))
        })
        .is_ok()
    }

    #[inline(always)]
    fn set(&self, flags: Flags) -> Word {
        // Acquire: the word found may have a name.
        Word::of(self.0.fetch_or(flags.bits(), Ordering::Acquire))
    }

    #[inline(always)]
    fn clear(&self, flags: Flags) -> Word {
        // Relaxed: the flags are not ownership.
        Word::of(self.0.fetch_and(!flags.bits(), Ordering::Relaxed))
    }
}

impl<P: PooledPlatform> Words for One<P> {
    const HAS_READERS: bool = true;

    #[cold]
    fn enter_odd(&self, word: Word, access: Access) -> bool {
        if word.is_unused() {
            self.begin(word);
            return false;
        }
        self.enter_visible(word, access)
    }

    #[inline(always)]
    fn reads_beside(&self, before: Word) {
        if P::WATCHES_READERS {
            self.may_watch(before);
        }
    }

    #[inline(always)]
    fn take_while(
        &self,
        mut seen: Word,
        access: Access,
        may: impl Fn(Word) -> bool,
    ) -> Result<Word, Word> {
        while may(seen) {
            match self.take(seen, access) {
                Ok(()) => return Ok(seen),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    fn take_queued(&self, step: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        // Acquire: owns the lock on success.
        self.change(Ordering::Acquire, step).ok()
    }

    fn flag_queue(&self, flags: Flags) -> Word {
        // Relaxed: the flags are not ownership.
        let flagged = self.change(Ordering::Relaxed, |word| {
            (word.has_waiters() && word.with(flags) != word).then(|| word.with(flags))
        });
        flagged.map_or_else(|word| word, |before| before.with(flags))
    }

    #[inline(always)]
    fn spin_until(&self, bound_ns: u64, done: impl Fn(Word) -> bool) -> bool {
        P::spin_until(&self.0, bound_ns, |bits| done(Word::of(bits)))
    }

    #[inline(always)]
    fn is_seen(_: Word) -> bool {
        true
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: Platform<AtomicU64 = loom::sync::atomic::AtomicU64>> One<P> {
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.0.with_mut(|_| ());
    }
}
