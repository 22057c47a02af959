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

/// An address and, above its bits, how many more times it is held.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const ONE_MORE: u64 = 1 << 48;
    const MOST: u64 = u64::MAX / Self::ONE_MORE;

    const fn once(address: usize) -> Self {
        Self(address as u64)
    }

    fn is_of(self, address: usize) -> bool {
        self.0 % Self::ONE_MORE == address as u64
    }

    fn more(self) -> u64 {
        self.0 / Self::ONE_MORE
    }

    /// So many more times. As often as it can count means for ever: it costs turns only.
    fn and(self, more: u64) -> Self {
        Self(self.0 + more.min(Self::MOST - self.more()) * Self::ONE_MORE)
    }
}

/// Entries from the beginning, the one below the first of the stack included.
const INLINE: usize = 16;

/// All zero at first, and then [`init`](Held::init) comes before anything else.
pub(crate) struct Held {
    /// Behind the last entry.
    top: Cell<*mut Entry>,
    /// Where there is no more room; null as long as locks must not be taken at once.
    limit: Cell<*mut Entry>,
    /// An entry of no address, which `top` is always behind.
    bottom: Cell<*mut Entry>,
    capacity: Cell<usize>,
    inline: [Cell<Entry>; INLINE],
}

impl Held {
    pub(super) fn init(&self, at_once: bool) {
        self.place(self.inline.as_ptr().cast_mut().cast(), INLINE, 1);
        if !at_once {
            self.limit.set(ptr::null_mut());
        }
    }

    fn place(&self, entries: *mut Entry, capacity: usize, len: usize) {
        self.bottom.set(entries);
        self.capacity.set(capacity);
        // SAFETY: `len` is at most `capacity`, which is how many there are.
        let (top, limit) = unsafe { (entries.add(len), entries.add(capacity)) };
        self.top.set(top);
        self.limit.set(limit);
    }

    /// Whether a lock may be taken at once, and [`push_in_room`](Self::push_in_room)ed.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.top.get() < self.limit.get()
    }

    /// The thread reads the lock at `address` once more.
    #[inline(always)]
    pub(crate) fn push_in_room(&self, address: usize) {
        let top = self.top.get();
        // SAFETY: there is room.
        unsafe {
            self.top.set(top.add(1));
            top.write(Entry::once(address));
        }
    }

    /// The same, whether there is room or not.
    pub(crate) fn push(&self, address: usize) {
        if self.len() < self.capacity.get() || self.make_room(address) {
            self.push_in_room(address);
        }
    }

    /// Whether the lock at `address` is what the thread came to read last. After
    /// [`init`](Self::init) only.
    #[inline(always)]
    pub(crate) fn is_last(&self, address: usize) -> bool {
        // SAFETY: below the top there is at least the bottom.
        unsafe { self.top.get().sub(1).read() == Entry::once(address) }
    }

    /// The thread reads that one once less.
    #[inline(always)]
    pub(crate) fn remove_last(&self) {
        // SAFETY: as above, and it is not the bottom.
        self.top.set(unsafe { self.top.get().sub(1) });
    }

    /// The thread reads the lock at `address` once less.
    pub(crate) fn remove(&self, address: usize) {
        if self.is_last(address) {
            return self.remove_last();
        }
        let Some(index) = self.find(address) else { return };
        let entry = self.read(index);
        match entry.more() {
            Entry::MOST => {}
            0 => {
                let last = self.len() - 1;
                self.write(index, self.read(last));
                self.top.set(self.at(last));
            }
            _ => self.write(index, Entry(entry.0 - Entry::ONE_MORE)),
        }
    }

    /// Whether the thread reads the lock at `address`.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    /// The stack is full: counts `address` in an entry that it has (false), or makes room
    /// for a new one.
    #[cold]
    fn make_room(&self, address: usize) -> bool {
        if let Some(index) = self.find(address) {
            self.write(index, self.read(index).and(1));
            return false;
        }
        self.merge();
        // Without memory the thread just has to wait for its turn.
        self.len() * 2 <= self.capacity.get() || self.grow()
    }

    /// One entry for each address.
    fn merge(&self) {
        let mut merged = 1;
        for index in 1..self.len() {
            let entry = self.read(index);
            let address = (entry.0 % Entry::ONE_MORE) as usize;
            match (1..merged).find(|&other| self.read(other).is_of(address)) {
                Some(same) => self.write(same, self.read(same).and(entry.more() + 1)),
                None => {
                    self.write(merged, entry);
                    merged += 1;
                }
            }
        }
        self.top.set(self.at(merged));
    }

    fn grow(&self) -> bool {
        let (len, capacity) = (self.len(), self.capacity.get() * 8);
        let Some(memory) = memory::map(capacity * size_of::<Entry>()) else { return false };
        let entries = memory.cast::<Entry>().as_ptr();
        // SAFETY: both have room for the entries there are.
        unsafe { ptr::copy_nonoverlapping(self.bottom.get(), entries, len) };
        let at_once = !self.limit.get().is_null();
        self.unmap();
        self.place(entries, capacity, len);
        if !at_once {
            self.limit.set(ptr::null_mut());
        }
        tidy_up_at_exit(super::state());
        true
    }

    fn unmap(&self) {
        let bytes = self.capacity.get() * size_of::<Entry>();
        if self.capacity.get() > INLINE {
            // SAFETY: mapped by `grow`, and replaced or given up.
            unsafe { memory::unmap(self.bottom.get().cast(), bytes) };
        }
    }

    /// The thread ends.
    pub(super) fn tidy_up(&self) {
        self.unmap();
        self.init(!self.limit.get().is_null());
    }

    /// How many entries there are, with the one at the bottom.
    fn len(&self) -> usize {
        // SAFETY: both are in the same entries, or null.
        unsafe { self.top.get().offset_from(self.bottom.get()) as usize }
    }

    /// From the top: what was taken last is mostly released first.
    #[inline]
    fn find(&self, address: usize) -> Option<usize> {
        (1..self.len()).rev().find(|&index| self.read(index).is_of(address))
    }

    #[inline(always)]
    fn at(&self, index: usize) -> *mut Entry {
        debug_assert!(index <= self.capacity.get());
        // SAFETY: there are `capacity` of them; this is one, or behind the last.
        unsafe { self.bottom.get().add(index) }
    }

    #[inline(always)]
    fn read(&self, index: usize) -> Entry {
        // SAFETY: in the entries; zero, or written.
        unsafe { self.at(index).read() }
    }

    #[inline(always)]
    fn write(&self, index: usize, entry: Entry) {
        // SAFETY: as above. Only this thread has them.
        unsafe { self.at(index).write(entry) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this thread, as a new one has it.
    fn held() -> &'static Held {
        let held = super::super::enter().held();
        assert_eq!(held.len(), 1);
        held
    }

    fn counts(held: &Held) -> Vec<(u64, u64)> {
        let entries = (1..held.len()).map(|index| held.read(index));
        let mut counts: Vec<_> =
            entries.map(|entry| (entry.0 % Entry::ONE_MORE, entry.more() + 1)).collect();
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
            assert_eq!((held.len(), held.capacity.get()), (1, INLINE));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn entries_that_stay_behind_are_merged() {
        let held = held();
        for turn in 0..100_000 {
            held.push(8 + turn % 3 * 8);
        }
        assert_eq!(held.capacity.get(), INLINE);
        let total: u64 = counts(held).iter().map(|&(_, count)| count).sum();
        assert_eq!(total, 100_000);
    }

    #[test]
    fn an_entry_that_cannot_be_counted_is_there_for_good() {
        let held = held();
        (0..1 << 20).for_each(|_| held.push(8));
        (0..1 << 20).for_each(|_| held.remove(8));
        assert!(held.contains(8) && held.len() <= INLINE);
    }

    #[test]
    fn merged_entries_count_down() {
        let held = held();
        (0..20).for_each(|_| held.push(8));
        (0..19).for_each(|_| held.remove(8));
        assert!(held.contains(8));
        held.remove(8);
        assert!(!held.contains(8) && held.len() == 1);
    }
}
