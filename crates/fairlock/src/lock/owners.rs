//! To which locks the numbers of visible words belong, where words may be copied, overwritten or forgotten.
//!
//! The word of a visible lock has a number that no lock had before (see [`visible`](super::visible), V1), and its readers
//! show that word. A copy of the word must not lead to them. So a table has, at the place of each number in use, the
//! address of its lock. A visible word whose number does not belong to its address is *stray*. Nobody shows a reader by
//! it, and the thread that finds it makes it a word that is not visible: the readers that it counted itself are inside.
//!
//! | rule | |
//! |---|---|
//! | O1 | A reader looks at the table after it has shown the name, as at the word. So the name of a lock that has lost its number is seen in a scan, or the reader withdraws. |
//! | O2 | The table changes one thread at a time ([`forgetting`](super::PooledPlatform::forgetting)), and so does whether a word is visible. |
//! | O3 | A number is given up by the thread that revokes it, or once nobody shows it: then all readers of its lock are counted. The lock, which may be gone, is not touched. |
//!
//! By O3 the numbers of locks that are gone go to other locks, and a lock that is alive loses nothing but its being visible.
//!
//! In the child of a fork the thread is not there that was just revoking a name, or looking whether a number is in use. What it
//! was about is in a note, by which the child finishes that, or takes it back.

use core::sync::atomic::Ordering;

use super::word::NUMBERS;
use crate::platform::{Atomic, ConstZero, Platform};

/// How many locks may be visible at a time. A power of two.
// One in a model: two locks meet there.
const PLACES: usize = if cfg!(fairlock_loom) { 1 } else { 1 << 16 };
const PLACE_BITS: u32 = PLACES.trailing_zeros();

/// How many places are looked at before a number is taken away from a lock. In places; compared with those there are.
const LOOKS: usize = if PLACES < 8 { PLACES } else { 8 };

/// An owner is its address, less the bits that are zero, above the part of the number that is not its place.
const ADDRESS_SHIFT: u32 = 3;
const OWNER_SHIFT: u32 = 20;

const _: () = assert!(cfg!(fairlock_loom) || NUMBERS >> PLACE_BITS <= 1 << OWNER_SHIFT);

/// The owners of numbers. Addresses have 47 bits: others become visible as well, but copies of them may lead to their readers.
#[doc(hidden)]
pub struct VisibleOwners<P: Platform> {
    places: [P::AtomicU64; PLACES],
    /// The note of the thread that changes the table: one more than a number, and its owner; zero: there is none.
    noted: P::AtomicU64,
    owner: P::AtomicU64,
    /// The process of that thread.
    process: P::AtomicUsize,
    /// It revokes the name: the lock is there.
    revokes: P::AtomicU32,
}

/// What a place says of the number and the lock at the address.
#[inline(always)]
fn owner(number: u64, address: usize) -> u64 {
    (address as u64 >> ADDRESS_SHIFT) << OWNER_SHIFT | number >> PLACE_BITS
}

impl<P: Platform> VisibleOwners<P> {
    /// As [`new_const`](Self::new_const), not for statics.
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub fn new() -> Self {
        let zero = || P::AtomicU64::new(0);
        Self {
            places: core::array::from_fn(|_| zero()),
            noted: zero(),
            owner: zero(),
            process: P::AtomicUsize::new(0),
            revokes: P::AtomicU32::new(0),
        }
    }

    /// No number has an owner.
    pub const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self {
            places: [const { ConstZero::ZERO }; PLACES],
            noted: ConstZero::ZERO,
            owner: ConstZero::ZERO,
            process: ConstZero::ZERO,
            revokes: ConstZero::ZERO,
        }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> &P::AtomicU64 {
        &self.places[number as usize % PLACES]
    }

    /// Whether the number belongs to the lock at the address.
    #[inline(always)]
    pub(super) fn has(&self, number: u64, address: usize) -> bool {
        // Acquire: a thread that finds another owner sees what was done before that was put there.
        self.place(number).load(Ordering::Acquire) == owner(number, address)
    }

    /// Whether the number belongs to a lock at another address.
    pub(super) fn has_other(&self, number: u64, address: usize) -> bool {
        let found = self.place(number).load(Ordering::Acquire);
        let is_of_number = (found ^ owner(number, address)) << (u64::BITS - OWNER_SHIFT) == 0;
        found != 0 && is_of_number && found != owner(number, address)
    }

    // ---- one thread at a time ----

    /// The first of these `numbers`, which no lock had before, that has a place for the lock at the address. `is_shown` says
    /// whether a thread shows a number. None if as many locks are visible as there can be.
    pub(super) fn claim(
        &self,
        address: usize,
        process: usize,
        numbers: impl Fn() -> Option<u64>,
        is_shown: impl FnOnce(u64) -> bool,
    ) -> Option<u64> {
        let mut number = numbers()?;
        for _ in 1..LOOKS {
            if self.place(number).load(Ordering::Relaxed) == 0 {
                break;
            }
            number = numbers()?;
        }
        if !self.sweep(number, process, is_shown) {
            return None;
        }
        // Release: see `has`.
        self.place(number).store(owner(number, address), Ordering::Release);
        Some(number)
    }

    /// The number is nobody's from here on.
    pub(super) fn free(&self, number: u64) {
        self.place(number).store(0, Ordering::Release);
    }

    /// Takes the number that has the place of this one, if any, away from its lock, unless it `is_shown`. Whether the place is
    /// free.
    pub(super) fn sweep(
        &self,
        number: u64,
        process: usize,
        is_shown: impl FnOnce(u64) -> bool,
    ) -> bool {
        let Some((number, found)) = self.begin_sweeping(number, process) else { return true };
        P::process_barrier();
        let is_shown = is_shown(number);
        if is_shown {
            self.place(number).store(found, Ordering::Release);
        }
        self.end();
        !is_shown
    }

    /// The number that has the place of this one is nobody's, for a look whether a thread shows it. Returns it and its owner.
    pub(super) fn begin_sweeping(&self, number: u64, process: usize) -> Option<(u64, u64)> {
        let place = self.place(number);
        let found = place.load(Ordering::Relaxed);
        let part = found & ((1 << OWNER_SHIFT) - 1);
        let number = (part << PLACE_BITS) | (number % PLACES as u64);
        (found != 0).then(|| {
            self.begin(number, found, process, false);
            // Acquire and Release, as where a word is closed.
            place.swap(0, Ordering::AcqRel);
            (number, found)
        })
    }

    /// The calling thread is about to revoke the name with this number, of the lock at the address.
    pub(super) fn begin_revoking(&self, number: u64, address: usize, process: usize) {
        self.begin(number, owner(number, address), process, true);
    }

    fn begin(&self, number: u64, owner: u64, process: usize, revokes: bool) {
        self.owner.store(owner, Ordering::Relaxed);
        self.process.store(process, Ordering::Relaxed);
        self.revokes.store(revokes.into(), Ordering::Relaxed);
        // Release, in this order: the child of a fork that finds a number finds the rest.
        self.noted.store(number + 1, Ordering::Release);
    }

    pub(super) fn end(&self) {
        // Release: all that the note is about has been done.
        self.noted.store(0, Ordering::Release);
    }

    /// The number of which a thread of a parent of this process has left something half done.
    #[inline]
    pub(super) fn half_done(&self, process: usize) -> Option<u64> {
        let number = self.noted.load(Ordering::Acquire).checked_sub(1)?;
        (self.process.load(Ordering::Relaxed) != process).then_some(number)
    }

    /// Puts the number back that the thread looked for. Of a name that it was revoking, `finish` is told the number and the address
    /// of the lock.
    pub(super) fn finish(&self, process: usize, finish: impl FnOnce(u64, usize)) {
        let Some(number) = self.half_done(process) else { return };
        let owner = self.owner.load(Ordering::Relaxed);
        if self.revokes.load(Ordering::Relaxed) == 0 {
            self.place(number).store(owner, Ordering::Release);
        } else {
            finish(number, (owner >> OWNER_SHIFT << ADDRESS_SHIFT) as usize);
        }
        self.end();
    }
}
