//! The part of a thread's record that is for thin locks: what the thread remembers of locks
//! ([`Marks`], see `marks`), and the locks that it reads visibly ([`Shown`], by the rules of
//! [`visible`](super::visible)).

use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::system::{Atomic, System};

// ---- what it remembers ----

/// How many locks a thread remembers. A power of two.
const MARKS: usize = 16;

/// What is no name in [`Mark::what`]. No word of a lock has both of these bits, and slots are aligned to more.
pub(super) const SLOT: u64 = 0b11;
/// The same, of a mutex: its slots are of another type.
pub(super) const MUTEX_SLOT: u64 = 0b111;

/// What is the address of no lock in [`Mark::lock`]: the thread is changing its slot of this place (V7).
const CHANGING: usize = 1;

/// The locks that a thread found inflated. Used by that thread only.
pub(crate) struct Marks<P>([Mark<P>; MARKS]);

// SAFETY: a slot is only used by reference, as by any thread: its pool is shared.
unsafe impl<P> Send for Marks<P> {}

/// A lock that a thread found inflated, or visible.
// Aligned, so that where it is takes no multiplication.
#[repr(align(32))]
pub(super) struct Mark<P> {
    /// The lock's address; zero if there is none; or [`CHANGING`].
    lock: Cell<usize>,
    /// The address of a slot of a pool of `P`, or zero, each with [`SLOT`] or [`MUTEX_SLOT`]; or what the readers of a visible lock show.
    pub(super) what: Cell<u64>,
    /// As it leaves the full lock the thread is to look whether that should be thin, or visible. Decided when it came:
    /// another reader may have come meanwhile, and have fetched the line.
    pub(super) looks: Cell<bool>,
    /// How often the thread, as a reader, has looked since it last found somebody in the full lock.
    pub(super) alone: Cell<u16>,
    /// The thread has read a lock that is watched with this number so often in a row; or full locks, since its last look.
    pub(super) watched: Cell<u64>,
    pub(super) reads: Cell<u32>,
    platform: PhantomData<P>,
}

impl<P> Marks<P> {
    pub(crate) const fn new() -> Self {
        Self([const { Mark::none() }; MARKS])
    }
}

impl<P: System> Marks<P> {
    /// Where the lock of this address has its mark, and shows its readers. Neighbouring locks have different places.
    #[inline(always)]
    pub(super) fn place(address: usize) -> usize {
        // Of 600 factors by chance the one with which locks that are 8 to 4,096 bytes apart meet least.
        let name = P::name_of(address) as u32;
        (name.wrapping_mul(0x5745_0E65) >> (u32::BITS - MARKS.trailing_zeros())) as usize
    }

    #[inline(always)]
    pub(super) fn of(&self, address: usize) -> &Mark<P> {
        self.at(Self::place(address))
    }

    #[inline(always)]
    pub(super) fn at(&self, place: usize) -> &Mark<P> {
        &self.0[place]
    }
}

impl<P> Mark<P> {
    #[inline(always)]
    pub(super) fn is_of(&self, address: usize) -> bool {
        self.lock.get() == address
    }

    /// It is that of the lock of this address from here on; zero: of none. Not if the caller is a signal handler that interrupts a
    /// change.
    #[inline(always)]
    pub(super) fn set_lock(&self, address: usize) {
        if !self.is_changing() {
            self.lock.set(address);
        }
    }

    /// Whether the calling thread is a signal handler that interrupts a change of the slot of this place.
    #[inline(always)]
    pub(super) fn is_changing(&self) -> bool {
        self.is_of(CHANGING)
    }

    /// The calling thread begins to change its slot of this place, which it is not changing already (V7).
    #[inline(always)]
    pub(super) fn begin_change(&self) {
        self.lock.set(CHANGING);
        // Only signal handlers look at it.
        compiler_fence(Ordering::SeqCst);
    }

    /// The change is over; from here on the mark is that of the lock of this address.
    #[inline(always)]
    pub(super) fn end_change(&self, address: usize) {
        compiler_fence(Ordering::SeqCst);
        self.lock.set(address);
    }

    /// It is that of another lock than the one of this address, and that one was visible.
    pub(super) fn is_other_visible(&self, address: usize) -> bool {
        self.is_visible() && ![0, CHANGING, address].contains(&self.lock.get())
    }

    /// The address of a slot of this kind, or zero; none if the lock had another kind of slot, or was visible.
    #[inline(always)]
    pub(super) fn slot_address(&self, kind: u64) -> Option<u64> {
        let what = self.what.get();
        (what % (MUTEX_SLOT + 1) == kind).then(|| what - kind)
    }

    /// Whether the lock was visible.
    #[inline(always)]
    pub(super) fn is_visible(&self) -> bool {
        self.what.get() % (SLOT + 1) != SLOT
    }

    const fn none() -> Self {
        Self {
            lock: Cell::new(0),
            what: Cell::new(SLOT),
            looks: Cell::new(false),
            alone: Cell::new(0),
            watched: Cell::new(0),
            reads: Cell::new(0),
            platform: PhantomData,
        }
    }
}

// ---- the readers that it is ----

/// How many readers there may be in the record of a thread. At most 16: there is a bit for each.
// Two to a model check: more are more of the same.
pub(crate) const SHOWN: usize = if cfg!(fairlock_loom) { 2 } else { 16 };

/// How often a thread may change its record between another thread's look and the exchange that
/// follows.
const CHANGE: u64 = 1 << 16;

/// How many reads are a reason to change a lock's state. To have the lock watched: releases by one
/// thread while others are inside. To make a watched lock visible: reads in a row, each counted as
/// often as there are readers inside. To revoke a visible lock: reads of visible locks that the
/// thread does not remember. In reads; compared with those since the last change.
pub(super) const ENOUGH: u32 = 256;

/// The longest period after which a thread has a lock watched again: in releases beside other
/// readers. After reading a full lock alone this often, a thread makes it thin.
pub(super) const LAST_PERIOD: u32 = 1 << 16;

/// When a thread has a lock watched: each time after twice as many releases.
#[doc(hidden)]
#[derive(Debug)]
pub struct Periods {
    /// How many such releases there are until then.
    left: Cell<u32>,
    period: Cell<u32>,
}

impl Periods {
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub const fn new() -> Self {
        Self { left: Cell::new(ENOUGH), period: Cell::new(ENOUGH) }
    }

    /// The calling thread leaves a lock in which other readers are. Whether that is to be watched.
    #[inline(always)]
    pub fn ends(&self) -> bool {
        let left = self.left.get().wrapping_sub(1);
        self.left.set(left);
        left == 0 && self.begin()
    }

    #[cold]
    fn begin(&self) -> bool {
        self.period.set(LAST_PERIOD.min(2 * self.period.get()));
        self.left.set(self.period.get());
        true
    }
}

/// The readers in the record of a thread. Shown by that thread only; others mark them.
#[repr(align(128))] // where scans read it, nothing else is that its thread uses
pub(crate) struct Shown<P: System> {
    /// Names of locks, or zero.
    pub(super) slots: [P::AtomicU64; SHOWN],
    /// A bit for each slot that is marked, and above those a count of changes.
    moved: P::AtomicU64,
    /// The address of the next record that a scan visits, or zero.
    pub(super) next: P::AtomicUsize,
    pub(super) is_listed: Cell<bool>,
    /// The thread is putting itself on the list of records that scans visit: a signal handler must not.
    pub(super) is_listing: Cell<bool>,
    /// Of platforms whose threads all have records.
    pub(super) periods: Periods,
    /// How often the thread has met a crowd of readers at a lock that was not watched.
    crowds: Cell<u32>,
    /// How often the thread has found a visible lock whose mark was another's.
    misses: Cell<u32>,
}

/// What a thread finds that has cleared a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cleared {
    /// The reader has left.
    Left,
    /// The reader was moved: it is counted in the word, still.
    Counted,
}

impl<P: System> Shown<P> {
    pub(crate) fn new() -> Self {
        Self {
            slots: core::array::from_fn(|_| P::AtomicU64::new(0)),
            moved: P::AtomicU64::new(0),
            next: P::AtomicUsize::new(0),
            is_listed: Cell::new(false),
            is_listing: Cell::new(false),
            periods: Periods::new(),
            crowds: Cell::new(0),
            misses: Cell::new(0),
        }
    }

    /// The calling thread finds a visible lock whose mark was another's, which makes reading slow. Now and then
    /// one of the two is to be visible no longer.
    pub(super) fn has_too_many(&self) -> bool {
        self.misses.set(self.misses.get().wrapping_add(1));
        self.misses.get() % ENOUGH == 0
    }

    /// The calling thread meets a crowd of readers at a lock that is not watched. Whether to watch it: the first
    /// time, and then each time that there were twice as many.
    pub(super) fn meets_crowd(&self) -> bool {
        self.crowds.set(self.crowds.get().wrapping_add(1));
        self.crowds.get().is_power_of_two()
    }

    /// Whether the calling thread, whose record this is, shows this name here; zero: nothing.
    #[inline(always)]
    pub(super) fn has(&self, place: usize, name: u64) -> bool {
        // Relaxed: only the calling thread changes it.
        self.slots[place].load(Ordering::Relaxed) == name
    }

    /// Where the calling thread shows this name, if it does.
    pub(super) fn find(&self, name: u64) -> Option<usize> {
        (0..SHOWN).find(|&place| self.has(place, name))
    }

    /// The calling thread shows the name of a lock in a free slot, and then looks at the lock's word.
    #[inline(always)]
    pub(super) fn show(&self, place: usize, name: u64) {
        // Release: whoever sees this and not an earlier reader of the slot acquires that one's section.
        self.slots[place].store(name, Ordering::Release);
        P::light_fence();
    }

    /// The calling thread shows the name no longer. Of the lock it touches nothing. Whether it has left;
    /// [`settle`](Self::settle) says so otherwise.
    #[inline(always)]
    pub(super) fn hide(&self, place: usize, scans: &P::AtomicU64) -> bool {
        // Release: what was read under the lock stays before the next writer.
        self.slots[place].store(0, Ordering::Release);
        P::light_fence();
        // Acquire, and in this order: a scan that is over has marked what it has marked (V3).
        let is_scanned = scans.load(Ordering::Acquire) != 0;
        // Relaxed: acquired above; a scan that comes later sees the slot cleared.
        !is_scanned && self.moved.load(Ordering::Relaxed) >> place & 1 == 0
    }

    /// The calling thread has shown a name that was revoked at the same time, and shows it no longer.
    #[cold]
    pub(super) fn withdraw(&self, place: usize) -> Cleared {
        self.clear(place);
        self.settle(place)
    }

    #[inline(always)]
    pub(super) fn clear(&self, place: usize) {
        // Release: whoever sees this acquires what an earlier reader of the slot has done.
        self.slots[place].store(0, Ordering::Release);
    }

    /// The calling thread has cleared the slot, and a scan may have seen it before: whether the reader was moved.
    #[cold]
    pub(super) fn settle(&self, place: usize) -> Cleared {
        self.settle_inline(place)
    }

    /// As [`settle`](Self::settle), where a call would need a frame on the stack.
    #[inline(always)]
    pub(super) fn settle_inline(&self, place: usize) -> Cleared {
        let mark = 1 << place;
        let mut moved = self.moved.load(Ordering::Relaxed);
        loop {
            // Acquire and Release: what was read comes before the scan's exchange that fails; a reader that was
            // moved goes on after the word was changed.
            let next = (moved & !mark).wrapping_add(CHANGE);
            match self.moved.compare_exchange(moved, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if moved & mark != 0 => return Cleared::Counted,
                Ok(_) => return Cleared::Left,
                Err(now) => moved = now,
            }
        }
    }

    /// A slot in use is free if its reader was moved: then that is counted, and its thread leaves by the count.
    #[cold]
    pub(super) fn reclaim(&self, place: usize) -> bool {
        let is_marked = self.moved.load(Ordering::Relaxed) >> place & 1 != 0;
        if is_marked {
            // Relaxed: nobody relies on a slot that is marked.
            self.slots[place].store(0, Ordering::Relaxed);
            self.settle(place);
        }
        is_marked
    }

    /// Marks the slots that show this name; returns how many.
    pub(super) fn mark_all(&self, name: u64) -> usize {
        // Acquire: the slots are looked at after this (V4).
        let mut moved = self.moved.load(Ordering::Acquire);
        loop {
            let marks = (0..SHOWN).fold(0, |marks, place| {
                // Acquire: what a reader has read that has left, comes before what is done next.
                let shows = self.slots[place].load(Ordering::Acquire) == name;
                marks | u64::from(shows && moved >> place & 1 == 0) << place
            });
            if marks == 0 {
                return 0;
            }
            // Acquire and Release: as in `settle`.
            let next = (moved | marks).wrapping_add(CHANGE);
            match self.moved.compare_exchange(moved, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return marks.count_ones() as usize,
                Err(now) => moved = now,
            }
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;

    /// Which of so many calls are told `true`, counted from one.
    fn told(calls: usize, what: impl Fn() -> bool) -> Vec<usize> {
        (1..=calls).filter(|_| what()).collect()
    }

    #[test]
    fn a_thread_has_locks_watched_ever_less_often() {
        let periods = Periods::new();
        assert_eq!(told(2_000, || periods.ends()), [256, 256 + 512, 256 + 512 + 1_024]);
        periods.period.set(LAST_PERIOD);
        periods.left.set(1);
        let last = LAST_PERIOD as usize;
        assert_eq!(told(2 * last, || periods.ends()), [1, 1 + last]);
    }

    #[test]
    fn a_crowd_is_watched_the_first_time_and_then_half_as_often_each_time() {
        let shown = Shown::<Native>::new();
        assert_eq!(told(20, || shown.meets_crowd()), [1, 2, 4, 8, 16]);
        let many = ENOUGH as usize;
        assert_eq!(told(2 * many, || shown.has_too_many()), [many, 2 * many]);
    }
}
