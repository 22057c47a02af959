//! Finds the number of an entry by the entry's content.
//!
//! Tables in memory of this process, each with a mutex of its own.

use core::ops::Deref;

use super::memory::Open;
use super::mutex::{Blocked, Guard, Mutex};

/// How long a thread waits for a table. The holder is quick, or blocks signals; but a handler that
/// came just before may wait for this thread. In ns; compared with the time since the thread came.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Each takes memory, and one thread at a time.
const TABLES: usize = 64;

pub(crate) struct Index {
    tables: [Table; TABLES],
    /// The hash of an entry.
    hash_of: fn(u32) -> u64,
}

struct Table {
    mutex: Mutex,
    /// Numbers plus one. Used under the mutex.
    places: Open<u32>,
}

// SAFETY: the places are used under the mutex.
unsafe impl Sync for Table {}

/// Some of the entries: their numbers, each plus one.
pub(crate) struct Locked<'a> {
    places: &'a Open<u32>,
    _guard: Guard<'a>,
}

impl Deref for Locked<'_> {
    type Target = Open<u32>;

    fn deref(&self) -> &Open<u32> {
        self.places
    }
}

impl Index {
    pub(crate) const fn new(hash_of: fn(u32) -> u64) -> Self {
        let tables = [const { Table { mutex: Mutex::new(), places: Open::new() } }; TABLES];
        Self { tables, hash_of }
    }

    /// Forgets all entries, in a new process.
    pub(crate) fn forget(&self) {
        self.tables.iter().for_each(|table| table.places.clear());
    }

    /// The table of this hash. The upper bits choose the place in it.
    fn table(&self, hash: u64) -> &Table {
        &self.tables[hash as usize % TABLES]
    }

    /// Those entries among which the ones of this hash are.
    pub(crate) fn lock(&self, hash: u64) -> Locked<'_> {
        let Table { mutex, places } = self.table(hash);
        let guard = mutex.lock();
        Locked { places, _guard: guard }
    }

    /// Makes room for one more entry: false if there is no memory for it.
    pub(crate) fn make_room(&self, places: &Open<u32>) -> bool {
        places.make_room(|number| (self.hash_of)(number - 1))
    }

    pub(crate) fn take_out(&self, places: &Open<u32>, at: usize) {
        places.take_out(at, |number| (self.hash_of)(number - 1));
    }

    /// The number of the entry that `is_it`, with this hash; or of the one that `make` makes if there
    /// is none. Also returns whether it was made. `None` if there is none, or no room, or if the table
    /// could not be had.
    pub(crate) fn find_or_add(
        &self,
        hash: u64,
        is_it: impl Fn(u32) -> bool,
        make: impl FnOnce() -> Option<u32>,
    ) -> Option<(u32, bool)> {
        let Table { mutex, places } = self.table(hash);
        let mut blocked = None; // until after the mutex: see `Blocked`
        let _guard = mutex.lock_quickly_within(PATIENCE_NS)?;
        if let Some(at) = places.find(hash, |number| is_it(number - 1)) {
            return Some((places.get(at) - 1, false));
        }
        blocked.get_or_insert_with(Blocked::begin);
        if !self.make_room(places) {
            return None;
        }
        let number = make()?;
        places.add(hash, number + 1);
        Some((number, true))
    }
}

/// That of what is known by its address.
pub(crate) fn hash(address: usize) -> u64 {
    mix(0, address as u64 >> 3)
}

/// Mixes a number into a hash; both ends of the result are good.
pub(crate) fn mix(hash: u64, number: u64) -> u64 {
    let product = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found() {
        let number = |at: u32| u64::from(at) * 56 + 8;
        let index = Index::new(|at| mix(0, u64::from(at) * 56 + 8));
        let find = |wanted, make: &dyn Fn() -> Option<u32>| {
            index.find_or_add(mix(0, wanted), |at| number(at) == wanted, make)
        };
        for turn in [true, false] {
            for at in 0..50_000 {
                assert_eq!(find(number(at), &|| Some(at)), Some((at, turn)));
            }
        }
        index.forget();
        assert_eq!(find(8, &|| None), None);
    }

    /// However many locks there are, and at whatever distances.
    #[test]
    fn no_address_is_far_from_its_place() {
        for distance in [56, 64, 4096] {
            let index = Index::new(|number| hash(number as usize * 8));
            let addresses = || (1..=100_000).map(|place| place * distance);
            for address in addresses() {
                let locked = index.lock(hash(address));
                assert!(index.make_room(&locked));
                locked.add(hash(address), (address / 8) as u32 + 1);
            }
            let far = |address| {
                let locked = index.lock(hash(address));
                let at = locked.find(hash(address), |number| number as usize - 1 == address / 8);
                locked.distance(locked.home(hash(address)), at.unwrap())
            };
            assert!(addresses().map(far).max() < Some(64));
            index.forget();
        }
    }
}
