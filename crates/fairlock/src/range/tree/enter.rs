//! How ranges enter the tree, to be held or to wait, under the tree lock, and how that works
//! together with the slots. How ranges leave is in `change`.
//!
//! **Entering.** A thread that enters a range into the tree does three things in this order: it
//! extends the hull, changes the word (`publish`), and looks at the slots that the word showed. A
//! thread that takes a slot after that sees `TREE` and a hull that covers the range, and looks into
//! the tree; a slot taken before that is seen.
//!
//! **Slots that somebody waits for.** A waiter counts entries of the tree, so a slot in its way is
//! entered into the tree, too (`migrate`), on the holder's behalf and ahead of the waiter. `QUEUED`
//! makes the holder take the entry out after it has left the slot. An entry whose slot is free
//! belongs to a holder that is about to do so, and the slot is not taken before that is done: with
//! `QUEUED` set slots are taken under the tree lock only. Once nobody waits, such entries are
//! removed: the slot is enough.
//!
//! The range of a slot that is just being taken or left cannot be read yet. Its entry then covers
//! everything. That may make a waiter wait for a range that does not overlap, but only while that
//! is held, and never for a holder that would not tell the tree.

use core::sync::atomic::Ordering;

use super::queue::{Last, Queue, grant};
use crate::platform::{Atomic, PooledPlatform};
use crate::range::slots::Missed;
use crate::range::slots::word::{Flags, Packed, SLOTS, STRIPE_SLOTS, SlotBits, Word};
use crate::range::span::Span;
use crate::range::wait::waiter::InWay;
use crate::range::wait::waiter::{self, RangeWaiter};
use crate::range::{Core, Hold};
use crate::wait::{Kind, WakeList};

/// Who takes the range and when, if that is to be noted; zeros otherwise.
fn trace<P: PooledPlatform>(word: Word) -> (usize, u64) {
    if word.has_any(Flags::TRACED) { (P::thread().hint(), P::now()) } else { (0, 0) }
}

/// A writer cannot enter while readers may still be inside by the gate.
fn passes_gate(word: Word, kind: Kind) -> Result<(), Missed> {
    if word.is_gated(kind) { Err(Missed::Gate) } else { Ok(()) }
}

impl<P: PooledPlatform> Core<P> {
    // ---- without waiting ----

    /// Asks the tree, and takes the range if nothing is in its way.
    pub(in crate::range) fn try_beside_tree(&self, span: Span, kind: Kind) -> Result<Hold, Missed> {
        if self.awaits_stripes() {
            if let result @ (Ok(_) | Err(Missed::Slot(_))) = self.try_slot(span, kind) {
                return result;
            }
        }
        let (result, shift) = self.with_queue(|q| {
            let shift =
                if self.is_crowded() { self.begin_stripes_if_useful(q, span) } else { None };
            (self.try_entry(q, span, kind), shift)
        });
        if let Some(shift) = shift {
            self.striped.make(shift);
        }
        result
    }

    /// Under the tree lock.
    fn try_entry(&self, q: &mut Queue<P>, span: Span, kind: Kind) -> Result<Hold, Missed> {
        if q.ranges.conflicts(span, kind) {
            return Err(Missed::Tree);
        }
        // By a stripe, which may have opened meanwhile.
        if let Some(regions) = &q.ranges.regions {
            match self.try_striped(regions.shift(), span, kind, true) {
                Err(Missed::Unknown) => {}
                result => return result,
            }
        }
        let word = self.word.load(Ordering::Relaxed);
        let may_take_slot =
            !word.has_any(Flags::TRACED.with(Flags::STRIPED)) && q.stays_are_short(word);
        if let Some(packed) = Packed::pack(span).filter(|_| may_take_slot) {
            match self.claim_slot(q, word, packed, span, kind) {
                Err(Missed::Unknown) => {}
                result => return result,
            }
        }
        let before = self.publish(q, span, Flags::TREE)?;
        passes_gate(before, kind)?;
        self.look_at_rivals(before, SlotBits::NONE, span, kind, true)?;
        self.striped.close_for_holder(q, span, kind)?;
        let (who, since) = trace::<P>(word);
        let id = q.ranges.insert_held(span, kind, who, since);
        q.last = Last::Node(id);
        Ok(Hold::node(id))
    }

    /// Takes a slot, with the tree lock held and nothing in the way in the tree.
    /// `Unknown` if there is none.
    fn claim_slot(
        &self,
        q: &mut Queue<P>,
        word: Word,
        packed: Packed,
        span: Span,
        kind: Kind,
    ) -> Result<Hold, Missed> {
        let (slot, word) = self.enter_slot(word, packed, kind, |word| {
            passes_gate(word, kind)?;
            // Not a slot whose last holder has yet to tell that it has left.
            word.free_slots().find(|&slot| !q.is_moved(slot)).ok_or(Missed::Unknown)
        })?;
        let bits = SlotBits::new(slot, kind);
        match self.look_at_rivals(word, bits, span, kind, true) {
            Ok(()) => {
                q.last = Last::Slot(slot as u32);
                Ok(Hold::slot(slot))
            }
            Err(missed) => {
                // Nobody can have counted this slot: that takes the tree lock.
                self.slots[slot].store(0, Ordering::Relaxed);
                self.word.leave(bits, Ordering::Release);
                Err(missed)
            }
        }
    }

    /// Reads past those that wait: only holders count.
    pub(in crate::range) fn try_ahead(&self, span: Span) -> Result<Hold, Missed> {
        self.with_queue(|q| {
            if q.ranges.conflicts_with_holder(span, Kind::Reader) {
                return Err(Missed::Tree);
            }
            let before = self.publish(q, span, Flags::TREE)?;
            self.look_at_rivals(before, SlotBits::NONE, span, Kind::Reader, true)?;
            self.striped.close_for_holder(q, span, Kind::Reader)?;
            let (who, since) = trace::<P>(before);
            Ok(Hold::node(q.ranges.insert_ahead(span, Kind::Reader, who, since)))
        })
    }

    // ---- waiting ----

    /// Lists a waiter that may be overtaken; as awake if it may be able to have its range already.
    ///
    /// # Safety
    /// The waiter stays where it is until it is granted or taken out.
    pub(in crate::range) unsafe fn list(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
    ) -> Result<(), Missed> {
        // Relaxed: the gate is opened under the tree lock.
        passes_gate(self.word.load(Ordering::Relaxed), waiter.kind)?;
        // SAFETY: the caller's promise.
        unsafe { q.patient.push(waiter) };
        if matches!(self.watch(q, waiter), InWay::Nobody | InWay::Unknown) {
            q.patient.note_awake(waiter);
        }
        Ok(())
    }

    /// Enters a waiter's range into the tree, to wait there or to be held immediately: behind all others; or at a place in the
    /// order, where it also waits for those that hold a part of it. The waiter is in no list.
    ///
    /// # Safety
    /// The waiter stays where it is until it is granted or taken out.
    pub(in crate::range) unsafe fn enqueue(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
        place: Option<u64>,
        wakes: &mut WakeList<P>,
    ) -> Result<(), Missed> {
        let (span, kind) = (waiter.span, waiter.kind);
        self.migrate_rivals(q, span, kind)?;
        let (this, who, since) =
            (core::ptr::from_ref(waiter), waiter.thread.hint(), waiter.arrived);
        let (id, is_held) = match place {
            Some(seq) => q.ranges.insert_again(span, kind, seq, this, who, since),
            None => q.ranges.insert(span, kind, this, who, since),
        };
        if is_held {
            grant(&mut q.offers, waiter, id, wakes);
        } else {
            waiter.enter(id, waiter::QUEUED);
        }
        Ok(())
    }

    /// Before a range that may have to wait enters the tree: enters those in slots that it waits
    /// for.
    fn migrate_rivals(&self, q: &mut Queue<P>, span: Span, kind: Kind) -> Result<(), Missed> {
        let before = self.publish(q, span, Flags::TREE.with(Flags::QUEUED))?;
        passes_gate(before, kind)?;
        // From here on a thread that leaves a slot, or downgrades it, comes to the tree lock.
        for slot in before.rivals(kind) {
            self.migrate(q, slot, before, span);
        }
        self.striped.close_for(q, span, |q, stripe, word| {
            for slot in word.rivals(kind) {
                self.migrate(q, SLOTS + stripe * STRIPE_SLOTS + slot, word, span);
            }
            Ok(())
        })
    }

    /// Enters the range of `slot`, which is taken in `word`, into the tree, if it overlaps `span`
    /// or cannot be read.
    pub(in crate::range) fn migrate(&self, q: &mut Queue<P>, slot: usize, word: Word, span: Span) {
        if q.is_moved(slot) {
            return;
        }
        let seat = self.seat(slot);
        // Acquire: pairs with the Release of the range.
        let held = match seat.packed.load(Ordering::Acquire) {
            0 if slot >= SLOTS => return, // left
            0 => Span::FULL,
            packed => Packed(packed).span(),
        };
        if held.overlaps(&span) {
            let node = q.ranges.insert_held(held, word.kind_of(seat.index), 0, 0);
            q.set_moved(slot, node);
        }
    }

    /// From here on nobody may overtake the listed waiter `last`, nor those that came before it.
    /// They may be granted by that, so `last` may be gone afterwards.
    pub(in crate::range) fn enqueue_up_to(
        &self,
        q: &mut Queue<P>,
        last: *const RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) {
        while let Some(first) = q.patient.first().map(core::ptr::from_ref) {
            // SAFETY: a listed waiter is alive, stays so until it is granted, and
            // was listed under the promise that `enqueue` needs.
            let entered = unsafe {
                let first = &*first;
                // It may not come if it is another thread's: that sleeps, or was woken and has not looked.
                first.set_sleeps(P::OFFERS_RANGES && !core::ptr::eq(first.thread, P::thread()));
                q.patient.remove(first);
                self.enqueue(q, first, None, wakes)
            };
            // The gate is not opened while anybody is listed, and nobody is listed who still has to
            // pass it.
            debug_assert!(entered.is_ok());
            if core::ptr::eq(first, last) {
                break;
            }
        }
    }
}
