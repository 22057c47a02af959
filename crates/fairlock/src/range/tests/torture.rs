//! Threads that do everything at random, beside a count at every position.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use fairlock_testing::rounds;

use super::model::{NEAR, POSITIONS, Places, span};
use super::{Lock, ReadGuard, WriteGuard, assert_free, join, scope};
use crate::range::RangePolicy;
use crate::wait::{CancelToken, Wait};

/// Readers at each position, or -1 for a writer.
struct Inside([AtomicI32; POSITIONS]);

impl Inside {
    fn each(&self, (first, last): Places, f: impl Fn(&AtomicI32)) {
        self.0[first..=last].iter().for_each(f);
    }

    fn read(&self, places: Places) {
        self.each(places, |n| assert!(n.fetch_add(1, Ordering::Relaxed) >= 0));
    }

    fn unread(&self, places: Places) {
        self.each(places, |n| assert!(n.fetch_sub(1, Ordering::Relaxed) > 0));
    }

    fn write(&self, places: Places) {
        self.each(places, |n| assert_eq!(n.swap(-1, Ordering::Relaxed), 0));
    }

    fn unwrite(&self, places: Places) {
        self.each(places, |n| assert_eq!(n.swap(0, Ordering::Relaxed), -1));
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn places(&mut self) -> Places {
        if self.below(4) == 0 {
            return (0, POSITIONS - 1);
        }
        let (a, b) = (self.below(POSITIONS as u64), self.below(POSITIONS as u64));
        (a.min(b) as usize, a.max(b) as usize)
    }

    /// Mostly places in one region of two positions or more, or in two.
    fn narrow_places(&mut self) -> Places {
        if self.below(24) == 0 {
            return self.places();
        }
        let first = self.below(NEAR as u64 - 2) as usize;
        (first, first + self.below(3) as usize)
    }
}

fn linger(random: &mut Random) {
    match random.below(40) {
        0 => thread::sleep(Duration::from_micros(50)),
        1..4 => thread::yield_now(),
        _ => {}
    }
}

fn read(random: &mut Random, inside: &Inside, places: Places, guard: ReadGuard<'_>) {
    inside.read(places);
    linger(random);
    let (first, last) = places;
    if first < last && random.below(4) == 0 {
        inside.unread(places);
        let (low, high) = guard.split_at(span((first + 1, first + 1)).start()).unwrap();
        inside.read((first, first));
        inside.read((first + 1, last));
        inside.unread((first, first));
        drop(low);
        linger(random);
        inside.unread((first + 1, last));
        drop(high);
    } else {
        inside.unread(places);
        drop(guard);
    }
}

fn write(random: &mut Random, inside: &Inside, places: Places, mut guard: WriteGuard<'_>) {
    inside.write(places);
    linger(random);
    let (first, last) = places;
    match random.below(6) {
        0 => {
            inside.unwrite(places);
            inside.read(places);
            let guard = guard.downgrade();
            linger(random);
            inside.unread(places);
            drop(guard);
        }
        1 if first < last => {
            inside.unwrite((first, first));
            guard.shrink(span((first + 1, last))).unwrap();
            linger(random);
            inside.unwrite((first + 1, last));
        }
        2 if first < last => {
            let (low, high) = guard.split_at(span((last, last)).start()).unwrap();
            inside.unwrite((last, last));
            drop(high);
            linger(random);
            inside.unwrite((first, last - 1));
            drop(low);
        }
        _ => inside.unwrite(places),
    }
}

fn torture(policy: RangePolicy, threads: u64, turns: usize) {
    let lock = &Lock::with_policy(policy);
    torture_lock(lock, threads, turns, Random::places);
    assert_free(lock);
}

fn torture_lock(
    lock: &Lock,
    threads: u64,
    turns: usize,
    places: impl Fn(&mut Random) -> Places + Copy + Send,
) {
    let inside = &Inside([const { AtomicI32::new(0) }; POSITIONS]);
    scope(|s| {
        let all: Vec<_> = (0..threads)
            .map(|seed| {
                s.spawn(move || {
                    let random = &mut Random(seed);
                    for turn in 0..rounds(turns) {
                        let places = places(random);
                        let wanted = span(places);
                        let stop = CancelToken::new();
                        let soon = Duration::from_micros(random.below(300));
                        match random.below(13) {
                            0 => lock
                                .try_write(wanted)
                                .into_iter()
                                .for_each(|g| write(random, inside, places, g)),
                            1 => lock
                                .try_read(wanted)
                                .into_iter()
                                .for_each(|g| read(random, inside, places, g)),
                            2 => lock
                                .write_with(wanted, Wait::within(soon))
                                .into_iter()
                                .for_each(|g| write(random, inside, places, g)),
                            3 => lock
                                .read_with(wanted, Wait::within(soon))
                                .into_iter()
                                .for_each(|g| read(random, inside, places, g)),
                            4 => scope(|s| {
                                let stopper = (turn % 16 == 0).then(|| s.spawn(|| stop.cancel()));
                                lock.write_with(wanted, Wait::FOREVER.cancellable(&stop))
                                    .into_iter()
                                    .for_each(|g| write(random, inside, places, g));
                                stopper.map(join);
                            }),
                            5 => read(random, inside, places, lock.read_recursive(wanted).unwrap()),
                            6 => lock
                                .read_recursive_with(wanted, Wait::within(soon))
                                .into_iter()
                                .for_each(|g| read(random, inside, places, g)),
                            7..10 => read(random, inside, places, lock.read(wanted).unwrap()),
                            _ => write(random, inside, places, lock.write(wanted).unwrap()),
                        }
                    }
                })
            })
            .collect();
        all.into_iter().for_each(join);
    });
}

#[test]
fn threads_at_random_exclude_each_other_and_all_come_to_an_end() {
    torture(RangePolicy::DEFAULT, 6, 3_000);
    torture(RangePolicy::FIFO, 6, 1_500);
    // Nearly everybody queues.
    torture(RangePolicy { overtaken_for: Duration::from_nanos(1) }, 6, 1_500);
}

/// The lock is taken as a whole and in parts all the time, beside threads that wait.
#[test]
fn the_whole_lock_opens_and_closes_beside_waiters() {
    for policy in [RangePolicy::DEFAULT, RangePolicy { overtaken_for: Duration::from_nanos(1) }] {
        let lock = &Lock::with_policy(policy);
        let inside = &Inside([const { AtomicI32::new(0) }; POSITIONS]);
        scope(|s| {
            let all: Vec<_> = (0..6)
                .map(|seed| {
                    s.spawn(move || {
                        let random = &mut Random(seed);
                        for _ in 0..rounds(4_000) {
                            lock.reopen_at_once();
                            let all = (0, POSITIONS - 1);
                            match random.below(5) {
                                0 => read(random, inside, all, lock.read(..).unwrap()),
                                1 => write(random, inside, all, lock.write(..).unwrap()),
                                _ => {
                                    let places = random.places();
                                    let guard = lock.write(span(places)).unwrap();
                                    write(random, inside, places, guard);
                                }
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(join);
        });
        assert_free(lock);
    }
}

/// The lock is striped again and again, beside threads that wait and threads that hold.
#[test]
fn stripes_begin_and_end_beside_all_that() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        let lock = &Lock::with_policy(policy);
        scope(|s| {
            let torture = s.spawn(|| torture_lock(lock, 6, 2_000, Random::places));
            while !torture.is_finished() {
                lock.stripe(2);
                thread::sleep(Duration::from_micros(300));
                lock.core.with_queue(|q| lock.core.end_stripes(q));
                thread::sleep(Duration::from_micros(100));
            }
            join(torture);
        });
        assert_free(lock);
    }
}

/// The same with ranges that mostly lie in one region or two, with regions of one size after the
/// other.
#[test]
fn ranges_in_stripes_exclude_each_other_and_those_across() {
    for policy in [RangePolicy::DEFAULT, RangePolicy::FIFO] {
        let lock = &Lock::with_policy(policy);
        assert!(lock.stripe(1));
        scope(|s| {
            let torture = s.spawn(|| torture_lock(lock, 6, 4_000, Random::narrow_places));
            for shift in (1..4).cycle() {
                lock.stripe(shift);
                thread::sleep(Duration::from_micros(300));
                if torture.is_finished() {
                    break;
                }
                lock.core.with_queue(|q| lock.core.end_stripes(q));
            }
            join(torture);
        });
        assert_free(lock);
        assert!(lock.core.striped.uses() > 0, "no range was had by a stripe");
    }
}

#[test]
fn more_threads_than_slots() {
    torture(RangePolicy::DEFAULT, 40, 200);
}
