//! What grows with the number of ranges held, counted in steps and not in time: blocks and ranges
//! of the tree that are looked at.

use std::time::Duration;

use super::{Lock, WriteGuard, assert_free, join, scope, until};
use crate::range::RangePolicy;
use crate::range::span::Span;
use crate::range::tree::LOOKS;
use crate::range::tree::ranges::Ranges;
use crate::wait::{Kind, Wait};

/// A hundred times as many ranges: two levels more of a tree of sixteen a block.
const FEW: u64 = 1_000;
const MANY: u64 = 100 * FEW;
/// By this factor the looks may grow with that.
const GROWTH: usize = 2;

/// Holds `count` ranges of five positions with gaps of five between them.
fn hold(lock: &Lock, count: u64) -> Vec<WriteGuard<'_>> {
    (0..count).map(|i| lock.write(10 * i..10 * i + 5).unwrap()).collect()
}

/// How often this thread looks in `f`.
fn looks(f: impl FnOnce()) -> usize {
    LOOKS.set(0);
    f();
    LOOKS.get()
}

fn assert_grows_little([few, many]: [usize; 2]) {
    assert!(few > 0 && many <= GROWTH * few, "{few} looks beside {FEW}, {many} beside {MANY}");
}

/// `visit` needs about as many looks beside many ranges as beside few.
fn assert_flat(policy: RangePolicy, visit: impl Fn(&Lock, u64)) {
    assert_grows_little([FEW, MANY].map(|count| {
        let lock = Lock::with_policy(policy);
        let held = hold(&lock, count);
        visit(&lock, count); // the first time makes room
        let looks = looks(|| visit(&lock, count));
        drop(held);
        assert_free(&lock);
        looks
    }));
}

#[test]
fn a_range_in_a_gap_costs_the_same_beside_any_number() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        assert_flat(policy, |lock, count| {
            let gap = 10 * (count / 3) + 5;
            drop(lock.read(gap..gap + 5).unwrap());
            drop(lock.try_write(gap..gap + 5).unwrap());
            assert!(lock.try_read(gap..gap + 6).is_err());
        });
    }
}

#[test]
fn a_range_beyond_all_others_conflicts_with_none_without_a_walk() {
    let mut ranges = Ranges::<usize>::new();
    for at in 1..FEW {
        ranges.insert_held(Span::closed(10 * at, 10 * at + 5), Kind::Writer, 0, 0);
    }
    for (first, walks) in [(0, false), (10 * FEW, false), (10 * FEW / 2 + 6, true)] {
        for kind in [Kind::Reader, Kind::Writer] {
            let span = Span::closed(first, first + 3);
            let looks = looks(|| assert!(!ranges.conflicts(span, kind)));
            assert_eq!(looks > 0, walks, "{span:?}: {looks} looks");
        }
    }
}

#[test]
fn a_range_held_in_the_tree_costs_the_same_beside_any_number() {
    assert_flat(RangePolicy::DEFAULT, |lock, count| {
        let gap = 10 * (count / 3) + 5;
        let mut guard = lock.write(gap..gap + 5).unwrap();
        guard.shrink(gap + 1..gap + 4).unwrap();
        drop(guard.split_at(gap + 2).unwrap().1.downgrade());
    });
}

/// Such a wait does not count each of the ranges under the tree lock.
#[test]
fn a_wide_wait_that_gives_up_costs_the_same_beside_any_number() {
    assert_flat(RangePolicy::DEFAULT, |lock, _| {
        for timeout in [0, 1, 100] {
            assert!(lock.write_with(.., Wait::within(Duration::from_micros(timeout))).is_err());
            assert!(lock.read_with(.., Wait::within(Duration::from_micros(timeout))).is_err());
        }
    });
}

#[test]
fn a_release_beside_a_wide_waiter_costs_the_same_beside_any_number() {
    let policy = RangePolicy { overtaken_for: Duration::MAX };
    assert_flat(policy, |lock, count| {
        let stop = &crate::wait::CancelToken::new();
        scope(|s| {
            let waiter = s.spawn(|| lock.write_with(.., Wait::FOREVER.cancellable(stop)).map(drop));
            until(|| lock.core.shown.has_patient());
            let gap = 10 * (count / 3) + 5;
            (0..100).for_each(|_| drop(lock.read(gap..gap + 5).unwrap()));
            stop.cancel();
            assert!(join(waiter).is_err());
        });
    });
}

/// Also in the tree: a waiter that gives up and has nobody behind it.
#[test]
fn the_newest_waiter_leaves_without_a_walk() {
    assert_grows_little([FEW, MANY].map(|count| {
        let mut ranges = Ranges::<u64>::new();
        for i in 0..count {
            ranges.insert_held(Span::closed(10 * i, 10 * i + 4), Kind::Writer, 0, 0);
        }
        let mut all = 0;
        for ahead in [true, false] {
            let (id, held) = match ahead {
                true => ranges.insert_again(Span::FULL, Kind::Reader, 0, 0, 0, 0),
                false => ranges.insert(Span::FULL, Kind::Writer, 0, 0, 0),
            };
            assert!(!held);
            all += looks(|| ranges.remove(id, |_, _| panic!("nobody waits for it")));
        }
        all
    }));
}
