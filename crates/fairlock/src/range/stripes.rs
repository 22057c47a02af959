//! Stripes: slots by address, for ranges that have nothing to do with each other on
//! CPUs that have nothing to do with each other.
//!
//! Everybody who takes a slot changes the state word, and a word can be handed from
//! CPU to CPU some million times a second, whatever is done under the ranges. So when
//! that many ranges are held at the same time that slots run out (`crowd`), positions
//! are divided into *regions* of equal size, and ranges that lie in one region take a
//! slot of the region's *stripe*: a cache line with a word and slots of its own. No
//! line is written by everybody then. Several regions share a stripe; their ranges
//! look at each other there, and find that they do not overlap. A range in two regions
//! that are neighbours, as those are that are no longer than a region and lie anywhere,
//! takes a slot in each, for what it has there, as if it were two.
//!
//! A range of more regions, one that cannot be packed, and one that has to wait
//! enter the tree, as ever. Tree and stripes keep apart:
//!
//! > A stripe is `CLOSED` while the tree has a range that touches its regions. In a
//! > closed stripe no slot is taken.
//!
//! Whoever enters the tree first closes the stripes it touches, and then looks at the
//! slots that their words showed; and whoever takes a slot in a stripe sees in the
//! same step whether it is closed. So one order holds as it does for the state word:
//! of two conflicting ranges there is a word that both have changed, and the second
//! sees the first. When the last range that touches a stripe has left the tree, the
//! stripe opens again (`regions` counts).
//!
//! For a waiter the slots in its way are entered into the tree, as those of the lock
//! itself are (`queue`), and `CLOSED` makes their holders come by when they leave. It is
//! simpler here, as a bit in a stripe's word is never set before the slot says which
//! range it is for, and the slot is emptied after the bit is cleared.
//!
//! **Beginning and end**, both under the tree lock; only the making of the stripes is not,
//! as everybody would fall asleep at the tree lock meanwhile. With `STRIPED` set in the state word
//! no slot of the lock itself is taken any more; those that are taken are entered into
//! the tree. In the end all stripes are closed, and what is held there is entered into
//! the tree. Which size the regions have is in each stripe's word as well: whoever comes
//! with another one is late. Who still holds a slot when the next time begins keeps its
//! stripe closed until it has left.
//!
//! Striping ends when it is of no use: every so many ranges that met a closed stripe, or
//! closed one, there must have been several times as many that met an open one.

use alloc::boxed::Box;
use core::sync::atomic::Ordering;

use super::faults::faulty_lock;
use super::queue::Queue;
use super::regions::{Regions, stripe_of};
use super::slots::Missed;
use super::span::Span;
use super::tree::NIL;
use super::word::{
    CLOSED, DRAIN, NOT_FAST, Packed, SLOTS, STRIPED, TRACED, TREE, WRITER_SLOTS, free_slots,
    has_rivals, has_slot, open_for, rivals, slot_bits, stripe_flags,
};
use super::{Hold, RangeRwLock};
use crate::platform::{Atomic, Platform};
use crate::wait::Kind;

/// Slots in a stripe: with the word, what else is in a cache line.
pub(super) const STRIPE_SLOTS: usize = 6;
/// A range that goes to the tree closes up to two stripes, and who meets one of these
/// follows it there, and closes two. Were they few, that would go on until nobody is
/// left in a stripe.
const STRIPES_A_CPU: usize = 6;
/// More stripes than that would not fit the names of holds.
const MOST_STRIPES: usize = if cfg!(loom) { 2 } else { 2048 };
/// Slots in all stripes.
pub(super) const MOST_STRIPED: usize = MOST_STRIPES * STRIPE_SLOTS;
/// So many times as many ranges have to be had by stripes as are not.
const USES: u64 = 4;
/// Ranges that are not, for each stripe, before that is looked at: the look costs a
/// transfer of each line.
const MISSES: u64 = 8;

/// How long those who find no slot wait for the lock to be striped.
const CROWD_NS: u64 = 20_000;
/// Within that a thread that has taken a slot says what for, if it has a CPU.
const TAKING_NS: u64 = 10_000;

/// One line of slots.
#[repr(C, align(64))]
pub(super) struct Stripe<P: Platform> {
    pub(super) word: P::AtomicU64,
    pub(super) slots: [P::AtomicU64; STRIPE_SLOTS],
    /// Ranges that were had here; roughly.
    uses: P::AtomicU64,
}

/// All of them, made when they are first needed.
pub(super) type Stripes<P> = Box<[Stripe<P>]>;

/// What has become of the stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    No,
    /// They are made, or just being made, and are open for regions of that shift.
    For(u32),
    /// They have been in use, and are closed when they are not.
    Used,
}

/// What is left to do in a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The stripes have to be made, for regions of that shift.
    Make(u32),
    /// The lock has been striped: those that wait may have nothing to wait for.
    Poke,
}

/// What goes on for as long as the lock is striped.
pub(super) struct Striping {
    /// When it began.
    pub(super) since: u64,
    /// Ranges that met a closed stripe or closed one, since the last look.
    misses: u64,
    /// Ranges that were had by stripes, as of the last look.
    uses: u64,
}

impl<P: Platform> RangeRwLock<P> {
    // ---- ranges ----

    /// Takes a slot in a stripe, or in two, if the range has so many regions and nothing
    /// is in its way there. `Unknown` says that the tree must be asked. The caller says
    /// whether it has the tree lock.
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
                        self.leave_striped(first, low, kind, has_tree);
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
        let stripes = self.stripes();
        let number = stripe_of(region, stripes.len());
        let stripe = &stripes[number];
        let is_open = |word| {
            stripe_flags(word) == open_for(shift)
                || (faulty_lock!(self, IgnoresClosed)
                    && stripe_flags(word) == CLOSED | open_for(shift))
        };
        // Relaxed: a guess.
        let mut word = stripe.word.load(Ordering::Relaxed);
        if !is_open(word) {
            return Err(Missed::Unknown);
        }
        // AcqRel: Acquire for what its last holder did, whom others will not see there
        // any more; Release hands that on if the slot is given back at once.
        let claim = |&slot: &usize| {
            let slot = &stripe.slots[slot];
            slot.compare_exchange(0, packed.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let mut free = free_slots(word).take_while(|&slot| slot < STRIPE_SLOTS);
        let Some(slot) = free.find(claim) else { return Err(Missed::Unknown) };
        loop {
            // AcqRel: Acquire, as every way to hold a range (rule 3); Release: who sees
            // the bit sees the range in the slot.
            match stripe.word.compare_exchange_weak(
                word,
                word | slot_bits(slot, kind),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) if is_open(now) => word = now,
                Err(_) => {
                    // Release: as for the claim.
                    stripe.slots[slot].store(0, Ordering::Release);
                    return Err(Missed::Unknown);
                }
            }
        }
        let name = SLOTS + number * STRIPE_SLOTS + slot;
        let mut missed = self.look_at_stripe(number, word, span, kind);
        // Who left its slot for the tree before the look has closed the stripe before
        // that. Acquire: as for the slot.
        if has_rivals(word, kind)
            && missed.is_ok()
            && stripe.word.load(Ordering::Acquire) & CLOSED != 0
            && !faulty_lock!(self, LooksOnceAtStripe)
        {
            missed = Err(Missed::Unknown);
        }
        if let Err(missed) = missed {
            self.leave_striped(name, span, kind, has_tree);
            return Err(missed);
        }
        // Relaxed, and not one step: a count that is roughly right will do.
        stripe.uses.store(stripe.uses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(name)
    }

    /// Gives back what was taken, but is of no use.
    #[cold]
    fn leave_striped(&self, slot: usize, span: Span, kind: Kind, has_tree: bool) {
        if has_tree {
            self.leave_seat(slot, kind); // nobody can have counted it
        } else {
            self.release_striped(slot, span, kind);
        }
    }

    /// Looks at the slots of a stripe that were taken in `word`.
    fn look_at_stripe(
        &self,
        number: usize,
        word: u64,
        span: Span,
        kind: Kind,
    ) -> Result<(), Missed> {
        let stripe = &self.stripes()[number];
        for slot in rivals(word, kind) {
            // Acquire: pairs with the Release of who left it, or of its word. Zero, or
            // the range of a later one: it was left.
            let packed = stripe.slots[slot].load(Ordering::Acquire);
            if packed != 0 && Packed(packed).overlaps(span) {
                return Err(Missed::Slot((SLOTS + number * STRIPE_SLOTS + slot) as u16));
            }
        }
        Ok(())
    }

    /// Gives back both slots of a range in two stripes.
    pub(super) fn release_pair(&self, first: usize, second: usize, span: Span, kind: Kind) {
        self.release_striped(first, span, kind);
        self.release_striped(second, span, kind);
    }

    /// Gives back a slot in a stripe.
    #[inline(never)]
    pub(super) fn release_striped(&self, slot: usize, span: Span, kind: Kind) {
        let before = self.leave_seat(slot, kind);
        if before & CLOSED != 0 && !faulty_lock!(self, LeavesQuietly) {
            self.tell_that_slot_was_left(slot);
        }
        if self.has_patient() {
            self.poke(span);
        }
    }

    /// Says what the word was.
    pub(super) fn leave_seat(&self, slot: usize, kind: Kind) -> u64 {
        let seat = self.seat(slot);
        // Release: what was done under the range is done before the next has it.
        let before = seat.word.fetch_sub(slot_bits(seat.index, kind), Ordering::Release);
        // Release: who finds it empty need not look at the word.
        seat.packed.store(0, Ordering::Release);
        before
    }

    /// The stripes. They are there once `striping` has been seen to be set, or a hold has
    /// the name of one of their slots.
    pub(super) fn stripes(&self) -> &[Stripe<P>] {
        self.stripes.get().expect("made before anybody is told of them")
    }

    // ---- crowds ----

    /// Whether those that find no slot are many: they meet at the tree lock.
    pub(super) fn is_crowded(&self) -> bool {
        // With fewer CPUs slots run out when their holders have lost theirs, and room
        // for more of those helps nobody.
        P::cpus() > WRITER_SLOTS && self.tree_lock.is_contended()
    }

    /// In a crowd: waits a little whether the lock is striped. Whoever queues for the
    /// tree lock will find that done, but late: it is slow with all of them there.
    pub(super) fn awaits_stripes(&self) -> bool {
        self.is_crowded()
            // Relaxed: a guess.
            && self.word.load(Ordering::Relaxed) & NOT_FAST & !TREE == 0
            && P::spin_until(&self.striping, CROWD_NS, |shift| shift != 0)
    }

    /// In a crowd, of which `span` is one: stripes the lock if that keeps them apart.
    #[cold]
    pub(super) fn begin_stripes_if_useful(&self, q: &mut Queue<P>, span: Span) -> Option<Next> {
        if q.striping.is_some() {
            return None;
        }
        let shift = q.crowd.arrive(span)?;
        // Acquire: the stripes are there.
        if self.has_stripes.load(Ordering::Acquire) == 0 {
            if q.made != Made::No {
                return None; // by another one, just now
            }
            q.made = Made::For(shift);
            return Some(Next::Make(shift));
        }
        let begun = self.begin_stripes(q, shift);
        self.settle_stripes(q);
        begun.then_some(Next::Poke)
    }

    /// Without the tree lock: with it, all the others would fall asleep meanwhile.
    #[cold]
    pub(super) fn go_on(&self, next: Next) {
        match next {
            Next::Make(shift) => self.make_stripes(shift),
            // Nobody pokes those that found no slot, and need none any more.
            Next::Poke => self.poke_all(),
        }
    }

    /// Only for who has set `made`, to this shift. They are open, but nobody comes: if they
    /// had to be opened, each line would have to come from here under the tree lock.
    pub(super) fn make_stripes(&self, shift: u32) {
        let count = (STRIPES_A_CPU * P::cpus()).min(MOST_STRIPES);
        let made = self.stripes.set((0..count).map(|_| Stripe::open(shift)).collect());
        debug_assert!(made.is_ok(), "made once");
        // Release: they are there.
        self.has_stripes.store(1, Ordering::Release);
    }

    // ---- the tree, under its lock ----

    /// Before a range enters the tree: closes its stripes, and calls `f` with each and
    /// with its word.
    pub(super) fn close_stripes(
        &self,
        q: &mut Queue<P>,
        span: Span,
        mut f: impl FnMut(&mut Queue<P>, usize, u64) -> Result<(), Missed>,
    ) -> Result<(), Missed> {
        let Some(regions) = &q.ranges.regions else { return Ok(()) };
        if faulty_lock!(self, SkipsStripes) {
            return Ok(());
        }
        for stripe in regions.stripes(span) {
            let word = self.close_stripe(q, stripe);
            f(q, stripe, word)?;
        }
        Ok(())
    }

    /// The same for a range that is to be held at once: nobody may be in its way.
    pub(super) fn close_stripes_for_holder(
        &self,
        q: &mut Queue<P>,
        span: Span,
        kind: Kind,
    ) -> Result<(), Missed> {
        self.close_stripes(q, span, |_, stripe, word| self.look_at_stripe(stripe, word, span, kind))
    }

    fn close_stripe(&self, q: &mut Queue<P>, number: usize) -> u64 {
        q.count_miss();
        let stripe = &self.stripes()[number];
        match &mut q.ranges.regions {
            Some(regions) if !regions.is_closed(number) => {
                regions.note_closed(number);
                // AcqRel: as for the state word, see `publish`.
                stripe.word.fetch_or(CLOSED, Ordering::AcqRel)
            }
            // Nobody takes a slot there, and who has left one has told, under the tree
            // lock, or will. Acquire: for the ranges in the slots.
            _ => stripe.word.load(Ordering::Acquire),
        }
    }

    /// Opens the stripes that are closed for nobody any more.
    pub(super) fn settle_stripes(&self, q: &mut Queue<P>) {
        if q.striping.as_ref().is_some_and(|s| s.misses >= MISSES * self.stripes().len() as u64) {
            self.judge_stripes(q);
        }
        let Some(regions) = &mut q.ranges.regions else { return };
        while let Some(stripe) = regions.next_to_open() {
            // Release: what was done under ranges that have left the tree.
            self.stripes()[stripe].word.fetch_and(!CLOSED, Ordering::Release);
        }
    }

    /// Begins to use the stripes, which have been made, for regions of 2^`shift` positions. False if that
    /// cannot be now.
    pub(super) fn begin_stripes(&self, q: &mut Queue<P>, shift: u32) -> bool {
        if q.striping.is_some() {
            return false;
        }
        let Ok(word) = self.publish(q, Span::FULL, TREE | STRIPED) else { return false };
        // Just being taken, or left, for longer than that takes.
        let is_unknown = |slot: usize| {
            !P::spin_until(&self.slots[slot], TAKING_NS, |packed| packed != 0)
                && has_slot(self.word.load(Ordering::Relaxed), slot)
        };
        if word & (DRAIN | TRACED) != 0 || rivals(word, Kind::Writer).any(is_unknown) {
            return false; // and `settle` takes the flags back
        }
        let stripes = self.stripes();
        let (shift, uses, are_open) = match core::mem::replace(&mut q.made, Made::Used) {
            Made::For(shift) => (shift, 0, true),
            _ => (shift, self.uses(), false),
        };
        if !are_open {
            for stripe in stripes {
                // Closed, but not empty if somebody is left from the last time, who may
                // be just leaving. Only the shift changes. Relaxed: told when it opens.
                let before = stripe_flags(stripe.word.load(Ordering::Relaxed));
                let change = (CLOSED | open_for(shift)).wrapping_sub(before);
                stripe.word.fetch_add(change, Ordering::Relaxed);
            }
        }
        q.striped_moved.resize(stripes.len() * STRIPE_SLOTS, NIL);
        q.ranges.set_regions(Some(Regions::new(shift, stripes.len(), are_open)));
        // Who is left from the last time is in the tree, and has to tell when it leaves.
        for slot in 0..q.striped_moved.len() {
            if q.is_moved(SLOTS + slot) {
                q.ranges.keep_closed(slot / STRIPE_SLOTS);
            }
        }
        q.striping = Some(Striping { since: P::now(), misses: 0, uses });
        for slot in rivals(word, Kind::Writer) {
            self.migrate(q, slot, word, Span::FULL);
        }
        for stripe in 0..stripes.len() {
            if q.ranges.regions.as_ref().is_some_and(|regions| regions.is_touched(stripe)) {
                self.close_stripe(q, stripe); // if it is open
            }
        }
        // Release: the stripes are there.
        self.striping.store(shift + 1, Ordering::Release);
        true
    }

    /// No range is had by a stripe any more; those that are go to the tree.
    pub(super) fn end_stripes(&self, q: &mut Queue<P>) {
        if q.striping.take().is_none() {
            return; // else `settle` clears `STRIPED`
        }
        // For what follows; cannot fail, as the lock is not taken as a whole.
        let _ = self.publish(q, Span::FULL, TREE);
        // Who still sees it set finds the stripes closed. Release: who does not, `TREE`.
        self.striping.store(0, Ordering::Release);
        let _ = self.close_stripes(q, Span::FULL, |q, stripe, word| {
            for slot in rivals(word, Kind::Writer) {
                self.migrate(q, SLOTS + stripe * STRIPE_SLOTS + slot, word, Span::FULL);
            }
            Ok(())
        });
        q.ranges.set_regions(None);
    }

    /// Ends striping if too few had a range by it.
    fn judge_stripes(&self, q: &mut Queue<P>) {
        let uses = self.uses();
        let Some(striping) = &mut q.striping else { return };
        let is_useful = uses.wrapping_sub(striping.uses) >= USES * striping.misses;
        (striping.uses, striping.misses) = (uses, 0);
        if !is_useful {
            q.crowd.count_end(P::now().saturating_sub(striping.since));
            self.end_stripes(q);
        }
    }

    /// Ranges that were had by stripes; roughly.
    pub(super) fn uses(&self) -> u64 {
        let uses = |stripe: &Stripe<P>| stripe.uses.load(Ordering::Relaxed);
        self.stripes().iter().map(uses).fold(0, u64::wrapping_add)
    }
}

impl<P: Platform> Stripe<P> {
    fn open(shift: u32) -> Self {
        Self {
            word: P::AtomicU64::new(open_for(shift)),
            slots: core::array::from_fn(|_| P::AtomicU64::new(0)),
            uses: P::AtomicU64::new(0),
        }
    }
}

impl<P: Platform> Queue<P> {
    /// A range goes to the tree that might have been had by a stripe.
    fn count_miss(&mut self) {
        if let Some(striping) = &mut self.striping {
            striping.misses += 1;
        }
    }
}
