//! From addresses to cache lines.
//!
//! A simulated atomic has the size of a real one, so what shares a line here shares one there. A
//! line is known by its address: its page is looked up in a small table of recent ones first. Results
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

/// All lines that were touched, by pages.
pub(crate) struct Memory {
    cells: Vec<Cell>,
    /// The numbers of the lines of each page, which count from the first that was touched.
    pages: Vec<[u32; LINES]>,
    known: HashMap<usize, u32>,
    /// Page and its index in `pages`, by a hash of the page. No line is in page 0.
    recent: Box<[(usize, u32); RECENT]>,
}

/// Of a line that was not touched.
const NONE: u32 = u32::MAX;

/// How many lines are in a page: as many as have their numbers in four cache lines.
const LINES: usize = 64;

const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 10;

/// Where a page is in the table. Stacks lie at regular distances, so the low bits alone would not
/// do.
#[inline]
fn slot(page: usize) -> usize {
    (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (64 - RECENT_BITS)
}

impl Memory {
    pub(crate) fn new() -> Self {
        let recent = Box::new([(0, 0); RECENT]);
        Self { cells: Vec::new(), pages: Vec::new(), known: HashMap::new(), recent }
    }

    /// The number of the line that `address` is in.
    #[inline]
    pub(crate) fn number(&mut self, address: usize) -> u32 {
        let (page, line) = (address / LINE_BYTES / LINES, address / LINE_BYTES % LINES);
        let (recent, index) = self.recent[slot(page)];
        let index = if recent == page { index } else { self.look_up(page) };
        let number = self.pages[index as usize][line];
        if number == NONE { self.add(index, line) } else { number }
    }

    #[cold]
    fn look_up(&mut self, page: usize) -> u32 {
        let index = *self.known.entry(page).or_insert_with(|| {
            self.pages.push([NONE; LINES]);
            self.pages.len() as u32 - 1
        });
        self.recent[slot(page)] = (page, index);
        index
    }

    /// Adds a line, which is touched for the first time.
    #[cold]
    fn add(&mut self, page: u32, line: usize) -> u32 {
        let number = self.cells.len() as u32;
        self.cells.push(Cell::default());
        self.pages[page as usize][line] = number;
        number
    }

    #[inline]
    pub(crate) fn cell(&mut self, number: u32) -> &mut Cell {
        &mut self.cells[number as usize]
    }
}
