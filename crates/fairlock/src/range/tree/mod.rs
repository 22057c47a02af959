//! The interval tree: a B+ tree over the starts of ranges, in which every block
//! also knows how far the ranges below each of its entries reach.
//!
//! With sixteen entries a block, 50,000 ranges are four levels deep, and a search that finds
//! nothing touches one block, of seven cache lines, on each. A binary tree would have subtrees
//! where a block has entries side by side. The reach is kept twice, for all ranges and for writers
//! only, so that a search for a reader skips other readers.
//!
//! A full block is split, unevenly at its end, so that ranges in ascending order fill their blocks.
//! An empty block is removed. Blocks are not merged: the depth is the logarithm of the largest
//! number of ranges since the tree was last nearly empty.
//!
//! Ranges and blocks are named by number, each in one growing array: so no pointer can go stale,
//! and nothing here is unsafe. Ranges with equal starts stand in order of insertion.
//!
//! | beside it | |
//! |---|---|
//! | `block` | a block of the tree |
//! | `ranges` | who waits for whom: the published lock, without its lock |
//! | `queue` | all that the tree lock guards, and how the state word follows it |
//! | `enter` | how ranges enter, to be held or to wait |
//! | `change` | how they leave, or become others |
//!
//! B+ trees (Bayer and McCreight; Comer, *The Ubiquitous B-Tree*) and the furthest
//! end as what a search tree keeps for intervals (Cormen et al., *Introduction to
//! Algorithms*) are textbook.

pub(super) mod block;
mod change;
mod enter;
pub(super) mod queue;
pub(super) mod ranges;

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::Hold;
use super::span::Span;
use crate::wait::Kind;
use block::{B, Block, BlockId, Item};

/// A range's name. Names of removed ranges are used again.
pub(super) type Id = u32;

/// No range.
pub(super) const NIL: Id = Id::MAX;

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
std::thread_local! {
    /// Blocks and ranges that this thread has looked at: what an operation costs.
    pub(super) static LOOKS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

#[inline(always)]
fn look() {
    #[cfg(all(test, feature = "std", not(fairlock_loom)))]
    LOOKS.set(LOOKS.get() + 1);
}

/// The name of the range at `index`.
///
/// # Panics
/// If there are as many ranges as holds can name: one more would be taken for something else.
pub(super) fn name(index: usize) -> Id {
    assert!(index < Hold::NODES_LIMIT as usize, "too many ranges were forgotten");
    index as Id
}

struct Range {
    span: Span,
    kind: Kind,
    /// The leaf that the range is in; for a free name, the next free one.
    leaf: BlockId,
}

/// The ranges of a lock.
pub(super) struct Tree {
    blocks: Vec<Block>,
    free_block: BlockId,
    root: BlockId,
    ranges: Vec<Range>,
    free_range: Id,
    len: usize,
    /// From the smallest start to the furthest end; valid while there are ranges.
    hull: (u64, u64),
}

impl Tree {
    pub(super) const fn new() -> Self {
        Self {
            blocks: Vec::new(),
            free_block: NIL,
            root: NIL,
            ranges: Vec::new(),
            free_range: NIL,
            len: 0,
            hull: (0, 0),
        }
    }

    #[cfg(any(debug_assertions, fairlock_faults))]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn span(&self, id: Id) -> Span {
        self.ranges[id as usize].span
    }

    #[inline]
    pub(super) fn kind(&self, id: Id) -> Kind {
        self.ranges[id as usize].kind
    }

    /// From the smallest start to the furthest end: a range outside overlaps nothing. A range
    /// inside may still be in a gap (defect 3).
    #[inline]
    pub(super) fn hull(&self) -> Option<Span> {
        (self.len > 0).then(|| Span::closed(self.hull.0, self.hull.1))
    }

    /// Calls `visit` with the ranges that overlap `span`, or only with the writers among them, in
    /// order of their starts, until it breaks.
    #[inline]
    pub(super) fn overlapping(
        &self,
        span: Span,
        writers_only: bool,
        mut visit: impl FnMut(Id) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.is_empty() {
            ControlFlow::Continue(())
        } else if writers_only {
            self.search::<true>(self.root, span, &mut visit)
        } else {
            self.search::<false>(self.root, span, &mut visit)
        }
    }

    fn search<const WRITERS: bool>(
        &self,
        mut block: BlockId,
        span: Span,
        visit: &mut impl FnMut(Id) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        loop {
            look();
            let here = &self.blocks[block as usize];
            let mut found = here.candidates::<WRITERS>(span);
            if here.is_leaf {
                while found != 0 {
                    look();
                    visit(here.names[found.trailing_zeros() as usize])?;
                    found &= found - 1;
                }
                return ControlFlow::Continue(());
            }
            if found == 0 {
                return ControlFlow::Continue(());
            }
            while found & (found - 1) != 0 {
                self.search::<WRITERS>(here.names[found.trailing_zeros() as usize], span, visit)?;
                found &= found - 1;
            }
            block = here.names[found.trailing_zeros() as usize];
        }
    }

    /// Adds a range.
    pub(super) fn insert(&mut self, span: Span, kind: Kind) -> Id {
        let id = self.new_range(span, kind);
        if self.len == 0 {
            self.hull = (span.start(), span.last());
        } else {
            let (start, last) = self.hull;
            self.hull = (start.min(span.start()), last.max(span.last()));
        }
        self.len += 1;
        if self.root == NIL {
            self.root = self.new_block(true);
        }
        let mut block = self.root;
        loop {
            look();
            let here = &self.blocks[block as usize];
            if here.is_leaf {
                break;
            }
            block = here.names[here.count_up_to(span.start()).saturating_sub(1)];
        }
        let at = self.blocks[block as usize].count_up_to(span.start());
        self.add(block, at, Item::of(span, kind, id), kind == Kind::Writer);
        id
    }

    /// Takes a range out.
    pub(super) fn remove(&mut self, id: Id) {
        let Range { span, leaf, .. } = self.ranges[id as usize];
        let at = self.blocks[leaf as usize].find(id);
        self.take(leaf, at);
        self.ranges[id as usize].leaf = self.free_range;
        self.free_range = id;
        self.len -= 1;
        self.mend_hull(span);
    }

    /// Sets whether a range is a writer's or a reader's.
    pub(super) fn set_kind(&mut self, id: Id, kind: Kind) {
        self.ranges[id as usize].kind = kind;
        self.rewrite(id);
    }

    /// Moves the end of a range.
    pub(super) fn set_last(&mut self, id: Id, last: u64) {
        let before = self.span(id);
        self.ranges[id as usize].span = Span::closed(before.start(), last);
        self.rewrite(id);
        self.hull.1 = self.hull.1.max(last);
        self.mend_hull(before);
    }

    /// Every range, in order of their starts.
    pub(super) fn in_order(&self) -> Vec<Id> {
        let mut all = Vec::with_capacity(self.len);
        let _ = self.overlapping(Span::FULL, false, |id| {
            all.push(id);
            ControlFlow::Continue(())
        });
        all
    }

    fn new_range(&mut self, span: Span, kind: Kind) -> Id {
        let range = Range { span, kind, leaf: NIL };
        match self.free_range {
            NIL => {
                let id = name(self.ranges.len());
                self.ranges.push(range);
                id
            }
            id => {
                self.free_range = self.ranges[id as usize].leaf;
                self.ranges[id as usize] = range;
                id
            }
        }
    }

    fn new_block(&mut self, is_leaf: bool) -> BlockId {
        let block = Block::new(is_leaf);
        match self.free_block {
            NIL => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as BlockId
            }
            id => {
                self.free_block = self.blocks[id as usize].parent;
                self.blocks[id as usize] = block;
                id
            }
        }
    }

    /// Tells `name`, an entry of `block`, that it is in there.
    fn adopt(&mut self, block: BlockId, name: u32) {
        if self.blocks[block as usize].is_leaf {
            self.ranges[name as usize].leaf = block;
        } else {
            self.blocks[name as usize].parent = block;
        }
    }

    /// Adds an entry to a block, splitting it if it is full.
    fn add(&mut self, block: BlockId, at: usize, item: Item, is_writer: bool) {
        if self.blocks[block as usize].len() < B {
            self.blocks[block as usize].insert(at, item, is_writer);
            self.adopt(block, item.name);
            self.grow_above(block, item);
            return;
        }
        // When the new entry is behind the block's end nothing moves: ascending starts fill their
        // blocks.
        let keep = if at == B { B } else { B / 2 };
        let second = self.new_block(self.blocks[block as usize].is_leaf);
        for from in keep..B {
            let first = &self.blocks[block as usize];
            let (moved, writes) = (first.item(from), first.writers >> from & 1 != 0);
            let second_block = &mut self.blocks[second as usize];
            second_block.insert(from - keep, moved, writes);
            self.adopt(second, moved.name);
        }
        let first = &mut self.blocks[block as usize];
        first.len = keep as u8;
        first.writers &= ((1_u32 << keep) - 1) as u16;
        let (into, at) = if at < keep { (block, at) } else { (second, at - keep) };
        self.blocks[into as usize].insert(at, item, is_writer);
        self.adopt(into, item.name);

        let low = self.blocks[block as usize].summary(block);
        let high = self.blocks[second as usize].summary(second);
        match self.blocks[block as usize].parent {
            NIL => {
                let root = self.new_block(false);
                self.blocks[root as usize].insert(0, low, false);
                self.blocks[root as usize].insert(1, high, false);
                self.adopt(root, block);
                self.adopt(root, second);
                self.root = root;
            }
            parent => {
                let place = self.blocks[parent as usize].find(block);
                self.blocks[parent as usize].set(place, low);
                self.add(parent, place + 1, high, false);
                // The blocks above know of the second part; the new entry may be in the first.
                self.shrink_above(self.blocks[block as usize].parent);
            }
        }
    }

    /// Tells the blocks above that `block` has one more entry.
    fn grow_above(&mut self, mut block: BlockId, item: Item) {
        loop {
            look();
            let parent = self.blocks[block as usize].parent;
            let Some(above) = self.blocks.get_mut(parent as usize) else { return };
            let at = above.find(block);
            let before = above.item(at);
            let after = Item {
                start: before.start.min(item.start),
                reach: before.reach.max(item.reach),
                write_reach: before.write_reach.max(item.write_reach),
                name: block,
            };
            if after == before {
                return;
            }
            above.set(at, after);
            block = parent;
        }
    }

    /// Tells the blocks above that `block` has changed in whatever way.
    fn shrink_above(&mut self, mut block: BlockId) {
        loop {
            look();
            let summary = self.blocks[block as usize].summary(block);
            let parent = self.blocks[block as usize].parent;
            let Some(above) = self.blocks.get_mut(parent as usize) else { return };
            let at = above.find(block);
            if above.item(at) == summary {
                return;
            }
            above.set(at, summary);
            block = parent;
        }
    }

    /// Takes an entry out of a block, and the block if nothing is left in it.
    fn take(&mut self, block: BlockId, at: usize) {
        let here = &mut self.blocks[block as usize];
        let gone = here.remove(at);
        let (len, parent, is_leaf) = (here.len(), here.parent, here.is_leaf);
        if len == 0 && parent != NIL {
            let place = self.blocks[parent as usize].find(block);
            self.blocks[block as usize].parent = self.free_block;
            self.free_block = block;
            self.take(parent, place);
        } else if len == 1 && parent == NIL && !is_leaf {
            // The root has one block below it, which becomes the root.
            self.root = self.blocks[block as usize].names[0];
            self.blocks[self.root as usize].parent = NIL;
            self.blocks[block as usize].parent = self.free_block;
            self.free_block = block;
            self.collapse();
        } else if parent != NIL {
            // Most often the entry was neither the first nor the furthest.
            let above = &self.blocks[parent as usize];
            let known = above.item(above.find(block));
            if at == 0 || gone.reach == known.reach || gone.write_reach == known.write_reach {
                self.shrink_above(block);
            }
        }
    }

    /// Does the same for the roots below, which may have one block below them too.
    fn collapse(&mut self) {
        loop {
            let root = &self.blocks[self.root as usize];
            if root.is_leaf || root.len() != 1 {
                return;
            }
            let (old, below) = (self.root, root.names[0]);
            self.root = below;
            self.blocks[below as usize].parent = NIL;
            self.blocks[old as usize].parent = self.free_block;
            self.free_block = old;
        }
    }

    /// Writes a range that has changed into its leaf anew.
    fn rewrite(&mut self, id: Id) {
        let Range { span, kind, leaf } = self.ranges[id as usize];
        let block = &mut self.blocks[leaf as usize];
        let at = block.find(id);
        block.set(at, Item::of(span, kind, id));
        block.writers &= !(1 << at);
        block.writers |= u16::from(kind == Kind::Writer) << at;
        self.shrink_above(leaf);
    }

    /// The range `gone` was removed or changed: the hull may be smaller now.
    fn mend_hull(&mut self, gone: Span) {
        if gone.start() == self.hull.0 || gone.last() == self.hull.1 {
            let root = self.blocks[self.root as usize].summary(self.root);
            self.hull = (root.start, root.reach);
        }
    }

    /// Panics unless every invariant holds: order, links, reaches.
    #[cfg(any(all(test, not(fairlock_loom)), debug_assertions, fairlock_faults))]
    pub(super) fn check(&self) {
        if self.root == NIL {
            assert_eq!(self.len, 0);
            return;
        }
        let root = &self.blocks[self.root as usize];
        assert!(root.is_leaf || root.len() > 1, "a root that nothing needs");
        let depth = self.depth(self.root);
        assert_eq!(self.check_below(self.root, NIL, depth), self.len);
        if self.len > 0 {
            let root = self.blocks[self.root as usize].summary(self.root);
            assert_eq!(self.hull, (root.start, root.reach));
        }
    }

    #[cfg(any(all(test, not(fairlock_loom)), debug_assertions, fairlock_faults))]
    pub(super) fn depth(&self, block: BlockId) -> usize {
        let block = &self.blocks[block as usize];
        if block.is_leaf { 1 } else { 1 + self.depth(block.names[0]) }
    }

    #[cfg(any(all(test, not(fairlock_loom)), debug_assertions, fairlock_faults))]
    fn check_below(&self, name: BlockId, parent: BlockId, depth: usize) -> usize {
        let block = &self.blocks[name as usize];
        assert_eq!((block.parent, block.is_leaf), (parent, depth == 1));
        assert!(parent == NIL || block.len > 0);
        assert!(block.starts[..block.len()].is_sorted());
        let mut len = 0;
        for at in 0..block.len() {
            let item = block.item(at);
            if block.is_leaf {
                let range = &self.ranges[item.name as usize];
                assert_eq!(item, Item::of(range.span, range.kind, item.name));
                assert_eq!(range.leaf, name);
                assert_eq!(block.writers >> at & 1 != 0, range.kind == Kind::Writer);
                len += 1;
            } else {
                len += self.check_below(item.name, name, depth - 1);
                assert_eq!(item, self.blocks[item.name as usize].summary(item.name));
            }
        }
        len
    }
}
