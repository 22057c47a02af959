//! A lock that is offered to a task that does not come.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use fairlock::{Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt};
use fairlock_testing::{scope, until};

use crate::executor::{Counter, block_on, poll};

/// Threads and tasks that come to a lock that is kept for a future that nobody polls get it; they wait for it once only.
#[test]
fn nobody_waits_for_a_future_that_nobody_polls() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    let mut forgotten = Box::pin(mutex.lock_async());
    assert!(poll(&mut forgotten, Waker::noop()).is_pending());
    // Nobody gets in before that one, while it may come.
    lock_api::MutexGuard::unlock_fair(guard);
    *mutex.lock() += 1;
    until(|| mutex.try_lock().is_some());
    for _ in 0..1_000 {
        // It is late: the lock is kept for it no longer.
        assert!(mutex.try_lock().is_some());
        *mutex.lock() += 1;
        lock_api::MutexGuard::unlock_fair(mutex.lock());
    }
    assert!(poll(&mut forgotten, Waker::noop()).is_ready());
}

#[test]
fn nobody_waits_for_readers_and_writers_that_nobody_polls() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    let mut writer = Box::pin(lock.write_async());
    let mut reader = Box::pin(lock.read_async());
    assert!(poll(&mut writer, Waker::noop()).is_pending());
    assert!(poll(&mut reader, Waker::noop()).is_pending());
    lock_api::RwLockWriteGuard::unlock_fair(guard);
    until(|| lock.try_read().is_some());
    until(|| lock.try_write().is_some());
    for _ in 0..100 {
        // The timer may have the queue for a moment.
        until(|| lock.try_read().is_some() && lock.try_write().is_some());
        *lock.write() += 1;
        assert!(*lock.read() > 0);
        lock_api::RwLockReadGuard::unlock_fair(lock.read());
    }
    assert!(poll(&mut reader, Waker::noop()).is_ready());
    assert!(poll(&mut writer, Waker::noop()).is_ready());
}

/// Those that wait behind it are woken, although nobody comes: by the timer.
#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn those_that_wait_behind_futures_that_nobody_polls_have_the_lock_after_a_millisecond_for_each() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    let mut forgotten: Vec<_> = (0..5).map(|_| Box::pin(mutex.lock_async())).collect();
    for future in &mut forgotten {
        assert!(poll(future, Waker::noop()).is_pending());
    }
    scope(|s| {
        s.spawn(|| block_on(async { *mutex.lock_async().await += 1 }));
        s.spawn(|| *mutex.lock() += 1);
        std::thread::sleep(Duration::from_millis(50));
        drop(guard);
    });
    assert_eq!(*mutex.lock(), 2);
    // Each of them has its place when it is polled.
    for mut future in forgotten {
        assert!(poll(&mut future, Waker::noop()).is_ready());
    }
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "there is no timer")]
fn the_child_of_a_fork_has_a_timer_of_its_own() {
    let waits_behind = || {
        let mutex = Mutex::new(0);
        let guard = mutex.lock();
        let mut forgotten = Box::pin(mutex.lock_async());
        assert!(poll(&mut forgotten, Waker::noop()).is_pending());
        scope(|s| {
            s.spawn(|| block_on(async { *mutex.lock_async().await += 1 }));
            std::thread::sleep(Duration::from_millis(50));
            drop(guard);
        });
        assert_eq!(*mutex.lock(), 1);
    };
    waits_behind();
    fairlock_testing::in_child(waits_behind);
}

/// A task that comes late is before those that came after it.
#[test]
#[cfg_attr(miri, ignore = "a poll takes a millisecond")]
fn a_task_that_is_polled_late_has_its_place_still() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    let wakers: Vec<_> = (0..3).map(|_| Counter::new()).collect();
    let mut futures: Vec<_> = wakers.iter().map(|_| Box::pin(mutex.lock_async())).collect();
    let began = Instant::now();
    for (future, (_, waker)) in futures.iter_mut().zip(&wakers) {
        assert!(poll(future, waker).is_pending());
    }
    drop(guard);
    let guard = loop {
        // The others ask, too: they pass the first one when it is late, and the second is next.
        assert!(poll(&mut futures[2], &wakers[2].1).is_pending());
        if let std::task::Poll::Ready(guard) = poll(&mut futures[1], &wakers[1].1) {
            break guard;
        }
    };
    assert!(began.elapsed() >= Duration::from_millis(1));
    assert!(poll(&mut futures[0], &wakers[0].1).is_pending());
    drop(guard);
    assert!(poll(&mut futures[2], &wakers[2].1).is_pending());
    assert!(poll(&mut futures[0], &wakers[0].1).is_ready());
    assert!(poll(&mut futures[2], &wakers[2].1).is_ready());
}

/// The end of a tenure that nobody else sees: readers follow each other without a gap, and a task waits to write.
#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn a_task_that_waits_to_write_gets_in_beside_readers_that_overlap() {
    let lock = Arc::new(RwLock::new(0));
    let ended = std::sync::atomic::AtomicBool::new(false);
    scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    let guard = lock.read();
                    std::thread::sleep(Duration::from_micros(300));
                    drop(guard);
                }
            });
        }
        for _ in 0..20 {
            block_on(async { *lock.write_async().await += 1 });
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(*lock.read(), 20);
}
