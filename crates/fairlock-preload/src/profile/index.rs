//! Finds the number of an entry by the entry's content.
//!
//! Tables in memory of this process, each with a mutex of its own.

use crate::process::mutex::Mutex;
use crate::process::signals::Blocked;
use crate::process::table::Open;

const TABLES: usize = 64;

/// How long a thread waits for a table. The holder is quick, or blocks signals; but a handler that
/// came just before may wait for this thread. In ns; compared with the time since the thread came.
const PATIENCE_NS: u64 = 1_000_000_000;

pub(super) struct Index {
    tables: [Table; TABLES],
}

struct Table {
    mutex: Mutex,
    /// Numbers plus one. Used under the mutex.
    places: Open<u32>,
}

// SAFETY: the places are used under the mutex.
unsafe impl Sync for Table {}

impl Index {
    pub(super) const fn new() -> Self {
        Self { tables: [const { Table { mutex: Mutex::new(), places: Open::new() } }; TABLES] }
    }

    /// Forgets all entries, in a new process.
    pub(super) fn forget(&self) {
        self.tables.iter().for_each(|table| table.places.clear());
    }

    /// The number of the entry that `is_it`, with this hash; or of the one that `make` makes if there
    /// is none. Also returns whether it was made. `None` if there is none, or no room, or if the table
    /// could not be had. `hash_of` is that of an entry.
    pub(super) fn find_or_add(
        &self,
        hash: u64,
        hash_of: impl Fn(u32) -> u64,
        is_it: impl Fn(u32) -> bool,
        make: impl FnOnce() -> Option<u32>,
    ) -> Option<(u32, bool)> {
        // The upper bits choose the place.
        let Table { mutex, places } = &self.tables[hash as usize % TABLES];
        let mut blocked = None; // until after the mutex: see `Blocked`
        let _guard = mutex.lock_quickly_within(PATIENCE_NS)?;
        if places.is_full() {
            blocked = Some(Blocked::begin());
            if !places.make_room(|number| hash_of(number - 1)) {
                return None;
            }
        }
        let at = places.find(hash, |number| is_it(number - 1));
        if let Some(number) = places.get(at).checked_sub(1) {
            return Some((number, false));
        }
        blocked.get_or_insert_with(Blocked::begin);
        let number = make()?;
        places.set(at, number + 1);
        Some((number, true))
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

    #[test]
    fn what_was_added_is_found() {
        let index = Index::new();
        let numbers: Vec<u64> = (0..50_000).map(|n| n * 56 + 8).collect();
        let hash_of = |at: u32| mix(0, numbers[at as usize]);
        let find = |number, make: &dyn Fn() -> Option<u32>| {
            index.find_or_add(mix(0, number), hash_of, |at| numbers[at as usize] == number, make)
        };
        for turn in [true, false] {
            for (at, &number) in numbers.iter().enumerate() {
                assert_eq!(find(number, &|| Some(at as u32)), Some((at as u32, turn)));
            }
        }
        index.forget();
        assert_eq!(find(8, &|| None), None);
    }
}
