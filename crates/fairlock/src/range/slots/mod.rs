//! The fast way: ranges in slots.
//!
//! A range takes a slot by one compare-exchange of the state word, which also shows the slots that
//! were taken before. Its thread then writes the range into the slot, looks at the ranges that may
//! conflict, and later leaves by one subtraction. The word and the first slots share a cache line,
//! so an acquisition moves one line between two CPUs, as that of a plain lock does.
//!
//! Of two ranges that come at the same time the second sees the first (see `word`), so the first
//! never has to look twice. The second takes its slot back, which is a release like any other.

pub(super) mod word;

use core::sync::atomic::Ordering;

use super::span::Span;
use super::{Core, Hold, SLOT_LOOKS};
use crate::platform::{Atomic, PooledPlatform};
use crate::wait::Kind;
use word::{AtomicWord, Flags, Packed, SLOTS, STRIPE_SLOTS, SlotBits, Word};

/// Why a range was not had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// The holder of this slot is in the way.
    Slot(u16),
    /// Somebody in the tree is in the way.
    Tree,
    /// Slots alone do not tell whether the range is free: the tree must be asked.
    Unknown,
    /// The lock is taken as a whole, by the gate.
    Gate,
}

/// A slot, of the lock itself or of a stripe.
pub(super) struct Seat<'a, P: PooledPlatform> {
    /// The word that says whether the seat is taken,
    pub(super) word: &'a AtomicWord<P>,
    /// as its slot of this number.
    pub(super) index: usize,
    /// The range in it.
    pub(super) packed: &'a P::AtomicU64,
}

impl<P: PooledPlatform> Core<P> {
    /// The slot of that name.
    pub(super) fn seat(&self, slot: usize) -> Seat<'_, P> {
        match slot.checked_sub(SLOTS) {
            None => Seat { word: &self.word, index: slot, packed: &self.slots[slot] },
            Some(slot) => {
                let (stripe, index) =
                    (&self.striped.all()[slot / STRIPE_SLOTS], slot % STRIPE_SLOTS);
                Seat { word: &stripe.word, index, packed: &stripe.slots[index] }
            }
        }
    }

    /// Takes a slot if neither slots nor hull are in the way.
    #[inline(always)]
    pub(super) fn try_slot(&self, span: Span, kind: Kind) -> Result<Hold, Missed> {
        // Acquire: the stripes are there.
        let striping = self.striped.shift.load(Ordering::Acquire);
        if striping != 0 {
            return self.try_striped(striping - 1, span, kind, false);
        }
        let Some(packed) = Packed::pack(span) else { return Err(Missed::Unknown) };
        let word = match kind {
            // A guess that nobody is there: if somebody is, there is more to look at.
            Kind::Writer => Word::FREE,
            // No branch on which readers are there: to predict it wrong costs more than the line's
            // way from another CPU, which the section hides. Relaxed: a guess, too.
            Kind::Reader => self.word.load(Ordering::Relaxed),
        };
        let is_fast = !word.has_any(Flags::NOT_FAST) && !word.has_rivals(kind);
        let (true, Some(slot)) = (is_fast, word.free_slot(kind)) else {
            return self.try_slot_beside(word, packed, span, kind);
        };
        let taken = word.with_slot(SlotBits::new(slot, kind));
        // Acquire: owns the range if nothing is in the way (rule 3).
        match self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                // Release: a thread that reads the range comes after the one that took the slot.
                self.slots[slot].store(packed.0, Ordering::Release);
                Ok(Hold::slot(slot))
            }
            Err(word) => self.try_slot_beside(word, packed, span, kind),
        }
    }

    /// Takes the slot that `choose` says for the word, which was last seen as `word`. Returns the
    /// slot, and the word before.
    #[inline(always)]
    pub(super) fn enter_slot(
        &self,
        mut word: Word,
        packed: Packed,
        kind: Kind,
        choose: impl Fn(Word) -> Result<usize, Missed>,
    ) -> Result<(usize, Word), Missed> {
        loop {
            let slot = choose(word)?;
            let taken = word.with_slot(SlotBits::new(slot, kind));
            // Acquire: owns the range if nothing is in the way (rule 3).
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    // Release: a thread that reads the range comes after the one that took the
                    // slot.
                    self.slots[slot].store(packed.0, Ordering::Release);
                    return Ok((slot, word));
                }
                Err(now) => word = now,
            }
        }
    }

    #[inline(never)]
    fn try_slot_beside(
        &self,
        word: Word,
        packed: Packed,
        span: Span,
        kind: Kind,
    ) -> Result<Hold, Missed> {
        let (slot, word) = self.enter_slot(word, packed, kind, |word| {
            self.may_skip_tree(word, span, kind)?;
            word.free_slot(kind).ok_or(Missed::Unknown)
        })?;
        // The hull is looked at again: it may have grown between the first look and the exchange.
        // From here on it is as it was at the exchange, or later.
        let free = self
            .may_skip_tree(word, span, kind)
            .and_then(|()| self.look_at_rivals(word, SlotBits::new(slot, kind), span, kind, false));
        match free {
            Ok(()) => Ok(Hold::slot(slot)),
            Err(missed) => {
                self.release_slot(slot, kind);
                Err(missed)
            }
        }
    }

    /// Whether `word` and the hull say that nothing but slots can be in the way.
    #[inline]
    fn may_skip_tree(&self, word: Word, span: Span, kind: Kind) -> Result<(), Missed> {
        if !word.has_any(Flags::NOT_FAST) {
            return Ok(());
        }
        if word.is_gated(kind) {
            return Err(Missed::Gate);
        }
        if word.has_any(Flags::NOT_ALONE) {
            return Err(Missed::Unknown);
        }
        // A range that entered the tree before the word came to be `word` has extended the hull
        // before that; see `publish`.
        let outside = self.hull.is_outside(span);
        if !word.has_any(Flags::TREE) || outside { Ok(()) } else { Err(Missed::Unknown) }
    }

    /// Looks at the slots that were taken in `word`, without `own`. `has_tree` says that the caller
    /// has the tree lock, and has asked the tree.
    pub(super) fn look_at_rivals(
        &self,
        mut word: Word,
        own: SlotBits,
        span: Span,
        kind: Kind,
        has_tree: bool,
    ) -> Result<(), Missed> {
        let mut looked = false;
        'again: loop {
            for slot in word.rivals(kind) {
                looked = true;
                let mut looks = SLOT_LOOKS;
                loop {
                    // Acquire: pairs with the Release of the range.
                    let packed = self.slots[slot].load(Ordering::Acquire);
                    if packed != 0 {
                        if Packed(packed).overlaps(span) {
                            return Err(Missed::Slot(slot as u16));
                        }
                        break;
                    }
                    // The slot is just being taken, or being left. Acquire: if it was left, what
                    // was done under the range is seen.
                    let now = self.word.load(Ordering::Acquire);
                    if !now.has_slot(slot) {
                        // It was left, perhaps for the tree: look at all slots anew, and at that in the end.
                        word = now.without_slot(own);
                        continue 'again;
                    }
                    looks -= 1;
                    if looks == 0 {
                        return Err(Missed::Slot(slot as u16));
                    }
                    P::pause();
                }
            }
            break;
        }
        if looked && !has_tree {
            // A slot may have been left for the tree, and even taken again before the look. Then `TREE` is seen
            // now, unless that range has left the tree: Acquire, as for the slot.
            self.may_skip_tree(self.word.load(Ordering::Acquire), span, kind)?;
        }
        Ok(())
    }

    /// Gives a slot back.
    #[inline(always)]
    pub(super) fn release_slot(&self, slot: usize, kind: Kind) {
        // Relaxed: the Release of the bits below makes it visible first.
        self.slots[slot].store(0, Ordering::Relaxed);
        // Release: what was done under the range is done before the next has it. Acquire: for
        // `is_watched`. By a subtraction, which returns what the word was in one instruction.
        let before = self.word.leave(SlotBits::new(slot, kind), Ordering::AcqRel);
        if before.has_any(Flags::TELLS) {
            self.tell_that_slot_was_left(slot);
        }
        if self.shown.is_watched(slot) {
            self.tell_patient(slot);
        }
    }

    /// Turns the writer in a slot into a reader.
    pub(super) fn downgrade_slot(&self, slot: usize, span: Span) {
        let seat = self.seat(slot);
        let tells = if slot < SLOTS { Flags::TELLS } else { Flags::CLOSED };
        let mut word = seat.word.load(Ordering::Relaxed);
        while !word.has_any(tells) {
            // Release: the readers let in see what was written. Acquire: for `is_watched`.
            match seat.word.compare_exchange_weak(
                word,
                word.downgraded(seat.index),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(before) => {
                    let is_watched = if slot < SLOTS {
                        self.shown.is_watched(slot)
                    } else {
                        before.is_watched()
                    };
                    if is_watched {
                        self.tell_patient(slot);
                    }
                    return;
                }
                Err(now) => word = now,
            }
        }
        self.downgrade_slot_queued(slot, span);
    }
}
