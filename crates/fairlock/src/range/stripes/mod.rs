//! Stripes: slots by address, for disjoint ranges on many CPUs.
//!
//! Every thread that takes a slot changes the state word, and a word can move between CPUs only
//! some million times a second. So when so many ranges are held at the same time that slots run out
//! (`crowd`), positions are divided into *regions* of equal size, and a range that lies in one
//! region takes a slot of the region's *stripe*: a cache line with a word and slots of its own.
//! Then no line is written by all threads. Several regions share a stripe; their ranges look at
//! each other there, and find that they do not overlap. A range that lies in two neighbouring
//! regions takes a slot in each, for its part there, as if it were two: any range that is no longer
//! than a region lies in two at most.
//!
//! A range of more regions, one that cannot be packed, and one that has to wait enter the tree, as
//! without stripes. Tree and stripes are kept apart:
//!
//! > A stripe is `CLOSED` while the tree has a range that touches its regions. In a
//! > closed stripe no slot is taken.
//!
//! A thread that enters a range into the tree first closes the stripes it touches, and then looks
//! at the slots that their words showed. A thread that takes a slot in a stripe sees in the same
//! step whether the stripe is closed. So there is one order, as with the state word: of two
//! conflicting ranges there is a word that both have changed, and the second sees the first. When
//! the last range that touches a stripe has left the tree, the stripe opens again (`regions`
//! counts).
//!
//! The slots in a waiter's way are entered into the tree, as for slots of the lock itself
//! (`enter`), and `CLOSED` makes their holders tell the tree when they leave. This is simpler here,
//! as a bit in a stripe's word is never set before the slot says which range it is for, and the
//! slot is emptied after the bit is cleared.
//!
//! When the lock is striped, and for how long, is in `striping`.

pub(super) mod crowd;
pub(super) mod regions;
pub(super) mod state;
pub(super) mod striping;

use alloc::boxed::Box;
use core::sync::atomic::Ordering;

use super::slots::Missed;
use super::slots::word::{AtomicWord, Flags, Packed, SLOTS, STRIPE_SLOTS, SlotBits, Word};
use super::span::Span;
use super::tree::queue::Queue;
use super::{Core, Hold};
use crate::platform::{Atomic, PooledPlatform};
use crate::wait::Kind;
use regions::stripe_of;

/// More stripes than that would not fit the names of holds.
pub(super) const STRIPES_LIMIT: usize = if cfg!(fairlock_loom) { 2 } else { 2048 };
/// Slots in all stripes.
pub(super) const STRIPED_LIMIT: usize = STRIPES_LIMIT * STRIPE_SLOTS;
/// A cache line of slots.
#[repr(C, align(64))]
pub(super) struct Stripe<P: PooledPlatform> {
    pub(super) word: AtomicWord<P>,
    pub(super) slots: [P::AtomicU64; STRIPE_SLOTS],
    /// How many ranges were had here; roughly.
    pub(super) uses: P::AtomicU64,
}

/// All stripes, made when they are first needed.
pub(super) type Stripes<P> = Box<[Stripe<P>]>;

impl<P: PooledPlatform> Core<P> {
    // ---- ranges ----

    /// Takes a slot in a stripe, or in two if the range lies in two regions, if nothing is in its
    /// way there. `Unknown` says that the tree must be asked. `has_tree` says that the caller has
    /// the tree lock.
    #[inline(never)]
    pub(super) fn try_striped(
        &self,
        shift: u32,
        span: Span,
        kind: Kind,
        has_tree: bool,
    ) -> Result<Hold, Missed> {
        let region = span.start() >> shift;
        match (span.last() >> shift) - region {
            0 => Ok(Hold::slot(self.take_striped(shift, region, span, kind, has_tree)?)),
            1 => {
                let (low, high) = span.split_before((region + 1) << shift);
                let first = self.take_striped(shift, region, low, kind, has_tree)?;
                match self.take_striped(shift, region + 1, high, kind, has_tree) {
                    Ok(second) => Ok(Hold::pair(first, second)),
                    Err(missed) => {
                        self.leave_striped(first, kind, has_tree);
                        Err(missed)
                    }
                }
            }
            _ => Err(Missed::Unknown),
        }
    }

    /// Takes a slot in the stripe of `region`, where all of `span` is.
    #[inline]
    fn take_striped(
        &self,
        shift: u32,
        region: u64,
        span: Span,
        kind: Kind,
        has_tree: bool,
    ) -> Result<usize, Missed> {
        let Some(packed) = Packed::pack(span) else { return Err(Missed::Unknown) };
        let stripes = self.striped.all();
        let number = stripe_of(region, stripes.len());
        let stripe = &stripes[number];
        let open = Flags::open_for(shift);
        let is_open = |word: Word| word.regions() == open;
        // Relaxed: a guess.
        let mut word = stripe.word.load(Ordering::Relaxed);
        if !is_open(word) {
            return Err(Missed::Unknown);
        }
        // Acquire: for what the slot's last holder did, which is not seen from the word any more,
        // and is handed on if the slot is given back at once.
        let claim = |&slot: &usize| {
            let slot = &stripe.slots[slot];
            slot.compare_exchange(0, packed.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let mut free = word.free_slots().take_while(|&slot| slot < STRIPE_SLOTS);
        let Some(slot) = free.find(claim) else { return Err(Missed::Unknown) };
        loop {
            // AcqRel: Acquire, as every way to hold a range (rule 3); Release: a thread that sees
            // the bit sees the range in the slot.
            match stripe.word.compare_exchange_weak(
                word,
                word.with_slot(SlotBits::new(slot, kind)),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) if is_open(now) => word = now,
                Err(_) => {
                    // Release: hands on what the claim acquired.
                    stripe.slots[slot].store(0, Ordering::Release);
                    return Err(Missed::Unknown);
                }
            }
        }
        let name = SLOTS + number * STRIPE_SLOTS + slot;
        let mut missed = self.striped.look_at(number, word, span, kind);
        // A holder that left its slot for the tree before the look has closed the stripe before
        // that. Acquire: if the stripe is open again, the holder has left the tree.
        if word.has_rivals(kind)
            && missed.is_ok()
            && stripe.word.load(Ordering::Acquire).is_closed()
        {
            missed = Err(Missed::Unknown);
        }
        if let Err(missed) = missed {
            self.leave_striped(name, kind, has_tree);
            return Err(missed);
        }
        // Relaxed, and not one step: a count that is roughly right will do.
        stripe.uses.store(stripe.uses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(name)
    }

    /// Gives back a slot that was taken in vain.
    #[cold]
    fn leave_striped(&self, slot: usize, kind: Kind, has_tree: bool) {
        if has_tree {
            self.leave_seat(slot, kind); // nobody can have counted it, or seen it and slept
        } else {
            self.release_striped(slot, kind);
        }
    }

    /// Gives back a slot in a stripe.
    #[inline(never)]
    pub(super) fn release_striped(&self, slot: usize, kind: Kind) {
        let before = self.leave_seat(slot, kind);
        if before.is_closed() {
            self.tell_that_slot_was_left(slot);
        }
        if before.is_watched() {
            self.tell_patient(slot);
        }
    }

    /// Leaves a slot; returns what the word was.
    pub(super) fn leave_seat(&self, slot: usize, kind: Kind) -> Word {
        let seat = self.seat(slot);
        // Release: what was done under the range is done before the next has it. Acquire: a thread
        // that has to tell the tree finds the entry there.
        let before = seat.word.leave(SlotBits::new(seat.index, kind), Ordering::AcqRel);
        // Release: a thread that finds it empty need not look at the word.
        seat.packed.store(0, Ordering::Release);
        before
    }

    // ---- under the tree lock ----

    /// Opens the stripes that are closed for nobody any more.
    pub(super) fn settle_stripes(&self, q: &mut Queue<P>) {
        self.judge_stripes(q);
        let Some(regions) = &mut q.ranges.regions else { return };
        while let Some(stripe) = regions.next_to_open() {
            // Release: what was done under ranges that have left the tree.
            self.striped.all()[stripe].word.clear(Flags::CLOSED, Ordering::Release);
        }
    }
}

impl<P: PooledPlatform> Stripe<P> {
    pub(super) fn open(shift: u32) -> Self {
        Self {
            word: AtomicWord::new(Word::FREE.with(Flags::open_for(shift))),
            slots: core::array::from_fn(|_| P::AtomicU64::new(0)),
            uses: P::AtomicU64::new(0),
        }
    }
}
