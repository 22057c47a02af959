//! The words of thin locks, of their slots, and of the list of a pool: no other file knows their bits.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use core::time::Duration;

use crate::platform::{Atomic, ConstZero, Platform};
use crate::rwsem::{Percent, Policy, READERS_LIMIT, at_most};
use crate::wait::Access;

/// How the word of a lock tells that the lock is inflated, and which slot it has.
pub(super) trait Codec: Copy + 'static {
    type Bits;

    fn of(bits: Self::Bits) -> Self;
    fn bits(self) -> Self::Bits;

    /// Of an inflated lock that has the slot of this name.
    fn inflated(name: u32) -> Self;

    /// The lock has a full one.
    fn is_inflated(self) -> bool;

    /// The name of the slot of an inflated lock.
    fn name(self) -> u32;

    /// Two words of an inflated lock name the same slot.
    fn is_as(self, other: Self) -> bool;

    /// An inflated lock stays so.
    #[inline(always)]
    fn is_permanent(self) -> bool {
        false
    }
}

/// The word of a lock, which threads change.
pub(super) struct AtomicOf<W, A>(pub(super) A, PhantomData<W>);

impl<W, A> AtomicOf<W, A> {
    pub(super) const fn of(word: A) -> Self {
        Self(word, PhantomData)
    }

    pub(super) const fn new_const() -> Self
    where
        A: ConstZero,
    {
        Self::of(A::ZERO)
    }
}

impl<W: Codec, A: Atomic<W::Bits>> AtomicOf<W, A> {
    pub(super) fn new(word: W) -> Self {
        Self::of(A::new(word.bits()))
    }

    /// Acquire: a thread that finds a name may follow it.
    #[inline(always)]
    pub(super) fn load(&self) -> W {
        W::of(self.0.load(Ordering::Acquire))
    }

    /// Acquire where it fails: the word found may hold a name.
    #[inline(always)]
    pub(super) fn exchange(&self, word: W, next: W, order: Ordering) -> Result<(), W> {
        let made = self.0.compare_exchange(word.bits(), next.bits(), order, Ordering::Acquire);
        made.map(|_| ()).map_err(W::of)
    }
}

// ---- a reader/writer lock ----

/// A value of the word of a thin reader/writer lock:
///
/// | bits | thin | watched | visible | visible and full | inflated | uninit |
/// |---|---|---|---|---|---|---|
/// | 0 | 0 | 0 | 0 | 0 | 1: `INFLATED` | 0 |
/// | 1 | `WRITER`: a writer is inside | 0 | 0 | 0 | 0 | 0 |
/// | 2 | 0 | 0 | 0 | 0 | `PERMANENT`: stays inflated | 0 |
/// | 3 | 0 | 0 | 0 | 0 | 0 | 1: `UNINIT` |
/// | 4 | `UPGRADABLE`: one of the readers, counted, may become the writer | 0 | 0 | 0 | 0 | a policy: see [`RwWord::policy`] |
/// | 5 | 0 | 1: `WATCHED` | 0 | 0 | 0 | the same |
/// | 6 | 0 | 0 | 1: `VISIBLE` | 1: `VISIBLE` | 0 | the same |
/// | 7 | 0 | 0 | 0 | 1: `KEPT` | 0 | the same |
/// | 8-23 | how many readers are inside; full at `FULL` | how many readers are inside | how many readers are inside that are in no thread's record | index of the slot, which counts those | name of the slot | the same |
/// | 24-63 | the same | since when nobody wrote | what the readers call the lock | the same | 24-39: the same | the same |
///
/// Zero is a free lock. An uninitialised lock follows another policy than the default one and was not used
/// yet: its first use inflates it for good, and so does [`set_events`](super::ThinRwSem::set_events) with any lock.
/// A watched lock is a thin one, but for whoever expects one exact word; any other than a reader takes the
/// mark off. The readers of a visible lock are in [`visible`](crate::thin::visible).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RwWord(pub(super) u64);

const INFLATED: u64 = 1 << 0;
const WRITER: u64 = 1 << 1;
const PERMANENT: u64 = 1 << 2;
const UNINIT: u64 = 1 << 3;
const UPGRADABLE: u64 = 1 << 4;
const WATCHED: u64 = 1 << 5;
const VISIBLE: u64 = 1 << 6;
const KEPT: u64 = 1 << 7;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
/// The count of readers is full: no more stay.
const FULL: u64 = (READERS_LIMIT as u64) << READER_SHIFT;
/// The word alone does not say who is inside.
const ELSEWHERE: u64 = INFLATED | UNINIT | VISIBLE;
/// The readers of a watched or visible lock, which has a number above them.
const READERS_BESIDE: u64 = (1 << NUMBER_SHIFT) - READER;
const NUMBER_SHIFT: u32 = 24;
/// What the number of a watched or visible lock may be at most.
pub(super) const NUMBERS: u64 = u64::MAX >> NUMBER_SHIFT;

impl RwWord {
    /// The lock is thin, and nobody is inside.
    pub(super) const FREE: Self = Self(0);
    /// One reader is inside.
    pub(super) const READ: Self = Self(READER);
    /// One upgradable reader is inside.
    pub(super) const UPGRADABLE: Self = Self(READER | UPGRADABLE);
    /// A writer is inside.
    pub(super) const WRITTEN: Self = Self(WRITER);

    // ---- what it says ----

    /// The lock was not used yet, and has a policy of its own.
    #[inline(always)]
    pub(super) fn is_uninit(self) -> bool {
        self.0 & UNINIT != 0
    }

    /// The lock has its full one from its first use until it is dropped.
    #[inline(always)]
    pub(super) fn keeps_full(self) -> bool {
        self.0 & (UNINIT | PERMANENT) != 0
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
        self.0 & (INFLATED | UNINIT | VISIBLE) == VISIBLE
    }

    /// The index of the slot of a lock that is visible and full.
    pub(super) fn kept(self) -> Option<u32> {
        let keeps = self.is_visible() && self.0 & KEPT != 0;
        keeps.then_some(((self.0 & READERS_BESIDE) >> READER_SHIFT) as u32)
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

    /// How many readers the word of a thin or visible lock, which is not full, counts.
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

    /// None of the readers is upgradable.
    pub(super) fn without_upgradable(self) -> Self {
        Self(self.0 & !UPGRADABLE)
    }

    /// The thin lock, watched no longer.
    #[inline(always)]
    pub(super) fn unwatched(self) -> Self {
        if self.is_watched() { Self::of_readers(self.readers()) } else { self }
    }

    /// The thin lock, in which no writer is, watched with this number. `None` if it cannot be, or is something else.
    pub(super) fn watched(self, number: u64) -> Option<Self> {
        self.numbered(WATCHED, number)
    }

    /// The thin lock, in which no writer is, visible with this number. `None` if it cannot be.
    pub(super) fn visible(self, number: u64) -> Option<Self> {
        self.unwatched().numbered(VISIBLE, number)
    }

    /// The lock, whose slot has this index, visible and full with this number.
    pub(super) fn visible_and_full(index: u32, number: u64) -> Self {
        debug_assert!(u64::from(index) <= READERS_BESIDE >> READER_SHIFT);
        Self(VISIBLE | KEPT | u64::from(index) << READER_SHIFT | number << NUMBER_SHIFT)
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
    pub(super) fn permanent(self) -> Self {
        Self(self.0 | PERMANENT)
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
        (self.0 ^ other.0) & !PERMANENT == 0
    }

    #[inline(always)]
    fn is_permanent(self) -> bool {
        self.0 & PERMANENT != 0
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
    /// The lock, whose slot is pinned, stays inflated. False if it is visible just now.
    pub(super) fn stick(&self) -> bool {
        let word = self.load();
        // Relaxed: no ownership depends on it.
        word.is_inflated() && self.exchange(word, word.permanent(), Ordering::Relaxed).is_ok()
    }

    /// `count` more readers are inside the thin lock, which nobody else uses.
    pub(super) fn add_readers(&self, count: usize) {
        // Relaxed: there is nobody else.
        self.0.fetch_add(count.min(READERS_LIMIT) as u64 * READER, Ordering::Relaxed);
    }
}

// ---- one that was not used yet ----
//
// The policy of a lock that was not used yet, in its word, so that the lock can be a constant.
//
// | bits | meaning |
// |---|---|
// | 0-3 | [`UNINIT`]; the rest are 0 |
// | 4-11 | the budget in percent |
// | 12 | `priorities` |
// | 19-63 | the aim in nanoseconds |

const BUDGET_SHIFT: u32 = 4;
const PRIORITIES: u64 = 1 << 12;
const AIM_SHIFT: u32 = 19;
const LONGEST: u64 = u64::MAX >> AIM_SHIFT;

const fn encode(policy: Policy) -> u64 {
    let aim = at_most(policy.aim, LONGEST);
    let priorities = if policy.priorities { PRIORITIES } else { 0 };
    UNINIT | (policy.budget.get() as u64) << BUDGET_SHIFT | priorities | aim << AIM_SHIFT
}

impl RwWord {
    /// The word of a new lock that follows `policy`: zero for the default one.
    pub(super) const fn following(policy: Policy) -> Self {
        let word = encode(policy);
        Self(if word == encode(Policy::DEFAULT) { 0 } else { word })
    }

    /// The policy in the word of an uninitialised lock.
    pub(super) fn policy(self) -> Policy {
        Policy {
            aim: Duration::from_nanos(self.0 >> AIM_SHIFT),
            // Never zero where a policy was written down.
            budget: Percent::new((self.0 >> BUDGET_SHIFT) as u8).unwrap_or(Policy::DEFAULT.budget),
            priorities: self.0 & PRIORITIES != 0,
        }
    }
}

// ---- a mutex ----

/// The word of a mutex that says which full lock it has: zero if none, and the name of the slot
/// otherwise. (Who is inside the thin lock is in another word: see [`mutex`](super::mutex).)
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u32);

impl Place {
    /// The lock is thin.
    pub(super) const NONE: Self = Self(0);
}

impl Codec for Place {
    type Bits = u32;

    #[inline(always)]
    fn of(bits: u32) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn inflated(name: u32) -> Self {
        Self(name)
    }

    #[inline(always)]
    fn is_inflated(self) -> bool {
        self != Self::NONE
    }

    #[inline(always)]
    fn name(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn is_as(self, other: Self) -> bool {
        self == other
    }
}

// ---- a slot ----

const BY_READER: u32 = 1 << 29;
const BY_WRITER: u32 = 1 << 30;
const CLOSING: u32 = 1 << 31;
const FLAGS: u32 = CLOSING | BY_WRITER | BY_READER;

/// How the thread that closes a slot holds the lock. `None`: it does not, as it trims the lock, and
/// has pinned the slot.
pub(super) type Holder = Option<Access>;

/// The word by which threads keep a slot with its lock:
///
/// | bits | meaning |
/// |---|---|
/// | 0-28 | how many threads have pinned the slot, or come too late for that |
/// | 29 | `BY_READER`: the thread that closes the slot holds the lock for reading |
/// | 30 | `BY_WRITER`: it does so for writing |
/// | 31 | `CLOSING`: a thread is about to make the lock thin, and the slot cannot be pinned |
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

    /// As [`any`](Self::any), for a thread that has changed the word of the lock: whoever pins the slot later
    /// finds that word changed.
    pub(super) fn any_before(&self) -> bool {
        // A change of the word, though of nothing: the others add to it, and come before or after this.
        // Release: a thread that comes later acquires it (`add`).
        self.0.fetch_or(0, Ordering::AcqRel) != 0
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

    /// How many are counted, and who closes the slot; for testers.
    #[cfg(feature = "std")]
    pub(super) fn now(&self) -> (u32, Option<Holder>) {
        // Relaxed: between two steps.
        let word = self.0.load(Ordering::Relaxed);
        let by = match word & FLAGS {
            0 => None,
            CLOSING => Some(None),
            flags if flags & BY_READER != 0 => Some(Some(Access::Shared)),
            _ => Some(Some(Access::Exclusive)),
        };
        (word & !FLAGS, by)
    }

    /// Threads may pin the slot again: its lock's word names it no longer, or still does.
    pub(super) fn reopen(&self) {
        // Release: see `add`.
        self.0.fetch_and(!FLAGS, Ordering::Release);
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_policy_comes_back_as_it_was(
            aim in 0..LONGEST,
            budget in 1..=100_u8,
            priorities: bool,
        ) {
            let (aim, budget) = (Duration::from_nanos(aim), Percent::new(budget).unwrap());
            let made = Policy { aim, budget, priorities };
            prop_assert_eq!(RwWord(encode(made)).policy(), made);
            prop_assert_eq!(RwWord::following(made) == RwWord::FREE, made == Policy::DEFAULT);
        }
    }

    #[test]
    fn a_very_long_aim_is_shortened_and_stays_one() {
        let made = Policy { aim: Duration::MAX, ..Policy::DEFAULT };
        let kept = RwWord::following(made).policy();
        assert!(kept.aim > Duration::from_secs(9 * 3_600));
    }

    #[test]
    fn a_visible_lock_has_room_for_another_reader_until_its_count_is_full() {
        let mut word = RwWord::FREE.visible(1).unwrap();
        let mut readers = 0;
        while !word.has_no_room() {
            word = word.taken(Access::Shared);
            readers += 1;
            assert_eq!((word.readers(), word.number()), (readers, 1));
        }
        assert!(readers > 1);
    }
}
