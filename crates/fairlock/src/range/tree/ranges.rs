//! Who holds what, and who waits for whom: the rules of the published range
//! lock, over the interval tree and under the tree lock.
//!
//! Held **and** waiting ranges are in the tree, each with a number that says when it came. A new
//! range counts the conflicting ranges that are there before it (`blocking`): all that overlap, or
//! only the writers among them if it reads. If there are none it is held. Otherwise it waits: each
//! range that leaves takes one off the count of every waiter that had counted it, and a waiter
//! whose count comes to zero is granted its range. So ranges that overlap are granted in the order
//! in which they came, nobody overtakes, and ranges that do not overlap never meet.
//!
//! Which waiters had counted a range follows from the ranges, and is not remembered: those with a
//! higher number whose ranges conflict. So a change to a range in the tree only has to consider
//! whom it concerned before and whom it concerns now (defect 7):
//!
//! * a range that is *downgraded* no longer concerns the waiting readers;
//! * a range that *shrinks* no longer concerns those that overlapped only what it gave up;
//! * a range that is *split* concerns those that overlap both parts twice.
//!
//! A range stays what it was when it came, until it leaves: nobody clears its kind on the way out
//! (defect 2), and nothing is left of it afterwards (defect 4).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::{Id, NIL, Tree};
use crate::fault::{Fault, active};
use crate::range::span::Span;
use crate::range::stripes::regions::Regions;
use crate::wait::Kind;

/// What is known of a range beside what the search needs.
pub(in crate::range) struct Entry<W> {
    /// When it came, in relation to others. Ranges that came past the waiters, by a recursive read,
    /// have zero: before everybody.
    pub(in crate::range) seq: u64,
    /// It came past others that wait, and so waits for all that hold, also those that came later.
    is_ahead: bool,
    /// How many conflicting ranges are ahead of it.
    blocking: u32,
    /// Who waits. The range's kind is not in here, and is not changed with it (defect 1).
    pub(in crate::range) waiter: Option<W>,
    /// Who asked for it; zero if that was not noted.
    pub(in crate::range) who: usize,
    /// Since when it is held, or waited for; zero if that was not noted.
    pub(in crate::range) since: u64,
}

/// What says of a range who waits for it.
#[derive(Clone, Copy)]
struct Rank {
    seq: u64,
    held: bool,
}

impl<W> Entry<W> {
    fn rank(&self) -> Rank {
        Rank { seq: self.seq, held: self.waiter.is_none() }
    }

    /// Whether this range, which waits, counts a conflicting one of rank `other`: if that came
    /// before it; or, if this one is ahead of those that wait, if that one is held.
    fn counts(&self, other: Rank) -> bool {
        self.seq > other.seq || self.is_ahead && other.held
    }
}

/// The held and the waiting ranges. `W` is what is needed to tell a waiter that it has its range.
pub(in crate::range) struct Ranges<W> {
    tree: Tree,
    /// By the name of the range.
    entries: Vec<Entry<W>>,
    /// How many ranges are in which regions, while the lock is striped.
    pub(in crate::range) regions: Option<Box<Regions>>,
    next_seq: u64,
    waiting: usize,
    /// The number of the waiter that came last; it may have left.
    newest: u64,
}

impl<W: Copy> Ranges<W> {
    pub(in crate::range) const fn new() -> Self {
        Self {
            tree: Tree::new(),
            entries: Vec::new(),
            regions: None,
            next_seq: 1,
            waiting: 0,
            newest: 0,
        }
    }

    pub(in crate::range) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// How many wait.
    pub(in crate::range) fn waiting(&self) -> usize {
        self.waiting
    }

    #[inline]
    pub(in crate::range) fn hull(&self) -> Option<Span> {
        self.tree.hull()
    }

    pub(in crate::range) fn span(&self, id: Id) -> Span {
        self.tree.span(id)
    }

    /// From now on counts what is in which of these regions; with `None`, in none.
    pub(in crate::range) fn set_regions(&mut self, regions: Option<Regions>) {
        self.regions = regions.map(Box::new);
        if let Some(regions) = &mut self.regions {
            for id in self.tree.in_order() {
                regions.add(self.tree.span(id));
            }
        }
    }

    /// From now on the holder of one of the stripe's slots keeps the stripe closed, too.
    pub(in crate::range) fn keep_closed(&mut self, stripe: usize) {
        if let Some(regions) = &mut self.regions {
            regions.keep_closed(stripe);
        }
    }

    /// There is one less that keeps the stripe closed.
    pub(in crate::range) fn let_open(&mut self, stripe: usize) {
        if let Some(regions) = &mut self.regions {
            regions.let_open(stripe);
        }
    }

    /// Every range, in order of their starts.
    pub(in crate::range) fn iter(&self) -> impl Iterator<Item = (Id, Span, Kind, &Entry<W>)> {
        self.tree
            .in_order()
            .into_iter()
            .map(|id| (id, self.tree.span(id), self.tree.kind(id), &self.entries[id as usize]))
    }

    /// Whether a new range would have to wait. In a gap of the tree it would not
    /// (defect 3).
    #[inline]
    pub(in crate::range) fn conflicts(&self, span: Span, kind: Kind) -> bool {
        let Some(hull) = self.tree.hull() else { return false };
        if !hull.overlaps(&span) {
            return false; // the hull is good for that, and for nothing else
        }
        if active(Fault::TriesAgainstHull) {
            return true;
        }
        let found = self.tree.overlapping(span, kind == Kind::Reader, |_| ControlFlow::Break(()));
        found.is_break()
    }

    /// Whether more than `most` ranges are in the way of a new one. No more of them are looked at
    /// than it takes to know.
    pub(in crate::range) fn has_more_in_way(&self, span: Span, kind: Kind, most: usize) -> bool {
        let mut left = most;
        let found = self.tree.overlapping(span, kind == Kind::Reader, |_| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        found.is_break()
    }

    /// Whether a *held* range is in the way.
    pub(in crate::range) fn conflicts_with_holder(&self, span: Span, kind: Kind) -> bool {
        let found = self.tree.overlapping(span, kind == Kind::Reader, |id| {
            if self.entries[id as usize].waiter.is_some() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        found.is_break()
    }

    /// Adds a range that is held: the caller knows that nothing is in its way.
    pub(in crate::range) fn insert_held(
        &mut self,
        span: Span,
        kind: Kind,
        who: usize,
        since: u64,
    ) -> Id {
        let seq = self.next_seq();
        let id = self.put(span, kind);
        let entry = Entry { seq, is_ahead: false, blocking: 0, waiter: None, who, since };
        self.set_entry(id, entry);
        // A waiter that is ahead of those that wait counts all holders, this one too.
        self.for_waiters(id, span, kind, |entry, _| entry.blocking += 1);
        self.check();
        id
    }

    /// Adds a range that is held, ahead of those that wait for it: they wait for
    /// this one too.
    pub(in crate::range) fn insert_ahead(
        &mut self,
        span: Span,
        kind: Kind,
        who: usize,
        since: u64,
    ) -> Id {
        let id = self.put(span, kind);
        let entry = Entry { seq: 0, is_ahead: true, blocking: 0, waiter: None, who, since };
        self.set_entry(id, entry);
        self.for_waiters(id, span, kind, |entry, _| entry.blocking += 1);
        self.check();
        id
    }

    /// Adds a range that has this place in the order, ahead of those that came later and wait; with zero, ahead of all. It
    /// counts those before it, and those that hold a part of it, and is held if there are none. Returns whether it is.
    pub(in crate::range) fn insert_again(
        &mut self,
        span: Span,
        kind: Kind,
        seq: u64,
        waiter: W,
        who: usize,
        since: u64,
    ) -> (Id, bool) {
        let waiter = Some(waiter);
        let mut entry = Entry { seq, is_ahead: true, blocking: 0, waiter, who, since };
        let _ = self.tree.overlapping(span, kind == Kind::Reader, |id| {
            let counts = entry.counts(self.entries[id as usize].rank());
            entry.blocking += u32::from(counts);
            ControlFlow::Continue(())
        });
        let id = self.put(span, kind);
        let waits = entry.blocking > 0;
        if waits {
            self.waiting += 1;
        } else {
            entry.waiter = None;
        }
        self.set_entry(id, entry);
        self.for_waiters(id, span, kind, |entry, _| entry.blocking += 1);
        self.check();
        (id, !waits)
    }

    /// The place in the order of a range.
    pub(in crate::range) fn seq(&self, id: Id) -> u64 {
        self.entries[id as usize].seq
    }

    /// One that waits for a part of this span.
    pub(in crate::range) fn waiter_at(&self, span: Span) -> Option<W> {
        let mut found = None;
        let _ = self.tree.overlapping(span, false, |id| {
            found = self.entries[id as usize].waiter;
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    /// Adds a range and counts who is in its way; it is held if nobody is.
    /// Returns whether it is.
    pub(in crate::range) fn insert(
        &mut self,
        span: Span,
        kind: Kind,
        waiter: W,
        who: usize,
        since: u64,
    ) -> (Id, bool) {
        let mut blocking = 0;
        let _ = self.tree.overlapping(span, kind == Kind::Reader, |_| {
            blocking += 1;
            ControlFlow::Continue(())
        });
        let seq = self.next_seq();
        let id = self.put(span, kind);
        let waits = blocking > 0;
        if waits {
            self.waiting += 1;
            self.newest = seq;
        }
        let waiter = waits.then_some(waiter);
        self.set_entry(id, Entry { seq, is_ahead: false, blocking, waiter, who, since });
        self.check();
        (id, !waits)
    }

    /// Takes out a range, held or waiting: the only way out. `granted` is told which waiters that
    /// lets in.
    pub(in crate::range) fn remove(&mut self, id: Id, mut granted: impl FnMut(W, Id)) {
        let (span, mut kind) = (self.tree.span(id), self.tree.kind(id));
        let waited = self.entries[id as usize].waiter.is_some();
        if active(Fault::ForgetsKind) && waited {
            kind = Kind::Writer;
        }
        if !(waited && self.is_last_in_line(id)) {
            self.let_go(id, span, kind, |_, _| true, &mut granted);
        }
        self.waiting -= usize::from(waited);
        self.entries[id as usize].waiter = None;
        self.take(id);
        self.check();
    }

    /// Whether nobody can have counted `id`, a waiter: only ranges that came after it do.
    fn is_last_in_line(&self, id: Id) -> bool {
        self.waiting == 1
            || self.entries[id as usize].seq == self.newest
            || active(Fault::LeavesUncounted)
    }

    /// Turns a held writer into a reader.
    pub(in crate::range) fn downgrade(&mut self, id: Id, mut granted: impl FnMut(W, Id)) {
        let span = self.tree.span(id);
        self.tree.set_kind(id, Kind::Reader);
        self.let_go(id, span, Kind::Writer, |_, kind| kind == Kind::Reader, &mut granted);
        self.check();
    }

    /// Gives up all of a held range but `span`, which is part of it.
    pub(in crate::range) fn shrink(&mut self, id: Id, span: Span, mut granted: impl FnMut(W, Id)) {
        let (before, kind) = (self.tree.span(id), self.tree.kind(id));
        debug_assert!(before.contains(&span));
        self.let_go(id, before, kind, |other, _| !other.overlaps(&span), &mut granted);
        if before.start() == span.start() {
            self.set_last(id, span.last());
        } else {
            self.take(id);
            // The name that was just given up is the first to be used again: its entry stays.
            let again = self.put(span, kind);
            debug_assert_eq!(again, id);
        }
        self.check();
    }

    /// Splits a held range before `mid`, which is in it and not its start.
    /// Returns the name of the second part; the first keeps its own.
    pub(in crate::range) fn split(&mut self, id: Id, mid: u64) -> Id {
        let (span, kind) = (self.tree.span(id), self.tree.kind(id));
        debug_assert!(span.start() < mid && mid <= span.last());
        let (low, high) = span.split_before(mid);
        // There are two holders now: waiters in the way of both count both.
        self.for_waiters(id, high, kind, |entry, other| {
            entry.blocking += u32::from(other.overlaps(&low));
        });
        self.set_last(id, mid - 1);
        let Entry { seq, who, since, .. } = self.entries[id as usize];
        let second = self.put(high, kind);
        let entry = Entry { seq, is_ahead: false, blocking: 0, waiter: None, who, since };
        self.set_entry(second, entry);
        self.check();
        second
    }

    /// Makes two held ranges one, which keeps the name of the first. The second starts where the
    /// first ends.
    pub(in crate::range) fn join(&mut self, id: Id, second: Id) {
        let (low, high, kind) = (self.tree.span(id), self.tree.span(second), self.tree.kind(id));
        debug_assert!(low.last() + 1 == high.start() && kind == self.tree.kind(second));
        // A waiter that counted both counts one.
        self.for_waiters(second, high, kind, |entry, other| {
            entry.blocking -= u32::from(other.overlaps(&low));
        });
        self.take(second);
        self.set_last(id, high.last());
        // The range counts as the one of the two that came first: a waiter that counts either
        // counts that.
        let came = self.entries[second as usize].seq;
        let seq = &mut self.entries[id as usize].seq;
        *seq = came.min(*seq);
        self.check();
    }

    /// Takes `id`, a holder of `span` as `kind`, off the counts of the waiters that counted it and
    /// are `concerned`.
    fn let_go(
        &mut self,
        id: Id,
        span: Span,
        kind: Kind,
        concerned: impl Fn(Span, Kind) -> bool,
        granted: &mut impl FnMut(W, Id),
    ) {
        if self.waiting == 0 {
            return;
        }
        let Self { tree, entries, waiting, .. } = self;
        let gone = entries[id as usize].rank();
        let _ = tree.overlapping(span, kind == Kind::Reader, |other| {
            let entry = &mut entries[other as usize];
            let is_concerned =
                || entry.counts(gone) && concerned(tree.span(other), tree.kind(other));
            if let Some(waiter) = entry.waiter.filter(|_| is_concerned()) {
                debug_assert!(entry.blocking > 0, "a range was let go twice");
                entry.blocking -= 1;
                if entry.blocking == 0 {
                    entry.waiter = None;
                    *waiting -= 1;
                    granted(waiter, other);
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Calls `f` with every waiter that waits for `id` where it conflicts with `span`.
    fn for_waiters(
        &mut self,
        id: Id,
        span: Span,
        kind: Kind,
        mut f: impl FnMut(&mut Entry<W>, Span),
    ) {
        if self.waiting == 0 {
            return;
        }
        let Self { tree, entries, .. } = self;
        let rank = entries[id as usize].rank();
        let _ = tree.overlapping(span, kind == Kind::Reader, |other| {
            let entry = &mut entries[other as usize];
            if entry.waiter.is_some() && entry.counts(rank) {
                f(entry, tree.span(other));
            }
            ControlFlow::Continue(())
        });
    }

    /// Adds a range to the tree: every way in comes here.
    fn put(&mut self, span: Span, kind: Kind) -> Id {
        if let Some(regions) = &mut self.regions {
            regions.add(span);
        }
        self.tree.insert(span, kind)
    }

    /// Takes a range out of the tree: every way out comes here.
    fn take(&mut self, id: Id) {
        if let Some(regions) = &mut self.regions {
            regions.remove(self.tree.span(id));
        }
        self.tree.remove(id);
    }

    fn set_last(&mut self, id: Id, last: u64) {
        if let Some(regions) = &mut self.regions {
            let span = self.tree.span(id);
            regions.remove(span);
            regions.add(Span::closed(span.start(), last));
        }
        self.tree.set_last(id, last);
    }

    fn next_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn set_entry(&mut self, id: Id, entry: Entry<W>) {
        match self.entries.get_mut(id as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        debug_assert!((id as usize) < self.entries.len() && id != NIL);
    }

    /// In debug builds, and under the concurrency tester: checks the tree, and that every waiter
    /// counts exactly those in its way. Not for large trees, where it would take for ever.
    #[inline]
    fn check(&self) {
        #[cfg(any(debug_assertions, fairlock_faults))]
        if self.tree.len() <= 64 {
            self.check_all();
        }
    }

    #[cfg(all(test, not(fairlock_loom)))]
    pub(in crate::range) fn check_tree(&self) {
        self.tree.check();
    }

    #[cfg(any(all(test, not(fairlock_loom)), debug_assertions, fairlock_faults))]
    pub(in crate::range) fn check_all(&self) {
        self.tree.check();
        let mut waiting = 0;
        for (id, span, kind, entry) in self.iter() {
            let ahead = self.iter().filter(|(other, at, as_kind, before)| {
                *other != id
                    && entry.counts(before.rank())
                    && at.overlaps(&span)
                    && (kind == Kind::Writer || *as_kind == Kind::Writer)
            });
            if entry.waiter.is_some() {
                waiting += 1;
                assert!(entry.blocking > 0, "a waiter for nobody");
                assert_eq!(ahead.count(), entry.blocking as usize, "{span:?} counts wrongly");
            } else {
                assert_eq!(entry.blocking, 0);
            }
        }
        assert_eq!(waiting, self.waiting);
    }
}
