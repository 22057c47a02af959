//! When a lock is striped and when no longer, and where ranges are held meanwhile.

use core::sync::atomic::Ordering;

use super::{Lock, WriteGuard, assert_free};
use crate::range::HeldIn;
use crate::range::slots::word::{Flags, SLOTS, STRIPE_SLOTS, SlotBits};
use crate::range::span::Span;
use crate::wait::Kind;

fn is_striped(lock: &Lock) -> bool {
    lock.core.word.load(Ordering::Relaxed).has_any(Flags::STRIPED)
}

fn is_in_a_stripe(guard: &WriteGuard<'_>) -> bool {
    matches!(guard.hold.place(), HeldIn::Striped(_))
}

fn span(range: core::ops::Range<u64>) -> Span {
    Span::new(range).unwrap()
}

fn block(number: u64) -> core::ops::Range<u64> {
    number * 4096..(number + 1) * 4096
}

#[test]
fn a_crowd_of_ranges_that_are_apart_gets_stripes() {
    let lock = &Lock::new();
    let few: Vec<_> = (0..9).map(|number| lock.write(block(number)).unwrap()).collect();
    let arrive = |number| {
        lock.core.with_queue(|q| lock.core.begin_stripes_if_useful(q, span(block(number))))
    };
    let next = |from| (from..20).find_map(|number| Some(number).zip(arrive(number)));
    assert_eq!(next(0), Some((15, 12)));
    assert_eq!(next(16), None);
    lock.core.striped.make(12);
    assert!(next(0).is_none() && is_striped(lock));
    let many: Vec<_> = (9..50).map(|number| lock.write(block(number)).unwrap()).collect();
    assert!(many.iter().any(is_in_a_stripe));
    assert_eq!(lock.ranges().len(), 50);
    for number in 0..50 {
        assert!(lock.try_read(block(number)).is_err());
    }
    assert!(lock.try_write(block(50)).is_ok());
    assert!(lock.try_write(..).is_err() && lock.try_read(50 * 4096..).is_ok());
    drop((few, many));
    assert_free(lock);
    // And it stays so.
    assert!(is_in_a_stripe(&lock.write(block(7)).unwrap()));
}

#[test]
fn a_crowd_at_one_place_gets_none() {
    let lock = &Lock::new();
    let arrive = || lock.core.with_queue(|q| lock.core.begin_stripes_if_useful(q, span(block(0))));
    assert!((0..100).all(|_| arrive().is_none()));
    assert!(!is_striped(lock));
    assert_free(lock);
}

#[test]
fn wide_ranges_end_striping_and_narrow_ones_do_not() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    for turn in 0..10_000 {
        drop(lock.write(block(turn % 100)).unwrap());
    }
    assert!(is_striped(lock));
    let mut turns = 0;
    while is_striped(lock) {
        drop(lock.write(..).unwrap());
        turns += 1;
        assert!(turns < 10_000);
    }
    assert_free(lock);
}

/// A range in two regions is held in both, and becomes one when it is changed.
#[test]
fn a_range_in_two_stripes_is_one() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    let across = || {
        let guard = lock.write(4000..5000).unwrap();
        assert!(matches!(guard.hold.place(), HeldIn::Pair(..)));
        guard
    };
    let is_free = |at: u64| lock.try_read(at..=at).is_ok();
    let guard = across();
    assert!(!is_free(4000) && !is_free(4999) && is_free(3999) && is_free(5000));
    drop(guard);
    let reader = across().downgrade();
    assert!(is_free(4000) && is_free(4999) && lock.try_write(0..4001).is_err());
    assert!(lock.try_write(4999..6000).is_err());
    drop(reader);
    let mut guard = across();
    guard.shrink(4050..4900).unwrap();
    assert!(!is_free(4050) && !is_free(4899) && is_free(4049) && is_free(4900));
    drop(guard);
    let (low, high) = across().split_at(4050).unwrap();
    drop(low);
    assert!(is_free(4049) && !is_free(4050) && !is_free(4999));
    drop(high);
    assert_free(lock);
}

/// A closed stripe takes nobody; it opens when the last range that touches it has left the tree.
#[test]
fn a_stripe_opens_when_nobody_in_the_tree_touches_it() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    // More than two regions.
    let across = [4000..3 * 4096 + 1, 10..2 * 4096 + 50].map(|range| lock.read(range).unwrap());
    for number in 0..2 {
        let beside = lock.read(number * 4096 + 60..number * 4096 + 70).unwrap();
        assert!(!matches!(beside.hold.place(), HeldIn::Striped(_)));
    }
    assert!(is_in_a_stripe(&lock.write(block(7)).unwrap()));
    let [first, second] = across;
    drop(first);
    assert!(matches!(lock.read(0..1).unwrap().hold.place(), HeldIn::Node(_)));
    drop(second);
    assert!(is_in_a_stripe(&lock.write(block(0)).unwrap()));
    assert!(is_in_a_stripe(&lock.write(block(1)).unwrap()));
    assert_free(lock);
}

/// A thread that never leaves a slot, in a stripe or in two, keeps its range for good, and nothing
/// else: the lock is striped again beside it.
#[test]
fn what_is_held_from_the_last_time_stays_held() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    let old = [lock.write(block(3)).unwrap(), lock.write(40_000..42_000).unwrap()];
    assert!(is_in_a_stripe(&old[0]) && matches!(old[1].hold.place(), HeldIn::Pair(..)));
    for shift in [4, 12, 20] {
        lock.core.with_queue(|q| lock.core.end_stripes(q));
        assert!(lock.stripe(shift) && is_striped(lock));
        assert!(lock.try_read(3 * 4096..=3 * 4096).is_err());
        assert!(lock.try_read(..40_001).is_err() && lock.try_read(41_999..).is_err());
        let new: Vec<_> = (20..40).map(|number| lock.write(block(number)).unwrap()).collect();
        assert_eq!(new.iter().any(is_in_a_stripe), shift == 12);
        assert_eq!(lock.ranges().iter().filter(|range| range.span.start() < 45_000).count(), 3);
    }
    let [first, mut second] = old;
    second.shrink(41_500..42_000).unwrap();
    assert!(lock.try_write(40_000..41_500).is_ok() && lock.try_read(41_500..=41_500).is_err());
    drop((first, second));
    assert!(lock.try_write(..).is_ok());
    assert!(is_in_a_stripe(&lock.write(block(3)).unwrap()));
    assert_free(lock);
}

#[test]
fn tracing_ends_striping() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    let held = lock.write(block(0)).unwrap();
    lock.set_traced(true);
    assert!(!is_striped(lock) && !lock.stripe(12));
    assert!(lock.try_read(0..1).is_err() && lock.is_locked());
    lock.set_traced(false);
    drop(held);
    assert!(lock.stripe(12));
    assert_free(lock);
}

/// Whoever has seen that a slot was taken finds it empty when its holder has left: it is in nobody's way, not even at
/// the first position, which is the start of an empty slot's range.
#[test]
fn a_slot_of_a_stripe_that_was_left_is_in_nobodys_way() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    let held = lock.write(0..1).unwrap();
    let HeldIn::Striped(slot) = held.hold.place() else { panic!("not in a stripe") };
    let (stripe, seen) =
        ((slot - SLOTS) / STRIPE_SLOTS, lock.core.seat(slot).word.load(Ordering::SeqCst));
    let look = || lock.core.striped.look_at(stripe, seen, span(0..1), Kind::Writer);
    assert!(look().is_err());
    drop(held);
    assert!(look().is_ok());
    assert_free(lock);
}

/// Each is counted, as that says whether stripes are of use.
#[test]
fn two_ranges_in_one_region_are_both_held_in_its_stripe() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    let before = lock.core.striped.uses();
    let held = [lock.write(0..1).unwrap(), lock.write(1..2).unwrap()];
    assert!(held.iter().all(is_in_a_stripe));
    assert_eq!(lock.core.striped.uses(), before + 2);
    drop(held);
    assert_free(lock);
}

/// Its holder's range is not known yet, so it cannot be moved to the tree.
#[test]
fn a_lock_is_not_striped_while_a_slot_is_just_being_taken() {
    let lock = &Lock::new();
    drop(lock.write(0..1).unwrap());
    lock.core.word.take_slot(SlotBits::new(3, Kind::Writer));
    assert!(!lock.stripe(12) && !is_striped(lock));
    lock.core.release_slot(3, Kind::Writer);
    assert!(lock.stripe(12));
    assert_free(lock);
}

#[test]
fn a_lock_that_is_striped_no_longer_shows_no_stripes() {
    let lock = &Lock::new();
    assert!(lock.stripe(12));
    lock.core.with_queue(|q| {
        lock.core.end_stripes(q);
        assert!(q.ranges.regions.is_none());
    });
    assert_eq!(lock.core.striped.shift.load(Ordering::Relaxed), 0);
    assert_free(lock);
}
