//! A block of the interval tree: up to sixteen ranges, or blocks below it, side by side, each with
//! how far it reaches.

use super::NIL;
use crate::range::span::Span;
use crate::wait::Kind;

/// A block's name.
pub(in crate::range) type BlockId = u32;

/// Entries in a block.
pub(in crate::range) const B: usize = 16;

/// What a block has for each range, or for each block below it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::range) struct Item {
    /// The start of the range, or the smallest start in the block.
    pub(in crate::range) start: u64,
    /// The furthest end.
    pub(in crate::range) reach: u64,
    /// The furthest end of a writer; zero if there is none. That a writer may end at zero costs
    /// blocks below no more than a useless look.
    pub(in crate::range) write_reach: u64,
    /// The range, or the block.
    pub(in crate::range) name: u32,
}

#[repr(align(64))] // whole cache lines
pub(in crate::range) struct Block {
    pub(in crate::range) starts: [u64; B],
    pub(in crate::range) reaches: [u64; B],
    pub(in crate::range) write_reaches: [u64; B],
    pub(in crate::range) names: [u32; B],
    /// The block above; for a free block, the next free one.
    pub(in crate::range) parent: BlockId,
    pub(in crate::range) len: u8,
    pub(in crate::range) is_leaf: bool,
    /// Which of a leaf's ranges are writers.
    pub(in crate::range) writers: u16,
}

impl Item {
    /// The entry of a range in its leaf.
    pub(in crate::range) fn of(span: Span, kind: Kind, name: u32) -> Self {
        let write_reach = if kind == Kind::Writer { span.last() } else { 0 };
        Self { start: span.start(), reach: span.last(), write_reach, name }
    }
}

impl Block {
    /// A block without entries.
    pub(in crate::range) fn new(is_leaf: bool) -> Self {
        Self {
            starts: [0; B],
            reaches: [0; B],
            write_reaches: [0; B],
            names: [NIL; B],
            parent: NIL,
            len: 0,
            is_leaf,
            writers: 0,
        }
    }

    #[inline]
    pub(in crate::range) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(in crate::range) fn item(&self, at: usize) -> Item {
        Item {
            start: self.starts[at],
            reach: self.reaches[at],
            write_reach: self.write_reaches[at],
            name: self.names[at],
        }
    }

    #[inline]
    pub(in crate::range) fn set(&mut self, at: usize, item: Item) {
        self.starts[at] = item.start;
        self.reaches[at] = item.reach;
        self.write_reaches[at] = item.write_reach;
        self.names[at] = item.name;
    }

    /// The entry of this block in the one above.
    pub(in crate::range) fn summary(&self, name: BlockId) -> Item {
        let max = |reaches: &[u64; B]| reaches[..self.len()].iter().fold(0, |a, &b| a.max(b));
        let (reach, write_reach) = (max(&self.reaches), max(&self.write_reaches));
        Item { start: self.starts[0], reach, write_reach, name }
    }

    pub(in crate::range) fn insert(&mut self, at: usize, item: Item, is_writer: bool) {
        let len = self.len();
        self.starts.copy_within(at..len, at + 1);
        self.reaches.copy_within(at..len, at + 1);
        self.write_reaches.copy_within(at..len, at + 1);
        self.names.copy_within(at..len, at + 1);
        let below = (1_u32 << at) - 1;
        let writers = u32::from(self.writers);
        self.writers =
            ((writers & below) | (u32::from(is_writer) << at) | ((writers & !below) << 1)) as u16;
        self.set(at, item);
        self.len += 1;
    }

    pub(in crate::range) fn remove(&mut self, at: usize) -> Item {
        let item = self.item(at);
        let len = self.len();
        self.starts.copy_within(at + 1..len, at);
        self.reaches.copy_within(at + 1..len, at);
        self.write_reaches.copy_within(at + 1..len, at);
        self.names.copy_within(at + 1..len, at);
        let below = (1_u32 << at) - 1;
        let writers = u32::from(self.writers);
        self.writers = ((writers & below) | ((writers >> 1) & !below)) as u16;
        self.len -= 1;
        item
    }

    /// The place of a name in the block.
    #[inline]
    pub(in crate::range) fn find(&self, name: u32) -> usize {
        let at = self.names[..self.len()].iter().position(|&other| other == name);
        at.expect("the tree is consistent")
    }

    /// How many entries start at `start` or before: a new one goes behind them.
    #[inline]
    pub(in crate::range) fn count_up_to(&self, start: u64) -> usize {
        self.starts[..self.len()].iter().filter(|&&other| other <= start).count()
    }

    /// A bit for every entry below which something may overlap `span`.
    #[inline]
    pub(in crate::range) fn candidates<const WRITERS: bool>(&self, span: Span) -> u32 {
        let reaches = if WRITERS { &self.write_reaches } else { &self.reaches };
        let mut found = 0;
        let items = self.starts.iter().zip(reaches).take(self.len()).enumerate();
        for (at, (&start, &reach)) in items {
            if start > span.last() {
                break; // and so do all behind it
            }
            found |= u32::from(reach >= span.start()) << at;
        }
        if WRITERS && self.is_leaf { found & u32::from(self.writers) } else { found }
    }
}
