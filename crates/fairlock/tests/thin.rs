//! Locks that are eight bytes while nobody waits.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::platform::{Native, PooledPlatform};
use fairlock::{Policy, RawRwLock, RwLock, RwLockExt};
use fairlock_testing::{alone, join, rounds, scope, until};

fn is_inflated<T>(lock: &RwLock<T>) -> bool {
    // SAFETY: only looks.
    unsafe { lock.raw() }.is_inflated()
}

/// How many full locks the process has.
fn made() -> u32 {
    Native::rwsem_slots().made()
}

/// Has another thread wait for the lock, and leave it.
fn contend(lock: &RwLock<u32>) {
    let held = lock.write();
    scope(|s| {
        let waiter = s.spawn(|| *lock.write() += 1);
        until(|| lock.has_waiters());
        drop(held);
        join(waiter);
    });
}

#[test]
fn a_lock_that_nobody_waits_for_is_thin() {
    let lock = RwLock::new(0);
    for _ in 0..100 {
        *lock.write() += 1;
        let (first, second) = (lock.read(), lock.read());
        assert!(lock.try_write().is_none() && *first == *second);
    }
    assert!(!is_inflated(&lock));
}

#[test]
fn a_lock_becomes_full_while_somebody_waits_and_thin_again_when_it_is_calm() {
    let lock = RwLock::new(0);
    for _ in 0..10 {
        contend(&lock);
        assert!(is_inflated(&lock));
        // Contended every now and then it stays what it is.
        (0..10).for_each(|_| *lock.write() += 1);
        assert!(is_inflated(&lock));
        (0..300).for_each(|_| *lock.write() += 1);
        assert!(!is_inflated(&lock));
        contend(&lock);
        (0..300).for_each(|_| drop(lock.read()));
        assert!(!is_inflated(&lock));
    }
}

#[test]
fn an_inflated_lock_may_be_moved() {
    let lock = RwLock::new(0);
    contend(&lock);
    let moved = Box::new(lock);
    assert!(is_inflated(&moved));
    contend(&moved);
    assert_eq!(moved.into_inner(), 2);
}

#[test]
fn full_locks_are_used_again() {
    alone(|| {
        for _ in 0..rounds(500) {
            let lock = RwLock::new(0);
            contend(&lock);
            // Dropped as it is,
            drop(lock);
            let lock = RwLock::new(0);
            contend(&lock);
            // or when it is thin again.
            (0..300).for_each(|_| *lock.write() += 1);
            assert!(!is_inflated(&lock));
        }
        assert!(made() <= 4, "{} full locks for one at a time", made());
    });
}

#[test]
fn many_locks_contended_once_each_do_not_keep_their_full_ones() {
    alone(|| {
        let locks: Vec<_> = (0..rounds(1_500)).map(|_| RwLock::new(0)).collect();
        locks.iter().for_each(contend);
        assert!(made() < 1_100, "{} full locks", made());
    });
}

#[test]
fn a_lock_of_another_policy_or_with_events_keeps_its_full_one_until_it_is_dropped() {
    static COUNTS: fairlock::events::EventCounts = fairlock::events::EventCounts::new();
    alone(|| {
        for _ in 0..100 {
            let lock = RwLock::with_policy(Policy::WRITER_PHASE, 0);
            assert!(!is_inflated(&lock));
            (0..200).for_each(|_| *lock.write() += 1);
            assert!(is_inflated(&lock) && *lock.policy() == Policy::WRITER_PHASE);

            let lock = RwLock::new(0);
            lock.set_events(Some(&COUNTS));
            (0..200).for_each(|_| *lock.write() += 1);
            assert!(is_inflated(&lock) && *lock.policy() == Policy::DEFAULT);
        }
        assert!(made() <= 2, "{} full locks for two at a time", made());
    });
}

#[test]
fn a_full_lock_that_a_forgotten_guard_holds_is_nobody_elses() {
    alone(|| {
        for forgotten in 1..=10 {
            for write in [false, true] {
                let lock = RwLock::new(0);
                contend(&lock);
                match write {
                    true => mem::forget(lock.write()),
                    false => mem::forget(lock.read()),
                }
            }
            for _ in 0..10 {
                let lock = RwLock::new(0);
                contend(&lock);
                assert!(lock.try_write().is_some());
            }
            assert!(made() <= 2 * forgotten + 2);
        }
    });
}

#[test]
fn a_static_of_another_policy_needs_no_initialisation() {
    static LOCK: RwLock<u32> = RwLock::from_raw(RawRwLock::with_policy(Policy::HANDOFF), 0);
    contend(&LOCK);
    assert_eq!((*LOCK.read(), LOCK.policy()), (1, &Policy::HANDOFF));
}

/// More locks than threads, each contended now and then, so that full locks go round; the
/// words of two of them name the same one after each other all the time.
#[test]
fn locks_that_share_full_ones_exclude_each_for_itself() {
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
