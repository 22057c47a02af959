//! `RangeSlice` as its user meets it: what is handed out never overlaps, whatever
//! becomes of the guards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fairlock::range::RangeError;
use fairlock::{CancelToken, RangeSlice, Wait};
use fairlock_testing::{join, scope};

fn numbers(len: usize) -> RangeSlice<usize> {
    RangeSlice::new((0..len).collect::<Vec<_>>())
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn guards_are_the_elements_of_their_range() {
    let slice = numbers(10);
    assert_eq!(*slice.read(..).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(*slice.read(8..).unwrap(), [8, 9]);
    assert_eq!(*slice.write(..=1).unwrap(), [0, 1]);
    assert_eq!(slice.read(3..3).err(), Some(RangeError::Empty));
    assert_eq!(slice.read(10..).err(), Some(RangeError::Empty));
    assert_eq!(slice.read(5..3).err(), Some(RangeError::Inverted));
    assert_eq!(slice.read(5..11).err(), Some(RangeError::OutOfBounds));
    assert_eq!(slice.write(11..).err(), Some(RangeError::Inverted));
    assert_eq!(slice.write(0..=usize::MAX).err(), Some(RangeError::OutOfBounds));
    assert_eq!(numbers(0).read(..).err(), Some(RangeError::Empty));
    assert_eq!(slice.into_inner().len(), 10);
}

#[test]
fn split_and_downgrade_keep_to_their_elements() {
    let slice = numbers(10);
    let guard = slice.write(2..8).unwrap();
    let guard = guard.split_at(0).unwrap_err().split_at(6).unwrap_err();
    let (mut low, high) = guard.split_at(2).unwrap();
    assert_eq!((&*low, &*high), (&[2, 3][..], &[4, 5, 6, 7][..]));
    let (high, higher) = high.downgrade().split_at(3).unwrap();
    low[1] = high[0] + higher[0];
    drop(low);
    assert_eq!(slice.try_read(2..8).unwrap()[1], 11);
    assert_eq!(slice.try_write(4..5).err(), Some(RangeError::Busy));
    drop((high, higher));
    assert_eq!(slice.try_write(..).unwrap()[3], 11);
}

#[test]
fn a_forgotten_guard_keeps_its_elements_to_itself() {
    let mut slice = numbers(10);
    std::mem::forget(slice.write(2..4).unwrap());
    assert_eq!(slice.try_read(3..5).err(), Some(RangeError::Busy));
    let in_vain = slice.write_with(.., Wait::within(Duration::from_millis(1)));
    assert_eq!(in_vain.err(), Some(RangeError::TimedOut));
    slice.try_write(4..).unwrap()[0] = 40;
    // Alone with the slice, there is nobody to be kept from it.
    slice.get_mut()[3] = 30;
    assert_eq!(slice.into_inner()[2..5], [2, 30, 40]);
}

#[test]
fn a_panic_releases_and_poisons_nothing() {
    let slice = numbers(10);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let (mut low, _high) = slice.write(2..6).unwrap().split_at(2).unwrap();
        low[0] = 20;
        panic!("inside");
    }));
    assert!(unwound.is_err());
    assert_eq!(*slice.try_write(2..4).unwrap(), [20, 3]);
}

#[test]
fn elements_are_dropped_once() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let slice = RangeSlice::new([const { Counted }; 3]);
    slice.write(1..).unwrap()[0] = Counted;
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    let inner = slice.into_inner();
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    drop(inner);
    assert_eq!(DROPS.load(Ordering::Relaxed), 4);
    drop(RangeSlice::new(vec![Counted]));
    assert_eq!(DROPS.load(Ordering::Relaxed), 5);
}

#[test]
fn guards_may_end_in_another_thread() {
    let slice = numbers(10);
    scope(|s| {
        let mut guard = slice.write(0..5).unwrap();
        s.spawn(move || guard[0] = 9);
        assert_eq!(slice.read(0..1).unwrap()[0], 9);
    });
}

#[test]
fn waits_can_be_cancelled() {
    let (slice, stop) = (numbers(10), CancelToken::new());
    let guard = slice.write(0..5).unwrap();
    scope(|s| {
        let waiter = s.spawn(|| slice.read_with(4.., Wait::FOREVER.cancellable(&stop)).map(drop));
        stop.cancel();
        assert_eq!(join(waiter), Err(RangeError::Cancelled));
    });
    drop(guard);
    assert!(slice.write_with(4.., Wait::FOREVER.cancellable(&stop)).is_ok());
}

/// Every element is written as part of a range; a torn range would show.
#[test]
fn ranges_are_never_torn() {
    let slice = RangeSlice::new(vec![0_u64; 64]);
    scope(|s| {
        for seed in 0..4_u64 {
            let slice = &slice;
            s.spawn(move || {
                let mut random = seed;
                for turn in 0..3_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let start = (random >> 40) as usize % 60;
                    let range = start..start + 4;
                    if turn % 3 == 0 {
                        slice.write(range).unwrap().fill(random);
                    } else {
                        let guard = slice.read(range).unwrap();
                        let seen = guard.to_vec();
                        thread::yield_now();
                        assert_eq!(*guard, seen);
                    }
                }
            });
        }
    });
}

#[test]
fn elements_without_a_size_are_locked_like_others() {
    let slice = RangeSlice::new(vec![(); usize::MAX]);
    let (low, high) = slice.write(..).unwrap().split_at(usize::MAX - 1).unwrap();
    assert_eq!((low.len(), high.len()), (usize::MAX - 1, 1));
    drop(high);
    drop(slice.try_write(usize::MAX - 1..).unwrap());
    assert_eq!(slice.try_read(usize::MAX - 2..).err(), Some(RangeError::Busy));
    assert_eq!(slice.try_read(usize::MAX..).err(), Some(RangeError::Empty));
    assert_eq!(slice.try_read(0..=usize::MAX).err(), Some(RangeError::OutOfBounds));
    drop(low);
    assert_eq!(slice.into_inner().len(), usize::MAX);
}

/// A slice goes with its forgotten guards, in slots and in the tree.
#[test]
fn a_slice_can_be_dropped_with_guards_forgotten() {
    let slice = RangeSlice::new(vec![String::from("kept"); 100]);
    for at in 0..50 {
        std::mem::forget(slice.write(2 * at..2 * at + 1).unwrap());
    }
    let last = slice.read(99..).unwrap().split_at(1).unwrap_err(); // one element has no two parts
    assert_eq!(last[0], "kept");
    std::mem::forget(last);
    drop(slice);
}

/// All are cancelled at once, again and again, while the range is taken and left.
#[test]
fn a_storm_of_cancellations_leaves_nothing_behind() {
    let slice = numbers(16);
    for round in 0..60 {
        let stop = CancelToken::new();
        let got = AtomicUsize::new(0);
        scope(|s| {
            let held = slice.write(4..12).unwrap();
            for i in 0..12 {
                let (slice, stop, got) = (&slice, &stop, &got);
                s.spawn(move || {
                    let range = i % 6..10 + i % 6;
                    let end = if i % 3 == 0 {
                        slice.write_with(range, Wait::FOREVER.cancellable(stop)).map(drop)
                    } else {
                        slice.read_with(range, Wait::FOREVER.cancellable(stop)).map(drop)
                    };
                    assert!(matches!(end, Ok(()) | Err(RangeError::Cancelled)));
                    got.fetch_add(1, Ordering::Relaxed);
                });
            }
            if round % 2 == 0 {
                stop.cancel();
                drop(held);
            } else {
                drop(held);
                stop.cancel();
            }
        });
        assert_eq!(got.into_inner(), 12);
        assert!(!slice.lock().is_locked() && slice.lock().ranges().is_empty());
        drop(slice.try_write(..).unwrap());
    }
}
