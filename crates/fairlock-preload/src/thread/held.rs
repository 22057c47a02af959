//! The locks that a thread reads: what lets it read one of them again, past waiting
//! writers.
//!
//! A stack of addresses. What is released is mostly what was taken last, so both ends of
//! a section are a few instructions. If another thread releases what this one took, as
//! POSIX forbids, an entry stays behind: entries of one address are merged before the
//! stack grows, so there is one for each address at worst, and all it costs is turns.
//!
//! A signal handler may use locks in the middle of any of this, if it releases what it
//! takes. Hence the order of the steps: an entry is in the stack before it is written,
//! and not touched after it has left.

use core::cell::Cell;
use core::ptr;

use super::tidy_up_at_exit;
use crate::process::memory;

#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    count: usize,
}

const INLINE: usize = 8;

/// All zero at first, and then [`init`](Held::init) comes before anything else.
pub(crate) struct Held {
    entries: Cell<*mut Entry>,
    len: Cell<usize>,
    capacity: Cell<usize>,
    inline: [Cell<Entry>; INLINE],
}

impl Held {
    pub(super) fn init(&self) {
        self.entries.set(self.inline.as_ptr().cast_mut().cast());
        self.capacity.set(INLINE);
    }

    /// The thread reads the lock at `address` once more.
    #[inline(always)]
    pub(crate) fn push(&self, address: usize) {
        let len = self.len.get();
        if len < self.capacity.get() {
            self.len.set(len + 1);
            self.write(len, Entry { address, count: 1 });
        } else {
            self.push_when_full(address);
        }
    }

    /// The thread reads the lock at `address` once less.
    #[inline(always)]
    pub(crate) fn remove(&self, address: usize) {
        let Some(top) = self.len.get().checked_sub(1) else { return };
        let entry = self.read(top);
        if entry.address == address && entry.count == 1 {
            self.len.set(top);
        } else {
            self.remove_below(address);
        }
    }

    /// Whether the thread reads the lock at `address`.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    #[cold]
    fn remove_below(&self, address: usize) {
        let Some(index) = self.find(address) else { return };
        let entry = self.read(index);
        if entry.count > 1 {
            return self.write(index, Entry { count: entry.count - 1, ..entry });
        }
        let top = self.len.get() - 1;
        self.write(index, self.read(top));
        self.len.set(top);
    }

    #[cold]
    fn push_when_full(&self, address: usize) {
        if let Some(index) = self.find(address) {
            let entry = self.read(index);
            return self.write(index, Entry { count: entry.count + 1, ..entry });
        }
        self.merge();
        if self.len.get() * 2 > self.capacity.get() && !self.grow() {
            return; // without memory the thread just has to wait for its turn
        }
        self.push(address);
    }

    /// One entry for each address.
    fn merge(&self) {
        let mut merged = 0;
        for index in 0..self.len.get() {
            let entry = self.read(index);
            match (0..merged).find(|&i| self.read(i).address == entry.address) {
                Some(same) => {
                    let count = self.read(same).count + entry.count;
                    self.write(same, Entry { count, ..entry });
                }
                None => {
                    self.write(merged, entry);
                    merged += 1;
                }
            }
        }
        self.len.set(merged);
    }

    fn grow(&self) -> bool {
        let capacity = self.capacity.get() * 8;
        let Some(memory) = memory::map(capacity * size_of::<Entry>()) else { return false };
        let entries = memory.cast::<Entry>().as_ptr();
        // SAFETY: both have room for the entries there are.
        unsafe { ptr::copy_nonoverlapping(self.entries.get(), entries, self.len.get()) };
        self.unmap();
        self.entries.set(entries);
        self.capacity.set(capacity);
        tidy_up_at_exit(super::state());
        true
    }

    fn unmap(&self) {
        if self.capacity.get() > INLINE {
            // SAFETY: mapped by `grow`, and replaced or given up.
            unsafe {
                memory::unmap(self.entries.get().cast(), self.capacity.get() * size_of::<Entry>());
            }
        }
    }

    /// The thread ends.
    pub(super) fn tidy_up(&self) {
        self.unmap();
        self.len.set(0);
        self.init();
    }

    /// From the top: what was taken last is mostly released first.
    #[inline]
    fn find(&self, address: usize) -> Option<usize> {
        (0..self.len.get()).rev().find(|&index| self.read(index).address == address)
    }

    #[inline(always)]
    fn read(&self, index: usize) -> Entry {
        debug_assert!(index < self.capacity.get());
        // SAFETY: `entries` has room for `capacity`. Zero, or written: an entry.
        unsafe { self.entries.get().add(index).read() }
    }

    #[inline(always)]
    fn write(&self, index: usize, entry: Entry) {
        debug_assert!(index < self.capacity.get());
        // SAFETY: as above. Only this thread has the entries.
        unsafe { self.entries.get().add(index).write(entry) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this thread, as a new one has it.
    fn held() -> &'static Held {
        let held = super::super::enter().held();
        assert_eq!(held.len.get(), 0);
        held
    }

    fn counts(held: &Held) -> Vec<(usize, usize)> {
        let mut counts: Vec<_> =
            (0..held.len.get()).map(|i| (held.read(i).address, held.read(i).count)).collect();
        counts.sort_unstable();
        counts
    }

    #[test]
    fn what_was_pushed_is_held_until_it_is_removed() {
        let held = held();
        for address in [8, 16, 8, 24] {
            held.push(address);
        }
        held.remove(16);
        assert!(held.contains(8) && held.contains(24) && !held.contains(16));
        held.remove(8);
        assert!(held.contains(8));
        held.remove(8);
        held.remove(8); // of another thread
        assert_eq!(counts(held), [(24, 1)]);
    }

    #[test]
    fn any_number_is_held_and_the_memory_goes_with_the_thread() {
        std::thread::spawn(|| {
            let held = held();
            for address in 1..=1000 {
                held.push(address * 8);
            }
            assert!((1..=1000).all(|address| held.contains(address * 8)));
            for address in 1..=999 {
                held.remove(address * 8);
            }
            assert_eq!(counts(held), [(8000, 1)]);
            held.tidy_up();
            assert_eq!((held.len.get(), held.capacity.get()), (0, INLINE));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn entries_that_stay_behind_are_merged() {
        let held = held();
        for turn in 0..100_000 {
            held.push(turn % 3 * 8);
        }
        assert_eq!(held.capacity.get(), INLINE);
        let total: usize = counts(held).iter().map(|&(_, count)| count).sum();
        assert_eq!(total, 100_000);
    }

    #[test]
    fn merged_entries_count_down() {
        let held = held();
        (0..20).for_each(|_| held.push(8));
        (0..19).for_each(|_| held.remove(8));
        assert!(held.contains(8));
        held.remove(8);
        assert!(!held.contains(8) && held.len.get() == 0);
    }
}
