//! `Mutex` as callers see it.

use fairlock::{Mutex, MutexGuard};
use fairlock_testing::{scope, until};

static COUNT: Mutex<u64> = Mutex::new(0);

#[test]
fn sections_exclude_each_other() {
    scope(|s| {
        for _ in 0..16 {
            s.spawn(|| (0..5_000).for_each(|_| *COUNT.lock() += 1));
        }
    });
    assert_eq!(*COUNT.lock(), 80_000);
}

#[test]
fn try_lock_fails_while_a_guard_lives() {
    let mutex = Mutex::new(1);
    let guard = mutex.lock();
    assert!(mutex.is_locked() && mutex.try_lock().is_none());
    drop(guard);
    assert_eq!(mutex.try_lock().as_deref(), Some(&1));
}

/// As in `parking_lot`.
#[cfg(feature = "send_guard")]
#[test]
fn a_guard_can_be_released_by_another_thread() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    scope(|s| {
        s.spawn(move || drop(guard));
    });
    assert!(!mutex.is_locked());
}

#[test]
fn a_panic_releases_the_mutex() {
    let mutex = Mutex::new(());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard: MutexGuard<'_, ()> = mutex.lock();
        panic!("in the section");
    }));
    assert!(panicked.is_err() && !mutex.is_locked());
}

#[test]
fn a_locked_mutex_whose_guard_was_forgotten_can_be_moved_and_dropped() {
    let mutex = Mutex::new(String::from("kept"));
    std::mem::forget(mutex.lock());
    let moved = Box::new(mutex);
    assert!(moved.is_locked());
    assert_eq!(moved.into_inner(), "kept");
}

#[test]
fn waiting_shows() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    scope(|s| {
        s.spawn(|| drop(mutex.lock()));
        // SAFETY: only looked at.
        until(|| unsafe { mutex.raw() }.is_contended());
        drop(guard);
    });
}
