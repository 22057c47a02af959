//! What the tree lock guards, and how the state word follows it.
//!
//! How ranges enter the tree is in `enter`, how they leave it in `change`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::ranges::Ranges;
use super::{Id, NIL};
use crate::platform::{Atomic, ConstZero, PooledPlatform, Thread};
use crate::range::Core;
use crate::range::slots::Missed;
use crate::range::slots::word::{Flags, SLOTS, STRIPE_SLOTS, Word};
use crate::range::span::Span;
use crate::range::stripes::crowd::Crowd;
use crate::range::stripes::state::{Made, Striping};
use crate::range::wait::shown::NOBODY;
use crate::range::wait::waiter::{self, Offers, PatientList, RangeWaiter};
use crate::wait::WakeList;

/// The extent of everything in the tree, as two bounds that hold each by itself. Changed under the
/// tree lock, looked at without.
pub(in crate::range) struct Hull<P: PooledPlatform> {
    /// Complement of the smallest start in the tree, so that zero says that there is none.
    not_start: P::AtomicU64,
    /// The furthest end in the tree.
    last: P::AtomicU64,
}

impl<P: PooledPlatform> Hull<P> {
    pub(in crate::range) fn new() -> Self {
        Self { not_start: P::AtomicU64::new(0), last: P::AtomicU64::new(0) }
    }

    pub(in crate::range) const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self { not_start: ConstZero::ZERO, last: ConstZero::ZERO }
    }

    /// Whether a range touches nothing in the tree.
    #[inline(always)]
    pub(in crate::range) fn is_outside(&self, span: Span) -> bool {
        // Acquire: what was done under the ranges that left, and so let the hull shrink, is seen.
        span.last() < !self.not_start.load(Ordering::Acquire)
            || span.start() > self.last.load(Ordering::Acquire)
    }

    /// What is shown.
    #[cfg(feature = "std")]
    pub(in crate::range) fn shown(&self) -> (u64, u64) {
        (!self.not_start.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed))
    }

    /// Under the tree lock: shows `hull` in place of what is shown.
    #[inline]
    fn show(&self, shown: &mut (u64, u64), hull: (u64, u64)) {
        if *shown != hull {
            *shown = hull;
            // Release: what was done under the ranges that let it shrink. Where others have to see
            // that the hull has grown, `publish` makes it visible.
            self.not_start.store(!hull.0, Ordering::Release);
            self.last.store(hull.1, Ordering::Release);
        }
    }
}

/// What the tree lock guards.
pub(in crate::range) struct Queue<P: PooledPlatform> {
    pub(in crate::range) ranges: Ranges<*const RangeWaiter<P>>,
    /// Those that may be overtaken.
    pub(in crate::range) patient: PatientList<P>,
    /// Those in the tree whose ranges are offered: see `late`.
    pub(in crate::range) offers: Offers<P>,
    /// The entry in the tree of each slot that has one,
    moved: [Id; SLOTS],
    any_moved: bool,
    /// and of each slot in a stripe.
    pub(in crate::range) striped_moved: Vec<Id>,
    pub(in crate::range) made: Made,
    // Boxed: most locks are never striped, nor crowded.
    pub(in crate::range) striping: Option<Box<Striping>>,
    pub(in crate::range) crowd: Option<Box<Crowd>>,
    /// What the lock shows as the hull of the tree.
    hull: (u64, u64),
    /// What the lock shows of those that may be overtaken: see `shown`.
    pub(in crate::range) shows_patient: u32,
    /// The extent of what has left the tree, or conflicts with less there, since the last look for
    /// waiters that can now go on.
    pub(in crate::range) left: (u64, u64),
    /// Which of `TREE`, `QUEUED` and `STRIPED` are set.
    flags: Flags,
    /// The last range that was held after a look at the tree.
    pub(in crate::range) last: Last,
}

/// The hull of an empty tree, which overlaps nothing.
pub(in crate::range) const NOTHING: (u64, u64) = (u64::MAX, 0);

/// Where a range is that was held after a look at the tree, if it is still there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::range) enum Last {
    Gone,
    Slot(u32),
    Node(Id),
}

// SAFETY: the pointers in the queue are to waiters that are alive while they are in it, and whose
// fields are atomics or used under the tree lock.
unsafe impl<P: PooledPlatform> Send for Queue<P> {}

impl<P: PooledPlatform> Queue<P> {
    pub(in crate::range) const fn new() -> Self {
        Self {
            ranges: Ranges::new(),
            patient: PatientList::new(),
            offers: Offers::new(),
            moved: [NIL; SLOTS],
            any_moved: false,
            striped_moved: Vec::new(),
            made: Made::No,
            striping: None,
            crowd: None,
            hull: NOTHING,
            shows_patient: NOBODY,
            left: NOTHING,
            flags: Flags::NONE,
            last: Last::Gone,
        }
    }

    /// Whether the slot's holder also has an entry in the tree.
    pub(in crate::range) fn is_moved(&self, slot: usize) -> bool {
        self.moved(slot) != NIL
    }

    /// The entry in the tree of the slot's holder, or none.
    pub(in crate::range) fn moved(&self, slot: usize) -> Id {
        if slot < SLOTS { self.moved[slot] } else { self.striped_moved[slot - SLOTS] }
    }

    pub(in crate::range) fn set_moved(&mut self, slot: usize, node: Id) {
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

    /// As [`moved`](Self::moved); from now on the slot's holder has no entry.
    pub(in crate::range) fn take_moved(&mut self, slot: usize) -> Id {
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

    /// `span` has left the tree, or conflicts with less there: waiters for it that may be overtaken
    /// are told at the end.
    pub(in crate::range) fn note_left(&mut self, span: Span) {
        if !self.patient.is_empty() {
            let (start, last) = self.left;
            self.left = (start.min(span.start()), last.max(span.last()));
        }
    }

    /// Takes an entry out of the tree and grants what that lets in.
    pub(in crate::range) fn remove(&mut self, id: Id, wakes: &mut WakeList<P>) {
        if self.last == Last::Node(id) {
            self.last = Last::Gone;
        }
        self.note_left(self.ranges.span(id));
        let (ranges, granted) = self.granting(wakes);
        ranges.remove(id, granted);
    }

    /// The ranges, and what is told which waiters a change of them lets in.
    pub(in crate::range) fn granting<'a>(
        &'a mut self,
        wakes: &'a mut WakeList<P>,
    ) -> (&'a mut Ranges<*const RangeWaiter<P>>, impl FnMut(*const RangeWaiter<P>, Id) + 'a) {
        let Self { ranges, offers, .. } = self;
        (ranges, |waiter, node| grant(offers, waiter, node, wakes))
    }

    /// Whether ranges that are taken now can be expected to leave soon, so that they are worth a
    /// slot: the one taken last has left already. A guess.
    pub(super) fn stays_are_short(&self, word: Word) -> bool {
        match self.last {
            Last::Gone => true,
            Last::Slot(slot) => !word.has_slot(slot as usize),
            Last::Node(_) => false,
        }
    }

    /// Nobody waits for slots any more: they need no entries in the tree.
    #[cold]
    fn forget_moved(&mut self) {
        for slot in 0..SLOTS {
            let node = self.take_moved(slot);
            if node != NIL {
                self.note_left(self.ranges.span(node));
                self.ranges.remove(node, |_, _| debug_assert!(false, "somebody waits"));
            }
        }
        self.any_moved = false;
    }

    /// Takes a waiter out, wherever it is. Returns its range's entry if that was granted: then it is
    /// held (defect 6).
    pub(in crate::range) fn take_out(
        &mut self,
        waiter: &RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) -> Option<Id> {
        match waiter.state() {
            waiter::GRANTED => return Some(waiter.node()),
            waiter::OFFERED => {
                self.offers.remove(waiter);
                return Some(waiter.node());
            }
            waiter::QUEUED => self.remove(waiter.node(), wakes),
            waiter::PASSED => {}
            _ => self.patient.remove(waiter),
        }
        None
    }
}

/// The range of `waiter` is held from now on, for it or by it. Rule 1: published first, woken after.
pub(super) fn grant<P: PooledPlatform>(
    offers: &mut Offers<P>,
    waiter: *const RangeWaiter<P>,
    node: Id,
    wakes: &mut WakeList<P>,
) {
    // SAFETY: the waiter was waiting in the tree up to now, so it is alive, and
    // stays so until `enter` has stored GRANTED. Not used after that (defect 8);
    // the thread record outlives it.
    let thread: &'static Thread<P> = unsafe { (&*waiter).thread };
    // SAFETY: as above; one that is only offered its range stays in its frame until it is in no list.
    if unsafe { (*waiter).sleeps() } {
        // SAFETY: as above.
        unsafe { offers.push(&*waiter, node, P::now()) };
        return wakes.push(thread);
    }
    // SAFETY: as above.
    unsafe { (*waiter).enter(node, waiter::GRANTED) };
    wakes.push(thread);
}

impl<P: PooledPlatform> Core<P> {
    /// Runs `f` under the tree lock, then makes the lock show what is in the tree.
    pub(in crate::range) fn with_queue<R>(&self, f: impl FnOnce(&mut Queue<P>) -> R) -> R {
        self.with_queue_and_wakes(|q, _| f(q))
    }

    /// As [`with_queue`](Self::with_queue), with a list of threads to wake when the lock is free
    /// again.
    pub(in crate::range) fn with_queue_and_wakes<R>(
        &self,
        f: impl FnOnce(&mut Queue<P>, &mut WakeList<P>) -> R,
    ) -> R {
        let mut wakes = WakeList::new();
        self.tree_lock.lock();
        // SAFETY: `tree_lock` is held, so this is the only reference to the queue.
        let queue = unsafe { &mut *self.queue.get() };
        let result = f(queue, &mut wakes);
        self.settle(queue, &mut wakes);
        // SAFETY: taken above.
        unsafe { self.tree_lock.unlock() };
        if !wakes.is_empty() {
            wakes.wake_all();
        }
        result
    }

    /// Makes the hull, the flags, and what is shown of those that may be overtaken, follow what is
    /// in the queue.
    #[inline]
    fn settle(&self, q: &mut Queue<P>, wakes: &mut WakeList<P>) {
        if q.ranges.regions.is_some() {
            self.settle_stripes(q);
        }
        if q.any_moved && q.ranges.waiting() == 0 && q.striping.is_none() {
            q.forget_moved();
        }
        // What grows here was covered by `publish` already, or is in a slot too. What shrinks may
        // be seen by others at any time.
        let hull = q.ranges.hull().map_or(NOTHING, |hull| (hull.start(), hull.last()));
        self.hull.show(&mut q.hull, hull);
        let flags = Flags::TREE
            .only_if(!q.ranges.is_empty())
            .with(Flags::QUEUED.only_if(q.ranges.waiting() > 0))
            .with(Flags::STRIPED.only_if(q.striping.is_some()));
        let gone = q.flags.without(flags);
        if gone != Flags::NONE {
            // Release: what was done under ranges that left the tree.
            self.word.clear(gone, Ordering::Release);
        }
        debug_assert!(flags.without(q.flags) == Flags::NONE, "flags are set by `publish`");
        q.flags = flags;
        let behind = |offered: &RangeWaiter<P>| q.ranges.waiter_at(offered.span);
        if let Some(waiter) = q.offers.take_asking().and_then(behind) {
            // SAFETY: it waits in the tree, so it is alive; the thread record outlives it.
            wakes.push(unsafe { &*waiter }.thread);
        }
        self.settle_patient(q, wakes);
    }

    /// Sets `flags` and returns the word before. If the lock is taken as a whole the flags are
    /// taken back: nothing may enter the tree then.
    pub(in crate::range) fn publish(
        &self,
        q: &mut Queue<P>,
        span: Span,
        flags: Flags,
    ) -> Result<Word, Missed> {
        if flags.has_any(Flags::TREE) {
            let (start, last) = q.hull;
            let hull = (start.min(span.start()), last.max(span.last()));
            self.hull.show(&mut q.hull, hull);
        }
        // AcqRel: Release for the hull, and Acquire for what was done under ranges that are gone.
        // It is done even if the flags are set already: this operation's place in the word's order
        // is what counts.
        let before = self.word.set(flags, Ordering::AcqRel);
        if before.is_whole() {
            self.word.clear(flags.without(q.flags), Ordering::Relaxed);
            return Err(Missed::Gate);
        }
        q.flags = q.flags.with(flags);
        Ok(before)
    }
}
