//! The sizes that the guide and the crate state.
#![cfg(all(feature = "std", target_pointer_width = "64", not(feature = "deadlock_detection")))]

use fairlock::{Mutex, RangeRwLock, RecursiveRwLock, RwLock, Semaphore};
use fairlock_testing as _; // the watchdog

const RWLOCK: usize = 8;
const MUTEX: usize = 8;
const RANGE: usize = 896;

const _: () = assert!(size_of::<RwLock<()>>() == RWLOCK);
const _: () = assert!(size_of::<RecursiveRwLock<()>>() == RWLOCK);
const _: () = assert!(size_of::<Mutex<()>>() == MUTEX);
const _: () = assert!(size_of::<RangeRwLock>() == RANGE);
const _: () = assert!(size_of::<Semaphore>() == 8);
const _: () = assert!(size_of::<RwLock<u64>>() == RWLOCK + 8);
const _: () = assert!(size_of::<Mutex<u64>>() == MUTEX + 8);

#[test]
fn the_documentation_states_them() {
    let rows = [
        format!("| `RwLock<u64>` | {} |", RWLOCK + 8),
        format!("| `Mutex<u64>` | {} |", MUTEX + 8),
        "| `RangeRwLock` | 896 |".into(),
    ];
    let documents =
        [include_str!("../../src/lib.rs"), include_str!("../../../../docs/guide/memory.md")];
    for (row, text) in rows.iter().flat_map(|row| documents.map(|text| (row, text))) {
        assert!(text.contains(row.as_str()), "{row} is not there");
    }
}
