//! A lock that is offered to a task that does not come.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use fairlock::lock::RawMutex;
use fairlock::platform::Native;
use fairlock::{Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt, Semaphore};
use fairlock_testing::{rounds, scope, until};

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

/// A task that was woken, and is not polled while another has the CPU, cannot close the lock: a thread that takes it past the
/// task does, when the tenure is over. That was four milliseconds later, when the task had long been late.
#[test]
#[cfg_attr(miri, ignore = "a poll takes a millisecond")]
fn a_lock_is_left_to_a_task_that_has_no_cpu_yet() {
    let is_left = || {
        let mutex = Mutex::new(0);
        let guard = mutex.lock();
        let mut task = Box::pin(mutex.lock_async());
        assert!(poll(&mut task, Waker::noop()).is_pending());
        drop(guard);
        let woken = Instant::now();
        while mutex.try_lock().is_some() {}
        woken.elapsed() < Duration::from_millis(3)
    };
    // Unless the test itself has no CPU for a while.
    until(is_left);
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

#[test]
fn permits_are_free_that_wait_for_a_future_that_nobody_polls() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2);
    let mut forgotten = Box::pin(semaphore.acquire_many_async(2));
    assert!(poll(&mut forgotten, Waker::noop()).is_pending());
    drop(held);
    drop(semaphore.acquire());
    for _ in 0..rounds(1_000) {
        // It is late, but for the moments in which the timer has the queue.
        until(|| semaphore.try_acquire().is_some());
        drop(semaphore.acquire_many(2));
        drop(block_on(semaphore.acquire_async()));
    }
    assert!(poll(&mut forgotten, Waker::noop()).is_ready());
}

/// Threads and tasks behind futures that nobody polls, and nobody else comes.
#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn those_that_wait_behind_futures_that_nobody_polls_have_their_permits() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2);
    let mut forgotten: Vec<_> =
        (0..4).map(|place| Box::pin(semaphore.acquire_many_async(1 + place % 2))).collect();
    for future in &mut forgotten {
        assert!(poll(future, Waker::noop()).is_pending());
    }
    scope(|s| {
        s.spawn(|| drop(block_on(semaphore.acquire_async())));
        s.spawn(|| drop(semaphore.acquire_many(2)));
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    for mut future in forgotten {
        assert!(poll(&mut future, Waker::noop()).is_ready(), "it has lost its place");
    }
    assert_eq!(semaphore.available_permits(), 2);
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
    // A thread that had no CPU for so long makes others late, too.
    let in_time = || {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        let mutex = Mutex::new(0);
        let guard = mutex.lock();
        let wakers: Vec<_> = (0..3).map(|_| Counter::new()).collect();
        let mut futures: Vec<_> = wakers.iter().map(|_| Box::pin(mutex.lock_async())).collect();
        let mut polled = |i: usize| {
            let guard = match poll(&mut futures[i], &wakers[i].1) {
                std::task::Poll::Ready(guard) => Some(guard),
                std::task::Poll::Pending => None,
            };
            let now = Instant::now();
            longest = longest.max(now - std::mem::replace(&mut last, now));
            guard
        };
        let began = Instant::now();
        let mut as_expected = (0..3).all(|i| polled(i).is_none());
        drop(guard);
        let guard = loop {
            // The others ask, too: they pass the first one when it is late, and the second is next.
            as_expected &= polled(2).is_none();
            if let Some(guard) = polled(1) {
                break guard;
            }
        };
        as_expected &= began.elapsed() >= Duration::from_millis(1) && polled(0).is_none();
        drop(guard);
        as_expected &= polled(2).is_none() && polled(0).is_some() && polled(2).is_some();
        assert!(as_expected || longest >= Duration::from_micros(500));
        as_expected
    };
    until(in_time);
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

/// The timer has passed the only one that waits, and knows no lock: the next attempt opens it.
#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn an_attempt_at_a_lock_that_was_left_to_a_future_that_nobody_polls_opens_it() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    let mut forgotten = Box::pin(mutex.lock_async());
    assert!(poll(&mut forgotten, Waker::noop()).is_pending());
    lock_api::MutexGuard::unlock_fair(guard);
    std::thread::sleep(Duration::from_millis(20));
    until(|| mutex.try_lock().is_some());
    assert!(poll(&mut forgotten, Waker::noop()).is_ready());
}

/// The release of a mutex may miss that a task waits, and then only the timer wakes that. A task that had waited before, and gave
/// up, had left the timer asleep: this one waited for ever beside a free mutex.
#[test]
#[cfg_attr(miri, ignore = "there is no timer")]
fn a_release_that_misses_a_task_is_made_up_for_after_another_task_has_given_up() {
    let mutex = RawMutex::<Native>::new();
    mutex.lock();
    scope(|s| {
        s.spawn(|| {
            mutex.lock();
            // SAFETY: just taken.
            unsafe { mutex.unlock() };
        });
        until(|| mutex.is_contended());
        let mut gives_up = Box::pin(mutex.lock_async());
        assert!(poll(&mut gives_up, Waker::noop()).is_pending());
        // No task is next, so the timer falls asleep.
        std::thread::sleep(Duration::from_millis(100));
        drop(gives_up);
        // SAFETY: taken above.
        unsafe { mutex.unlock() };
    });
    mutex.lock();
    let (counter, waker) = Counter::new();
    let mut future = Box::pin(mutex.lock_async());
    // SAFETY: just taken.
    let missed = unsafe { mutex.unlock_fast(|| assert!(poll(&mut future, &waker).is_pending())) };
    assert!(missed && !mutex.is_locked());
    until(|| counter.count() > 0);
    assert!(poll(&mut future, &waker).is_ready());
}
