//! Upgradable reads of `RwLock`, with a slot and without.
#![cfg(feature = "std")]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{RwLock, RwLockExt, RwLockUpgradableReadGuard as Guard, RwLockWriteGuard};
use fairlock_testing::{join, rounds, scope, until};

const SHORT: Duration = Duration::from_millis(1);
/// Longer than any wait here should take.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn readers_that_a_lock_without_a_slot_counts_are_waited_for() {
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

/// Else it would turn readers away for an instant, for nothing.
#[test]
fn an_upgrade_whose_time_is_over_only_tries() {
    let lock = RwLock::new(1);
    let reader = lock.read();
    let guard = lock.upgradable_read();
    let guard = Guard::try_upgrade_for(guard, Duration::ZERO).err().unwrap();
    // SAFETY: only looks.
    assert!(!unsafe { lock.raw() }.has_slot());
    drop(reader);
    assert!(Guard::try_upgrade_for(guard, Duration::ZERO).is_ok());
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
fn a_lock_that_was_upgradably_read_gives_its_slot_back() {
    let lock = RwLock::new(0);
    let reader = lock.read();
    let guard = lock.upgradable_read();
    // It has a slot, as somebody waits.
    drop(Guard::try_upgrade_for(guard, SHORT).err().unwrap());
    drop(reader);
    // SAFETY: looked at only.
    let has_slot = || unsafe { lock.raw() }.has_slot();
    assert!(has_slot());
    (0..1_000).for_each(|_| drop(lock.upgradable_read()));
    assert!(!has_slot());
}

#[test]
fn a_guard_that_is_unlocked_fairly_leaves_the_lock_free() {
    let lock = RwLock::new(0);
    for _ in 0..2 {
        Guard::unlock_fair(lock.upgradable_read());
        assert!(lock.try_write().is_some());
        assert!(lock.try_upgradable_read().is_some());
        // The second time it has a slot.
        let reader = lock.read();
        drop(Guard::try_upgrade_for(lock.upgradable_read(), SHORT).err().unwrap());
        drop(reader);
    }
}

// ---- beside another that waits to read upgradably, readers come and go: the one inside may wait for them ----

/// `f` runs while another thread waits to read upgradably, beside one that does. `before` runs before that thread waits.
fn beside_two_upgradable(before: impl FnOnce(&RwLock<u32>), f: impl FnOnce(&RwLock<u32>)) {
    let lock = &RwLock::new(0);
    scope(|s| {
        let guard = lock.upgradable_read();
        before(lock);
        s.spawn(|| drop(lock.upgradable_read()));
        until(|| lock.has_waiters());
        f(lock);
        drop(guard);
    });
}

#[test]
fn a_reader_that_comes_is_not_shut_out_by_another_that_waits_to_read_upgradably() {
    beside_two_upgradable(
        |_| (),
        |lock| {
            let end = Instant::now() + Duration::from_millis(100);
            while Instant::now() < end {
                assert!(lock.try_read_for(PATIENCE).is_some());
            }
        },
    );
}

#[test]
fn a_fair_release_does_not_shut_readers_out() {
    beside_two_upgradable(
        |_| (),
        |lock| {
            fairlock::RwLockReadGuard::unlock_fair(lock.read());
            assert!(lock.try_read_for(PATIENCE).is_some());
        },
    );
}

#[test]
fn a_writer_that_gave_up_does_not_shut_readers_out() {
    let writes = |lock: &RwLock<u32>| {
        assert!(lock.try_write_for(Duration::from_millis(50)).is_none());
    };
    beside_two_upgradable(writes, |lock| assert!(lock.try_read_for(PATIENCE).is_some()));
}

#[test]
fn a_queued_reader_joins_when_the_writer_before_it_gives_up() {
    let lock = &RwLock::new(0);
    scope(|s| {
        let guard = lock.upgradable_read();
        let writer = s.spawn(|| assert!(lock.try_write_for(Duration::from_millis(200)).is_none()));
        until(|| lock.has_waiters());
        s.spawn(|| drop(lock.upgradable_read()));
        let readers = [(); 3].map(|()| s.spawn(|| lock.try_read_for(PATIENCE).is_some()));
        assert_eq!(readers.map(|reader| reader.join().unwrap()), [true; 3]);
        // They may have come in before the writer closed the lock.
        join(writer);
        drop(guard);
    });
}

/// The upgrader is the first to wait, so its lock has no slot before.
#[test]
fn an_upgrade_waits_for_a_reader_at_a_lock_without_a_slot() {
    let lock = &RwLock::new(0);
    scope(|s| {
        let guard = lock.upgradable_read();
        let (send_inside, inside) = mpsc::channel();
        let reader = s.spawn(move || {
            let guard = lock.read();
            send_inside.send(()).unwrap();
            for _ in 0..50 {
                thread::yield_now();
            }
            drop(guard);
        });
        inside.recv().unwrap();
        *Guard::upgrade(guard) += 1;
        join(reader);
    });
    assert_eq!(*lock.read(), 1);
}
