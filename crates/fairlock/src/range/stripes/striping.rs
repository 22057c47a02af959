//! When the lock is striped (see `stripes`), and when no longer.
//!
//! Both are done under the tree lock; only the stripes are made without it, or everybody
//! would fall asleep at it meanwhile. With `STRIPED` set in the state word no slot of the
//! lock itself is taken any more; those that are taken are entered into the tree. In the
//! end all stripes are closed, and what is held there is entered into the tree. Which size
//! the regions have is in each stripe's word as well: whoever comes with another one is
//! late. Who still holds a slot when the next time begins keeps its stripe closed until it
//! has left.
//!
//! Striping ends when it is of no use any more: see `state`.

use alloc::boxed::Box;
use core::cell::OnceCell;
use core::sync::atomic::Ordering;

use super::regions::Regions;
use super::state::{Made, Striping};
use super::{MOST_STRIPES, STRIPE_SLOTS, Stripe, Stripes};
use crate::platform::{Atomic, ConstZero, Platform};
use crate::range::RangeRwLock;
use crate::range::slots::word::{Flags, SLOTS, WRITER_SLOTS};
use crate::range::span::Span;
use crate::range::tree::NIL;
use crate::range::tree::queue::Queue;
use crate::wait::Kind;

/// A range that goes to the tree closes up to two stripes, and who meets one of these
/// follows it there, and closes two. Were they few, that would go on until nobody is
/// left in a stripe.
const STRIPES_A_CPU: usize = 6;
/// How long those who find no slot wait for the lock to be striped.
const CROWD_NS: u64 = 20_000;
/// Within that a thread that has taken a slot says what for, if it has a CPU.
const TAKING_NS: u64 = 10_000;

/// The stripes as all see them.
pub(in crate::range) struct Striped<P: Platform> {
    /// The shift of regions plus one, while the lock is striped.
    pub(in crate::range) shift: P::AtomicU32,
    /// Set once,
    pub(in crate::range) stripes: OnceCell<Stripes<P>>,
    /// and then this is not zero.
    pub(in crate::range) made: P::AtomicU32,
}

impl<P: Platform> Striped<P> {
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
}

impl<P: Platform> RangeRwLock<P> {
    // ---- crowds ----

    /// Whether those that find no slot are many: they meet at the tree lock.
    pub(in crate::range) fn is_crowded(&self) -> bool {
        // With fewer CPUs slots run out when their holders have lost theirs, and room
        // for more of those helps nobody.
        P::cpus() > WRITER_SLOTS && self.tree_lock.is_contended()
    }

    /// In a crowd: waits a little whether the lock is striped. Whoever queues for the
    /// tree lock will find that done, but late: it is slow with all of them there.
    pub(in crate::range) fn awaits_stripes(&self) -> bool {
        self.is_crowded()
            // Relaxed: a guess.
            && !self.word.load(Ordering::Relaxed).has_any(Flags::NOT_FAST.without(Flags::TREE))
            && P::spin_until(&self.striped.shift, CROWD_NS, |shift| shift != 0)
    }

    /// In a crowd, of which `span` is one: stripes the lock if that keeps them apart. If
    /// the stripes have to be made first, for regions of which size, as a shift.
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
        self.settle_stripes(q);
        None
    }

    /// Without the tree lock: with it, all the others would fall asleep meanwhile. Only for
    /// who has set `made`, to this shift. They are open, but nobody comes: if they had to be
    /// opened, each line would have to come from here under the tree lock.
    pub(in crate::range) fn make_stripes(&self, shift: u32) {
        let count = (STRIPES_A_CPU * P::cpus()).min(MOST_STRIPES);
        let made = self.striped.stripes.set((0..count).map(|_| Stripe::open(shift)).collect());
        debug_assert!(made.is_ok(), "made once");
        // Release: they are there.
        self.striped.made.store(1, Ordering::Release);
    }

    // ---- under the tree lock ----

    /// Begins to use the stripes, which have been made, for regions of 2^`shift` positions. False if that
    /// cannot be now.
    pub(in crate::range) fn begin_stripes(&self, q: &mut Queue<P>, shift: u32) -> bool {
        if q.striping.is_some() {
            return false;
        }
        let Ok(word) = self.publish(q, Span::FULL, Flags::TREE.with(Flags::STRIPED)) else {
            return false;
        };
        // Just being taken, or left, for longer than that takes.
        let is_unknown = |slot: usize| {
            !P::spin_until(&self.slots[slot], TAKING_NS, |packed| packed != 0)
                && self.word.load(Ordering::Relaxed).has_slot(slot)
        };
        if word.has_any(Flags::DRAIN.with(Flags::TRACED))
            || word.rivals(Kind::Writer).any(is_unknown)
        {
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
                let regions = Flags::CLOSED.with(Flags::open_for(shift));
                stripe.word.set_regions(regions, Ordering::Relaxed);
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
        q.striping = Some(Box::new(Striping::begin(P::now(), uses)));
        for slot in word.rivals(Kind::Writer) {
            self.migrate(q, slot, word, Span::FULL);
        }
        for stripe in 0..stripes.len() {
            if q.ranges.regions.as_ref().is_some_and(|regions| regions.is_touched(stripe)) {
                self.close_stripe(q, stripe); // if it is open
            }
        }
        // Release: the stripes are there.
        self.striped.shift.store(shift + 1, Ordering::Release);
        true
    }

    /// No range is had by a stripe any more; those that are go to the tree.
    pub(in crate::range) fn end_stripes(&self, q: &mut Queue<P>) {
        if q.striping.take().is_none() {
            return; // else `settle` clears `STRIPED`
        }
        // For what follows; cannot fail, as the lock is not taken as a whole.
        let _ = self.publish(q, Span::FULL, Flags::TREE);
        // Who still sees it set finds the stripes closed. Release: who does not, `TREE`.
        self.striped.shift.store(0, Ordering::Release);
        let _ = self.close_stripes(q, Span::FULL, |q, stripe, word| {
            for slot in word.rivals(Kind::Writer) {
                self.migrate(q, SLOTS + stripe * STRIPE_SLOTS + slot, word, Span::FULL);
            }
            Ok(())
        });
        q.ranges.set_regions(None);
    }

    /// Ends striping if too few had a range by it, every so often.
    pub(in crate::range) fn judge_stripes(&self, q: &mut Queue<P>) {
        let Some(striping) = &mut q.striping else { return };
        if striping.is_due(self.stripes().len()) && !striping.is_useful(self.uses()) {
            let lasted_ns = P::now().saturating_sub(striping.since);
            q.crowd.get_or_insert_default().count_end(lasted_ns);
            self.end_stripes(q);
        }
    }

    /// Ranges that were had by stripes; roughly.
    pub(in crate::range) fn uses(&self) -> u64 {
        let uses = |stripe: &Stripe<P>| stripe.uses.load(Ordering::Relaxed);
        self.stripes().iter().map(uses).fold(0, u64::wrapping_add)
    }
}
