//! The sleeping range lock (proposal 3): shared or exclusive locks on closed ranges of `u64`.
//! Overlapping ranges exclude each other unless both are read; other ranges do not affect each
//! other.
//!
//! * [`RangeRwLock`]: locks ranges of whatever the caller numbers: bytes of a
//!   file, pages of an address space, blocks of a disk.
//! * [`RangeSlice`]: owns a slice, and hands out `&[T]` and `&mut [T]` for the
//!   locked range.
//!
//! # How it works
//!
//! **The tree proper** is the published lock: held *and* waiting ranges are in one interval tree. A
//! new range counts the conflicting ranges that came before it, and is held when that count is zero
//! (`tree`). One lock guards the tree: the *tree lock*, a batched ticket lock. In the tree,
//! overlapping ranges are granted strictly in order of arrival. An operation costs O((1 +
//! overlapping) log all).
//!
//! A tree under a lock is slow if nothing conflicts, as disjoint ranges meet at its lock. Hence
//! there are four ways around the tree. All lead into it when a range has to wait:
//!
//! 1. **Slots** (`slots`). One state word and 24 slots, each of one word, hold ranges that met no
//!    conflict: one compare-exchange takes a slot, one subtraction leaves it. The word shows which
//!    slots were taken before, and so orders all ranges: of two conflicting ranges the second sees
//!    the first. Disjoint ranges on two CPUs share only a cache line, as the readers of any
//!    reader/writer lock do. When somebody has to wait for a slot, the slot's range is entered into
//!    the tree (`tree::enter`), and the holder tells the tree when it leaves.
//! 2. **The hull.** A range outside of everything in the tree takes a slot without a look at the
//!    tree. A range in a gap is looked up under the tree lock, and then takes a slot, too, if
//!    ranges that are taken now leave soon. So beside 50,000 ranges held for long, a short one
//!    costs one search and changes nothing in the tree.
//! 3. **Stripes** (`stripes`). On many CPUs disjoint ranges would wait for the one state word. When
//!    many threads meet there, the lock gets slots by address, a few to a cache line. Positions are
//!    divided into regions, of a size that suits the ranges in use. Ranges that lie in one region,
//!    or in two neighbours, meet only ranges of the same lines.
//! 4. **The gate** (`gate`). While all threads ask for the full range, the lock *is* a
//!    [`RawRwLock`](crate::lock::RawRwLock), with its turns. The first thread that asks for a part ends
//!    that.
//!
//! # Order, and which threads may overtake
//!
//! The published lock is first come, first served. So it runs at wake-up speed if threads outnumber
//! CPUs, as the next in line sleeps. Here, with [`RangePolicy::DEFAULT`], a waiting range may be
//! overtaken by *running* threads, but only for a time
//! ([`overtaken_for`](RangePolicy::overtaken_for), 4 ms, or longer if many wait). Then the range
//! enters the tree, with all that came before it, and from then on nobody gets past it (`wait`).
//! While its thread is awake, and sections are not too short for that, the range waits in the tree
//! from the start: order among running threads costs next to nothing, and lets more of them run
//! beside each other. When the thread sleeps and its range becomes free, it is woken, unless an
//! awake waiter goes first (`wait::patient`). So the wait for a range is at most
//!
//! > *overtaken_for* + the sections of the threads inside by then, and of threads that
//! > arrived before and overlap, directly or through one another
//!
//! and no stream of readers, writers, or narrow ranges starves anybody. With [`RangePolicy::FIFO`]
//! the published order holds from the start. In both policies there is order only among ranges that
//! overlap.
//!
//! Under the default policy the turns of `RwSem` apply instead while all threads ask for the full
//! range: see [`RwLock`](crate::RwLock).
//!
//! A waiter that has slept in the tree is only offered its range, and passed if it does not come for a millisecond
//! (`wait::late`); not with `FIFO`.
//!
//! Three things are the price of first come, first served, and documented rather
//! than solved:
//!
//! * A wide range that waits in the tree delays later ranges that overlap nothing else.
//! * A thread that holds a range and asks for another one may wait behind a wide range that waits
//!   for the first: a deadlock, in whatever order the thread asks. Take both as one range, or
//!   [`try_write`](RangeRwLock::try_write) the second.
//! * A thread that acquires again, for reading, a range that it already reads deadlocks if a writer
//!   waits for that range. [`read_recursive`](RangeRwLock::read_recursive) goes past all waiters,
//!   and waits for holders only.
//!
//! # Memory
//!
//! The lock owns all memory of held ranges: slots are in it, tree nodes in its array. Stripes, six
//! cache lines for each CPU, are allocated when many threads first meet, which takes more than
//! eight CPUs. Guards only name slots and nodes, and can be moved, sent, dropped by another thread,
//! and forgotten: a forgotten guard leaves its range locked for ever, and has no other effect
//! (defect 9). Waiters are in the stack frames of their threads. Tree nodes and stripes are reused,
//! and freed with the lock.
//!
//! Comments cite the rules and defects of `docs/rules.md`.

mod acquire;
mod check;
mod gate;
mod guard;
#[cfg(feature = "std")]
mod hidden;
mod holders;
mod policy;
#[cfg(all(test, fairlock_loom))]
mod range_loom;
mod slice;
mod slots;
mod span;
mod stripes;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests;
mod tree;
mod wait;

/// The range locks of this target's platform.
#[cfg(any(feature = "std", fairlock_loom))]
pub(crate) mod native {
    use crate::platform::Native;

    /// A sleeping reader/writer lock on ranges of `u64`; see
    /// [`range::RangeRwLock`](crate::range::RangeRwLock).
    pub type RangeRwLock = super::RangeRwLock<Native>;
    /// A range that is locked for reading; unlocks it when dropped.
    pub type RangeReadGuard<'a> = super::RangeReadGuard<'a, Native>;
    /// A range that is locked for writing; unlocks it when dropped.
    pub type RangeWriteGuard<'a> = super::RangeWriteGuard<'a, Native>;
    /// A slice whose ranges can be locked separately; see
    /// [`range::RangeSlice`](crate::range::RangeSlice).
    pub type RangeSlice<T> = super::RangeSlice<Native, T>;
    /// Elements that are locked for reading; unlocks them when dropped.
    pub type SliceReadGuard<'a, T> = super::SliceReadGuard<'a, Native, T>;
    /// Elements that are locked for writing; unlocks them when dropped.
    pub type SliceWriteGuard<'a, T> = super::SliceWriteGuard<'a, Native, T>;
}

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::Ordering;

use gate::Gate;
pub use guard::{RangeReadGuard, RangeWriteGuard};
#[cfg(feature = "std")]
pub use hidden::{RangeEntry, RangeSnapshot};
pub use holders::{RangeAccess, RangeInfo};
pub use policy::RangePolicy;
pub use slice::{RangeSlice, SliceReadGuard, SliceWriteGuard};
use slots::word::{AtomicWord, Flags, SLOTS, Word};
pub use span::{RangeError, Span};
use stripes::STRIPED_LIMIT;
use stripes::striping::Striped;
use tree::Id;
use tree::queue::{Hull, Queue};
use wait::shown::Shown;

use crate::events::{self, EventCounts};
use crate::platform::{Atomic, ConstZero, PooledPlatform};
use crate::ticket::AdaptiveTicketLock;
use crate::wait::{Kind, MISSED_NS};

/// How often to look at a slot whose holder has not yet written its range, or has begun to leave:
/// either takes nanoseconds, unless the holder was interrupted right there. In looks; compared with
/// those at one slot that says nothing yet.
const SLOT_LOOKS: u32 = if cfg!(fairlock_loom) { 2 } else { 64 };
/// How many ranges, at first and at most, pass before the lock becomes a whole again, or before it
/// considers stripes: twice as many after each change that was of no use. A change costs about a
/// microsecond. In ranges; compared with the full ones in a row, or with those that found no slot
/// since.
const AGAIN: (usize, usize) = (64, 65_536);
/// A change (to a whole, or to stripes) that lasted this long was of use: counting begins as at
/// first.
const LONG: u64 = 10 * MISSED_NS;

/// A sleeping reader/writer lock on ranges.
///
/// Any number of readers hold a position together, or one writer alone. The caller decides what
/// positions mean; nothing is allocated for them.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::range::RangeError;
/// use fairlock::{RangeRwLock, Wait};
///
/// static FILE: RangeRwLock = RangeRwLock::new();
///
/// let head = FILE.write(0..512)?;
/// let tail = FILE.write(512..)?; // does not overlap: no wait
/// assert_eq!(FILE.try_read(0..1).err(), Some(RangeError::Busy));
///
/// // From writer to reader, with no other writer in between.
/// let head = head.downgrade();
/// assert!(FILE.try_read(0..1).is_ok());
///
/// // A wait that ends.
/// let in_vain = FILE.write_with(500..600, Wait::within(Duration::from_millis(1)));
/// assert_eq!(in_vain.err(), Some(RangeError::TimedOut));
///
/// // Give up a part of it.
/// let mut tail = tail;
/// tail.shrink(1024..)?;
/// assert!(FILE.try_write(512..1024).is_ok());
/// # drop((head, tail));
/// # Ok::<(), RangeError>(())
/// ```
///
/// # When it blocks
///
/// `read` blocks while any position of the range is locked for writing; `write` blocks while any is
/// locked at all. Both also block while an overlapping range waits that may no longer be overtaken.
/// A blocked thread spins for a short time, and then sleeps. The `try_` methods, releases,
/// [`downgrade`](RangeWriteGuard::downgrade), `shrink` and `split_at` wait for no holder; they may
/// wait for the tree lock, which is held for a search or two.
///
/// # Errors
///
/// Every method refuses a range that is empty ([`RangeError::Empty`]) or ends before it starts
/// ([`RangeError::Inverted`]). Apart from that `write` does not fail, and `read` fails only if no
/// more readers of the full range can be counted ([`RangeError::TooManyReaders`]).
///
/// # Fairness
///
/// See the [module](self). With the default policy a waiting range may be overtaken for 4 ms, or
/// for 600 µs times the number of waiters if that is longer. After that, overlapping ranges are
/// served in order of arrival. With [`RangePolicy::FIFO`] a waiting range is never overtaken.
///
/// Not promised: order among ranges that do not overlap, equal shares, priority inheritance, and how
/// long the system takes to run a thread that has been granted its range.
///
/// # Cancel safety
///
/// A wait that ends without its range leaves nothing behind, and threads behind it move up. A wait
/// that is granted its range at the instant at which it would end keeps the range.
///
/// # Panics
///
/// Locking panics when about 2^31 ranges are locked, which takes forgotten guards: there are no
/// more names. After that the lock cannot be used. Nothing else panics. A panic while a guard is
/// alive releases the range; it is never poisoned. A forgotten guard keeps its range locked for
/// ever.
///
/// # Where it comes from
///
/// Counting conflicting ranges in an interval tree is a public proposal for the
/// Linux kernel (2017); slots, hull, stripes, gate and bounded overtaking are this
/// crate's.
#[repr(C)]
pub struct RangeRwLock<P: PooledPlatform> {
    core: Core<P>,
    gate: Gate<P>,
}

/// A range lock but for the gate, of which only the flags in the word are known here.
#[repr(C, align(64))] // the word and the first slots share a cache line
struct Core<P: PooledPlatform> {
    /// The state: see [`slots::word`].
    word: AtomicWord<P>,
    /// Ranges that are held, packed; meaningful while their bits are set.
    slots: [P::AtomicU64; SLOTS],
    hull: Hull<P>,
    tree_lock: AdaptiveTicketLock<P>,
    /// Guarded by `tree_lock`.
    queue: UnsafeCell<Queue<P>>,
    /// What the lock shows of waiters that may be overtaken.
    shown: Shown<P>,
    striped: Striped<P>,
    policy: RangePolicy,
    events: events::Sink,
}

// SAFETY: everything but `queue` and `striped.stripes` is atomic, constant or a lock. `queue` is
// reached under `tree_lock` only; the pointers in it are to waiters in frames that cannot return
// before they are taken out. The stripes are set once, by the thread that has set `Queue::made`,
// and looked at only by threads that have seen `made` or `shift` beside them set after that (with
// Acquire), or that have the name of a slot in them.
unsafe impl<P: PooledPlatform> Send for Core<P> {}
// SAFETY: as above.
unsafe impl<P: PooledPlatform> Sync for Core<P> {}

/// How a range is held: the name of a [`HeldIn`] in the lock, owned by a guard. One
/// small number, so that it stays in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold(u32);

/// Where a held range is.
enum HeldIn {
    /// A slot of the lock itself.
    Slot(usize),
    /// A slot in a stripe.
    Striped(usize),
    /// Two slots in stripes, for the parts of a range in two regions.
    Pair(usize, usize),
    Node(Id),
    /// The full range, by the gate.
    Gate,
}

/// What a range is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Read,
    /// Past all waiters.
    ReadRecursive,
    Write,
}

impl Request {
    #[inline(always)]
    const fn kind(self) -> Kind {
        if let Self::Write = self { Kind::Writer } else { Kind::Reader }
    }
}

impl Hold {
    const GATE: Self = Self(u32::MAX);

    #[inline(always)]
    const fn slot(slot: usize) -> Self {
        Self(slot as u32)
    }

    /// The mark of a pair, and the bits of a slot's name.
    const PAIR: u32 = 1 << 31;
    const NAME_BITS: u32 = 14;

    #[inline(always)]
    const fn pair(first: usize, second: usize) -> Self {
        const { assert!(SLOTS + STRIPED_LIMIT <= 1 << Self::NAME_BITS) };
        Self(Self::PAIR | (first as u32) << Self::NAME_BITS | second as u32)
    }

    /// How many nodes have names. The tree makes no more: see [`tree::name`].
    const NODES_LIMIT: u32 = Self::PAIR - (SLOTS + STRIPED_LIMIT) as u32;

    #[inline(always)]
    const fn node(id: Id) -> Self {
        Self(id + (SLOTS + STRIPED_LIMIT) as u32)
    }

    #[inline(always)]
    const fn place(self) -> HeldIn {
        if self.0 < SLOTS as u32 {
            HeldIn::Slot(self.0 as usize)
        } else if self.0 == Self::GATE.0 {
            HeldIn::Gate
        } else if self.0 < (SLOTS + STRIPED_LIMIT) as u32 {
            HeldIn::Striped(self.0 as usize)
        } else if self.0 & Self::PAIR != 0 {
            let (names, mask) = (self.0 & !Self::PAIR, (1 << Self::NAME_BITS) - 1);
            HeldIn::Pair((names >> Self::NAME_BITS) as usize, (names & mask) as usize)
        } else {
            HeldIn::Node(self.0 - (SLOTS + STRIPED_LIMIT) as u32)
        }
    }
}

impl<P: PooledPlatform> RangeRwLock<P> {
    /// A free lock that follows [`RangePolicy::DEFAULT`].
    pub const fn new() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self::with_policy(RangePolicy::DEFAULT)
    }

    /// A free lock that follows `policy`.
    pub const fn with_policy(policy: RangePolicy) -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        let core = Core {
            word: AtomicWord::new_const(),
            slots: [const { <P::AtomicU64 as ConstZero>::ZERO }; SLOTS],
            hull: Hull::new_const(),
            tree_lock: AdaptiveTicketLock::new_const(),
            queue: UnsafeCell::new(Queue::new()),
            shown: Shown::new_const(),
            striped: Striped::new_const(),
            policy,
            events: events::Sink::new(),
        };
        Self { core, gate: Gate::new_const() }
    }

    /// As [`with_policy`](Self::with_policy), on a platform whose atomics cannot be constants.
    pub fn on_platform(policy: RangePolicy) -> Self {
        let core = Core {
            word: AtomicWord::new(Word::FREE),
            slots: core::array::from_fn(|_| P::AtomicU64::new(0)),
            hull: Hull::new(),
            tree_lock: AdaptiveTicketLock::new(),
            queue: UnsafeCell::new(Queue::new()),
            shown: Shown::new(),
            striped: Striped::new(),
            policy,
            events: events::Sink::new(),
        };
        Self { core, gate: Gate::new() }
    }

    /// The policy this lock was made with.
    pub const fn policy(&self) -> &RangePolicy {
        &self.core.policy
    }

    /// Counts this lock's [events](events::Event) in `counts` too; with `None`, no longer.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.core.events.set(counts);
        self.gate.lock.set_events(counts);
    }
}

impl<P: PooledPlatform> Default for RangeRwLock<P> {
    fn default() -> Self {
        Self::on_platform(RangePolicy::DEFAULT)
    }
}

impl<P: PooledPlatform> fmt::Debug for RangeRwLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.core;
        let word = core.word.load(Ordering::Relaxed);
        f.debug_struct("RangeRwLock")
            .field("locked", &self.is_locked())
            .field("waiters", &(word.has_any(Flags::QUEUED) || core.shown.has_patient()))
            .field("policy", &core.policy)
            .finish_non_exhaustive()
    }
}
