//! A thread that waits for a range, and the lists of those that may be overtaken and of those that are offered theirs.

use core::ops::Deref;
use core::sync::atomic::Ordering;

use crate::may_dangle::MayDangle;
use crate::platform::{Atomic, PooledPlatform, Thread};
use crate::range::span::Span;
use crate::range::tree::{Id, NIL};
use crate::system::Cell;
use crate::wait::{Kind, Linked, Links, List, MISSED_NS};

/// Who is in a waiter's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::range) enum InWay {
    Nobody,
    /// Nobody that can be seen, but a slot is just being taken.
    Unknown,
    /// Somebody in the tree.
    Tree,
    /// The holder of this slot of the lock itself.
    Slot(usize),
    /// The holder of a slot in this stripe.
    Stripe(usize),
}

/// Lives in the acquiring thread's frame. Its parker, in the thread record, outlives it (rule 12),
/// and a thread that wakes it has copied the record's address before (defect 8).
///
/// | state | meaning | who leaves it |
/// |---|---|---|
/// | ASLEEP | in the list; may be overtaken, and sleeps, or is about to | a holder of the tree lock |
/// | AWAKE | the same, woken to look whether its range is free | a holder of the tree lock |
/// | QUEUED | its range is in the tree and waits its turn | a holder of the tree lock |
/// | GRANTED | its range is in the tree and held | nobody: final |
/// | OFFERED | the same, but its thread has slept, and may not come: see [`late`](super::late) | a holder of the tree lock |
/// | PASSED | it did not come: its range is not in the tree | its thread, with the tree lock |
///
/// Only a holder of the tree lock stores the state; the waiter reads it without.
/// Once GRANTED is stored nobody else touches the waiter.
pub(in crate::range) struct RangeWaiter<P: PooledPlatform>(MayDangle<Frame<P>>);

/// What others see of the waiter's frame.
pub(in crate::range) struct Frame<P: PooledPlatform> {
    pub(in crate::range) thread: &'static Thread<P>,
    pub(in crate::range) span: Span,
    pub(in crate::range) kind: Kind,
    /// When it arrived.
    pub(in crate::range) arrived: u64,
    /// The name of its range in the tree, once it has one.
    node: Cell<Id>,
    state: P::AtomicU32,
    /// Who was in its way when it went to sleep, or when others last looked.
    sleeps_for: Cell<InWay>,
    /// Its thread has slept since its range is in the tree, or is about to: then it is not granted its range, but offered.
    sleeps: P::AtomicU32,
    /// Since when its range is offered; and once it was passed, its place in the order. Under the tree lock.
    offered: Cell<u64>,
    links: Links<RangeWaiter<P>>,
    /// For the model checker: others read this when they touch the waiter; the waiter's frame
    /// writes it when it returns.
    #[cfg(all(test, fairlock_loom))]
    pub(in crate::range) frame: loom::sync::Arc<loom::cell::UnsafeCell<()>>,
}

impl<P: PooledPlatform> Deref for RangeWaiter<P> {
    type Target = Frame<P>;

    #[inline(always)]
    fn deref(&self) -> &Frame<P> {
        &self.0
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: PooledPlatform> Drop for RangeWaiter<P> {
    fn drop(&mut self) {
        self.frame.with_mut(|_| ());
    }
}

pub(in crate::range) const ASLEEP: u32 = 0;
pub(in crate::range) const AWAKE: u32 = 1;
pub(in crate::range) const QUEUED: u32 = 2;
pub(in crate::range) const GRANTED: u32 = 3;
pub(in crate::range) const OFFERED: u32 = 4;
pub(in crate::range) const PASSED: u32 = 5;

impl<P: PooledPlatform> RangeWaiter<P> {
    pub(in crate::range) fn new(
        thread: &'static Thread<P>,
        span: Span,
        kind: Kind,
        arrived: u64,
    ) -> Self {
        Self(MayDangle::new(Frame {
            thread,
            span,
            kind,
            arrived,
            node: Cell::new(NIL),
            state: P::AtomicU32::new(ASLEEP),
            sleeps_for: Cell::new(InWay::Nobody),
            sleeps: P::AtomicU32::new(0),
            offered: Cell::new(0),
            links: Links::new(),
            #[cfg(all(test, fairlock_loom))]
            frame: loom::sync::Arc::new(loom::cell::UnsafeCell::new(())),
        }))
    }

    /// Whether the two exclude each other.
    pub(in crate::range) fn conflicts(&self, other: &Self) -> bool {
        let shared = self.kind == Kind::Reader && other.kind == Kind::Reader;
        !shared && self.span.overlaps(&other.span)
    }

    /// Whether this waits for all that `other` waits for: if the other's wait is in vain, so is
    /// this one.
    pub(in crate::range) fn asks_for_more_than(&self, other: &Self) -> bool {
        (self.kind == other.kind || self.kind == Kind::Writer) && self.span.contains(&other.span)
    }

    /// Under the tree lock: whether it was woken, and has not gone to sleep since.
    pub(in crate::range) fn is_awake(&self) -> bool {
        // Relaxed: guarded by the lock.
        self.state.load(Ordering::Relaxed) == AWAKE
    }

    /// Under the tree lock: who was in its way at the last look.
    pub(in crate::range) fn sleeps_for(&self) -> InWay {
        self.sleeps_for.get()
    }

    /// Under the tree lock: notes who is in its way, as was just seen.
    pub(in crate::range) fn sleep_for(&self, in_way: InWay) {
        self.sleeps_for.set(in_way);
    }

    /// Acquire: with GRANTED comes everything the granter did under the tree
    /// lock, and everything its predecessors did under their ranges (rule 3).
    #[inline]
    pub(in crate::range) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// Its thread, the calling one, is about to sleep; or is awake.
    pub(in crate::range) fn set_sleeps(&self, sleeps: bool) {
        // Relaxed: a thread that is granted its range although it is about to sleep is awake.
        self.sleeps.store(sleeps.into(), Ordering::Relaxed);
    }

    pub(in crate::range) fn sleeps(&self) -> bool {
        self.sleeps.load(Ordering::Relaxed) != 0
    }

    /// Under the tree lock: since when its range is offered; or its place in the order, if it was passed.
    pub(in crate::range) fn offered(&self) -> u64 {
        self.offered.get()
    }

    /// Under the tree lock: as [`offered`](Self::offered).
    pub(in crate::range) fn set_offered(&self, offered: u64) {
        self.offered.set(offered);
    }

    /// The word of the state, for [`System::spin_until`](crate::platform::System::spin_until).
    pub(in crate::range) fn state_word(&self) -> &P::AtomicU32 {
        &self.state
    }

    /// The name of its range in the tree; valid from QUEUED on.
    pub(in crate::range) fn node(&self) -> Id {
        self.node.get()
    }

    /// Under the tree lock: its range has entered the tree as `node`, held or not.
    /// Release: pairs with [`state`](Self::state). With GRANTED this is the last
    /// touch (rule 1, defect 8): the caller has copied what it still needs.
    pub(in crate::range) fn enter(&self, node: Id, state: u32) {
        #[cfg(all(test, fairlock_loom))]
        self.frame.with(|_| ());
        self.node.set(node);
        self.state.store(state, Ordering::Release);
    }
}

impl<P: PooledPlatform> Linked for RangeWaiter<P> {
    #[inline(always)]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// The waiters that may be overtaken, in order of arrival.
///
/// Invariant: a listed waiter is alive and stays in its frame until it is taken
/// out; everything here happens under the tree lock.
pub(in crate::range) struct PatientList<P: PooledPlatform> {
    list: List<RangeWaiter<P>>,
    len: u32,
    /// How many of them are awake.
    awake: core::cell::Cell<u32>,
}

impl<P: PooledPlatform> PatientList<P> {
    pub(in crate::range) const fn new() -> Self {
        Self { list: List::new(), len: 0, awake: core::cell::Cell::new(0) }
    }

    pub(in crate::range) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(in crate::range) fn len(&self) -> usize {
        self.len as usize
    }

    /// How many of them are awake.
    pub(in crate::range) fn awake(&self) -> u32 {
        self.awake.get()
    }

    /// A listed waiter is awake from now on.
    pub(in crate::range) fn note_awake(&self, waiter: &RangeWaiter<P>) {
        if !waiter.is_awake() {
            // Relaxed: all that the waiter may do now is look.
            waiter.state.store(AWAKE, Ordering::Relaxed);
            self.awake.set(self.awake.get() + 1);
        }
    }

    /// A listed waiter is about to sleep, or to leave.
    pub(in crate::range) fn note_asleep(&self, waiter: &RangeWaiter<P>) {
        if waiter.is_awake() {
            // Relaxed: guarded by the lock.
            waiter.state.store(ASLEEP, Ordering::Relaxed);
            self.awake.set(self.awake.get() - 1);
        }
    }

    /// The waiter that arrived first.
    pub(in crate::range) fn first(&self) -> Option<&RangeWaiter<P>> {
        self.list.first()
    }

    /// The waiters in order of arrival.
    pub(in crate::range) fn iter(&self) -> impl Iterator<Item = &RangeWaiter<P>> {
        self.list.iter()
    }

    /// Appends a waiter.
    ///
    /// # Safety
    /// The waiter stays where it is until [`remove`](Self::remove) has taken it out.
    pub(in crate::range) unsafe fn push(&mut self, waiter: &RangeWaiter<P>) {
        // SAFETY: the caller's promise.
        unsafe { self.list.insert(waiter, |_| true) };
        self.len += 1;
    }

    /// Takes a listed waiter out, wherever it stands.
    pub(in crate::range) fn remove(&mut self, waiter: &RangeWaiter<P>) {
        // SAFETY: it is listed.
        unsafe { self.list.remove(waiter) };
        self.len -= 1;
        self.note_asleep(waiter);
    }
}

/// The waiters whose ranges are offered, in the order of the offers. All of it under the tree lock.
pub(in crate::range) struct Offers<P: PooledPlatform> {
    list: List<RangeWaiter<P>>,
    /// When the last one was made.
    last: u64,
    /// One that waits for the same as the one that was made last is to look for that.
    asks: bool,
}

impl<P: PooledPlatform> Offers<P> {
    pub(in crate::range) const fn new() -> Self {
        Self { list: List::new(), last: 0, asks: false }
    }

    /// The range of the waiter, `node`, is offered from here on.
    ///
    /// # Safety
    /// The waiter is in no list, and stays where it is until it is out of this one.
    pub(in crate::range) unsafe fn push(&mut self, waiter: &RangeWaiter<P>, node: Id, now: u64) {
        // A range is left more often than that where waits are short: then a timer is soon enough.
        if now.saturating_sub(self.last) >= MISSED_NS {
            self.asks = true;
        }
        self.last = now;
        waiter.set_offered(now);
        // SAFETY: the caller's promise.
        unsafe { self.list.insert(waiter, |_| true) };
        waiter.enter(node, OFFERED);
    }

    /// In the order of the offers.
    pub(in crate::range) fn iter(&self) -> impl Iterator<Item = &RangeWaiter<P>> {
        self.list.iter()
    }

    /// The one that was made last, if one that waits for the same is to look for it; asked once.
    pub(in crate::range) fn take_asking(&mut self) -> Option<&RangeWaiter<P>> {
        if core::mem::take(&mut self.asks) { self.list.iter().last() } else { None }
    }

    /// An offer is taken, or is none any more.
    pub(in crate::range) fn remove(&mut self, waiter: &RangeWaiter<P>) {
        // SAFETY: it is in the list, as its state says.
        unsafe { self.list.remove(waiter) };
    }
}
