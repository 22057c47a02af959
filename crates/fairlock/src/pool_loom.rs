//! An item goes from one thread to the next, with what was done to it:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

use super::{Heap, Pool, Pooled};
use crate::system::Atomic;

struct Item {
    /// Read by whoever finds the item in the list.
    made: UnsafeCell<u32>,
    next: AtomicU32,
    /// Whoever has the item changes it.
    used: UnsafeCell<u32>,
}

impl Pooled for Item {
    type Link = AtomicU32;

    fn link(&self) -> (u32, &AtomicU32) {
        // SAFETY: written as the item was made (loom checks that this comes after it).
        (self.made.with(|index| unsafe { *index }), &self.next)
    }
}

struct Items(Pool<AtomicU64, Item, Heap>);

// SAFETY: an item is touched by the thread that has it, but for its link (loom checks that).
unsafe impl Sync for Items {}
// SAFETY: as above.
unsafe impl Send for Items {}

impl Items {
    /// Takes an item, or makes one, and gives it back.
    fn visit(&self) {
        let make = |index| Item {
            made: UnsafeCell::new(index),
            next: Atomic::new(0),
            used: UnsafeCell::new(0),
        };
        let item = self.0.take().or_else(|| self.0.make(make)).unwrap();
        // SAFETY: nobody else has it (loom checks that).
        item.used.with_mut(|used| unsafe { *used += 1 });
        // SAFETY: the caller has taken it.
        unsafe { self.0.give(item) };
    }
}

#[test]
fn an_item_comes_with_what_was_done_to_it() {
    loom::model(|| {
        // SAFETY: zero; and `link` is for the pool.
        let items = Arc::new(Items(unsafe { Pool::new(Atomic::new(0)) }));
        let other = items.clone();
        let other = thread::spawn(move || (0..2).for_each(|_| other.visit()));
        (0..2).for_each(|_| items.visit());
        other.join().unwrap();
        assert!(items.0.made() <= 2);
    });
}
