//! Addresses, each with how often it is held: the locks that a thread reads beyond the few that it
//! took last. Every operation takes the same time, however many there are.
//!
//! A table with open addressing, in memory from the system; at least half of it is empty.

use core::cell::Cell;
use core::ptr;

use crate::process::memory;

#[derive(Clone, Copy)]
struct Entry {
    /// Zero: the entry is empty.
    address: usize,
    count: u64,
}

/// How many entries there is room for at first: a page.
const SMALLEST: usize = 4096 / size_of::<Entry>();

/// All zero at first: empty.
pub(super) struct Spilled {
    entries: Cell<*mut Entry>,
    capacity: Cell<usize>,
    len: Cell<usize>,
}

impl Spilled {
    /// Holds `address` once more; false if there is no memory for it.
    pub(super) fn add(&self, address: usize) -> bool {
        if (self.len.get() + 1) * 2 > self.capacity.get() && !self.grow() {
            return false;
        }
        let index = self.find(address);
        let Entry { address: found, count } = self.read(index);
        if found == 0 {
            self.len.set(self.len.get() + 1);
        }
        self.write(index, Entry { address, count: count + 1 });
        true
    }

    /// Holds `address` once less, if at all.
    pub(super) fn remove(&self, address: usize) {
        if self.len.get() == 0 {
            return;
        }
        let index = self.find(address);
        match self.read(index) {
            Entry { address: 0, .. } => {}
            Entry { count: 1, .. } => self.take_out(index),
            Entry { count, .. } => self.write(index, Entry { address, count: count - 1 }),
        }
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        self.len.get() > 0 && self.read(self.find(address)).address == address
    }

    pub(super) fn tidy_up(&self) {
        let (entries, capacity) = (self.entries.replace(ptr::null_mut()), self.capacity.take());
        self.len.set(0);
        if capacity > 0 {
            // SAFETY: mapped by `grow`, and given up.
            unsafe { memory::unmap(entries.cast(), capacity * size_of::<Entry>()) };
        }
    }

    fn grow(&self) -> bool {
        let (old, len) = (self.entries.get(), self.capacity.get());
        let capacity = (len * 2).max(SMALLEST);
        let Some(memory) = memory::map(capacity * size_of::<Entry>()) else { return false };
        self.entries.set(memory.cast().as_ptr());
        self.capacity.set(capacity);
        for index in 0..len {
            // SAFETY: there were so many.
            let entry = unsafe { old.add(index).read() };
            if entry.address != 0 {
                self.write(self.find(entry.address), entry);
            }
        }
        if len > 0 {
            // SAFETY: mapped earlier, and replaced.
            unsafe { memory::unmap(old.cast(), len * size_of::<Entry>()) };
        }
        true
    }

    /// Where `address` is, or the empty place where it would be.
    fn find(&self, address: usize) -> usize {
        let mut index = self.home(address);
        while ![0, address].contains(&self.read(index).address) {
            index = self.after(index);
        }
        index
    }

    /// Empties a place. Entries behind it that it kept from their own places move up.
    fn take_out(&self, index: usize) {
        let mut hole = index;
        let mut next = self.after(hole);
        loop {
            let entry = self.read(next);
            if entry.address == 0 {
                break;
            }
            let distance = |from: usize, to: usize| to.wrapping_sub(from) % self.capacity.get();
            let home = self.home(entry.address);
            if distance(home, next) >= distance(hole, next) {
                self.write(hole, entry);
                hole = next;
            }
            next = self.after(next);
        }
        self.write(hole, Entry { address: 0, count: 0 });
        self.len.set(self.len.get() - 1);
    }

    fn home(&self, address: usize) -> usize {
        // Fibonacci hashing: locks are often at equal distances.
        let hash = (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.capacity.get().ilog2())) as usize
    }

    fn after(&self, index: usize) -> usize {
        (index + 1) % self.capacity.get()
    }

    fn read(&self, index: usize) -> Entry {
        debug_assert!(index < self.capacity.get());
        // SAFETY: the index is below the capacity; the entry is zero, or written.
        unsafe { self.entries.get().add(index).read() }
    }

    fn write(&self, index: usize, entry: Entry) {
        debug_assert!(index < self.capacity.get());
        // SAFETY: as above. Only this thread uses the entries.
        unsafe { self.entries.get().add(index).write(entry) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Spilled {
        let (entries, zero) = (Cell::new(ptr::null_mut()), || Cell::new(0));
        Spilled { entries, capacity: zero(), len: zero() }
    }

    #[test]
    fn it_is_a_multiset() {
        let (held, mut model) = (empty(), std::collections::BTreeMap::<usize, u64>::new());
        let mut random = 88_172_645_463_325_252_u64;
        for _ in 0..100_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let address = (random % 3000 + 1) as usize * 56;
            if random >> 40 & 1 == 0 {
                assert!(held.add(address));
                *model.entry(address).or_default() += 1;
            } else {
                held.remove(address);
                if let Some(count) = model.get_mut(&address) {
                    *count -= 1;
                    if *count == 0 {
                        model.remove(&address);
                    }
                }
            }
            assert_eq!(held.contains(address), model.contains_key(&address));
        }
        assert_eq!(held.len.get(), model.len());
        assert!((1..=3000).all(|n| held.contains(n * 56) == model.contains_key(&(n * 56))));
        held.tidy_up();
        assert!(!held.contains(56) && held.capacity.get() == 0);
    }

    /// However many entries there are, at whatever distance, and in whatever order they are
    /// removed.
    #[test]
    fn nothing_is_far_from_its_place() {
        for distance in [56, 64, 4096] {
            let held = empty();
            (1..=100_000).for_each(|n| assert!(held.add(n * distance)));
            let far = |address| held.find(address).wrapping_sub(held.home(address));
            let longest = (1..=100_000).map(|n| far(n * distance) % held.capacity.get()).max();
            assert!(longest.unwrap() < 64, "{longest:?}");
            (1..=100_000).for_each(|n| held.remove(n * distance));
            assert_eq!(held.len.get(), 0);
            held.tidy_up();
        }
    }
}
