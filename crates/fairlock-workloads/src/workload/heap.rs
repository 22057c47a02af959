//! A small allocator: the free blocks of one arena are in a list, in the order of their addresses.
//! The first block that fits is taken, and neighbours become one again.
//!
//! It has no lock of its own: callers must hold one. It notices if that did not exclude, and stays
//! memory-safe even then: everything in it is atomic, every index is checked, and every walk ends.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fairlock::platform::Atomic;

/// Words of a unit: what is allocated is a multiple of it, a cache line.
pub const UNIT: usize = 8;
const UNIT_BYTES: usize = 64;
/// In place of the next block: says that there is none.
const END: u64 = u64::MAX;

/// The allocator, and the memory that it gives out.
pub struct Heap<W> {
    /// A free block has its size in units and the unit where the next free block
    /// begins in its first two words; a block in use belongs to its user.
    words: Box<[W]>,
    /// The words before the first unit, which begins a cache line.
    skipped: usize,
    /// Where the first free block begins.
    first: W,
    /// Whether somebody is inside.
    inside: AtomicBool,
    /// Whether somebody came in while another was inside, or the list was in disorder.
    violated: AtomicBool,
}

/// Memory that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    first: u64,
    units: u64,
}

impl Block {
    fn end(self) -> u64 {
        self.first.saturating_add(self.units)
    }
}

impl<W: Atomic<u64>> Heap<W> {
    /// An allocator of `units`, all free.
    pub fn new(units: usize) -> Self {
        let words: Box<[W]> = (0..(units + 1) * UNIT - 1).map(|_| W::new(0)).collect();
        let heap = Self {
            skipped: words.as_ptr().align_offset(UNIT_BYTES),
            words,
            first: W::new(0),
            inside: AtomicBool::new(false),
            violated: AtomicBool::new(false),
        };
        heap.write(0, units as u64, END);
        heap
    }

    /// Allocates `units`; `None` if no free block is large enough. The caller holds the lock.
    pub fn allocate(&self, units: u64) -> Option<Block> {
        let _inside = self.enter();
        let (mut before, mut at) = (END, self.first.load(Relaxed));
        for _ in 0..self.units() {
            if at >= self.units() {
                break;
            }
            let (size, next) = self.read(at);
            if size > units {
                // From the end of the block: the list stays as it is.
                let rest = size - units;
                self.write(at, rest, next);
                return Some(Block { first: at.saturating_add(rest), units });
            }
            if size == units {
                self.link(before, next);
                return Some(Block { first: at, units });
            }
            (before, at) = (at, next);
        }
        self.check(at == END);
        None
    }

    /// Frees what was allocated. The caller holds the lock.
    pub fn free(&self, block: Block) {
        let _inside = self.enter();
        let (mut before, mut at) = (END, self.first.load(Relaxed));
        for _ in 0..self.units() {
            if at >= self.units() || at > block.first {
                break;
            }
            (before, at) = (at, self.read(at).1);
        }
        let (mut units, mut next) = (block.units, at);
        if at < self.units() {
            let (size, after) = self.read(at);
            self.check(block.end() <= at);
            if block.end() == at {
                (units, next) = (units.saturating_add(size), after);
            }
        } else {
            self.check(at == END);
        }
        if before < self.units() {
            let size = self.read(before).0;
            let end = before.saturating_add(size);
            self.check(end <= block.first);
            if end == block.first {
                return self.write(before, size.saturating_add(units), next);
            }
        }
        self.write(block.first, units, next);
        self.link(before, block.first);
    }

    /// The memory of a block.
    pub fn memory(&self, block: Block) -> &[W] {
        let word = |unit: u64| self.skipped + unit.min(self.units()) as usize * UNIT;
        &self.words[word(block.first)..word(block.end())]
    }

    /// Whether all is free, in one block, and nobody ever met another inside.
    pub fn is_as_new(&self) -> bool {
        !self.violated.load(Relaxed)
            && self.first.load(Relaxed) == 0
            && self.read(0) == (self.units(), END)
    }

    fn units(&self) -> u64 {
        (self.words.len() / UNIT) as u64
    }

    /// A free block's size and successor.
    fn read(&self, at: u64) -> (u64, u64) {
        match self.header(at) {
            Some([size, next]) => (size.load(Relaxed), next.load(Relaxed)),
            None => (0, END),
        }
    }

    fn write(&self, at: u64, size: u64, next: u64) {
        if let Some(header) = self.header(at) {
            header[0].store(size, Relaxed);
            header[1].store(next, Relaxed);
        }
    }

    /// What a free block at `at` has in its first words; `None` beyond the arena.
    fn header(&self, at: u64) -> Option<&[W; 2]> {
        let unit = Block { first: at, units: 1 };
        self.memory(unit).first_chunk()
    }

    /// Makes `next` the successor of `before`, or the first.
    fn link(&self, before: u64, next: u64) {
        if before == END {
            self.first.store(next, Relaxed);
        } else {
            self.write(before, self.read(before).0, next);
        }
    }

    fn check(&self, holds: bool) {
        if !holds {
            self.violated.store(true, Relaxed);
        }
    }

    fn enter(&self) -> Inside<'_, W> {
        self.check(!self.inside.load(Relaxed));
        self.inside.store(true, Relaxed);
        Inside(self)
    }
}

/// Somebody is inside the allocator.
struct Inside<'a, W: Atomic<u64>>(&'a Heap<W>);

impl<W: Atomic<u64>> Drop for Inside<'_, W> {
    fn drop(&mut self) {
        self.0.check(self.0.inside.load(Relaxed));
        self.0.inside.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_neighbours_become_one_again() {
        let heap = Heap::<AtomicU64>::new(256);
        let mut rng = StdRng::seed_from_u64(7);
        let mut owners = [false; 256];
        let mut held: Vec<Block> = Vec::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            if rng.random_bool(0.5) {
                match heap.allocate(rng.random_range(1..=32)) {
                    Some(block) => {
                        for unit in block.first..block.first + block.units {
                            let owned = &mut owners[unit as usize];
                            assert!(!std::mem::replace(owned, true), "given out twice");
                        }
                        heap.memory(block).iter().for_each(|word| word.store(u64::MAX, Relaxed));
                        held.push(block);
                    }
                    None => refused += 1,
                }
            } else if !held.is_empty() {
                let block = held.swap_remove(rng.random_range(0..held.len()));
                for unit in block.first..block.first + block.units {
                    owners[unit as usize] = false;
                }
                heap.free(block);
            }
        }
        assert!(refused > 0, "it was never full");
        held.into_iter().for_each(|block| heap.free(block));
        assert!(heap.is_as_new());
    }

    #[test]
    fn what_is_freed_twice_is_noticed() {
        let heap = Heap::<AtomicU64>::new(16);
        let block = heap.allocate(4).unwrap();
        heap.free(block);
        heap.free(block);
        assert!(!heap.is_as_new());
    }

    #[test]
    fn a_second_one_inside_is_noticed() {
        let heap = Heap::<AtomicU64>::new(16);
        let other = heap.enter();
        let block = heap.allocate(4).unwrap();
        drop(other);
        heap.free(block);
        assert!(!heap.is_as_new());
    }
}
