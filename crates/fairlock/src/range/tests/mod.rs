//! Tests that have to look inside, and the naive model beside the lock.
//!
//! No test depends on how long anything takes. What must happen is waited for,
//! and a test that waits in vain ends the process (`fairlock_testing`).

mod defects;
mod model;
mod rules;
mod scaling;
mod scripts;
mod stripes;
mod torture;

use core::sync::atomic::Ordering;

use fairlock_testing::{join, scope, until};

use super::{RangeReadGuard, RangeRwLock, RangeWriteGuard};
use crate::platform::Native;
use crate::range::slots::word::{Flags, Word};

type Lock = RangeRwLock<Native>;
type ReadGuard<'a> = RangeReadGuard<'a, Native>;
type WriteGuard<'a> = RangeWriteGuard<'a, Native>;

/// Nothing of anybody is left: not in the word, not in a slot, not in the tree.
fn assert_free(lock: &Lock) {
    let word = lock.core.word.load(Ordering::SeqCst);
    let others = Flags::NOT_FAST.without(Flags::TREE);
    assert_eq!(word.without(others), Word::FREE, "{word:?}");
    assert!(lock.core.slots.iter().all(|slot| slot.load(Ordering::SeqCst) == 0));
    assert!(lock.core.striped.words().all(|(_, word)| !word.has_slots()));
    lock.core.with_queue(|q| assert!(q.ranges.is_empty() && q.patient.is_empty()));
    assert!(!lock.is_locked() && lock.ranges().is_empty());
    drop(lock.try_write(..).unwrap());
}

/// Waits until `count` threads are queued in the tree.
fn until_queued(lock: &Lock, count: usize) {
    until(|| lock.core.with_queue(|q| q.ranges.waiting()) == count);
}
