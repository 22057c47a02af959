//! The word of a thin reader/writer lock.
//!
//! | bits | thin | watched | visible | inflated | nascent |
//! |---|---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | 1: `INFLATED` | 0 |
//! | 1 | `WRITER`: a writer is inside | 0 | 0 | 0 | 0 |
//! | 2 | 0 | 0 | 0 | `STICKY`: stays inflated | 0 |
//! | 3 | 0 | 0 | 0 | 0 | 1: `NASCENT` |
//! | 4 | `UPGRADABLE`: one of the readers, counted, may become the writer | 0 | 0 | 0 | a policy: see `nascent_word` |
//! | 5 | 0 | 1: `WATCHED` | 0 | 0 | the same |
//! | 6 | 0 | 0 | 1: `VISIBLE` | 0 | the same |
//! | 7 | 0 | 0 | 0 | 0 | the same |
//! | 8-23 | how many readers are inside; full at `FULL` | how many readers are inside | how many readers are inside that are in no thread's record | name of the slot | the same |
//! | 24-63 | the same | since when nobody wrote | what the readers call the lock | 24-39: the same | the same |
//!
//! Zero is a free lock. A nascent lock follows another policy than the default one and was not used
//! yet: its first use inflates it for good, and so does [`ThinRwSem::set_events`] with any lock.
//! A watched lock is a thin one, but for whoever expects one exact word; any other than a reader takes the
//! mark off. The readers of a visible lock are in [`visible`](crate::thin::visible).
//!
//! [`ThinRwSem::set_events`]: super::ThinRwSem::set_events

use core::sync::atomic::Ordering;

use crate::platform::Atomic;
use crate::rwsem::READERS_LIMIT;
use crate::thin::inflate::{AtomicOf, Codec};
use crate::wait::Access;

/// A value of the word.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::thin) struct RwWord(pub(super) u64);

const INFLATED: u64 = 1 << 0;
const WRITER: u64 = 1 << 1;
const STICKY: u64 = 1 << 2;
pub(super) const NASCENT: u64 = 1 << 3;
const UPGRADABLE: u64 = 1 << 4;
const WATCHED: u64 = 1 << 5;
const VISIBLE: u64 = 1 << 6;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
/// The count of readers is full: no more stay.
const FULL: u64 = (READERS_LIMIT as u64) << READER_SHIFT;
/// The word alone does not say who is inside.
const ELSEWHERE: u64 = INFLATED | NASCENT | VISIBLE;
/// The readers of a watched or visible lock, which has a number above them.
const READERS_BESIDE: u64 = (1 << NUMBER_SHIFT) - READER;
const NUMBER_SHIFT: u32 = 24;
/// What the number of a watched or visible lock may be at most.
pub(super) const NUMBERS: u64 = u64::MAX >> NUMBER_SHIFT;

impl RwWord {
    /// The lock is thin, and nobody is inside.
    pub(in crate::thin) const FREE: Self = Self(0);
    /// One reader is inside.
    pub(super) const READ: Self = Self(READER);
    /// One upgradable reader is inside.
    pub(super) const UPGRADABLE: Self = Self(READER | UPGRADABLE);
    /// A writer is inside.
    pub(super) const WRITTEN: Self = Self(WRITER);

    // ---- what it says ----

    /// The lock was not used yet, and has a policy of its own.
    #[inline(always)]
    pub(super) fn is_nascent(self) -> bool {
        self.0 & NASCENT != 0
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

    /// Somebody is inside a thin lock.
    pub(super) fn is_held(self) -> bool {
        self.is_thin() && self.unwatched() != Self::FREE
    }

    /// A thin lock that nobody has written since it is watched.
    #[inline(always)]
    pub(super) fn is_watched(self) -> bool {
        self.0 & (ELSEWHERE | WATCHED) == WATCHED
    }

    /// Readers may be inside that are in the records of their threads.
    #[inline(always)]
    pub(super) fn is_visible(self) -> bool {
        self.0 & (INFLATED | NASCENT | VISIBLE) == VISIBLE
    }

    /// The number of a watched or visible lock.
    #[inline(always)]
    pub(super) fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }

    /// As much of this as there is room for in the word.
    pub(super) fn number_of(all: u64) -> u64 {
        all & NUMBERS
    }

    /// What the readers of a visible lock put into their threads' records: never zero, and the same
    /// for as long as the lock is visible.
    #[inline(always)]
    pub(super) fn shown(self) -> u64 {
        self.0 & !READERS_BESIDE
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

    /// How many readers the word of a thin or visible lock counts.
    #[inline(always)]
    pub(super) fn readers(self) -> usize {
        let has_number = self.0 & (WATCHED | VISIBLE) != 0;
        let counted = if has_number { self.0 & READERS_BESIDE } else { self.0 };
        (counted >> READER_SHIFT) as usize
    }

    /// One more reader of a watched or visible lock cannot be counted beside its number.
    #[inline(always)]
    pub(super) fn has_no_room(self) -> bool {
        self.0 & READERS_BESIDE == READERS_BESIDE
    }

    /// One more reader of a thin lock cannot be counted.
    #[inline(always)]
    pub(super) fn is_full(self) -> bool {
        self.is_thin() && self.unwatched().0 >= FULL
    }

    /// The lock is thin and not watched, and nothing is in a reader's way.
    #[inline(always)]
    pub(super) fn is_open_to_readers(self) -> bool {
        self.0 & (ELSEWHERE | WATCHED | WRITER) == 0 && self.0 < FULL
    }

    /// The lock is thin, and somebody inside is in the way.
    #[inline(always)]
    pub(super) fn is_taken(self, access: Access) -> bool {
        self.is_thin()
            && match access {
                Access::Exclusive => self.is_held(),
                Access::Shared => self.0 & WRITER != 0,
                Access::Upgradable => self.0 & (WRITER | UPGRADABLE) != 0,
            }
    }

    // ---- what it becomes ----

    /// The lock, which is thin and not watched, after a thread has come in. Of a visible one: after one more
    /// reader has been counted.
    #[inline(always)]
    pub(super) fn taken(self, access: Access) -> Self {
        Self(self.0 + share(access))
    }

    /// The thin lock after a thread has come in: watched no longer if that is no reader.
    pub(super) fn taken_if_watched(self, access: Access) -> Self {
        let stays = access == Access::Shared && !self.has_no_room();
        let before = if stays { self } else { self.unwatched() };
        before.taken(access)
    }

    /// The thin or visible lock after a thread has left that is counted.
    #[inline(always)]
    pub(super) fn left(self, access: Access) -> Self {
        Self(self.0 - share(access))
    }

    /// The thin lock after so many readers have left.
    pub(super) fn left_by(self, readers: usize) -> Self {
        Self(self.0 - Self::of_readers(readers).0)
    }

    /// None of the readers is upgradable.
    pub(super) fn without_upgradable(self) -> Self {
        Self(self.0 & !UPGRADABLE)
    }

    /// The thin lock, watched no longer.
    #[inline(always)]
    pub(super) fn unwatched(self) -> Self {
        if self.is_watched() { Self::of_readers(self.readers()) } else { self }
    }

    /// The thin lock, in which no writer is, watched with this number. `None` if it cannot be.
    pub(super) fn watched(self, number: u64) -> Option<Self> {
        self.numbered(WATCHED, number)
    }

    /// The thin lock, in which no writer is, visible with this number. `None` if it cannot be.
    pub(super) fn visible(self, number: u64) -> Option<Self> {
        self.unwatched().numbered(VISIBLE, number)
    }

    fn numbered(self, flag: u64, number: u64) -> Option<Self> {
        // Nothing but readers, of whom there is not the last one that has room.
        let fits = self.0 < READERS_BESIDE && self.0 % READER == 0;
        fits.then_some(Self(self.0 | flag | number << NUMBER_SHIFT))
    }

    /// A thin lock with so many readers.
    #[inline(always)]
    pub(super) fn of_readers(count: usize) -> Self {
        Self((count as u64) << READER_SHIFT)
    }

    /// An inflated lock that stays so.
    pub(super) fn sticky(self) -> Self {
        Self(self.0 | STICKY)
    }
}

impl Codec for RwWord {
    type Bits = u64;

    #[inline(always)]
    fn of(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn inflated(name: u32) -> Self {
        Self(INFLATED | u64::from(name) << READER_SHIFT)
    }

    #[inline(always)]
    fn is_inflated(self) -> bool {
        self.0 & INFLATED != 0
    }

    #[inline(always)]
    fn name(self) -> u32 {
        (self.0 >> READER_SHIFT) as u32
    }

    #[inline(always)]
    fn is_as(self, other: Self) -> bool {
        (self.0 ^ other.0) & !STICKY == 0
    }

    #[inline(always)]
    fn is_sticky(self) -> bool {
        self.0 & STICKY != 0
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

impl<A: Atomic<u64>> AtomicOf<RwWord, A> {
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
}
