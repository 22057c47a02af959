//! What the record of a thread has for visible locks: the readers that it shows, and the locks that it watches. The
//! rules are those of [`visible`](super::visible).

use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

use super::word::Word;
use crate::system::{Atomic, System};

/// How many readers there may be in the record of a thread. A power of two, at most 16: there is a bit for each.
// Two to a model check: more are more of the same.
pub(super) const SHOWN: usize = if cfg!(fairlock_loom) { 2 } else { 16 };

/// No scan visits the record yet.
const UNLISTED: u8 = 0;
/// The thread may change its places.
const READY: u8 = 1;
/// It is changing them: a signal handler must not (V7).
const CHANGING: u8 = 2;

/// How often a thread may change its record between another thread's look and the exchange that follows.
const CHANGE: u64 = 1 << 16;

/// How many reads are a reason to change a lock's state. To have the lock watched: reads by one thread while others are
/// inside. To make a watched lock visible: reads in a row, each counted as often as there are readers inside. In reads;
/// compared with those since the last change.
const ENOUGH: u32 = 256;

/// The longest period after which a thread has a lock watched again. In reads beside other readers.
const LAST_PERIOD: u32 = 1 << 16;

/// When a thread has a lock watched: each time after twice as many reads.
#[doc(hidden)]
#[derive(Debug)]
pub struct Periods {
    /// How many such reads there are until then.
    left: Cell<u32>,
    period: Cell<u32>,
}

impl Periods {
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub const fn new() -> Self {
        Self { left: Cell::new(ENOUGH), period: Cell::new(ENOUGH) }
    }

    /// The calling thread reads a lock in which other readers are. Whether that is to be watched.
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
    /// Words of visible locks as they were when their readers came, or zero. A scan looks at the names in them.
    places: [P::AtomicU64; SHOWN],
    /// A bit for each place that is marked, and above those a count of changes.
    moved: P::AtomicU64,
    /// The address of the next record that a scan visits, or zero.
    pub(super) next: P::AtomicUsize,
    /// [`UNLISTED`], [`READY`] or [`CHANGING`].
    state: Cell<u8>,
    /// Of platforms whose threads all have records.
    pub(super) periods: Periods,
    watches: [Watched; SHOWN],
}

/// A lock that the thread reads again and again, and that is watched.
struct Watched {
    /// Which one, and which time.
    key: Cell<u64>,
    /// How often it was read since the last look, and since when.
    reads: Cell<u32>,
    since: Cell<u64>,
}

impl<P: System> Shown<P> {
    pub(crate) fn new() -> Self {
        let none = || Watched { key: Cell::new(0), reads: Cell::new(0), since: Cell::new(0) };
        Self {
            places: core::array::from_fn(|_| P::AtomicU64::new(0)),
            moved: P::AtomicU64::new(0),
            next: P::AtomicUsize::new(0),
            state: Cell::new(UNLISTED),
            periods: Periods::new(),
            watches: core::array::from_fn(|_| none()),
        }
    }

    /// The place of the lock of this address. Neighbouring locks have different places.
    #[inline(always)]
    pub(super) fn place(address: usize) -> usize {
        // A model does not depend on addresses.
        if cfg!(fairlock_loom) {
            return 0;
        }
        // Of 600 factors by chance the one with which locks that are 8 to 4,096 bytes apart meet least.
        let name = P::name_of(address) as u32;
        (name.wrapping_mul(0x5745_0E65) >> (u32::BITS - SHOWN.trailing_zeros())) as usize
    }

    // ---- of the thread whose record it is ----

    /// What the calling thread shows here: the word of a lock as it found it, or [`FREE`](Word::FREE).
    #[inline(always)]
    pub(super) fn at(&self, place: usize) -> Word {
        // Relaxed: only the calling thread changes it.
        Word::of(self.places[place].load(Ordering::Relaxed))
    }

    /// Whether the calling thread shows this name here.
    pub(super) fn has(&self, place: usize, name: u64) -> bool {
        self.at(place).shown() == name
    }

    /// Whether the thread may change its places: scans visit its record, and this is not a signal handler that interrupts
    /// a change.
    #[inline(always)]
    pub(super) fn is_ready(&self) -> bool {
        self.state.get() == READY
    }

    /// Whether a scan visits the record.
    pub(crate) fn is_listed(&self) -> bool {
        self.state.get() != UNLISTED
    }

    /// The calling thread has the record, which a scan visits.
    pub(crate) fn set_hint(&self) {
        P::set_reader_hint(core::ptr::from_ref(self).cast());
    }

    /// The thread, which may, begins to change its places.
    #[inline(always)]
    pub(super) fn begin_change(&self) {
        self.state.set(CHANGING);
        // Only signal handlers look at it.
        compiler_fence(Ordering::SeqCst);
    }

    /// The change is over.
    #[inline(always)]
    pub(super) fn end_change(&self) {
        compiler_fence(Ordering::SeqCst);
        self.state.set(READY);
    }

    /// The thread shows this word here, and so its name; the place is free.
    #[inline(always)]
    pub(super) fn store(&self, place: usize, word: Word) {
        // Release: a thread that sees this, and not an earlier reader of the place, acquires that one's section.
        self.places[place].store(word.bits(), Ordering::Release);
    }

    /// The thread shows nothing here any more.
    #[inline(always)]
    pub(super) fn clear(&self, place: usize) {
        // Release: what was read under the lock stays before the next writer.
        self.places[place].store(0, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn is_marked(&self, place: usize) -> bool {
        // Relaxed: a scan that is over was acquired; one that comes later sees the place cleared.
        self.moved.load(Ordering::Relaxed) >> place & 1 != 0
    }

    /// The calling thread has cleared the place, in which a scan may have seen its reader before: whether that has left, and is
    /// not counted.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&self, place: usize) -> bool {
        let mark = 1 << place;
        let mut moved = self.moved.load(Ordering::Relaxed);
        loop {
            // Acquire and Release: what was read comes before the scan's exchange that fails; a reader that was moved goes on
            // after the word was changed.
            let next = (moved & !mark).wrapping_add(CHANGE);
            match self.moved.compare_exchange(moved, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return moved & mark == 0,
                Err(now) => moved = now,
            }
        }
    }

    /// A place in use is free if its reader was moved: then that is counted, and its thread leaves by the count. Or if what it
    /// shows `is_dead`.
    #[cold]
    pub(super) fn reclaim(&self, place: usize, is_dead: impl FnOnce(Word) -> bool) {
        let is_free = || self.is_marked(place) || is_dead(self.at(place));
        if self.is_ready() && is_free() {
            self.begin_change();
            self.clear(place);
            self.settle(place);
            self.end_change();
        }
    }

    /// The calling thread shows this name no longer, wherever it does.
    #[inline(never)] // a user's `drop` is not to have it
    pub(super) fn forget(&self, name: u64) {
        if self.is_ready() {
            self.begin_change();
            for place in (0..SHOWN).filter(|&place| self.has(place, name)) {
                self.clear(place);
                self.settle(place);
            }
            self.end_change();
        }
    }

    /// The calling thread reads a watched lock of this place and key, for so many threads. Every [`ENOUGH`] reads, how long
    /// it has been watched by this thread, in nanoseconds.
    pub(super) fn watches(
        &self,
        place: usize,
        key: u64,
        reads: u32,
        now: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let watched = &self.watches[place];
        if watched.key.replace(key) != key {
            watched.since.set(now());
            watched.reads.set(0);
            return None;
        }
        watched.reads.set(watched.reads.get().saturating_add(reads));
        if watched.reads.get() < ENOUGH {
            return None;
        }
        watched.reads.set(0);
        Some(now().saturating_sub(watched.since.get()))
    }

    // ---- of other threads ----

    /// How many readers are shown by this name.
    pub(super) fn count(&self, name: u64) -> usize {
        self.places.iter().filter(|place| is_shown(*place, name)).count()
    }

    /// Marks the places that show this name; returns how many.
    pub(super) fn mark_all(&self, name: u64) -> usize {
        // Acquire: the places are looked at after this (V4).
        let mut moved = self.moved.load(Ordering::Acquire);
        loop {
            let marks = (0..SHOWN).fold(0, |marks, place| {
                let shows = is_shown(&self.places[place], name);
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

/// Whether this place shows this name.
fn is_shown(place: &impl Atomic<u64>, name: u64) -> bool {
    // Acquire: what a reader has read that has left comes before what is done next.
    Word::of(place.load(Ordering::Acquire)).shown() == name
}
