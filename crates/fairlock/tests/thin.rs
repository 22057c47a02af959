//! Locks that are eight bytes while nobody waits.

#[path = "common/thin.rs"]
mod common;

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::thin_tests;
use fairlock::platform::{Native, PooledPlatform};
use fairlock::{Policy, RawRwLock, RwLock, RwLockExt};
use fairlock_testing::{alone, join, rounds, scope, until};

thin_tests!(RwLock, write, has_waiters, rwsem_slots, 4);

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

/// After 65,536 reads in which nobody else was inside.
#[test]
fn readers_alone_make_a_full_lock_thin() {
    let lock = RwLock::new(0);
    contend(&lock);
    assert!(is_inflated(&lock));
    (0..70_000).for_each(|_| drop(lock.read()));
    assert!(!is_inflated(&lock));
}

#[test]
fn a_lock_of_another_policy_or_with_events_keeps_its_full_one_until_it_is_dropped() {
    static COUNTS: fairlock::events::EventCounts = fairlock::events::EventCounts::new();
    alone(|| {
        for _ in 0..100 {
            let lock = RwLock::with_policy(Policy::DEFAULT.with_priorities(), 0);
            assert!(!is_inflated(&lock));
            (0..200).for_each(|_| *lock.write() += 1);
            assert!(is_inflated(&lock) && *lock.policy() == Policy::DEFAULT.with_priorities());

            let lock = RwLock::new(0);
            lock.set_events(Some(&COUNTS));
            (0..200).for_each(|_| *lock.write() += 1);
            assert!(is_inflated(&lock) && *lock.policy() == Policy::DEFAULT);
        }
        assert!(made() <= 2, "{} full locks for two at a time", made());
    });
}

#[test]
fn each_lock_of_another_policy_has_a_full_one_of_its_own() {
    alone(|| {
        let locks = [(); 3].map(|()| RwLock::with_policy(Policy::DEFAULT.with_priorities(), 0));
        for lock in &locks {
            *lock.write() += 1;
            assert!(is_inflated(lock));
        }
        let _all = locks.each_ref().map(|lock| lock.try_write().expect("nobody has it"));
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
    static LOCK: RwLock<u32> =
        RwLock::from_raw(RawRwLock::with_policy(Policy::DEFAULT.with_priorities()), 0);
    contend(&LOCK);
    assert_eq!((*LOCK.read(), LOCK.policy()), (1, &Policy::DEFAULT.with_priorities()));
    let keeps = |lock: &RwLock<u32>| {
        // SAFETY: only asked; nothing is taken or released.
        unsafe { lock.raw() }.keeps_full()
    };
    assert!(keeps(&LOCK) && !keeps(&RwLock::new(0)));
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
