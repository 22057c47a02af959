//! Readers that no lock counts: each is in the record of its thread.
//!
//! A visible lock has a name that no other lock has, or will have: a number in its word. A reader *shows* that
//! name in a slot of its thread's record, looks at the word once more, and if that still has the name it is
//! in. It takes no locked instruction, and writes no line that another CPU reads, but for a scan.
//!
//! To revoke the name, a thread
//!
//! 1. changes the word, in one step, to that of a thin lock with [`HELD`] more readers than it counted: *units*,
//!    one for each reader that there could be, so that no writer gets in and a reader may leave by the count
//!    whether or not it is counted yet;
//! 2. has the stores of all CPUs made visible ([`System::process_barrier`](crate::platform::System));
//! 3. *moves* the readers that it finds in records into the count: marks each slot as moved, which gives the reader
//!    one of the units;
//! 4. gives up the units that are left.
//!
//! From there on the lock is any thin lock, and everything else that a writer does and is promised is as for
//! any. Nobody waits for a reader that is visible, and no reader wakes anybody.
//!
//! Rules:
//!
//! * V1. *A name is used once.* So the word of a lock that was moved, dropped or forgotten leads to nobody else's
//!   readers, and neither does a slot that a forgotten guard left.
//! * V2. *The readers of a lock are the slots with its name that are not marked as moved, and those that it
//!   counts.* It makes no difference whose is which: a thread that leaves takes off any. So a guard may be given up
//!   by another thread, and the record of a thread that ended may be used by the next one, whatever is in it.
//! * V3. *A slot is marked only between `scans` being raised and lowered, and only if its name was seen in it
//!   after that.* So the owner, after it has cleared the slot, needs to look only at its own record and at
//!   `scans`: the lock may be gone.
//! * V4. *Whether a slot was marked is decided in one word of the record*, `moved`: by the exchange of the
//!   revoker, which fails if the owner has changed the word since the slot was seen, or by that of the owner.
//! * V5. *An owner does not show a name in a slot that is marked* before it has taken the mark off.
//!
//! # Orderings
//!
//! The reader's store to the slot and its load that follows are ordered by
//! [`light_fence`](crate::platform::System), which on Linux is none for the CPU. The barrier of the revoker stands
//! for a fence in each other thread, between some two of its steps. If that is after the reader's store, the
//! scan sees the slot; if it is before, the reader's load sees the changed word, and, when it leaves, `scans`. Whoever
//! gets in after the scan has acquired what readers have released: a slot that is cleared, a change of
//! `moved`, or the count.

use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::platform::{Atomic, ConstZero, Platform, System, Thread};

/// How many readers there may be in the record of a thread. At most 16: there is a bit for each.
// Two to a model check: more are more of the same.
pub(crate) const SHOWN: usize = if cfg!(fairlock_loom) { 2 } else { 16 };

/// More than there can be readers in records.
pub(super) const HELD: usize = 1 << (usize::BITS / 2);

/// What revoking a name is thought to take before it was done. In nanoseconds; compared with the time since a
/// lock was written.
const FIRST_COST_NS: u64 = 10_000;

/// A thread may change the record for the last time so often, between a look of another's and the exchange
/// that follows.
const CHANGE: u64 = 1 << 16;

/// The readers in the record of a thread. Shown by that thread only; others mark them.
#[repr(align(128))] // where scans read it, nothing else is that its thread uses
pub(crate) struct Shown<P: System> {
    /// Names of locks, or zero.
    slots: [P::AtomicU64; SHOWN],
    /// A bit for each slot that is marked, and above those a count of changes.
    moved: P::AtomicU64,
    /// The address of the next record that a scan visits, or zero.
    next: P::AtomicUsize,
    is_listed: Cell<bool>,
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
        }
    }

    /// Which slot the lock with this number has.
    #[inline(always)]
    pub(super) fn place(number: u64) -> usize {
        number as usize % SHOWN
    }

    /// Whether the calling thread, whose record this is, shows this name here.
    #[inline(always)]
    pub(super) fn has(&self, place: usize, name: u64) -> bool {
        // Relaxed: only the calling thread changes it.
        self.slots[place].load(Ordering::Relaxed) == name
    }

    /// Where the calling thread shows this name, if it does.
    pub(super) fn find(&self, name: u64) -> Option<usize> {
        (0..SHOWN).find(|&place| self.has(place, name))
    }

    /// Whether the calling thread shows nothing here.
    #[inline(always)]
    pub(super) fn is_free(&self, place: usize) -> bool {
        self.has(place, 0)
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
        // Release: whoever sees this acquires what an earlier reader of the slot has done.
        self.slots[place].store(0, Ordering::Release);
        self.settle(place)
    }

    /// The calling thread has cleared the slot, and a scan may have seen it before: whether the reader was moved.
    #[cold]
    pub(super) fn settle(&self, place: usize) -> Cleared {
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
    fn mark_all(&self, name: u64) -> usize {
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

/// The records of a platform's threads that have been readers of visible locks, and what else such locks share.
#[doc(hidden)]
pub struct VisibleReaders<P: Platform> {
    /// The address of the record listed last, or zero.
    first: P::AtomicUsize,
    /// How many threads revoke a name just now.
    pub(super) scans: P::AtomicU64,
    /// How many names were given out.
    names: AtomicU64,
    /// How long it takes to revoke a name, on average, in nanoseconds; zero if none was.
    cost: AtomicU64,
    platform: PhantomData<P>,
}

impl<P: Platform> VisibleReaders<P> {
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub fn new() -> Self {
        Self::of(P::AtomicUsize::new(0), P::AtomicU64::new(0))
    }

    /// As [`new`](Self::new), for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self::of(ConstZero::ZERO, ConstZero::ZERO)
    }

    const fn of(first: P::AtomicUsize, scans: P::AtomicU64) -> Self {
        let [names, cost] = [const { AtomicU64::new(0) }; 2];
        Self { first, scans, names, cost, platform: PhantomData }
    }

    /// A number that no lock had before (V1), if it is below `limit`.
    pub(super) fn name(&self, limit: u64) -> Option<u64> {
        // Relaxed: only a number.
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        (number < limit).then_some(number)
    }

    /// Scans visit the record of the calling thread from here on.
    #[inline]
    pub(super) fn list(&self, me: &'static Thread<P>) {
        if !me.shown.is_listed.get() {
            self.list_first(me);
        }
    }

    #[cold]
    fn list_first(&self, me: &'static Thread<P>) {
        let own = core::ptr::from_ref(me).addr();
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            me.shown.next.store(first, Ordering::Relaxed);
            // Release: the record is as it should be. A scan that does not see it is ordered before what the
            // reader looks at next as for a slot.
            match self.first.compare_exchange(first, own, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        me.shown.is_listed.set(true);
    }

    /// The thread whose record is at `own`, if any, is alone in the child of a fork: only what it reads is
    /// read.
    #[cfg(feature = "std")]
    pub(crate) fn enter_child(&self, own: Option<&'static Thread<P>>) {
        // Relaxed: there is nobody else.
        self.first.store(0, Ordering::Relaxed);
        self.scans.store(0, Ordering::Relaxed);
        if let Some(own) = own.filter(|own| own.shown.is_listed.replace(false)) {
            self.list(own);
        }
    }

    /// The records, from the one listed last on.
    fn records(&self) -> impl Iterator<Item = &'static Shown<P>> {
        // SAFETY: zero, or the address of a record, which is there for as long as the locks of its platform.
        let at = |address: usize| unsafe { (address as *const Thread<P>).as_ref() };
        // Acquire: the record as it was listed.
        let mut next = at(self.first.load(Ordering::Acquire));
        core::iter::from_fn(move || {
            let shown = &next?.shown;
            // Acquire: as above; the exchange that listed this one has acquired the one before.
            next = at(shown.next.load(Ordering::Acquire));
            Some(shown)
        })
    }

    /// Whether a thread shows this name at this instant.
    pub(super) fn any(&self, name: u64) -> bool {
        self.records().any(|shown| {
            // Acquire: as for a word that says that nobody is inside.
            shown.slots.iter().any(|slot| slot.load(Ordering::Acquire) == name)
        })
    }

    /// Revoking a name takes about so long, in nanoseconds.
    pub(super) fn cost(&self) -> u64 {
        // Relaxed, here and below: a measure.
        match self.cost.load(Ordering::Relaxed) {
            0 => FIRST_COST_NS,
            cost => cost,
        }
    }

    /// Revoking a name took so long.
    pub(super) fn took(&self, ns: u64) {
        let before = self.cost();
        // A thread that lost its CPU meanwhile tells nothing.
        let now = ns.min(4 * before);
        self.cost.store((7 * before + now) / 8 + 1, Ordering::Relaxed);
    }

    /// Revokes a name: `close` changes the word, and returns whether it has. Then how many readers were moved.
    pub(super) fn revoke(&self, name: u64, close: impl FnOnce() -> bool) -> Option<usize> {
        // Release, here and below: see `Shown::hide`.
        self.scans.fetch_add(1, Ordering::AcqRel);
        let moved = close().then(|| {
            P::process_barrier();
            self.records().map(|shown| shown.mark_all(name)).sum()
        });
        self.scans.fetch_sub(1, Ordering::AcqRel);
        moved
    }
}
