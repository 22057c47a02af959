//! The word of a thin reader/writer lock.
//!
//! | bits | thin | inflated | nascent |
//! |---|---|---|---|
//! | 0 | 0 | 1: `INFLATED` | 0 |
//! | 1 | `WRITER`: a writer is inside | 0 | 0 |
//! | 2 | 0 | `STICKY`: stays inflated | 0 |
//! | 3 | 0 | 0 | 1: `NASCENT` |
//! | 4 | `UPGRADABLE`: one of the readers, counted, may become the writer | 0 | a policy: see [`nascent_word`] |
//! | 5-7 | 0 | 0 | the same |
//! | 8-63 | how many readers are inside; full at `FULL` | 8-39: name of the slot | the same |
//!
//! Zero is a free lock. A nascent lock follows another policy than the default one and was not used
//! yet: its first use inflates it for good, and so does [`ThinRwSem::set_events`] with any lock.
//!
//! [`ThinRwSem::set_events`]: super::ThinRwSem::set_events

use core::sync::atomic::{AtomicU64, Ordering};

use super::nascent_word;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::rwsem::{Policy, READERS_LIMIT};
use crate::wait::Access;

/// A value of the word.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::thin) struct RwWord(u64);

const INFLATED: u64 = 1 << 0;
const WRITER: u64 = 1 << 1;
const STICKY: u64 = 1 << 2;
pub(super) const NASCENT: u64 = 1 << 3;
const UPGRADABLE: u64 = 1 << 4;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
/// The count of readers is full: no more stay.
const FULL: u64 = (READERS_LIMIT as u64) << READER_SHIFT;
/// The word alone does not say who is inside.
const ELSEWHERE: u64 = INFLATED | NASCENT;

impl RwWord {
    /// The lock is thin, and nobody is inside.
    pub(in crate::thin) const FREE: Self = Self(0);
    /// One reader is inside.
    pub(super) const READ: Self = Self(READER);
    /// One upgradable reader is inside.
    pub(super) const UPGRADABLE: Self = Self(READER | UPGRADABLE);
    /// A writer is inside.
    pub(super) const WRITTEN: Self = Self(WRITER);

    /// Of a new lock that follows `policy`.
    pub(super) const fn of(policy: Policy) -> Self {
        Self(nascent_word::word(policy))
    }

    /// Of an inflated lock that has the slot of this name.
    #[inline(always)]
    pub(super) fn inflated(name: u32) -> Self {
        Self(INFLATED | u64::from(name) << READER_SHIFT)
    }

    // ---- what it says ----

    /// The lock has a full one.
    #[inline(always)]
    pub(super) fn is_inflated(self) -> bool {
        self.0 & INFLATED != 0
    }

    /// The name of the slot of an inflated lock.
    #[inline(always)]
    pub(super) fn name(self) -> u32 {
        (self.0 >> READER_SHIFT) as u32
    }

    /// The same but for whether the lock stays inflated.
    #[inline(always)]
    pub(super) fn is_as(self, other: Self) -> bool {
        (self.0 ^ other.0) & !STICKY == 0
    }

    /// An inflated lock stays so.
    #[inline(always)]
    pub(super) fn is_sticky(self) -> bool {
        self.0 & STICKY != 0
    }

    /// The lock was not used yet, and has a policy of its own.
    #[inline(always)]
    pub(super) fn is_nascent(self) -> bool {
        self.0 & NASCENT != 0
    }

    /// The policy of a nascent lock.
    pub(super) fn policy(self) -> Policy {
        nascent_word::policy(self.0)
    }

    /// The lock has its full one from its first use until it is dropped.
    #[inline(always)]
    pub(super) fn keeps_full(self) -> bool {
        self.0 & (NASCENT | STICKY) != 0
    }

    /// The word alone says who is inside.
    #[inline(always)]
    pub(super) fn is_thin(self) -> bool {
        self.0 & ELSEWHERE == 0
    }

    /// A writer is inside a thin lock.
    #[inline(always)]
    pub(super) fn is_written(self) -> bool {
        self.0 & WRITER != 0
    }

    /// One of the readers of a thin lock may become the writer.
    #[inline(always)]
    pub(super) fn is_upgradable(self) -> bool {
        self.0 & UPGRADABLE != 0
    }

    /// How many readers are inside a thin lock.
    #[inline(always)]
    pub(super) fn readers(self) -> usize {
        (self.0 >> READER_SHIFT) as usize
    }

    /// One more reader of a thin lock cannot be counted.
    #[inline(always)]
    pub(super) fn is_full(self) -> bool {
        self.0 >= FULL
    }

    /// The lock is thin, and nothing is in a reader's way.
    #[inline(always)]
    pub(super) fn is_open_to_readers(self) -> bool {
        self.0 & (ELSEWHERE | WRITER) == 0 && self.0 < FULL
    }

    /// The lock is thin, and somebody inside is in the way.
    #[inline(always)]
    pub(super) fn is_taken(self, access: Access) -> bool {
        self.is_thin()
            && match access {
                Access::Exclusive => self != Self::FREE,
                Access::Shared => self.0 & WRITER != 0,
                Access::Upgradable => self.0 & (WRITER | UPGRADABLE) != 0,
            }
    }

    // ---- what it becomes ----

    /// The thin lock after a thread has come in.
    #[inline(always)]
    pub(super) fn taken(self, access: Access) -> Self {
        Self(self.0 + share(access))
    }

    /// The thin lock after a thread has left.
    #[inline(always)]
    pub(super) fn left(self, access: Access) -> Self {
        // Wrapping: some expect a word and have not seen it.
        Self(self.0.wrapping_sub(share(access)))
    }

    /// None of the readers is upgradable.
    pub(super) fn without_upgradable(self) -> Self {
        Self(self.0 & !UPGRADABLE)
    }

    /// An inflated lock that stays so.
    pub(super) fn sticky(self) -> Self {
        Self(self.0 | STICKY)
    }
}

/// What a holder adds to the word of a thin lock.
#[inline(always)]
const fn share(access: Access) -> u64 {
    match access {
        Access::Shared => RwWord::READ.0,
        Access::Upgradable => RwWord::UPGRADABLE.0,
        Access::Exclusive => RwWord::WRITTEN.0,
    }
}

/// The word, which threads change.
pub(in crate::thin) struct AtomicRwWord<P: Platform>(P::AtomicU64);

impl<P: Platform> AtomicRwWord<P> {
    pub(super) fn new(word: RwWord) -> Self {
        Self(P::AtomicU64::new(word.0))
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self(ConstZero::ZERO)
    }

    pub(super) const fn of(policy: Policy) -> Self
    where
        P: Platform<AtomicU64 = AtomicU64>,
    {
        Self(AtomicU64::new(RwWord::of(policy).0))
    }

    /// Acquire: a thread that finds a name may follow it.
    #[inline(always)]
    pub(in crate::thin) fn load(&self) -> RwWord {
        RwWord(self.0.load(Ordering::Acquire))
    }

    /// Acquire where it fails: the word found may hold a name.
    #[inline(always)]
    pub(super) fn exchange(
        &self,
        word: RwWord,
        next: RwWord,
        order: Ordering,
    ) -> Result<(), RwWord> {
        self.0
            .compare_exchange(word.0, next.0, order, Ordering::Acquire)
            .map(|_| ())
            .map_err(RwWord)
    }

    /// The lock, which is inflated, and whose slot is pinned, stays so.
    pub(super) fn stick(&self) {
        // Relaxed: no ownership depends on it.
        self.0.fetch_or(STICKY, Ordering::Relaxed);
    }

    /// `count` more readers are inside the thin lock, which nobody else uses.
    pub(super) fn add_readers(&self, count: usize) {
        // Relaxed: there is nobody else.
        self.0.fetch_add(count.min(READERS_LIMIT) as u64 * READER, Ordering::Relaxed);
    }

    /// See [`System::spin_until`](crate::platform::System::spin_until).
    pub(super) fn spin_until(&self, bound_ns: u64, done: impl Fn(RwWord) -> bool) {
        P::spin_until(&self.0, bound_ns, |word| done(RwWord(word)));
    }
}
