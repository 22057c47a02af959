//! From addresses to cache lines.
//!
//! A simulated atomic has the size of a real one, so what shares a line here shares one there. A
//! line is known by its address: its page is looked up in a small table of recent ones first.
//!
//! Results do not depend on which address it is. Lines have numbers, and neighbourhoods have names, in the order
//! in which they are touched, or asked for. A thread's stack is one line: where in its frames a waiter is, and what
//! is beside it there, is up to the compiler.

use std::collections::HashMap;
use std::ops::Range;

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
    /// The addresses of stacks. Whole pages.
    stacks: Vec<Range<usize>>,
    /// The address of each neighbourhood that was named first.
    named: Vec<usize>,
    /// Page and its index in `pages`, by a hash of the page. No line is in page 0.
    recent: Box<[(usize, u32); RECENT]>,
}

/// Addresses that are not further apart than this are neighbours.
const NEAR: usize = 1 << 20;

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
        let (stacks, named) = (Vec::new(), Vec::new());
        Self { cells: Vec::new(), pages: Vec::new(), known: HashMap::new(), stacks, named, recent }
    }

    /// There is a stack at these addresses.
    pub(crate) fn add_stack(&mut self, stack: Range<usize>) {
        self.stacks.push(stack);
    }

    /// See [`Engine::name_of`](crate::engine::Engine::name_of).
    pub(crate) fn name_of(&mut self, address: usize) -> usize {
        let apart = |&first: &usize| address.wrapping_sub(first).wrapping_add(NEAR);
        let place = self.named.iter().position(|first| apart(first) < 2 * NEAR);
        let place = place.unwrap_or_else(|| {
            self.named.push(address);
            self.named.len() - 1
        });
        2 * NEAR * place + apart(&self.named[place])
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
        let index = match self.known.get(&page) {
            Some(&index) => index,
            None => self.add_page(page),
        };
        self.recent[slot(page)] = (page, index);
        index
    }

    /// Adds a page, or all those of a stack.
    fn add_page(&mut self, page: usize) -> u32 {
        let address = page * LINE_BYTES * LINES;
        let stack = self.stacks.iter().find(|stack| stack.contains(&address));
        let pages = stack.map_or(page..page + 1, |it| {
            it.start / LINE_BYTES / LINES..it.end.div_ceil(LINE_BYTES * LINES)
        });
        let line = if stack.is_some() { self.add_cell() } else { NONE };
        self.known.extend(pages.map(|page| (page, self.pages.len() as u32)));
        self.pages.push([line; LINES]);
        self.pages.len() as u32 - 1
    }

    /// Adds a line, which is touched for the first time.
    #[cold]
    fn add(&mut self, page: u32, line: usize) -> u32 {
        let number = self.add_cell();
        self.pages[page as usize][line] = number;
        number
    }

    fn add_cell(&mut self) -> u32 {
        self.cells.push(Cell::default());
        self.cells.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn cell(&mut self, number: u32) -> &mut Cell {
        &mut self.cells[number as usize]
    }
}
