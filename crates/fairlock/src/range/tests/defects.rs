//! The nine defects of earlier range locks, each by its number.
//!
//! | defect | caught here by | on a lock that has it |
//! |---|---|---|
//! | 1 | `defect_1_*` | kind and waiter are separate fields: it cannot be written |
//! | 2, 3, 7 | `defect_2_*`, `defect_3_*`, `defect_7_*`, and the naive model | `rules`: the model fails on trees with these faults |
//! | 4 | `defect_4_*` | a wait has a node of its own, gone with it |
//! | 5 | `defect_5_*` | the compiler: statics are made by `const fn`s |
//! | 6 | `defect_6_*`, and the model checks | `range_loom::broken` |
//! | 8 | `defect_8_*`, and the model checks | `range_loom::broken` |
//! | 9 | `defect_9_*`, `slice` | the compiler: a guard cannot be made without a hold |

use core::sync::atomic::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fairlock_testing::rounds;

use super::{Lock, WriteGuard, assert_free, join, scope, until, until_queued};
use crate::range::slots::word::{Packed, SlotBits};
use crate::range::{HeldIn, Hold, RangeAccess, RangeError, RangePolicy, Span};
use crate::wait::{CancelToken, Kind, Wait};

fn fifo() -> Lock {
    Lock::with_policy(RangePolicy::FIFO)
}

#[test]
fn defect_1_readers_that_waited_share_and_a_downgrade_lets_them_in() {
    let lock = &fifo();
    let writer = lock.write(0..10).unwrap();
    scope(|s| {
        let readers = [0..5_u64, 3..8, 0..10].map(|range| {
            s.spawn(move || {
                let guard = lock.read(range).unwrap();
                // All three are inside at once; otherwise this never ends.
                until(|| lock.ranges().iter().filter(|range| !range.waiting).count() == 4);
                guard
            })
        });
        until_queued(lock, 3);
        let reader = writer.downgrade();
        let guards = readers.map(join);
        drop((reader, guards));
    });
    assert_free(lock);
}

#[test]
fn defect_2_a_reader_that_gives_up_lets_nobody_in_beside_the_writer() {
    let lock = &fifo();
    let stop = &CancelToken::new();
    let writer = lock.write(..).unwrap();
    scope(|s| {
        let first = s.spawn(|| lock.read_with(.., Wait::FOREVER.cancellable(stop)).map(drop));
        until_queued(lock, 1);
        let second = s.spawn(|| lock.read(..).map(drop));
        until_queued(lock, 2);
        stop.cancel();
        assert_eq!(join(first), Err(RangeError::Cancelled));
        // Still waiting, and not granted while the writer is inside.
        assert_eq!(lock.core.with_queue(|q| q.ranges.waiting()), 1);
        assert!(!second.is_finished());
        drop(writer);
        join(second).unwrap();
    });
    assert_free(lock);
}

#[test]
fn defect_3_a_gap_is_free_and_so_is_what_only_touches() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        for others in [1, 40] {
            let lock = Lock::with_policy(policy);
            // More than there are slots: some are in the tree.
            let low: Vec<_> =
                (0..others).map(|i| lock.write(10 * i..10 * i + 5).unwrap()).collect();
            let high = lock.write(u64::MAX - 9..).unwrap();
            for i in 0..others {
                drop(lock.try_write(10 * i + 5..10 * i + 10).unwrap());
                assert_eq!(lock.try_write(10 * i + 4..10 * i + 6).err(), Some(RangeError::Busy));
            }
            drop(lock.try_write(10 * others..u64::MAX - 9).unwrap());
            assert!(lock.try_read(10 * others..=u64::MAX - 9).is_err());
            drop((low, high));
            assert_free(&lock);
        }
    }
}

#[test]
fn defect_4_a_wait_that_ended_leaves_no_count_for_the_next() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        let lock = &Lock::with_policy(policy);
        let held = [lock.write(0..5).unwrap(), lock.write(5..10).unwrap()];
        for _ in 0..3 {
            let end = lock.write_with(0..10, Wait::within(Duration::from_millis(2)));
            assert_eq!(end.err(), Some(RangeError::TimedOut));
        }
        drop(held);
        scope(|s| join(s.spawn(|| drop(lock.write(0..10).unwrap()))));
        assert_free(lock);
    }
}

#[test]
fn defect_5_a_range_taken_by_a_try_can_be_waited_for_and_statics_work() {
    static LOCK: Lock = Lock::new();
    static STRICT: Lock = Lock::with_policy(RangePolicy::FIFO);
    for lock in [&LOCK, &STRICT] {
        let held = lock.try_write(3..7).unwrap();
        scope(|s| {
            let waiter = s.spawn(|| drop(lock.write(0..5).unwrap()));
            until(|| lock.ranges().iter().any(|range| range.waiting));
            drop(held);
            join(waiter);
        });
        assert_free(lock);
    }
}

#[test]
fn defect_6_granted_and_cancelled_at_once_is_held_or_not_but_never_half() {
    let lock = &fifo();
    for round in 0..rounds(300) {
        let stop = &CancelToken::new();
        let writer = lock.write(0..10).unwrap();
        scope(|s| {
            let waiter =
                s.spawn(move || lock.write_with(5..15, Wait::FOREVER.cancellable(stop)).map(drop));
            until_queued(lock, 1);
            let canceller = s.spawn(move || stop.cancel());
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            drop(writer);
            let _ = join(waiter);
            join(canceller);
        });
        assert_free(lock);
    }
}

#[test]
fn defect_7_downgrade_split_and_shrink_let_in_who_no_longer_conflicts() {
    // One held in a slot, and one in the tree.
    for others in [0, 40] {
        let lock = &fifo();
        let held: Vec<_> =
            (0..others).map(|i| lock.write(100 + 2 * i..101 + 2 * i).unwrap()).collect();
        let mut writer = lock.write(0..30).unwrap();
        scope(|s| {
            let low = s.spawn(|| drop(lock.write(0..10).unwrap()));
            until_queued(lock, 1);
            // Of its range the writer overlaps only the released part.
            writer.shrink(10..30).unwrap();
            join(low);

            let across = s.spawn(|| drop(lock.write(15..25).unwrap()));
            until_queued(lock, 1);
            let (left, right) = writer.split_at(20).unwrap();
            drop(left);
            until(|| lock.ranges().iter().filter(|range| range.waiting).count() == 1);
            assert!(!across.is_finished(), "the second half is still held");
            let reader = s.spawn(|| drop(lock.read(28..30).unwrap()));
            until_queued(lock, 2);
            let right = right.downgrade();
            join(reader);
            assert!(!across.is_finished());
            drop(right);
            join(across);
        });
        drop(held);
        assert_free(lock);
    }
}

#[test]
fn defect_8_waiters_return_and_end_while_the_releaser_still_wakes() {
    let lock = &fifo();
    for _ in 0..rounds(200) {
        let writer = lock.write(..).unwrap();
        scope(|s| {
            // Short-lived threads, whose frames are gone as soon as they are granted.
            for start in 0..4 {
                s.spawn(move || drop(lock.read(start..).unwrap()));
            }
            until_queued(lock, 4);
            drop(writer);
        });
        assert_free(lock);
    }
}

#[test]
fn defect_9_a_forgotten_or_unwound_guard_aliases_nobody() {
    let lock = fifo();
    std::mem::forget(lock.write(0..10).unwrap());
    let moved = Box::new(lock);
    assert_eq!(moved.try_write(9..20).err(), Some(RangeError::Busy));
    drop(moved.try_write(10..20).unwrap());
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = moved.write(10..20).unwrap();
        panic!("inside");
    }));
    assert!(unwound.is_err());
    // The panic has released this range; the forgotten one is still held.
    drop(moved.try_write(10..20).unwrap());
    assert!(moved.try_read(5..6).is_err());
}

#[test]
fn rereading_what_one_holds_needs_a_recursive_read_while_a_writer_waits() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        for range in [0..10, 0..u64::MAX] {
            let lock = &Lock::with_policy(policy);
            let all = range.clone();
            let first = lock.read(range.clone()).unwrap();
            let stop = &CancelToken::new();
            scope(|s| {
                let writer = s
                    .spawn(move || lock.write_with(all, Wait::FOREVER.cancellable(stop)).map(drop));
                until(|| lock.ranges().iter().any(|range| range.waiting));
                if policy == RangePolicy::FIFO {
                    assert_eq!(lock.try_read(range.clone()).err(), Some(RangeError::Busy));
                }
                let again = lock.read_recursive(5..20).unwrap();
                drop(first);
                // The writer waits for the second one too.
                assert!(lock.try_write(5..6).is_err() && !writer.is_finished());
                drop(again);
                join(writer).unwrap();
            });
            assert_free(lock);
        }
    }
}

/// A thread that waits for a part that this one holds must not be in its way, even if it has to
/// wait for another part.
#[test]
fn a_recursive_read_waits_for_holders_and_for_nobody_who_waits() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        let lock = &Lock::with_policy(policy);
        let mine = lock.read(0..10).unwrap();
        let writer = lock.write(15..20).unwrap();
        scope(|s| {
            let waiter = s.spawn(|| drop(lock.write(5..15).unwrap()));
            until_queued(lock, 1);
            let again = s.spawn(|| lock.read_recursive(5..20).unwrap());
            until_queued(lock, 2);
            drop(writer);
            let again = join(again);
            assert!(!waiter.is_finished());
            drop((mine, again));
            join(waiter);
        });
        assert_free(lock);
    }
}

#[test]
fn a_recursive_read_that_gives_up_is_waited_for_by_nobody() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        let lock = &Lock::with_policy(policy);
        let mine = lock.read(0..10).unwrap();
        let writer = lock.write(15..20).unwrap();
        let stop = &CancelToken::new();
        scope(|s| {
            let waiter = s.spawn(|| drop(lock.write(5..15).unwrap()));
            until_queued(lock, 1);
            let end =
                lock.read_recursive_with(5..20, Wait::within(Duration::from_millis(2))).map(drop);
            assert_eq!(end, Err(RangeError::TimedOut));
            let again = s.spawn(|| {
                lock.read_recursive_with(5..20, Wait::FOREVER.cancellable(stop)).map(drop)
            });
            until_queued(lock, 2);
            stop.cancel();
            assert_eq!(join(again), Err(RangeError::Cancelled));
            assert!(!waiter.is_finished());
            drop(mine);
            join(waiter);
        });
        drop(writer);
        assert_free(lock);
    }
}

/// The first half of leaving a slot that somebody in the tree counts: the slot is free, and those
/// that wait have not been told yet.
fn leave_slot(lock: &Lock, guard: WriteGuard<'_>) -> usize {
    let HeldIn::Slot(slot) = guard.hold.place() else { panic!("not in a slot") };
    std::mem::forget(guard);
    lock.core.slots[slot].store(0, Ordering::SeqCst);
    lock.core.word.leave(SlotBits::new(slot, Kind::Writer), Ordering::SeqCst);
    slot
}

#[test]
fn a_slot_that_was_left_is_not_taken_before_those_who_wait_are_told() {
    let lock = &fifo();
    let left = lock.write(0..10).unwrap();
    scope(|s| {
        let waiter = s.spawn(|| drop(lock.write(0..5).unwrap()));
        until_queued(lock, 1);
        let slot = leave_slot(lock, left);
        let beside = lock.try_write(20..30).unwrap();
        assert_ne!(beside.hold, Hold::slot(slot));
        let second = s.spawn(|| drop(lock.write(25..35).unwrap()));
        until_queued(lock, 2);
        lock.core.tell_that_slot_was_left(slot);
        join(waiter);
        assert_eq!(lock.core.with_queue(|q| q.ranges.waiting()), 1);
        drop(beside);
        join(second);
    });
    assert_free(lock);
}

#[test]
fn who_tells_late_that_it_left_a_slot_does_not_speak_for_the_next_holder() {
    let lock = &fifo();
    let stop = &CancelToken::new();
    let left = lock.write(0..10).unwrap();
    scope(|s| {
        let waiter = s.spawn(|| lock.write_with(0..5, Wait::FOREVER.cancellable(stop)).map(drop));
        until_queued(lock, 1);
        let slot = leave_slot(lock, left);
        stop.cancel();
        assert_eq!(join(waiter), Err(RangeError::Cancelled));
        // Nobody waits: the slot can be taken, and is waited for again.
        let next = lock.write(0..10).unwrap();
        assert_eq!(next.hold, Hold::slot(slot));
        let waiter = s.spawn(|| drop(lock.write(0..5).unwrap()));
        until_queued(lock, 1);
        lock.core.tell_that_slot_was_left(slot);
        assert_eq!(lock.core.with_queue(|q| q.ranges.waiting()), 1);
        drop(next);
        join(waiter);
    });
    assert_free(lock);
}

#[test]
fn the_full_range_shares_and_excludes_through_every_door() {
    let lock = &Lock::new();
    // The lock is taken as a whole.
    let full = lock.read(..).unwrap();
    let also = lock.try_read(..).unwrap();
    assert!(lock.try_write(0..1).is_err() && lock.try_write(..).is_err());
    // A part beside it: from here on the lock is taken in parts.
    let part = lock.read(3..5).unwrap();
    drop(full);
    assert!(lock.try_write(10..11).is_err(), "a reader of everything is inside");
    drop(also);
    let writer = lock.try_write(10..11).unwrap();
    assert!(lock.try_write(4..5).is_err());
    drop((part, writer));
    assert_free(lock);

    // A writer of everything becomes a writer of a part, in every way.
    let mut full = lock.write(..).unwrap();
    full.shrink(..10).unwrap();
    drop(lock.try_write(10..).unwrap());
    drop(full);
    for _ in 0..200 {
        drop(lock.write(..).unwrap()); // as a whole again
    }
    let (low, high) = lock.write(..).unwrap().split_at(100).unwrap();
    drop(low);
    drop(lock.try_write(..100).unwrap());
    drop(high);
    for _ in 0..200 {
        drop(lock.write(..).unwrap());
    }
    let first = lock.read(..).unwrap();
    let mut second = lock.read(..).unwrap();
    second.shrink(5..6).unwrap();
    assert!(lock.try_write(7..8).is_err());
    drop(first);
    drop(lock.try_write(7..8).unwrap());
    assert!(lock.try_write(5..6).is_err());
    drop(second);
    assert_free(lock);
}

#[test]
fn holders_and_waiters_are_listed() {
    let lock = &fifo();
    lock.set_traced(true);
    let guard = lock.write(3..7).unwrap();
    scope(|s| {
        let waiter = s.spawn(|| {
            drop(lock.read(0..5).unwrap());
            Lock::this_thread()
        });
        until_queued(lock, 1);
        let ranges = lock.ranges();
        let [waiting, held] = ranges.as_slice() else { panic!("{ranges:?}") };
        assert_eq!((held.span.start(), held.span.last(), held.waiting), (3, 6, false));
        assert_eq!(held.who, Some(Lock::this_thread()));
        assert!(held.how_long.is_some() && waiting.how_long.is_some() && waiting.waiting);
        let who = waiting.who;
        drop(guard);
        assert_eq!(who, Some(join(waiter)));
    });
    lock.set_traced(false);
    assert_free(lock);
}

#[test]
fn those_that_wait_for_the_full_range_are_listed_too() {
    let lock = &Lock::new();
    let guard = lock.write(..).unwrap();
    scope(|s| {
        let waiter = s.spawn(|| {
            drop(lock.read(..).unwrap());
            Lock::this_thread()
        });
        until(|| lock.ranges().len() == 2);
        let [held, waiting] = lock.ranges().try_into().unwrap();
        assert!(!held.waiting && waiting.waiting && waiting.span == Span::FULL);
        assert_eq!((held.access, waiting.access), (RangeAccess::Write, RangeAccess::Read));
        assert!(waiting.how_long.is_some());
        drop(guard);
        assert_eq!(waiting.who, Some(join(waiter)));
    });
    assert_free(lock);
}

#[test]
fn the_full_range_is_not_read_more_often_than_can_be_counted() {
    let lock = &Lock::new();
    let inside = lock.read(..).unwrap();
    // SAFETY: nobody writes, and who reads full ranges leaves no count behind that has no room.
    unsafe { lock.gate.lock.adopt_readers(usize::MAX) };
    let late = Duration::from_secs(1_000);
    let failed = [
        lock.read(..),
        lock.try_read(..),
        lock.read_recursive(..),
        lock.try_read_recursive(..),
        lock.read_with(.., Wait::within(late)),
        lock.read_with(.., Wait::FOREVER.interruptible()),
        lock.read(3..5),
        lock.try_read(3..5),
    ]
    .map(Result::err);
    assert_eq!(failed, [Some(RangeError::TooManyReaders); 8]);
    assert_eq!(lock.try_write(..).err(), Some(RangeError::Busy));
    drop(inside);
}

/// Found by the concurrency tester: two writers inside, after a split.
#[test]
fn who_looks_at_a_slot_late_sees_a_holder_that_left_it_for_the_tree() {
    let lock = &fifo();
    let first = lock.write(7..=9).unwrap();
    // The first half of taking a slot beside it: all but the look at the others.
    let mine = Span::new(9..=10).unwrap();
    let seen = lock.core.word.load(Ordering::SeqCst);
    let (own, kind) = (1, Kind::Writer);
    assert_eq!(seen.free_slot(kind), Some(own));
    lock.core.word.take_slot(SlotBits::new(own, kind));
    lock.core.slots[own].store(Packed::pack(mine).unwrap().0, Ordering::SeqCst);
    let slot = first.hold;
    let (low, high) = first.split_at(9).unwrap();
    drop(low);
    let next = lock.write(11..=11).unwrap();
    assert_eq!(next.hold, slot);
    assert!(lock.core.look_at_rivals(seen, SlotBits::new(own, kind), mine, kind, false).is_err());
    lock.core.release_slot(own, kind);
    drop((high, next));
    assert_free(lock);
}
