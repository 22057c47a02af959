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
use core::time::Duration;

use fairlock_testing::{join, scope, until};

use super::{RangeReadGuard, RangeRwLock, RangeWriteGuard};
use crate::events::{Event, EventCounts};
use crate::platform::{Native, System};
use crate::range::slots::word::{Flags, Word};
use crate::range::span::Span;
use crate::wait::{Kind, Wait};

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

/// Meanwhile somebody has the tree lock.
#[test]
fn ranges_that_are_apart_are_taken_and_left_without_the_tree_lock() {
    let lock = &Lock::new();
    lock.core.with_queue(|q| {
        let held = [0, 10, 20].map(|start| lock.write(start..start + 10).unwrap());
        assert!(q.ranges.is_empty());
        drop(held);
    });
    assert_free(lock);
}

/// It would have to take the tree lock for that.
#[test]
fn an_attempt_whose_time_is_over_does_not_queue() {
    let lock = &Lock::new();
    lock.core.with_queue(|q| {
        let held = lock.write(0..10).unwrap();
        let ended = Wait::within(Duration::ZERO);
        assert!(lock.write_with(5..15, ended).is_err() && lock.read_with(5..15, ended).is_err());
        assert!(q.ranges.is_empty());
        drop(held);
    });
    assert_free(lock);
}

/// It has no turns for readers and turns for writers, which would end all the time.
#[test]
fn a_lock_that_a_thread_reads_and_writes_by_turns_is_taken_as_a_whole_no_longer() {
    Native::thread(); // one without a record has no name
    let lock = Lock::new();
    let write = || drop(lock.write(..).unwrap());
    (0..2).for_each(|_| write());
    assert!(lock.is_whole());
    let mixed = (0..).take_while(|_| {
        write();
        drop(lock.read(..).unwrap());
        lock.is_whole()
    });
    assert!((1..1_000).contains(&mixed.take(1_000).count()));
    (0..1_000).for_each(|_| write());
    assert!(!lock.is_whole(), "for long");
}

/// A thread may come there late.
#[test]
fn a_lock_that_is_taken_in_parts_is_not_had_by_the_gate() {
    let lock = Lock::new();
    let part = lock.write(0..1).unwrap();
    assert!(!lock.is_whole());
    for kind in [Kind::Reader, Kind::Writer] {
        assert_eq!(lock.enter_whole_forever(kind), Ok(false));
    }
    drop(part);
    assert_free(&lock);
}

/// Also those of threads that wait for the lock as a whole.
#[test]
fn a_wait_for_the_whole_lock_is_counted() {
    static COUNTS: EventCounts = EventCounts::new();
    Native::thread(); // one without a record has no name
    let lock = Lock::new();
    lock.set_events(Some(&COUNTS));
    (0..2).for_each(|_| drop(lock.write(..).unwrap()));
    assert!(lock.is_whole());
    let whole = lock.write(..).unwrap();
    scope(|s| {
        s.spawn(|| drop(lock.write(..).unwrap()));
        until(|| COUNTS.get(Event::SleepWriter) > 0);
        drop(whole);
    });
}

/// Whoever sees that the tree is in use sees where.
#[test]
fn a_range_that_enters_the_tree_is_shown_first() {
    let (lock, span) = (Lock::new(), Span::closed(100, 200));
    drop(lock.write(0..1).unwrap());
    lock.core.with_queue(|q| {
        assert!(lock.core.hull.is_outside(span));
        assert!(lock.core.publish(q, span, Flags::TREE).is_ok());
        assert!(!lock.core.hull.is_outside(span));
    });
    assert_free(&lock);
}

#[test]
fn nothing_enters_the_tree_of_a_lock_that_is_taken_as_a_whole() {
    Native::thread(); // one without a record has no name
    let lock = Lock::new();
    (0..2).for_each(|_| drop(lock.write(..).unwrap()));
    assert!(lock.is_whole());
    let entered = lock.core.with_queue(|q| lock.core.publish(q, Span::FULL, Flags::TREE).is_ok());
    assert!(!entered && !lock.core.word.load(Ordering::Relaxed).has_any(Flags::TREE));
}

/// Waits until `count` threads are queued in the tree.
fn until_queued(lock: &Lock, count: usize) {
    until(|| lock.core.with_queue(|q| q.ranges.waiting()) == count);
}
