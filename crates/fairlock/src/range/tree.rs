//! The interval tree: a balanced search tree (AVL) over the starts of ranges,
//! in which every node also knows how far the ranges below it reach.
//!
//! Each node keeps the furthest end of its left subtree and of its whole
//! subtree, once for all ranges and once for writers only. So a search that
//! comes to a node knows without a look at the left child whether anything
//! there can overlap; it touches the nodes on its path and no others, one cache
//! line each. A reader, which only writers concern, does not walk over the
//! readers beside it.
//!
//! Nodes live in one growing array and are named by number, so there is no
//! pointer to go stale, and nothing here is unsafe. Ranges with equal starts
//! stand in order of insertion.
//!
//! Interval trees augmented with the furthest end are textbook (Cormen et al.,
//! *Introduction to Algorithms*); AVL balancing is Adelson-Velsky and Landis's.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::span::Span;
use crate::wait::Kind;

/// A node's name. Names of removed nodes are used again.
pub(super) type Id = u32;

/// No node.
pub(super) const NIL: Id = Id::MAX;

#[derive(Clone, Copy)]
#[repr(align(64))] // one cache line
struct Node {
    span: Span,
    /// The furthest end in this subtree; zero where there is none, which only
    /// ever costs a useless look.
    max: u64,
    /// The furthest end in the left subtree.
    left_max: u64,
    /// The same two for writers only.
    write_max: u64,
    left_write_max: u64,
    left: Id,
    right: Id,
    parent: Id,
    height: u8,
    kind: Kind,
}

/// The ranges of a lock.
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Removed nodes, through `parent`.
    free: Id,
    root: Id,
    /// The leftmost node.
    first: Id,
    len: usize,
}

impl Tree {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NIL, root: NIL, first: NIL, len: 0 }
    }

    #[cfg(debug_assertions)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn span(&self, id: Id) -> Span {
        self.at(id).span
    }

    #[inline]
    pub(super) fn kind(&self, id: Id) -> Kind {
        self.at(id).kind
    }

    /// From the smallest start to the furthest end: what is outside overlaps
    /// nothing. What is inside may still be in a gap (defect 3).
    #[inline]
    pub(super) fn hull(&self) -> Option<Span> {
        let first = self.nodes.get(self.first as usize)?;
        Some(Span::closed(first.span.start(), self.at(self.root).max))
    }

    /// Calls `visit` with the nodes that overlap `span`, in order of their
    /// starts, until it breaks; with writers only if told so.
    #[inline]
    pub(super) fn overlapping(
        &self,
        span: Span,
        writers_only: bool,
        mut visit: impl FnMut(Id) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if writers_only {
            self.search::<true>(self.root, span, &mut visit)
        } else {
            self.search::<false>(self.root, span, &mut visit)
        }
    }

    fn search<const WRITERS: bool>(
        &self,
        mut id: Id,
        span: Span,
        visit: &mut impl FnMut(Id) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while let Some(node) = self.nodes.get(id as usize) {
            let reach = if WRITERS { node.left_write_max } else { node.left_max };
            if node.left != NIL && reach >= span.start() {
                self.search::<WRITERS>(node.left, span, visit)?;
            }
            if node.span.start() > span.last() {
                break;
            }
            if node.span.last() >= span.start() && (!WRITERS || node.kind == Kind::Writer) {
                visit(id)?;
            }
            id = node.right;
        }
        ControlFlow::Continue(())
    }

    /// Adds a range.
    pub(super) fn insert(&mut self, span: Span, kind: Kind) -> Id {
        let (mut parent, mut at, mut leftmost) = (NIL, self.root, true);
        let mut goes_left = false;
        while let Some(node) = self.nodes.get(at as usize) {
            parent = at;
            goes_left = span.start() < node.span.start();
            leftmost &= goes_left;
            at = if goes_left { node.left } else { node.right };
        }
        let id = self.new_node(Node {
            span,
            max: span.last(),
            left_max: 0,
            write_max: write_end(span, kind),
            left_write_max: 0,
            left: NIL,
            right: NIL,
            parent,
            height: 1,
            kind,
        });
        match parent {
            NIL => self.root = id,
            _ if goes_left => self.at_mut(parent).left = id,
            _ => self.at_mut(parent).right = id,
        }
        if leftmost {
            self.first = id;
        }
        self.len += 1;
        self.retrace(parent);
        id
    }

    /// Takes a range out.
    pub(super) fn remove(&mut self, id: Id) {
        if id == self.first {
            self.first = self.next(id);
        }
        let node = *self.at(id);
        let mut heir = NIL;
        let start = if node.left == NIL || node.right == NIL {
            self.replace(node.parent, id, if node.left == NIL { node.right } else { node.left });
            node.parent
        } else {
            // The next node, which has no left child, takes the place.
            let next = self.leftmost(node.right);
            let orphan = *self.at(next);
            let start = if orphan.parent == id {
                next
            } else {
                self.replace(orphan.parent, next, orphan.right);
                self.adopt(next, node.right, false);
                orphan.parent
            };
            self.adopt(next, node.left, true);
            self.replace(node.parent, id, next);
            // What the nodes above know of this place, until it is mended below.
            let place = self.at_mut(next);
            (place.height, place.max, place.write_max) = (node.height, node.max, node.write_max);
            heir = next;
            start
        };
        self.at_mut(id).parent = self.free;
        self.free = id;
        self.len -= 1;
        self.retrace(start);
        self.retrace(heir);
    }

    /// Turns a writer into a reader.
    pub(super) fn set_kind(&mut self, id: Id, kind: Kind) {
        self.at_mut(id).kind = kind;
        self.retrace(id);
    }

    /// Moves the end of a range.
    pub(super) fn set_last(&mut self, id: Id, last: u64) {
        let node = self.at_mut(id);
        node.span = Span::closed(node.span.start(), last);
        self.retrace(id);
    }

    /// Every node, in order of their starts.
    pub(super) fn iter(&self) -> impl Iterator<Item = Id> + '_ {
        core::iter::successors((self.first != NIL).then_some(self.first), |&id| {
            let next = self.next(id);
            (next != NIL).then_some(next)
        })
    }

    #[inline]
    fn at(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline]
    fn at_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    fn new_node(&mut self, node: Node) -> Id {
        match self.free {
            NIL => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as Id
            }
            id => {
                self.free = self.at(id).parent;
                *self.at_mut(id) = node;
                id
            }
        }
    }

    fn leftmost(&self, mut id: Id) -> Id {
        while self.at(id).left != NIL {
            id = self.at(id).left;
        }
        id
    }

    /// The node after this one.
    fn next(&self, mut id: Id) -> Id {
        if self.at(id).right != NIL {
            return self.leftmost(self.at(id).right);
        }
        loop {
            let parent = self.at(id).parent;
            if parent == NIL || self.at(parent).left == id {
                return parent;
            }
            id = parent;
        }
    }

    /// Puts `new`, which may be `NIL`, where `old` is below `parent`.
    fn replace(&mut self, parent: Id, old: Id, new: Id) {
        if parent == NIL {
            self.root = new;
        } else if self.at(parent).left == old {
            self.at_mut(parent).left = new;
        } else {
            self.at_mut(parent).right = new;
        }
        if new != NIL {
            self.at_mut(new).parent = parent;
        }
    }

    /// Puts `child`, which may be `NIL`, below `parent`.
    fn adopt(&mut self, parent: Id, child: Id, left: bool) {
        let node = self.at_mut(parent);
        if left {
            node.left = child;
        } else {
            node.right = child;
        }
        if child != NIL {
            self.at_mut(child).parent = parent;
        }
    }

    /// Height, furthest end, furthest end of a writer.
    fn summary(&self, id: Id) -> (u8, u64, u64) {
        self.nodes.get(id as usize).map_or((0, 0, 0), |n| (n.height, n.max, n.write_max))
    }

    /// Computes what `id` knows from its children.
    fn update(&mut self, id: Id) {
        let node = *self.at(id);
        let (left_height, left_max, left_write_max) = self.summary(node.left);
        let (right_height, right_max, right_write_max) = self.summary(node.right);
        let height = 1 + left_height.max(right_height);
        let max = node.span.last().max(left_max).max(right_max);
        let write_max = write_end(node.span, node.kind).max(left_write_max).max(right_write_max);
        let node = self.at_mut(id);
        (node.height, node.max, node.write_max) = (height, max, write_max);
        (node.left_max, node.left_write_max) = (left_max, left_write_max);
    }

    /// Left height minus right height.
    fn balance(&self, id: Id) -> i32 {
        let node = self.at(id);
        i32::from(self.summary(node.left).0) - i32::from(self.summary(node.right).0)
    }

    /// Mends what `id` and the nodes above it know, and the balance.
    fn retrace(&mut self, mut id: Id) {
        while id != NIL {
            let before = self.summary(id);
            self.update(id);
            let top = match self.balance(id) {
                2 => {
                    let left = self.at(id).left;
                    if self.balance(left) < 0 {
                        self.rotate(left, false);
                    }
                    self.rotate(id, true)
                }
                -2 => {
                    let right = self.at(id).right;
                    if self.balance(right) > 0 {
                        self.rotate(right, true);
                    }
                    self.rotate(id, false)
                }
                _ => id,
            };
            if top == id && self.summary(id) == before {
                return; // nothing new to those above
            }
            id = self.at(top).parent;
        }
    }

    /// Lets a child of `id` take its place: the left one if told so. Returns it.
    fn rotate(&mut self, id: Id, right: bool) -> Id {
        let node = *self.at(id);
        let child = if right { node.left } else { node.right };
        let inner = if right { self.at(child).right } else { self.at(child).left };
        self.replace(node.parent, id, child);
        self.adopt(id, inner, right);
        self.adopt(child, id, !right);
        self.update(id);
        self.update(child);
        child
    }

    /// Panics unless every invariant holds: order, links, balance, ends.
    #[cfg(any(all(test, not(loom)), debug_assertions))]
    pub(super) fn check(&self) {
        let len = self.check_below(self.root, NIL);
        assert_eq!(len, self.len);
        assert_eq!(self.iter().count(), len);
        assert!(self.iter().is_sorted_by_key(|id| self.span(id).start()));
    }

    #[cfg(any(all(test, not(loom)), debug_assertions))]
    fn check_below(&self, id: Id, parent: Id) -> usize {
        let Some(node) = self.nodes.get(id as usize) else { return 0 };
        assert_eq!(node.parent, parent);
        let len = self.check_below(node.left, id) + 1 + self.check_below(node.right, id);
        let (left_height, left_max, left_write_max) = self.summary(node.left);
        let (right_height, right_max, right_write_max) = self.summary(node.right);
        assert!(left_height.abs_diff(right_height) <= 1, "balance");
        assert_eq!(node.height, 1 + left_height.max(right_height));
        assert_eq!((node.left_max, node.left_write_max), (left_max, left_write_max));
        assert_eq!(node.max, node.span.last().max(left_max).max(right_max));
        let own = write_end(node.span, node.kind);
        assert_eq!(node.write_max, own.max(left_write_max).max(right_write_max));
        len
    }
}

/// How far a range reaches as a writer.
fn write_end(span: Span, kind: Kind) -> u64 {
    if kind == Kind::Writer { span.last() } else { 0 }
}
