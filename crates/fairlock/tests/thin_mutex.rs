//! Mutexes that are eight bytes while nobody waits.

#[path = "common/thin.rs"]
mod common;

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::thin_tests;
use fairlock::platform::{Native, PooledPlatform, System};
use fairlock::thin::ThinMutex;
use fairlock::{Condvar, Mutex, MutexExt, Wait};
use fairlock_testing::{alone, join, rounds, scope, until};

thin_tests!(Mutex, lock, is_contended, mutex_slots, 2);

#[test]
fn mutexes_that_nobody_waits_for_are_their_eight_bytes_and_nothing_else() {
    alone(|| {
        let mutexes: Vec<_> = (0..rounds(100_000)).map(|_| Mutex::new(())).collect();
        for mutex in &mutexes {
            let held = mutex.lock();
            assert!(mutex.try_lock().is_none());
            drop(held);
        }
        assert_eq!((size_of_val(&mutexes[0]), made()), (8, 0));
    });
}

#[test]
fn a_full_lock_that_a_forgotten_guard_holds_is_nobody_elses() {
    alone(|| {
        for forgotten in 1..=10 {
            let mutex = Mutex::new(0);
            contend(&mutex);
            mem::forget(mutex.lock());
            drop(mutex);
            for _ in 0..10 {
                let mutex = Mutex::new(0);
                contend(&mutex);
                assert!(mutex.try_lock().is_some());
            }
            assert!(made() <= forgotten + 1);
        }
    });
}

/// Who waits for the thin lock's holder has the full one: that is not lost with them.
#[test]
fn waits_that_end_while_the_thin_lock_is_held_keep_nothing() {
    let short = Duration::from_millis(1);
    alone(|| {
        for _ in 0..rounds(30) {
            let mutex = Mutex::new(0);
            let held = mutex.lock();
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| (0..3).for_each(|_| assert!(mutex.lock_for(short).is_err())));
                }
            });
            assert!(is_inflated(&mutex) && mutex.is_locked() && mutex.try_lock().is_none());
            drop(held);
            assert!(!mutex.is_locked());
            use_uncontended(&mutex);

            // And forgotten: nobody has it then.
            mem::forget(mutex.lock());
            assert!(mutex.lock_for(short).is_err());
        }
        assert!(made() <= 2, "{} full locks for one at a time", made());
    });
}

/// The next one waits for the thin lock's holder in its place.
#[test]
fn a_first_in_line_that_gives_up_leaves_its_duty_to_the_next() {
    for _ in 0..rounds(30) {
        let mutex = Mutex::new(0);
        let held = mutex.lock();
        scope(|s| {
            let first = s.spawn(|| drop(mutex.lock_for(Duration::from_millis(2))));
            let second = s.spawn(|| *mutex.lock() += 1);
            join(first);
            until(|| is_contended(&mutex));
            assert_eq!(*held, 0);
            drop(held);
            join(second);
        });
        assert_eq!(*mutex.lock(), 1);
    }
}

#[test]
fn those_that_a_thin_holder_notifies_get_the_mutex_one_after_the_other() {
    const WAITERS: u32 = 5;
    for _ in 0..rounds(50) {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        scope(|s| {
            for _ in 0..WAITERS {
                s.spawn(|| {
                    let mut came = mutex.lock();
                    *came += 1;
                    changed.wait(&mut came);
                    *came -= 1;
                });
            }
            until(|| *mutex.lock() == WAITERS);
            use_uncontended(&mutex);
            assert_eq!(changed.notify_all(), WAITERS as usize);
        });
        assert_eq!(*mutex.lock(), 0);
        use_uncontended(&mutex);
    }
}

/// More mutexes than threads, each contended now and then, so that full locks go round; the
/// words of two of them name the same one after each other all the time.
#[test]
fn mutexes_that_share_full_locks_exclude_each_for_itself() {
    const THREADS: usize = 4;
    const MUTEXES: usize = 3;
    let turns = rounds(4_000);
    let mutexes = [(); MUTEXES].map(|()| (Mutex::new((0_usize, 0_usize)), AtomicUsize::new(0)));
    scope(|s| {
        for thread in 0..THREADS {
            let mutexes = &mutexes;
            s.spawn(move || {
                let mut random = thread * 7919 + 1;
                for _ in 0..turns {
                    random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
                    let (mutex, changes) = &mutexes[(random >> 20) % MUTEXES];
                    let guard = match (random >> 10) % 4 {
                        0 => mutex.lock_for(Duration::from_micros(50)).ok(),
                        1 => mutex.try_lock(),
                        2 => Some(mutex.lock()),
                        _ => {
                            (0..100).for_each(|_| drop(mutex.try_lock()));
                            None
                        }
                    };
                    if let Some(mut guard) = guard {
                        guard.0 += 1;
                        // So that others come to wait, on whatever machine.
                        std::thread::yield_now();
                        guard.1 += 1;
                        changes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    for (mutex, changes) in mutexes {
        let changes = changes.into_inner();
        assert_eq!(mutex.into_inner(), (changes, changes));
    }
}

#[test]
fn a_mutex_that_is_trimmed_is_thin_whoever_has_given_up_before() {
    for _ in 0..rounds(50) {
        let mutex = ThinMutex::<Native>::new();
        mutex.lock();
        assert!(mutex.trim(), "nobody has waited");
        for _ in 0..2 {
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let short =
                            || mutex.lock_with(Wait::until_nanos(Native::now() + 1_000_000));
                        (0..2).for_each(|_| assert!(short().is_err()));
                    });
                }
            });
            assert!(!mutex.trim() && mutex.is_inflated(), "it is held");
            // SAFETY: held, by way of the thin lock or the full one.
            unsafe { mutex.unlock() };
            assert!(mutex.trim() && !mutex.is_locked());
            mutex.lock();
            scope(|s| {
                let waiter = s.spawn(|| mutex.lock());
                until(|| mutex.is_contended());
                // SAFETY: held.
                unsafe { mutex.unlock() };
                join(waiter);
            });
        }
    }
}
