//! Upgradable reads of `RwLock`, thin and inflated.
#![cfg(feature = "std")]

use std::time::Duration;

use fairlock::{RwLock, RwLockExt, RwLockUpgradableReadGuard as Guard, RwLockWriteGuard};
use fairlock_testing::{join, rounds, scope, until};

const SHORT: Duration = Duration::from_millis(1);

#[test]
fn readers_that_a_thin_lock_counts_are_waited_for() {
    let lock = RwLock::new(1);
    let reader = lock.read();
    let guard = lock.upgradable_read();
    assert!(lock.try_upgradable_read().is_none() && lock.try_read().is_some());
    let guard = Guard::try_upgrade(guard).err().unwrap();
    let guard = Guard::try_upgrade_for(guard, SHORT).err().unwrap();
    scope(|s| {
        let upgrader = s.spawn(|| *lock.write() += 1);
        until(|| lock.has_waiters());
        drop(reader);
        // Before the writer that waits.
        let mut guard = Guard::upgrade(guard);
        assert_eq!(*guard, 1);
        *guard += 1;
        let guard = RwLockWriteGuard::downgrade_to_upgradable(guard);
        assert_eq!(*guard, 2);
        drop(Guard::downgrade(guard));
        join(upgrader);
    });
    assert_eq!(lock.into_inner(), 3);
}

#[test]
fn nothing_is_written_between_read_and_upgrade() {
    let lock = RwLock::new(0);
    let times = rounds(2_000);
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..times {
                    let guard = lock.upgradable_read();
                    let seen = *guard;
                    let mut guard = Guard::upgrade(guard);
                    assert_eq!(*guard, seen);
                    *guard += 1;
                }
            });
            s.spawn(|| (0..times).for_each(|_| drop(lock.read())));
        }
        s.spawn(|| (0..times).for_each(|_| *lock.write() += 1));
    });
    assert_eq!(lock.into_inner(), 4 * times);
}

#[test]
fn a_lock_that_was_upgradably_read_becomes_thin_again() {
    let lock = RwLock::new(0);
    let reader = lock.read();
    let guard = lock.upgradable_read();
    // Inflated, as somebody waits.
    drop(Guard::try_upgrade_for(guard, SHORT).err().unwrap());
    drop(reader);
    // SAFETY: looked at only.
    let is_inflated = || unsafe { lock.raw() }.is_inflated();
    assert!(is_inflated());
    (0..1_000).for_each(|_| drop(lock.upgradable_read()));
    assert!(!is_inflated());
}

#[test]
fn a_guard_that_is_unlocked_fairly_leaves_the_lock_free() {
    let lock = RwLock::new(0);
    for _ in 0..2 {
        Guard::unlock_fair(lock.upgradable_read());
        assert!(lock.try_write().is_some());
        assert!(lock.try_upgradable_read().is_some());
        // The second time it is inflated.
        let reader = lock.read();
        drop(Guard::try_upgrade_for(lock.upgradable_read(), SHORT).err().unwrap());
        drop(reader);
    }
}
