//! The word of a lock, which is the whole truth about it: who is inside, whether it is closed, whose turn it is, who
//! is to be woken, and, while threads wait, which [slot](super::slot) has the queue.
//!
//! | bits | name | meaning | set by | cleared by |
//! |---|---|---|---|---|
//! | 0 | `WRITER` | a writer is inside; with `UPGRADABLE` an upgradable reader is about to be, and waits, not counted, for the readers to leave | that writer | that writer |
//! | 1 | `UPGRADABLE` | one of the readers, counted, may become the writer | that reader | that reader |
//! | 2 | `WAKE_NEXT` | the waiter that is next sleeps: the thread that leaves the lock free wakes it | that waiter, or the thread that makes it next | the thread that wakes it, under the queue lock |
//! | 3 | `AWAKE_WRITER` | a hint: a writer waits, awake, for the readers inside to leave; arriving readers pause | that writer | a thread that takes the lock for writing, that writer, or a reader that has paused for long enough |
//! | 4 | `VISIBLE` | readers may be inside that are in the records of their threads: see [`visible`](super::visible) | a reader inside | a thread that revokes the name |
//! | 5-7 | `WATCH` | not zero: nobody has written the lock since a reader set it | a reader inside | a thread that takes the lock for writing |
//! | 8-31 | count | readers inside, plus readers that added themselves and will back out; bit 31 says that there is no room | | |
//! | 32 | `WAITERS` | the queue is not empty | the first waiter | the thread that takes out the last one |
//! | 33 | `CLOSED` | no stealing: the waiter that is next gets the lock when those inside have left | any thread, with `WAITERS` in the same step | that waiter, or the thread that takes out the last one |
//! | 34 | `READERS_TURN` | it is the readers' tenure: readers join those inside past the queue | under the queue lock | under the queue lock |
//! | 35 | `KNOWN` | of a mutex: the holder knows that somebody may wait, and releases by a read-modify-write | a holder | a later holder, if nobody waits; and with the name |
//! | 36-63 | name | the slot that has the queue; zero: the lock has none | under that slot's queue lock | a holder, under that slot's queue lock, if nobody waits |
//!
//! A visible lock has a number that no lock had before in bits 5-7 and 32-63, and its count is higher by [`HELD`].
//! `WRITER` with `VISIBLE` is a lock that was not used yet and has a [policy](Word::of_policy) of its own.
//!
//! `WAITERS`, `CLOSED` and `READERS_TURN` are cleared by and-not only, under the queue lock. None of them is set
//! while `WAITERS` is clear.
//!
//! | writer | W | C | count | state |
//! |---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | free: any thread takes it |
//! | 0 | 0 | 0 | n | read by n; readers join |
//! | 1 | 0 | 0 | 0 or passing | written, nobody waits |
//! | 0 | 1 | 0 | 0 | free with waiters: a running thread takes it, or the waiter that is next |
//! | 0 | 1 | 0 | n | read by n with waiters |
//! | 1 | 1 | 0 | 0 or passing | written with waiters |
//! | any | 1 | 1 | any | closed: only the queue gets in, when those inside have left |
//!
//! # How many readers there can be
//!
//! At [`READERS_LIMIT`] readers bit 31 is set. A reader stays only if there was room in the word that it found when
//! it added itself; otherwise it takes its count back. So the word counts the readers that stay, and at most one
//! more for each thread that is on its way in. There is room for another `READERS_LIMIT` of those, more than
//! there can be threads. So the count does not wrap, however many readers are forgotten.
//!
//! # Orderings
//!
//! Every step that ends in ownership is an Acquire, on every path; every step that gives ownership up is a Release.
//! Readers leave with Release and the next writer takes over with Acquire, so all reads come before its section.
//! Steps that only set or clear a flag are Relaxed: the queue lock orders what they announce.

use core::time::Duration;

use super::policy::{Percent, Policy};
use crate::wait::Access;

/// A value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// Some of the flags of a [`Word`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u64);

const WRITER: u64 = 1 << 0;
const UPGRADABLE: u64 = 1 << 1;
const VISIBLE: u64 = 1 << 4;
const WATCH_SHIFT: u32 = 5;
const WATCH: u64 = 7 << WATCH_SHIFT;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
const COUNT: u64 = (1 << u32::BITS) - READER;
/// The count is full.
const FULL: u64 = 1 << (u32::BITS - 1);
const NAME_SHIFT: u32 = 36;
const NAME: u64 = !0 << NAME_SHIFT;
const INSIDE: u64 = WRITER | COUNT;
const UNUSED: u64 = WRITER | VISIBLE;

/// As many readers stay, and as many again fit beside them, one for each thread that is on its way in.
pub(crate) const READERS_LIMIT: usize = (FULL >> READER_SHIFT) as usize;

/// By how much the count of a visible lock is higher: more than there are threads, each of which shows it once.
pub(super) const HELD: usize = READERS_LIMIT / 2;

/// How many numbers there are for visible locks.
pub(super) const NUMBERS: u64 = 1 << (u32::BITS + 3);

crate::system::word::flags!(pub(crate) Flags of Word);

impl Flags {
    /// The waiter that is next sleeps: the thread that leaves the lock free wakes it.
    pub(crate) const WAKE_NEXT: Self = Self(1 << 2);
    /// A writer waits, awake, for the readers inside to leave.
    pub(crate) const AWAKE_WRITER: Self = Self(1 << 3);
    /// The queue is not empty.
    pub(crate) const WAITERS: Self = Self(1 << 32);
    /// No stealing: the waiter that is next gets the lock.
    pub(crate) const CLOSED: Self = Self(1 << 33);
    /// It is the readers' tenure: they join those inside past the queue.
    pub(crate) const READERS_TURN: Self = Self(1 << 34);
    /// The holder of a mutex releases it by a read-modify-write.
    pub(crate) const KNOWN: Self = Self(1 << 35);
    /// What goes when the queue is empty.
    pub(crate) const QUEUE: Self =
        Self::WAITERS.with(Self::CLOSED).with(Self::READERS_TURN).with(Self::WAKE_NEXT);
    /// What is never set without a name.
    pub(crate) const OF_SLOT: Self =
        Self::WAITERS.with(Self::CLOSED).with(Self::READERS_TURN).with(Self::KNOWN);

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// Those of them that are in the lower half of a word.
    #[inline(always)]
    pub(super) const fn held(self) -> u32 {
        self.0 as u32
    }

    /// Those in the upper half.
    #[inline(always)]
    pub(crate) const fn queue(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }
}

/// Whether somebody is inside a mutex, as the lower half of its word says.
#[inline(always)]
pub(super) const fn is_held(half: u32) -> bool {
    half as u64 & WRITER != 0
}

// ---- in which ways a lock is taken ----

/// One way to take a lock, by what of the word is in the way.
struct Form {
    /// What a holder adds to the word.
    share: u64,
    /// What it takes off as it comes in.
    clears: u64,
    /// What is in the way of a thread past the queue.
    past_queue: u64,
    /// What is in the way of the waiter that is next.
    next: u64,
}

/// Of shared, upgradable and exclusive access, in this order.
const FORMS: [Form; 3] = {
    let closed = Flags::CLOSED.0;
    [
        Form {
            share: READER,
            clears: 0,
            past_queue: WRITER | VISIBLE | FULL | closed,
            next: WRITER | FULL,
        },
        Form {
            share: READER | UPGRADABLE,
            clears: 0,
            past_queue: WRITER | VISIBLE | UPGRADABLE | FULL | closed,
            next: WRITER | UPGRADABLE | FULL,
        },
        Form {
            share: WRITER,
            clears: Flags::AWAKE_WRITER.0 | WATCH,
            past_queue: INSIDE | closed,
            next: INSIDE,
        },
    ]
};

#[inline(always)]
const fn form(access: Access) -> &'static Form {
    &FORMS[access as usize]
}

impl Word {
    /// Nobody holds the lock or waits for it, and it has no slot.
    pub(crate) const FREE: Self = Self(0);

    #[inline(always)]
    pub(super) const fn of(bits: u64) -> Self {
        Self(bits)
    }

    /// Of a word in two halves.
    #[inline(always)]
    pub(crate) const fn of_halves(held: u32, queue: u32) -> Self {
        Self(held as u64 | (queue as u64) << u32::BITS)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The half that says who is inside.
    #[inline(always)]
    pub(super) const fn held(self) -> u32 {
        self.0 as u32
    }

    /// The half that is the queue's.
    #[inline(always)]
    pub(crate) const fn queue(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    // ---- what it says ----

    /// How many readers the word counts, those passing through included.
    #[inline(always)]
    pub(crate) const fn readers(self) -> usize {
        ((self.0 & COUNT) >> READER_SHIFT) as usize
    }

    /// Somebody is queued.
    #[inline(always)]
    pub(crate) const fn has_waiters(self) -> bool {
        self.0 & (VISIBLE | Flags::WAITERS.0) == Flags::WAITERS.0
    }

    /// Only the queue gets in.
    #[inline(always)]
    pub(crate) const fn is_closed(self) -> bool {
        self.has_any(Flags::CLOSED)
    }

    /// A writer holds the lock, or is about to: a reader that upgrades waits for the others to leave.
    #[inline(always)]
    pub(crate) const fn is_written(self) -> bool {
        self.0 & (WRITER | VISIBLE) == WRITER
    }

    /// A writer is inside, not one that upgrades and waits for the readers to leave.
    #[inline(always)]
    pub(crate) const fn has_writer_inside(self) -> bool {
        self.0 & (WRITER | UPGRADABLE | VISIBLE) == WRITER
    }

    /// Readers hold the lock, and a thread that may be one of them can be counted once more. The count may also be
    /// that of a reader passing through: then the last of the two to leave wakes a waiter if that is due. A writer
    /// that upgrades is not in yet, and may be waiting for this thread.
    pub(crate) const fn is_joinable(self) -> bool {
        !self.has_writer_inside() && self.0 & (VISIBLE | FULL) == 0 && self.readers() > 0
    }

    /// Several readers hold the lock, and nobody waits.
    pub(crate) const fn is_shared_only(self) -> bool {
        self.readers() > 1 && self.0 & (WRITER | UPGRADABLE | VISIBLE | Flags::WAITERS.0) == 0
    }

    /// Nobody is inside but readers, all of them counted, nobody waits, and the lock has no slot.
    #[inline(always)]
    pub(super) const fn is_read_only(self) -> bool {
        self.0 & !(COUNT | WATCH | Flags::AWAKE_WRITER.0) == 0
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
        self.0 & UPGRADABLE != 0
    }

    /// Nothing is in the way of an arriving reader that need not pause.
    #[inline(always)]
    pub(crate) const fn is_open_to_new_readers(self) -> bool {
        self.0 & (form(Access::Shared).past_queue | Flags::WAITERS.0 | Flags::AWAKE_WRITER.0) == 0
    }

    /// Nothing but waiters is in the way of an arriving reader.
    #[inline(always)]
    pub(crate) const fn is_open_past_queue(self) -> bool {
        self.0 & form(Access::Shared).past_queue == 0
    }

    /// No further reader may stay.
    #[inline(always)]
    pub(crate) const fn is_full(self) -> bool {
        self.0 & (FULL | VISIBLE) == FULL
    }

    /// Nobody holds the lock, as far as the word tells.
    #[inline(always)]
    pub(crate) const fn is_free(self) -> bool {
        self.0 & INSIDE == 0
    }

    /// A thread may take the lock in this way past the queue, whichever thread it is: nobody is in the way but sleeping
    /// waiters, and for a reader the lock is free or the readers'.
    #[inline(always)]
    pub(crate) const fn is_stealable(self, access: Access) -> bool {
        self.0 & form(access).past_queue == 0
            && (matches!(access, Access::Exclusive)
                || self.0 & (Flags::WAITERS.0 | Flags::READERS_TURN.0) != Flags::WAITERS.0
                || self.readers() == 0)
    }

    /// A thread may take the lock in this way, and passes nobody.
    #[inline(always)]
    pub(crate) const fn is_open(self, access: Access) -> bool {
        self.0 & (form(access).past_queue | Flags::WAITERS.0) == 0
    }

    /// An invited reader may join those inside.
    #[inline(always)]
    pub(crate) const fn may_join(self) -> bool {
        self.0 & (WRITER | FULL | Flags::CLOSED.0) == 0
            && (self.is_readers_turn() || self.readers() > 0)
    }

    /// A reader may join the upgradable one inside, closed or not.
    #[inline(always)]
    pub(crate) const fn may_join_upgradable(self) -> bool {
        self.0 & (WRITER | UPGRADABLE | VISIBLE | FULL) == UPGRADABLE
    }

    /// The waiter that is next may take the lock in this way, closed or not.
    #[inline(always)]
    pub(crate) const fn may_take_next(self, access: Access) -> bool {
        self.0 & form(access).next == 0
    }

    /// A reader is about to become the writer.
    #[inline(always)]
    pub(super) const fn is_draining(self) -> bool {
        self.0 & (WRITER | UPGRADABLE) == WRITER | UPGRADABLE
    }

    /// A reader is about to become the writer, and all others have left.
    #[inline(always)]
    pub(crate) const fn is_drained(self) -> bool {
        self.0 & (WRITER | UPGRADABLE | COUNT) == WRITER | UPGRADABLE
    }

    /// The lock is free and closed: kept for the waiter that is next.
    #[inline(always)]
    pub(crate) const fn is_reserved(self) -> bool {
        self.is_free() && self.is_closed()
    }

    /// The thread that leaves the lock free has a waiter to wake.
    #[inline(always)]
    pub(crate) const fn has_next_to_wake(self) -> bool {
        self.has_any(Flags::WAKE_NEXT)
    }

    /// The holder of a mutex releases it by a read-modify-write.
    #[inline(always)]
    pub(super) const fn is_known(self) -> bool {
        self.has_any(Flags::KNOWN)
    }

    /// The name of the lock's slot, or zero.
    #[inline(always)]
    pub(crate) const fn name(self) -> u32 {
        if self.0 & VISIBLE == 0 { (self.0 >> NAME_SHIFT) as u32 } else { 0 }
    }

    // ---- visible, watched, unused ----

    /// Readers may be inside that are in the records of their threads.
    #[inline(always)]
    pub(super) const fn is_visible(self) -> bool {
        self.0 & UNUSED == VISIBLE
    }

    /// The lock was not used yet, and has a policy of its own.
    #[inline(always)]
    pub(super) const fn is_unused(self) -> bool {
        self.0 & UNUSED == UNUSED
    }

    /// The lock is visible or unused: it has no slot.
    #[inline(always)]
    pub(crate) const fn is_odd(self) -> bool {
        self.0 & VISIBLE != 0
    }

    /// What readers of a visible lock put into their threads' records: never zero, and the same for as long as the
    /// lock is visible.
    #[inline(always)]
    pub(super) const fn shown(self) -> u64 {
        self.0 & !(COUNT | Flags::AWAKE_WRITER.0)
    }

    /// How many readers of a visible lock the word counts; less than zero if others gave up readers that are shown.
    pub(super) const fn counted_beside(self) -> isize {
        self.readers() as isize - HELD as isize
    }

    /// A visible lock counts so many readers that it should be visible no longer: the count has room for all threads still.
    pub(super) const fn counts_many_beside(self) -> bool {
        self.counted_beside() >= (HELD / 2) as isize
    }

    /// The lock, in which only readers are, that nobody waits for and that has no slot, visible with this number. `None` if
    /// it cannot be.
    pub(super) const fn visible(self, number: u64) -> Option<Self> {
        if !self.is_read_only() || self.readers() >= HELD / 2 {
            return None;
        }
        Some(Self((self.0 & COUNT) + HELD as u64 * READER).with_number(number))
    }

    /// The number of a visible lock.
    #[inline(always)]
    pub(super) const fn number(self) -> u64 {
        self.0 >> u32::BITS << 3 | (self.0 & WATCH) >> WATCH_SHIFT
    }

    /// A free lock that is visible with this number.
    pub(super) const fn with_number(self, number: u64) -> Self {
        Self(self.0 | VISIBLE | (number & 7) << WATCH_SHIFT | number >> 3 << u32::BITS)
    }

    /// The visible lock without its number, which belongs to another lock: only readers that it counts are inside.
    pub(super) const fn strayed(self) -> Self {
        let beside = self.counted_beside();
        Self(if beside > 0 { beside as u64 * READER } else { 0 })
    }

    /// The visible lock, visible no longer: its readers have [`HELD`] units of the count.
    pub(super) const fn revoked(self) -> Self {
        Self(self.0 & COUNT)
    }

    /// By which readers know that nobody has written the lock: zero if it is not watched.
    #[inline(always)]
    pub(super) const fn watch(self) -> u8 {
        if self.0 & VISIBLE == 0 { ((self.0 & WATCH) >> WATCH_SHIFT) as u8 } else { 0 }
    }

    /// The lock, in which no writer is, watched. `salt` is any number.
    pub(super) const fn watched(self, salt: u64) -> Self {
        Self(self.0 & !WATCH | (1 + salt % 7) << WATCH_SHIFT)
    }

    /// The lock, which was not used yet, with this policy; free if it is the default one.
    pub(super) const fn of_policy(policy: Policy) -> Self {
        let bits = policy_bits(policy);
        if bits == policy_bits(Policy::DEFAULT) { Self::FREE } else { Self(bits) }
    }

    /// The policy of a lock that was not used yet.
    pub(super) fn policy(self) -> Policy {
        let budget = (self.0 >> BUDGET_SHIFT) as u8 & BUDGET_MASK;
        Policy {
            aim: Duration::from_nanos(self.0 >> AIM_SHIFT),
            budget: Percent::new(budget).unwrap_or(Policy::DEFAULT.budget),
            priorities: self.0 & PRIORITIES != 0,
        }
    }

    // ---- what it becomes ----

    /// The word after a thread has taken the lock in this way.
    #[inline(always)]
    pub(crate) const fn taken(self, access: Access) -> Self {
        let form = form(access);
        Self((self.0 & !form.clears) + form.share)
    }

    /// The word after a holder in this way, or a reader passing through, has left.
    #[inline(always)]
    pub(crate) const fn left(self, access: Access) -> Self {
        Self(self.0.wrapping_sub(form(access).share))
    }

    /// The word after a holder has become one of another kind.
    #[inline(always)]
    pub(crate) const fn changed(self, from: Access, to: Access) -> Self {
        Self(self.0.wrapping_add(form(to).share).wrapping_sub(form(from).share))
    }

    /// The word after the only reader has become the writer.
    #[inline(always)]
    pub(crate) const fn upgraded(self) -> Self {
        Self(((self.0 | WRITER) & !(UPGRADABLE | WATCH)) - READER)
    }

    /// The word after all readers have left the one that upgrades.
    #[inline(always)]
    pub(crate) const fn drained(self) -> Self {
        Self(self.0 & !(UPGRADABLE | WATCH))
    }

    /// The word after an upgradable reader has begun to wait for the readers to leave; it is counted no longer.
    #[inline(always)]
    pub(crate) const fn draining(self) -> Self {
        Self((self.0 | WRITER) - READER)
    }

    /// The word after that reader has given up: it is counted again.
    pub(crate) const fn undrained(self) -> Self {
        Self((self.0 & !WRITER) + READER)
    }

    /// The lock, which has no slot, with the slot of this name.
    #[inline(always)]
    pub(crate) const fn named(self, name: u32) -> Self {
        Self(self.0 | (name as u64) << NAME_SHIFT)
    }

    /// The word of a lock that nobody holds.
    pub(super) const fn without_holders(self) -> Self {
        Self(self.0 & !(INSIDE | UPGRADABLE))
    }

    /// The lock without a slot.
    #[inline(always)]
    pub(crate) const fn without_name(self) -> Self {
        Self(self.0 & !(NAME | Flags::KNOWN.0))
    }
}

// The policy of a lock that was not used yet: bit 8 says whether there are priorities, 9-15 have the budget, 16-63 the aim.
const PRIORITIES: u64 = 1 << 8;
const BUDGET_SHIFT: u32 = 9;
const BUDGET_MASK: u8 = 127;
const AIM_SHIFT: u32 = 16;

const fn policy_bits(policy: Policy) -> u64 {
    const FOREVER: u64 = u64::MAX >> AIM_SHIFT;
    let Policy { aim, budget, priorities } = policy;
    let aim = if aim.as_nanos() < FOREVER as u128 { aim.as_nanos() as u64 } else { FOREVER };
    let priorities = if priorities { PRIORITIES } else { 0 };
    UNUSED | priorities | (budget.get() as u64) << BUDGET_SHIFT | aim << AIM_SHIFT
}
