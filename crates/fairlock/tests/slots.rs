//! Locks that are eight bytes, and have a slot of a pool while threads wait.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::lock::{self, PooledPlatform};
use fairlock::platform::{Native, System};
use fairlock::{Condvar, Mutex, MutexExt, Policy, RawRwLock, RwLock, RwLockExt, Wait};
use fairlock_testing::{alone, join, rounds, scope, until};

/// How many slots the process has.
fn made() -> u32 {
    Native::slots().made()
}

/// What every lock does that has a slot while threads wait: a module of tests, by how the lock is taken alone, and whether
/// threads wait for it.
macro_rules! slot_tests {
    ($name:ident: $lock:ident, $take:ident, $is_contended:ident) => {
        mod $name {
            use super::*;

            pub(super) fn has_slot<T>(lock: &$lock<T>) -> bool {
                // SAFETY: only looks.
                unsafe { lock.raw() }.has_slot()
            }

            pub(super) fn is_contended<T>(lock: &$lock<T>) -> bool {
                // SAFETY: as above.
                unsafe { lock.raw() }.$is_contended()
            }

            /// Has another thread wait for the lock, and leave it.
            pub(super) fn contend(lock: &$lock<u32>) {
                let held = lock.$take();
                scope(|s| {
                    let waiter = s.spawn(|| *lock.$take() += 1);
                    until(|| is_contended(lock));
                    drop(held);
                    join(waiter);
                });
            }

            pub(super) fn use_uncontended(lock: &$lock<u32>) {
                (0..100).for_each(|_| drop(lock.$take()));
                assert!(!has_slot(lock));
            }

            #[test]
            fn a_lock_that_nobody_waits_for_has_no_slot() {
                alone(|| {
                    let locks: Vec<_> = (0..rounds(10_000)).map(|_| $lock::new(0)).collect();
                    locks.iter().for_each(|lock| *lock.$take() += 1);
                    assert_eq!(made(), 0);
                });
            }

            #[test]
            fn it_has_one_while_somebody_waits_and_gives_it_back_when_it_is_uncontended() {
                let lock = $lock::new(0);
                for _ in 0..10 {
                    contend(&lock);
                    assert!(has_slot(&lock) && !is_contended(&lock));
                    use_uncontended(&lock);
                }
            }

            #[test]
            fn it_may_be_moved_when_it_has_one() {
                let lock = $lock::new(0);
                contend(&lock);
                let moved = Box::new(lock);
                assert!(has_slot(&moved));
                contend(&moved);
                assert_eq!(moved.into_inner(), 2);
            }

            #[test]
            fn slots_are_used_again() {
                alone(|| {
                    for _ in 0..rounds(500) {
                        let lock = $lock::new(0);
                        contend(&lock);
                        // Dropped as it is,
                        drop(lock);
                        let lock = $lock::new(0);
                        contend(&lock);
                        // while a forgotten guard holds it,
                        mem::forget(lock.$take());
                        drop(lock);
                        let lock = $lock::new(0);
                        contend(&lock);
                        // or when it has none any more.
                        use_uncontended(&lock);
                    }
                    assert!(made() <= 2, "{} slots for one at a time", made());
                });
            }

            #[test]
            fn many_contended_once_each_do_not_keep_their_slots() {
                alone(|| {
                    let locks: Vec<_> = (0..rounds(1_500)).map(|_| $lock::new(0)).collect();
                    for lock in &locks {
                        contend(lock);
                        // Any acquisition gives back a slot of very many.
                        drop(lock.$take());
                    }
                    assert!(made() < 1_100, "{} slots", made());
                });
            }
        }
    };
}

slot_tests!(rwlock: RwLock, write, has_waiters);
slot_tests!(mutex: Mutex, lock, is_contended);

#[test]
fn a_lock_of_another_policy_or_with_events_keeps_its_slot_until_it_is_dropped() {
    static COUNTS: fairlock::events::EventCounts = fairlock::events::EventCounts::new();
    const RANKED: Policy = Policy::DEFAULT.with_priorities();
    alone(|| {
        for _ in 0..100 {
            let lock = RwLock::with_policy(RANKED, 0);
            assert!(!rwlock::has_slot(&lock) && lock.policy() == RANKED);
            (0..200).for_each(|_| *lock.write() += 1);
            assert!(rwlock::has_slot(&lock) && lock.policy() == RANKED);

            let lock = RwLock::new(0);
            lock.set_events(Some(&COUNTS));
            (0..200).for_each(|_| *lock.write() += 1);
            assert!(rwlock::has_slot(&lock) && lock.policy() == Policy::DEFAULT);
        }
        assert!(made() <= 2, "{} slots for two at a time", made());
    });
}

#[test]
fn each_lock_of_another_policy_has_a_slot_of_its_own() {
    alone(|| {
        let locks = [(); 3].map(|()| RwLock::with_policy(Policy::DEFAULT.with_priorities(), 0));
        for lock in &locks {
            *lock.write() += 1;
            assert!(rwlock::has_slot(lock));
        }
        let _all = locks.each_ref().map(|lock| lock.try_write().expect("nobody has it"));
    });
}

/// The next lock that has it does not follow it.
#[test]
fn a_policy_goes_with_its_lock() {
    alone(|| {
        let lock = RwLock::with_policy(Policy::DEFAULT.with_priorities(), 0);
        *lock.write() += 1;
        drop(lock);
        let lock = RwLock::new(0);
        rwlock::contend(&lock);
        assert!(made() == 1 && rwlock::has_slot(&lock) && lock.policy() == Policy::DEFAULT);
        rwlock::use_uncontended(&lock);
    });
}

#[test]
fn a_static_of_another_policy_needs_no_initialisation() {
    static LOCK: RwLock<u32> =
        RwLock::from_raw(RawRwLock::with_policy(Policy::DEFAULT.with_priorities()), 0);
    rwlock::contend(&LOCK);
    assert_eq!((*LOCK.read(), LOCK.policy()), (1, Policy::DEFAULT.with_priorities()));
}

/// More locks than threads, each contended now and then, so that slots go round; the words of two of them name the same
/// one after each other all the time.
#[test]
fn locks_that_share_slots_exclude_each_for_itself() {
    const THREADS: usize = 4;
    const LOCKS: usize = 3;
    let turns = rounds(4_000);
    let locks = [(); LOCKS].map(|()| (RwLock::new((0_usize, 0_usize)), AtomicUsize::new(0)));
    scope(|s| {
        for thread in 0..THREADS {
            let locks = &locks;
            s.spawn(move || {
                let mut random = thread * 7919 + 1;
                for _ in 0..turns {
                    random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
                    let (lock, writes) = &locks[(random >> 20) % LOCKS];
                    match (random >> 10) % 4 {
                        0 => {
                            let guard = lock.read();
                            assert_eq!(guard.0, guard.1);
                        }
                        1 => {
                            // So that others come to wait, on whatever machine.
                            let mut guard = lock.write();
                            guard.0 += 1;
                            std::thread::yield_now();
                            guard.1 += 1;
                            writes.fetch_add(1, Ordering::Relaxed);
                        }
                        2 => {
                            if let Some(mut guard) = lock.try_write() {
                                guard.0 += 1;
                                guard.1 += 1;
                                writes.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        _ => (0..100).for_each(|_| drop(lock.try_read())),
                    }
                }
            });
        }
    });
    for (lock, writes) in locks {
        let writes = writes.into_inner();
        assert_eq!(lock.into_inner(), (writes, writes));
    }
}

#[test]
fn mutexes_that_share_slots_exclude_each_for_itself() {
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
fn waits_that_end_while_the_mutex_is_held_keep_nothing() {
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
            assert!(mutex.is_locked() && mutex.try_lock().is_none());
            drop(held);
            assert!(!mutex.is_locked());
            mutex::use_uncontended(&mutex);

            // And forgotten: nobody has it then.
            mem::forget(mutex.lock());
            assert!(mutex.lock_for(short).is_err());
        }
        assert!(made() <= 4, "{} slots for one mutex at a time", made());
    });
}

#[test]
fn a_first_in_line_that_gives_up_leaves_its_duty_to_the_next() {
    for _ in 0..rounds(30) {
        let mutex = Mutex::new(0);
        let held = mutex.lock();
        scope(|s| {
            let first = s.spawn(|| drop(mutex.lock_for(Duration::from_millis(2))));
            let second = s.spawn(|| *mutex.lock() += 1);
            join(first);
            until(|| mutex::is_contended(&mutex));
            assert_eq!(*held, 0);
            drop(held);
            join(second);
        });
        assert_eq!(*mutex.lock(), 1);
    }
}

#[test]
fn those_that_a_holder_notifies_get_the_mutex_one_after_the_other() {
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
            assert_eq!(changed.notify_all(), WAITERS as usize);
        });
        assert_eq!(*mutex.lock(), 0);
        mutex::use_uncontended(&mutex);
    }
}

#[test]
fn a_mutex_that_is_trimmed_has_no_slot_whatever_thread_has_given_up_before() {
    for _ in 0..rounds(50) {
        let mutex = lock::RawMutex::<Native>::new();
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
            assert!(!mutex.trim() && mutex.has_slot(), "it is held");
            // SAFETY: held.
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
