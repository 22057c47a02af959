//! When striping (see `stripes`) begins and ends.
//!
//! Striping begins and ends under the tree lock, but the stripes are made without it, or all
//! threads would fall asleep at that lock meanwhile. With `STRIPED` set in the state word no slots
//! of the lock itself are taken; slots taken before are entered into the tree. At the end all
//! stripes are closed, and ranges held there are entered into the tree. The size of regions is also
//! in each stripe's word: a thread that comes with another size is late. A holder that still has a
//! slot when striping begins again keeps its stripe closed until it has left.
//!
//! Striping ends when it is no longer of use: see `state`.

use alloc::boxed::Box;
use core::cell::OnceCell;
use core::sync::atomic::Ordering;

use super::regions::Regions;
use super::state::{Made, Striping};
use super::{STRIPES_LIMIT, Stripe, Stripes};
use crate::platform::{Atomic, ConstZero, PooledPlatform};
use crate::range::Core;
use crate::range::slots::Missed;
use crate::range::slots::word::{Flags, Packed, SLOTS, STRIPE_SLOTS, WRITER_SLOTS, Word};
use crate::range::span::Span;
use crate::range::tree::NIL;
use crate::range::tree::queue::Queue;
use crate::wait::{Kind, SOON_NS, WAKE_NS};

/// A range that goes to the tree closes up to two stripes, and a range that meets one of these goes
/// there too, and closes two. If stripes were few, that would go on until nobody is left in one. In
/// stripes for each CPU; compared with nothing: so many are made.
const STRIPES_A_CPU: usize = 6;

/// The stripes as all see them.
pub(in crate::range) struct Striped<P: PooledPlatform> {
    /// The shift of regions plus one, while the lock is striped.
    pub(in crate::range) shift: P::AtomicU32,
    /// Set once,
    pub(in crate::range) stripes: OnceCell<Stripes<P>>,
    /// and then this is not zero.
    pub(in crate::range) made: P::AtomicU32,
}

impl<P: PooledPlatform> Striped<P> {
    pub(in crate::range) fn new() -> Self {
        let zero = || P::AtomicU32::new(0);
        Self { shift: zero(), stripes: OnceCell::new(), made: zero() }
    }

    pub(in crate::range) const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
    {
        Self { shift: ConstZero::ZERO, stripes: OnceCell::new(), made: ConstZero::ZERO }
    }

    /// Looks at the slots of a stripe that were taken in `word`.
    pub(in crate::range) fn look_at(
        &self,
        number: usize,
        word: Word,
        span: Span,
        kind: Kind,
    ) -> Result<(), Missed> {
        let stripe = &self.all()[number];
        for slot in word.rivals(kind) {
            // Acquire: pairs with the Release of the holder that left it, or of the word. If it is
            // zero, or the range of a later holder, it was left.
            let packed = stripe.slots[slot].load(Ordering::Acquire);
            if packed != 0 && Packed(packed).overlaps(span) {
                return Err(Missed::Slot((SLOTS + number * STRIPE_SLOTS + slot) as u16));
            }
        }
        Ok(())
    }

    /// The stripes. They exist once `shift` has been seen to be set, or a hold has the
    /// name of one of their slots.
    pub(in crate::range) fn all(&self) -> &[Stripe<P>] {
        self.stripes.get().expect("made before anybody is told of them")
    }

    /// Before a range enters the tree: closes its stripes, and calls `f` with each of them and its
    /// word.
    pub(in crate::range) fn close_for(
        &self,
        q: &mut Queue<P>,
        span: Span,
        mut f: impl FnMut(&mut Queue<P>, usize, Word) -> Result<(), Missed>,
    ) -> Result<(), Missed> {
        let Some(regions) = &q.ranges.regions else { return Ok(()) };
        for stripe in regions.stripes(span) {
            let word = self.close(q, stripe);
            f(q, stripe, word)?;
        }
        Ok(())
    }

    /// As [`close_for`](Self::close_for), for a range that is to be held at once: nobody
    /// may be in its way.
    pub(in crate::range) fn close_for_holder(
        &self,
        q: &mut Queue<P>,
        span: Span,
        kind: Kind,
    ) -> Result<(), Missed> {
        self.close_for(q, span, |_, stripe, word| self.look_at(stripe, word, span, kind))
    }

    pub(in crate::range) fn close(&self, q: &mut Queue<P>, number: usize) -> Word {
        if let Some(striping) = &mut q.striping {
            striping.count_miss();
        }
        let stripe = &self.all()[number];
        match &mut q.ranges.regions {
            Some(regions) if !regions.is_closed(number) => {
                regions.note_closed(number);
                // Acquire: for what was done under ranges that are gone. Nothing is to be seen by
                // who finds the stripe closed: that thread goes on under the tree lock.
                stripe.word.set(Flags::CLOSED, Ordering::Acquire)
            }
            // Nobody takes a slot there, and a holder that has left one has told so under the tree
            // lock, or will. Acquire: for the ranges in the slots.
            _ => stripe.word.load(Ordering::Acquire),
        }
    }

    /// How many ranges were had by stripes; roughly.
    pub(in crate::range) fn uses(&self) -> u64 {
        let uses = |stripe: &Stripe<P>| stripe.uses.load(Ordering::Relaxed);
        self.all().iter().map(uses).fold(0, u64::wrapping_add)
    }

    /// The words of the stripes, each with the name of its first slot. None if the lock is not
    /// striped: then what is still held there is in the tree, too.
    pub(in crate::range) fn words(&self) -> impl Iterator<Item = (usize, Word)> {
        // Acquire: the stripes are there.
        let is_striped = self.shift.load(Ordering::Acquire) != 0;
        let stripes = if is_striped { self.all() } else { &[] };
        let word = |(at, stripe): (usize, &Stripe<P>)| {
            (SLOTS + at * STRIPE_SLOTS, stripe.word.load(Ordering::Acquire))
        };
        stripes.iter().enumerate().map(word)
    }

    /// Makes the stripes, without the tree lock: with it, all others would fall asleep meanwhile.
    /// Only for the thread that has set `made`, to this shift. The stripes are open, but nobody
    /// comes yet. If they had to be opened later, each line would have to be fetched under the tree
    /// lock.
    pub(in crate::range) fn make(&self, shift: u32) {
        let count = (STRIPES_A_CPU * P::cpus()).min(STRIPES_LIMIT);
        let made = self.stripes.set((0..count).map(|_| Stripe::open(shift)).collect());
        debug_assert!(made.is_ok(), "made once");
        // Release: they are there.
        self.made.store(1, Ordering::Release);
    }
}

impl<P: PooledPlatform> Core<P> {
    // ---- crowds ----

    /// Whether many find no slot: they meet at the tree lock.
    pub(in crate::range) fn is_crowded(&self) -> bool {
        // With fewer CPUs slots run out when their holders have lost theirs, and more room helps
        // nobody.
        P::cpus() > WRITER_SLOTS && self.tree_lock.is_contended()
    }

    /// In a crowd: waits a little for the lock to be striped. A thread that queues for the tree
    /// lock finds it striped too, but later: the tree lock is slow with all of them there.
    pub(in crate::range) fn awaits_stripes(&self) -> bool {
        self.is_crowded()
            // Relaxed: a guess.
            && !self.word.load(Ordering::Relaxed).has_any(Flags::NOT_FAST.without(Flags::TREE))
            && P::spin_until(&self.striped.shift, WAKE_NS, |shift| shift != 0)
    }

    /// In a crowd, to which `span` belongs: stripes the lock if that keeps the ranges apart. `Some`
    /// if the stripes have to be made first: for regions of that size, as a shift.
    #[cold]
    pub(in crate::range) fn begin_stripes_if_useful(
        &self,
        q: &mut Queue<P>,
        span: Span,
    ) -> Option<u32> {
        if q.striping.is_some() {
            return None;
        }
        let shift = q.crowd.get_or_insert_default().arrive(span)?;
        // Acquire: the stripes are there.
        if self.striped.made.load(Ordering::Acquire) == 0 {
            if q.made != Made::No {
                return None; // by another one, just now
            }
            q.made = Made::For(shift);
            return Some(shift);
        }
        self.begin_stripes(q, shift);
        None
    }

    // ---- under the tree lock ----

    /// Begins to use the stripes, which have been made, for regions of 2^`shift` positions. False
    /// if that is not possible now.
    pub(in crate::range) fn begin_stripes(&self, q: &mut Queue<P>, shift: u32) -> bool {
        if q.striping.is_some() {
            return false;
        }
        let Ok(word) = self.publish(q, Span::FULL, Flags::TREE.with(Flags::STRIPED)) else {
            return false;
        };
        // Whether a slot is just being taken, or left, for longer than that should take.
        let is_unknown = |slot: usize| {
            !P::spin_until(&self.slots[slot], SOON_NS, |packed| packed != 0)
                && self.word.load(Ordering::Relaxed).has_slot(slot)
        };
        if word.has_any(Flags::DRAIN.with(Flags::TRACED))
            || word.rivals(Kind::Writer).any(is_unknown)
        {
            return false; // and `settle` takes the flags back
        }
        let stripes = self.striped.all();
        let (shift, uses, are_open) = match core::mem::replace(&mut q.made, Made::Used) {
            Made::For(shift) => (shift, 0, true),
            _ => (shift, self.striped.uses(), false),
        };
        if !are_open {
            for stripe in stripes {
                // The stripe is closed, but not empty if somebody is left from the last time, who
                // may be just leaving. Only the shift changes. Relaxed: the thread that opens the stripe
                // publishes it.
                let regions = Flags::CLOSED.with(Flags::open_for(shift));
                stripe.word.set_regions(regions, Ordering::Relaxed);
            }
        }
        q.striped_moved.resize(stripes.len() * STRIPE_SLOTS, NIL);
        q.ranges.set_regions(Some(Regions::new(shift, stripes.len(), are_open)));
        // A holder left from the last time is in the tree, and has to tell when it leaves.
        for slot in 0..q.striped_moved.len() {
            if q.is_moved(SLOTS + slot) {
                q.ranges.keep_closed(slot / STRIPE_SLOTS);
            }
        }
        q.striping = Some(Box::new(Striping::begin(P::now(), uses)));
        for slot in word.rivals(Kind::Writer) {
            self.migrate(q, slot, word, Span::FULL);
        }
        for stripe in 0..stripes.len() {
            if q.ranges.regions.as_ref().is_some_and(|regions| regions.is_touched(stripe)) {
                self.striped.close(q, stripe); // if it is open
            }
        }
        // Release: the stripes are there.
        self.striped.shift.store(shift + 1, Ordering::Release);
        true
    }

    /// From here on no range is had by a stripe; those that are held there go to the tree.
    pub(in crate::range) fn end_stripes(&self, q: &mut Queue<P>) {
        if q.striping.take().is_none() {
            return; // else `settle` clears `STRIPED`
        }
        // For the ranges that enter the tree below. Cannot fail, as the lock is not taken as a
        // whole.
        let _ = self.publish(q, Span::FULL, Flags::TREE);
        // A thread that still sees `shift` finds the stripes closed. Release: one that does not
        // sees `TREE`.
        self.striped.shift.store(0, Ordering::Release);
        let _ = self.striped.close_for(q, Span::FULL, |q, stripe, word| {
            for slot in word.rivals(Kind::Writer) {
                self.migrate(q, SLOTS + stripe * STRIPE_SLOTS + slot, word, Span::FULL);
            }
            Ok(())
        });
        q.ranges.set_regions(None);
    }

    /// Every so often: ends striping if too few ranges were had by it.
    pub(in crate::range) fn judge_stripes(&self, q: &mut Queue<P>) {
        let Some(striping) = &mut q.striping else { return };
        if striping.is_due(self.striped.all().len()) && !striping.is_useful(self.striped.uses()) {
            let lasted_ns = P::now().saturating_sub(striping.since);
            q.crowd.get_or_insert_default().count_end(lasted_ns);
            self.end_stripes(q);
        }
    }
}
