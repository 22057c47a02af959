//! What happens under the tree lock: ranges that enter the tree and wait in it, and
//! how that fits together with the slots. How they leave it is in `change`.
//!
//! **Entering.** A range that enters the tree does three things in this order: it
//! extends the hull, changes the word (`publish`), and looks at the slots that the
//! word showed. Whoever takes a slot after that sees `TREE` and a hull that covers
//! the range, and comes here to ask; whoever took one before is seen.
//!
//! **Slots that somebody waits for.** A waiter counts entries of the tree, so a
//! slot in its way is entered into the tree too (`migrate`), on the holder's
//! behalf and ahead of the waiter. `QUEUED` makes its holder come here after it has
//! left the slot, to take the entry out. An entry whose slot is free is that of
//! a holder on its way here, and the slot is not taken before it came: with
//! `QUEUED` set slots are taken under the tree lock only. Once nobody waits any
//! more such entries go: the slot is enough.
//!
//! The range of a slot that is just being taken or left cannot be read yet. Its
//! entry covers everything then, which may make a waiter wait for a range that
//! does not concern it, but only for as long as that is held; and it does not wait
//! for somebody who would not tell.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::crowd::Crowd;
use super::ranges::Ranges;
use super::slots::Missed;
use super::span::Span;
use super::stripes::{Made, STRIPE_SLOTS, Striping};
use super::tree::{Id, NIL};
use super::waiter::{self, PatientList, RangeWaiter};
use super::word::{
    Packed, QUEUED, SLOTS, STRIPED, TRACED, TREE, WHOLE, free_slots, is_gated, kind_of, rivals,
    slot_bits,
};
use super::{Hold, RangeRwLock};
use crate::fault::{Fault, active};
use crate::platform::{Atomic, Platform};
use crate::wait::{Kind, Thread, WakeList};

/// What the tree lock guards.
pub(super) struct Queue<P: Platform> {
    pub(super) ranges: Ranges<*const RangeWaiter<P>>,
    /// Those that may be overtaken.
    pub(super) patient: PatientList<P>,
    /// The entry in the tree of each slot that has one,
    moved: [Id; SLOTS],
    any_moved: bool,
    /// and of each slot in a stripe.
    pub(super) striped_moved: Vec<Id>,
    pub(super) made: Made,
    pub(super) striping: Option<Striping>,
    pub(super) crowd: Crowd,
    /// What the lock shows as the hull of the tree.
    hull: (u64, u64),
    /// Whether the lock shows that somebody is patient.
    shows_patient: bool,
    /// Which of `TREE`, `QUEUED` and `STRIPED` are set.
    flags: u64,
    /// The last range that was held after a look at the tree.
    last: Last,
}

/// The hull of an empty tree: overlaps nothing.
pub(super) const NOTHING: (u64, u64) = (u64::MAX, 0);

/// Where a range went that was held after a look at the tree, if it is still there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Gone,
    Slot(usize),
    Node(Id),
}

// SAFETY: the pointers in it are to waiters that are alive while they are in it,
// and whose fields are atomics or used under the tree lock.
unsafe impl<P: Platform> Send for Queue<P> {}

impl<P: Platform> Queue<P> {
    pub(super) const fn new() -> Self {
        Self {
            ranges: Ranges::new(),
            patient: PatientList::new(),
            moved: [NIL; SLOTS],
            any_moved: false,
            striped_moved: Vec::new(),
            made: Made::No,
            striping: None,
            crowd: Crowd::new(),
            hull: NOTHING,
            shows_patient: false,
            flags: 0,
            last: Last::Gone,
        }
    }

    /// Whether the slot's holder also has an entry in the tree.
    pub(super) fn is_moved(&self, slot: usize) -> bool {
        self.moved(slot) != NIL
    }

    /// The entry in the tree of the slot's holder, or none.
    pub(super) fn moved(&self, slot: usize) -> Id {
        if slot < SLOTS { self.moved[slot] } else { self.striped_moved[slot - SLOTS] }
    }

    fn set_moved(&mut self, slot: usize, node: Id) {
        match slot.checked_sub(SLOTS) {
            None => {
                self.moved[slot] = node;
                self.any_moved = true;
            }
            Some(striped) => {
                self.striped_moved[striped] = node;
                self.ranges.keep_closed(striped / STRIPE_SLOTS);
            }
        }
    }

    /// The same; from now on it has none.
    pub(super) fn take_moved(&mut self, slot: usize) -> Id {
        let node = self.moved(slot);
        match slot.checked_sub(SLOTS) {
            None => self.moved[slot] = NIL,
            Some(striped) if node != NIL => {
                self.striped_moved[striped] = NIL;
                self.ranges.let_open(striped / STRIPE_SLOTS);
            }
            Some(_) => {}
        }
        node
    }

    /// Takes an entry out of the tree and grants what that lets in.
    pub(super) fn remove(&mut self, id: Id, wakes: &mut WakeList<P>) {
        if self.last == Last::Node(id) {
            self.last = Last::Gone;
        }
        self.ranges.remove(id, |waiter, node| grant(waiter, node, wakes));
    }
}

/// The range of `waiter` is held from now on. Rule 1: published first, woken after.
pub(super) fn grant<P: Platform>(waiter: *const RangeWaiter<P>, node: Id, wakes: &mut WakeList<P>) {
    // SAFETY: as below.
    #[cfg(all(test, loom))]
    let frame = unsafe { (*waiter).frame.clone() };
    // SAFETY: the waiter was waiting in the tree up to now, so it is alive, and
    // stays so until `enter` has stored GRANTED. Not used after that (defect 8);
    // the thread record outlives it.
    let thread: &'static Thread<P> = unsafe { (*waiter).thread };
    // SAFETY: as above.
    unsafe { (*waiter).enter(node, waiter::GRANTED) };
    if active(Fault::TouchesGranted) {
        // SAFETY: there is none; that is the mistake.
        unsafe { (*waiter).state() };
    }
    #[cfg(all(test, loom))]
    if super::range_loom::touches_granted() {
        frame.with(|_| ());
    }
    wakes.push(thread);
}

/// The range of `waiter` has entered the tree, to be held or to wait.
fn settle_in<P: Platform>(
    waiter: &RangeWaiter<P>,
    (id, held): (Id, bool),
    wakes: &mut WakeList<P>,
) {
    if held {
        grant(waiter, id, wakes);
    } else {
        waiter.enter(id, waiter::QUEUED);
    }
}

/// A writer cannot enter while readers may still be inside by the gate.
fn passes_gate(word: u64, kind: Kind) -> Result<(), Missed> {
    if is_gated(word, kind) { Err(Missed::Gate) } else { Ok(()) }
}

impl<P: Platform> RangeRwLock<P> {
    /// Runs `f` under the tree lock, then makes the word say what is in the tree.
    pub(super) fn with_queue<R>(&self, f: impl FnOnce(&mut Queue<P>) -> R) -> R {
        self.tree_lock.lock();
        // SAFETY: `tree_lock` is held, so this is the only reference to the queue.
        let queue = unsafe { &mut *self.queue.get() };
        let result = f(queue);
        self.settle(queue);
        // SAFETY: taken above.
        unsafe { self.tree_lock.unlock() };
        result
    }

    /// The same, with a list of threads to be woken when the lock is free again.
    pub(super) fn with_queue_and_wakes<R>(
        &self,
        f: impl FnOnce(&mut Queue<P>, &mut WakeList<P>) -> R,
    ) -> R {
        let mut wakes = WakeList::new();
        let result = self.with_queue(|q| f(q, &mut wakes));
        if !wakes.is_empty() {
            wakes.wake_all();
        }
        result
    }

    /// Makes hull and flags follow what is in the queue.
    #[inline]
    fn settle(&self, q: &mut Queue<P>) {
        if q.ranges.regions.is_some() {
            self.settle_stripes(q);
        }
        if q.any_moved && q.ranges.waiting() == 0 && q.striping.is_none() {
            self.forget_moved(q);
        }
        // What grows here was covered by `publish` already, or is in a slot too;
        // nothing depends on how soon others see what shrinks.
        self.show_hull(q, q.ranges.hull().map_or(NOTHING, |hull| (hull.start(), hull.last())));
        let flag = |flag: u64, set: bool| if set { flag } else { 0 };
        let flags = flag(TREE, !q.ranges.is_empty())
            | flag(QUEUED, q.ranges.waiting() > 0)
            | flag(STRIPED, q.striping.is_some());
        self.show_patient(q, !q.patient.is_empty());
        let gone = q.flags & !flags;
        if gone != 0 {
            // Release: what was done under ranges that left the tree.
            self.word.fetch_and(!gone, Ordering::Release);
        }
        debug_assert_eq!(flags & !q.flags, 0, "flags are set by `publish`");
        q.flags = flags;
    }

    #[inline]
    fn show_hull(&self, q: &mut Queue<P>, hull: (u64, u64)) {
        if q.hull != hull {
            q.hull = hull;
            // Release: what was done under the ranges that let it shrink. When it
            // has to be seen that it has grown, `publish` sees to.
            self.hull_start.store(!hull.0, Ordering::Release);
            self.hull_last.store(hull.1, Ordering::Release);
        }
    }

    fn show_patient(&self, q: &mut Queue<P>, patient: bool) {
        if q.shows_patient != patient {
            q.shows_patient = patient;
            // Relaxed: a hint for those who leave a range.
            self.patient.store(u32::from(patient), Ordering::Relaxed);
        }
    }

    /// Nobody waits for slots any more: they need no entry in the tree.
    #[cold]
    fn forget_moved(&self, q: &mut Queue<P>) {
        for slot in 0..SLOTS {
            let node = q.take_moved(slot);
            if node != NIL {
                q.ranges.remove(node, |_, _| debug_assert!(false, "somebody waits"));
            }
        }
        q.any_moved = false;
    }

    /// Sets `flags` and says what the word was. If the lock is taken as a whole the
    /// flags are taken back: nothing may enter the tree then.
    pub(super) fn publish(&self, q: &mut Queue<P>, span: Span, flags: u64) -> Result<u64, Missed> {
        if flags & TREE != 0 {
            let (start, last) = q.hull;
            self.show_hull(q, (start.min(span.start()), last.max(span.last())));
        }
        // AcqRel: Release for the hull, and Acquire for what was done under ranges
        // that are gone. Even with the flags set already: it is this operation's
        // place in the word's order that counts.
        let before = self.word.fetch_or(flags, Ordering::AcqRel);
        if before & WHOLE != 0 {
            self.word.fetch_and(!(flags & !q.flags), Ordering::Relaxed);
            return Err(Missed::Gate);
        }
        q.flags |= flags;
        Ok(before)
    }

    // ---- without waiting ----

    /// Asks the tree, and takes the range if nothing is in its way.
    pub(super) fn try_beside_tree(&self, span: Span, kind: Kind) -> Result<Hold, Missed> {
        if self.awaits_stripes()
            && let result @ (Ok(_) | Err(Missed::Slot(_))) = self.try_slot(span, kind)
        {
            return result;
        }
        let (result, next) = self.with_queue(|q| {
            let next = if self.is_crowded() { self.begin_stripes_if_useful(q, span) } else { None };
            (self.try_entry(q, span, kind), next)
        });
        if let Some(next) = next {
            self.go_on(next);
        }
        result
    }

    /// Under the tree lock.
    fn try_entry(&self, q: &mut Queue<P>, span: Span, kind: Kind) -> Result<Hold, Missed> {
        if q.ranges.conflicts(span, kind) {
            return Err(Missed::Tree);
        }
        if let Some(result) = self.try_striped_again(q, span, kind) {
            return result;
        }
        let word = self.word.load(Ordering::Relaxed);
        if let Some(packed) = Packed::pack(span)
            && word & (TRACED | STRIPED) == 0
            && Self::stays_are_short(q, word)
        {
            match self.claim_slot(q, word, packed, span, kind) {
                Err(Missed::Unknown) => {}
                result => return result,
            }
        }
        let before = self.publish(q, span, TREE)?;
        passes_gate(before, kind)?;
        self.look_at_rivals(before, 0, span, kind, true)?;
        self.close_stripes_for_holder(q, span, kind)?;
        let (who, since) = self.trace(word);
        let id = q.ranges.insert_held(span, kind, who, since);
        q.last = Last::Node(id);
        Ok(Hold::node(id))
    }

    /// If the lock is striped: the range by a stripe that has opened meanwhile. `None` if
    /// it has to be had otherwise.
    fn try_striped_again(
        &self,
        q: &Queue<P>,
        span: Span,
        kind: Kind,
    ) -> Option<Result<Hold, Missed>> {
        let shift = q.ranges.regions.as_ref()?.shift();
        match self.try_striped(shift, span, kind, true) {
            Err(Missed::Unknown) => None,
            result => Some(result),
        }
    }

    /// Takes a slot, with the tree lock held and nothing in the way in the tree.
    /// `Unknown` if there is none.
    fn claim_slot(
        &self,
        q: &mut Queue<P>,
        mut word: u64,
        packed: Packed,
        span: Span,
        kind: Kind,
    ) -> Result<Hold, Missed> {
        let slot = loop {
            passes_gate(word, kind)?;
            // Not one whose last holder has yet to tell that it has left.
            let Some(slot) = free_slots(word).find(|&slot| !q.is_moved(slot)) else {
                return Err(Missed::Unknown);
            };
            // Acquire: owns the range if nothing is in the way (rule 3).
            match self.word.compare_exchange_weak(
                word,
                word | slot_bits(slot, kind),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break slot,
                Err(now) => word = now,
            }
        };
        // Release: who reads the range comes after who took the slot.
        self.slots[slot].store(packed.0, Ordering::Release);
        let bits = slot_bits(slot, kind);
        match self.look_at_rivals(word, bits, span, kind, true) {
            Ok(()) => {
                q.last = Last::Slot(slot);
                Ok(Hold::slot(slot))
            }
            Err(missed) => {
                // Nobody can have counted it: that takes the tree lock.
                self.slots[slot].store(0, Ordering::Relaxed);
                self.word.fetch_sub(bits, Ordering::Release);
                Err(missed)
            }
        }
    }

    /// Whether ranges that are taken now can be expected to leave soon, so that
    /// they are worth a slot: the last one has left already. A guess.
    fn stays_are_short(q: &Queue<P>, word: u64) -> bool {
        match q.last {
            Last::Gone => true,
            Last::Slot(slot) => word & slot_bits(slot, Kind::Reader) == 0,
            Last::Node(_) => false,
        }
    }

    /// Who and when, if that is to be noted.
    pub(super) fn trace(&self, word: u64) -> (usize, u64) {
        if word & TRACED == 0 { (0, 0) } else { (P::thread().hint(), P::now()) }
    }

    /// Reads past those that wait: only holders count.
    pub(super) fn try_ahead(&self, span: Span) -> Result<Hold, Missed> {
        self.with_queue(|q| {
            if q.ranges.conflicts_with_holder(span, Kind::Reader) {
                return Err(Missed::Tree);
            }
            let before = self.publish(q, span, TREE)?;
            self.look_at_rivals(before, 0, span, Kind::Reader, true)?;
            self.close_stripes_for_holder(q, span, Kind::Reader)?;
            let (who, since) = self.trace(before);
            Ok(Hold::node(q.ranges.insert_ahead(span, Kind::Reader, who, since)))
        })
    }

    // ---- waiting ----

    /// Lists a waiter that may be overtaken.
    ///
    /// # Safety
    /// The waiter stays where it is until it is granted or taken out.
    pub(super) unsafe fn list(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
    ) -> Result<(), Missed> {
        // Relaxed: the gate is opened under the tree lock.
        passes_gate(self.word.load(Ordering::Relaxed), waiter.kind)?;
        // SAFETY: the caller's promise.
        unsafe { q.patient.push(waiter) };
        Ok(())
    }

    /// Enters a waiter's range into the tree, to wait there or to be held at once.
    /// The waiter is in no list.
    ///
    /// # Safety
    /// The waiter stays where it is until it is granted or taken out.
    pub(super) unsafe fn enqueue(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) -> Result<(), Missed> {
        let (span, kind) = (waiter.span, waiter.kind);
        self.migrate_rivals(q, span, kind)?;
        let (who, since) = (waiter.thread.hint(), waiter.arrived);
        let entered = q.ranges.insert(span, kind, core::ptr::from_ref(waiter), who, since);
        settle_in(waiter, entered, wakes);
        Ok(())
    }

    /// The same for a reader that goes ahead of those that wait: it waits for those
    /// that hold a part of its range.
    ///
    /// # Safety
    /// As [`enqueue`](Self::enqueue).
    pub(super) unsafe fn enqueue_ahead(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) -> Result<(), Missed> {
        self.migrate_rivals(q, waiter.span, waiter.kind)?;
        let (who, since) = (waiter.thread.hint(), waiter.arrived);
        let this = core::ptr::from_ref(waiter);
        let entered = q.ranges.insert_waiting_ahead(waiter.span, this, who, since);
        settle_in(waiter, entered, wakes);
        Ok(())
    }

    /// Before a range enters the tree that may have to wait there: so do those in
    /// slots that it waits for.
    fn migrate_rivals(&self, q: &mut Queue<P>, span: Span, kind: Kind) -> Result<(), Missed> {
        let before = self.publish(q, span, TREE | QUEUED)?;
        passes_gate(before, kind)?;
        // From here on whoever leaves a slot, or downgrades it, comes to the tree lock.
        for slot in rivals(before, kind) {
            self.migrate(q, slot, before, span);
        }
        self.close_stripes(q, span, |q, stripe, word| {
            for slot in rivals(word, kind) {
                self.migrate(q, SLOTS + stripe * STRIPE_SLOTS + slot, word, span);
            }
            Ok(())
        })
    }

    /// Enters the range in a slot, which is taken in its `word`, into the tree, if it
    /// overlaps `span` or cannot be read.
    pub(super) fn migrate(&self, q: &mut Queue<P>, slot: usize, word: u64, span: Span) {
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
            let node = q.ranges.insert_held(held, kind_of(word, seat.index), 0, 0);
            q.set_moved(slot, node);
        }
    }

    /// Nobody may overtake the listed waiter `last` any longer, nor those that came
    /// before it. They may be granted by that, so `last` may be gone afterwards.
    pub(super) fn enqueue_up_to(
        &self,
        q: &mut Queue<P>,
        last: *const RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) {
        while let Some(first) = q.patient.first().map(core::ptr::from_ref) {
            // SAFETY: a listed waiter is alive, stays so until it is granted, and
            // was listed under the promise that `enqueue` needs.
            let entered = unsafe {
                q.patient.remove(&*first);
                self.enqueue(q, &*first, wakes)
            };
            // The gate is not opened while anybody is listed, and nobody is
            // listed who would still have to pass it.
            debug_assert!(entered.is_ok());
            if core::ptr::eq(first, last) {
                break;
            }
        }
        Self::tell_first_patient(q, wakes);
    }

    /// Takes a waiter out, wherever it is. `Ok` with its range if that was granted:
    /// then it is held (defect 6).
    pub(super) fn take_out(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) -> Option<Hold> {
        match waiter.state() {
            waiter::GRANTED => return Some(Hold::node(waiter.node())),
            waiter::QUEUED => q.remove(waiter.node(), wakes),
            _ => {
                let was_first = q.patient.first().is_some_and(|first| core::ptr::eq(first, waiter));
                q.patient.remove(waiter);
                if was_first {
                    Self::tell_first_patient(q, wakes);
                }
            }
        }
        None
    }

    /// The one in front looks by itself (see `wait`): a new one has to know that it is,
    /// or ranges that nobody poked for would stand idle until its time is over.
    fn tell_first_patient(q: &Queue<P>, wakes: &mut WakeList<P>) {
        if let Some(first) = q.patient.first() {
            wakes.push(first.thread);
        }
    }
}
