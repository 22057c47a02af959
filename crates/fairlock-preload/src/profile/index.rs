//! Finds the number of an entry by the entry's content.
//!
//! Tables with open addressing in memory of this process, at least half empty, each with a mutex
//! of its own.

use core::cell::Cell;
use core::ptr;

use crate::process::memory;
use crate::process::mutex::Mutex;
use crate::process::signals::Blocked;

const TABLES: usize = 64;
const SMALLEST: usize = 64;

/// How long a thread waits for a table. The holder is quick, or blocks signals; but a handler that
/// came just before may wait for this thread. In ns; compared with the time since the thread came.
const PATIENCE_NS: u64 = 1_000_000_000;

pub(super) struct Index {
    tables: [Table; TABLES],
}

struct Table {
    mutex: Mutex,
    /// Numbers plus one; zero: empty. Used under the mutex, as are the fields below.
    places: Cell<*mut u32>,
    capacity: Cell<usize>,
    len: Cell<usize>,
}

// SAFETY: the cells are used under the mutex.
unsafe impl Sync for Table {}

/// How entries are told apart.
pub(super) trait Entries {
    fn hash(&self, number: u32) -> u64;
    fn is_it(&self, number: u32) -> bool;
}

impl Index {
    pub(super) const fn new() -> Self {
        Self {
            tables: [const {
                Table {
                    mutex: Mutex::new(),
                    places: Cell::new(ptr::null_mut()),
                    capacity: Cell::new(0),
                    len: Cell::new(0),
                }
            }; TABLES],
        }
    }

    /// Forgets all entries, in a new process.
    pub(super) fn forget(&self) {
        for table in &self.tables {
            let (places, capacity) = (table.places.replace(ptr::null_mut()), table.capacity.take());
            table.len.set(0);
            if capacity > 0 {
                // SAFETY: mapped by `grow`, and given up.
                unsafe { memory::unmap(places.cast(), capacity * size_of::<u32>()) };
            }
        }
    }

    /// The number of the entry that `entries` recognises, with this hash; or of the one that `make`
    /// makes if there is none. Also returns whether it was made. `None` if there is none, or no room,
    /// or if the table could not be had.
    pub(super) fn find_or_add(
        &self,
        hash: u64,
        entries: &impl Entries,
        make: impl FnOnce() -> Option<u32>,
    ) -> Option<(u32, bool)> {
        let table = &self.tables[(hash >> 58) as usize % TABLES];
        let mut blocked = None; // until after the mutex: see `Blocked`
        let _guard = table.mutex.lock_quickly_within(PATIENCE_NS)?;
        if (table.len.get() + 1) * 2 > table.capacity.get() {
            blocked = Some(Blocked::begin());
            if !table.grow(entries) {
                return None;
            }
        }
        let place = table.find(hash, |number| entries.is_it(number));
        // SAFETY: there is such a place.
        unsafe {
            if let Some(number) = (*place).checked_sub(1) {
                return Some((number, false));
            }
            blocked.get_or_insert_with(Blocked::begin);
            let number = make()?;
            *place = number + 1;
            table.len.set(table.len.get() + 1);
            Some((number, true))
        }
    }
}

impl Table {
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> *mut u32 {
        let mask = self.capacity.get() - 1;
        let mut at = hash as usize & mask;
        loop {
            // SAFETY: `at` is below the capacity; some of the places are empty.
            let place = unsafe { self.places.get().add(at) };
            // SAFETY: as above.
            match unsafe { *place }.checked_sub(1) {
                Some(number) if !is_it(number) => at = (at + 1) & mask,
                _ => return place,
            }
        }
    }

    fn grow(&self, entries: &impl Entries) -> bool {
        let (old, len) = (self.places.get(), self.capacity.get());
        let capacity = (len * 2).max(SMALLEST);
        let Some(new) = memory::map(capacity * size_of::<u32>()) else { return false };
        self.places.set(new.cast().as_ptr());
        self.capacity.set(capacity);
        for at in 0..len {
            // SAFETY: `at` is below the old capacity.
            let number = unsafe { *old.add(at) };
            if number != 0 {
                // SAFETY: an empty place.
                unsafe { *self.find(entries.hash(number - 1), |_| false) = number };
            }
        }
        if len > 0 {
            // SAFETY: mapped earlier, and replaced.
            unsafe { memory::unmap(old.cast(), len * size_of::<u32>()) };
        }
        true
    }
}

/// Mixes a number into a hash; both ends of the result are good.
pub(super) fn mix(hash: u64, number: u64) -> u64 {
    let product = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers<'a>(&'a [u64], u64);

    impl Entries for Numbers<'_> {
        fn hash(&self, number: u32) -> u64 {
            mix(0, self.0[number as usize])
        }

        fn is_it(&self, number: u32) -> bool {
            self.0[number as usize] == self.1
        }
    }

    #[test]
    fn what_was_added_is_found() {
        let index = Index::new();
        let numbers: Vec<u64> = (0..50_000).map(|n| n * 56 + 8).collect();
        for turn in [true, false] {
            for (at, &number) in numbers.iter().enumerate() {
                let entries = Numbers(&numbers, number);
                let found = index.find_or_add(mix(0, number), &entries, || Some(at as u32));
                assert_eq!(found, Some((at as u32, turn)));
            }
        }
        index.forget();
        let entries = Numbers(&numbers, 8);
        assert_eq!(index.find_or_add(mix(0, 8), &entries, || None), None);
    }
}
