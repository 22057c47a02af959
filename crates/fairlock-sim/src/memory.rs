//! From addresses to cache lines.
//!
//! A simulated atomic has the size of a real one, so what shares a line here shares one there. A
//! line is known by its address, which is looked up in a small table of recent ones first. Results
//! do not depend on which address it is.

use std::collections::HashMap;

use crate::line::Line;

/// The size of a cache line, of the real machine and of the simulated ones.
pub(crate) const LINE_BYTES: usize = 64;

/// What the machine knows about one line.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) line: Line,
    /// Threads that spin on it.
    pub(crate) spinners: Vec<u32>,
    /// Threads that sleep on a word in it.
    pub(crate) sleepers: Vec<u32>,
}

/// All lines that were touched.
pub(crate) struct Memory {
    cells: Vec<Cell>,
    known: HashMap<usize, u32>,
    /// Tag and number, by a hash of the tag. No line has tag 0.
    recent: Box<[(usize, u32); RECENT]>,
}

const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 12;

/// Where a line is in the table. Stacks lie at regular distances, so the low bits alone would not
/// do.
#[inline]
fn slot(tag: usize) -> usize {
    (tag as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (64 - RECENT_BITS)
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self { cells: Vec::new(), known: HashMap::new(), recent: Box::new([(0, 0); RECENT]) }
    }

    /// The number of the line that `address` is in.
    #[inline]
    pub(crate) fn number(&mut self, address: usize) -> u32 {
        let tag = address / LINE_BYTES;
        let (recent, number) = self.recent[slot(tag)];
        if recent == tag { number } else { self.look_up(tag) }
    }

    #[cold]
    fn look_up(&mut self, tag: usize) -> u32 {
        let number = *self.known.entry(tag).or_insert_with(|| {
            self.cells.push(Cell::default());
            self.cells.len() as u32 - 1
        });
        self.recent[slot(tag)] = (tag, number);
        number
    }

    #[inline]
    pub(crate) fn cell(&mut self, number: u32) -> &mut Cell {
        &mut self.cells[number as usize]
    }
}
