//! What each future promises.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairlock::{
    Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt, RwLockUpgradableReadGuard, Semaphore,
};
use fairlock_testing::{rounds, scope, until};

use crate::executor::{Counter, Executor, block_on, poll, yield_now};

pub(crate) fn is_contended(mutex: &Mutex<u32>) -> bool {
    // SAFETY: only looked at.
    unsafe { mutex.raw() }.is_contended()
}

#[test]
fn futures_are_send_where_the_data_is() {
    fn check<T: Send>(_: T) {}
    let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
    check(mutex.lock_async());
    check(lock.read_async());
    check(lock.write_async());
    check(lock.upgradable_read_async());
    check(Semaphore::new(1).acquire_async());
}

#[test]
fn a_free_lock_is_taken_at_the_first_poll_and_the_future_waits_for_nothing_then() {
    let (counter, waker) = Counter::new();
    let mutex = Mutex::new(0);
    let mut future = Box::pin(mutex.lock_async());
    assert!(mutex.try_lock().is_some(), "a future that was not polled has the lock");
    let Poll::Ready(guard) = poll(&mut future, &waker) else { panic!("the lock is free") };
    assert!(mutex.try_lock().is_none());
    assert!(poll(&mut future, &waker).is_pending());
    drop(guard);
    assert!(poll(&mut future, &waker).is_pending());
    assert!(mutex.try_lock().is_some());
    assert_eq!(counter.count(), 0);
}

#[test]
fn a_task_that_waits_is_woken_by_the_release_of_a_thread() {
    let mutex = Mutex::new(0);
    for _ in 0..rounds(1_000) {
        let guard = mutex.lock();
        scope(|s| {
            s.spawn(|| block_on(async { *mutex.lock_async().await += 1 }));
            until(|| is_contended(&mutex));
            drop(guard);
        });
    }
    assert_eq!(*mutex.lock(), rounds(1_000) as u32);
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (counter, waker) = Counter::new();
    let mutex = Mutex::new(0);
    drop(mutex.lock_async());
    let guard = mutex.lock();
    let mut futures: Vec<_> = (0..4).map(|_| Box::pin(mutex.lock_async())).collect();
    for future in &mut futures {
        assert!(poll(future, &waker).is_pending());
    }
    // From the middle, the end and the front.
    for place in [1, 2, 0, 0] {
        assert!(is_contended(&mutex));
        drop(futures.remove(place));
    }
    assert!(!is_contended(&mutex));
    drop(guard);
    assert!(mutex.try_lock().is_some());
    assert_eq!(Arc::strong_count(&counter), 2, "a waker has stayed");
}

#[test]
fn an_offer_is_handed_on_by_a_future_that_is_dropped() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    let wakers: Vec<_> = (0..3).map(|_| Counter::new()).collect();
    let mut futures: Vec<_> = wakers.iter().map(|_| Box::pin(lock.write_async())).collect();
    for (future, (_, waker)) in futures.iter_mut().zip(&wakers) {
        assert!(poll(future, waker).is_pending());
    }
    let counts = || wakers.iter().map(|(counter, _)| counter.count()).collect::<Vec<_>>();
    assert_eq!(counts(), [0, 0, 0]);
    drop(guard);
    assert_eq!(counts()[0], 1);
    drop(futures.remove(0));
    assert_eq!(counts()[1], 1);
    let Poll::Ready(guard) = poll(&mut futures[0], &wakers[1].1) else { panic!("it was woken") };
    drop(guard);
    assert_eq!(counts()[2], 1);
    assert!(poll(&mut futures[1], &wakers[2].1).is_ready());
}

/// Until it is so: a task that is not polled for a millisecond is passed.
#[test]
fn tasks_have_permits_in_the_order_in_which_they_ask_however_many() {
    until(|| {
        let semaphore = Semaphore::new(3);
        let held = semaphore.acquire_many(3);
        let wakers: Vec<_> = (0..4).map(|_| Counter::new()).collect();
        let counts = [3, 1, 2, 1];
        let mut futures: Vec<_> =
            counts.iter().map(|&count| Box::pin(semaphore.acquire_many_async(count))).collect();
        for (future, (_, waker)) in futures.iter_mut().zip(&wakers) {
            assert!(poll(future, waker).is_pending());
        }
        let mut polled = (0..4).map(|place| {
            let Poll::Ready(permit) = poll(&mut futures[place], &wakers[place].1) else {
                panic!("it is its turn");
            };
            permit
        });
        let mut seen = Vec::new();
        let mut see = || seen.push(wakers.iter().map(|(c, _)| c.count()).collect::<Vec<_>>());
        semaphore.release(1);
        see();
        assert!(semaphore.try_acquire().is_none() && semaphore.available_permits() == 1);
        semaphore.release(2);
        std::mem::forget(held);
        see();
        let all = polled.next();
        see();
        // One after the other, each by the one before it; the last one waits for what they give.
        drop(all);
        see();
        let one = polled.next();
        see();
        let two = polled.next();
        see();
        drop(one);
        see();
        let other = polled.next();
        drop((two, other));
        assert_eq!(semaphore.available_permits(), 3);
        seen == [
            [0, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 0],
            [1, 1, 1, 0],
            [1, 1, 1, 1],
        ]
    });
}

#[test]
fn a_future_that_is_dropped_leaves_no_permit_and_wakes_the_one_behind_it() {
    let (counter, waker) = Counter::new();
    let semaphore = Semaphore::new(1);
    drop(semaphore.acquire_async());
    let mut large = Box::pin(semaphore.acquire_many_async(2));
    let mut small = Box::pin(semaphore.acquire_async());
    assert!(poll(&mut large, &waker).is_pending() && poll(&mut small, &waker).is_pending());
    assert_eq!(counter.count(), 0);
    drop(large);
    assert_eq!(counter.count(), 1);
    // It was offered a permit.
    drop(small);
    assert!(!semaphore.has_waiters() && semaphore.try_acquire().is_some());
    assert_eq!(Arc::strong_count(&counter), 2, "a waker has stayed");
}

/// As above.
#[test]
fn threads_and_tasks_have_permits_in_one_order() {
    until(|| {
        let (semaphore, served) = (Semaphore::new(1), Mutex::new(Vec::new()));
        let held = semaphore.acquire();
        scope(|s| {
            let (semaphore, served) = (&semaphore, &served);
            for place in 0..6 {
                s.spawn(move || {
                    let _permit = match place % 2 {
                        0 => semaphore.acquire(),
                        _ => block_on(semaphore.acquire_async()),
                    };
                    served.lock().push(place);
                });
                // It is in the queue by then, or else there is another round.
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(held);
        });
        served.into_inner().is_sorted()
    });
}

#[test]
fn ten_thousand_tasks_have_permits_while_others_run() {
    const PERMITS: u32 = 5;
    let (semaphore, executor) = (Arc::new(Semaphore::new(PERMITS)), Executor::default());
    for task in 0..rounds(10_000) as u32 {
        let semaphore = semaphore.clone();
        executor.spawn(async move {
            let permit = semaphore.acquire_many_async(1 + task % PERMITS).await;
            yield_now().await;
            drop(permit);
        });
    }
    assert!(executor.run(2, Duration::from_secs(100)));
    assert_eq!(semaphore.available_permits(), PERMITS);
}

#[test]
fn readers_share_the_lock_and_writers_do_not() {
    let (_, waker) = Counter::new();
    let lock = RwLock::new(0);
    let (mut first, mut second) = (Box::pin(lock.read_async()), Box::pin(lock.read_async()));
    let mut writer = Box::pin(lock.write_async());
    let Poll::Ready(one) = poll(&mut first, &waker) else { panic!("free") };
    let Poll::Ready(two) = poll(&mut second, &waker) else { panic!("read") };
    assert!(poll(&mut writer, &waker).is_pending());
    drop(one);
    assert!(poll(&mut writer, &waker).is_pending());
    drop(two);
    let Poll::Ready(mut guard) = poll(&mut writer, &waker) else { panic!("left") };
    *guard += 1;
    let (mut reader, mut other) = (Box::pin(lock.read_async()), Box::pin(lock.read_async()));
    assert!(poll(&mut reader, &waker).is_pending() && poll(&mut other, &waker).is_pending());
    drop(guard);
    let Poll::Ready(one) = poll(&mut reader, &waker) else { panic!("left") };
    let Poll::Ready(two) = poll(&mut other, &waker) else { panic!("the other one reads") };
    assert_eq!((*one, *two), (1, 1));
}

#[test]
fn an_upgradable_reader_is_the_only_one_and_readers_join_it() {
    let (_, waker) = Counter::new();
    let lock = RwLock::new(0);
    let (mut first, mut second) =
        (Box::pin(lock.upgradable_read_async()), Box::pin(lock.upgradable_read_async()));
    let Poll::Ready(upgradable) = poll(&mut first, &waker) else { panic!("free") };
    assert!(poll(&mut second, &waker).is_pending());
    let mut reader = Box::pin(lock.read_async());
    assert!(poll(&mut reader, &waker).is_ready());
    *RwLockUpgradableReadGuard::upgrade(upgradable) += 1;
    let Poll::Ready(upgradable) = poll(&mut second, &waker) else { panic!("left") };
    assert_eq!(*upgradable, 1);
}

/// Tasks give up from any places of the queue: cats-effect 3564.
#[test]
fn those_that_stay_are_served_in_order_when_others_give_up() {
    let mutex = Mutex::new(0);
    for left in 0..16_u32 {
        let guard = mutex.lock();
        let wakers: Vec<_> = (0..4).map(|_| Counter::new()).collect();
        let mut futures: Vec<_> =
            wakers.iter().map(|(_, waker)| (Box::pin(mutex.lock_async()), waker)).collect();
        for (future, waker) in &mut futures {
            assert!(poll(future, waker).is_pending());
        }
        let mut number = 0;
        futures.retain(|_| {
            number += 1;
            left & 1 << (number - 1) == 0
        });
        drop(guard);
        for (mut future, waker) in futures {
            assert!(poll(&mut future, waker).is_ready());
        }
    }
}

#[test]
fn threads_and_tasks_have_the_lock_one_at_a_time() {
    const TASKS: usize = 20;
    let (mutex, lock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new((0, 0))));
    let executor = Executor::default();
    let each = rounds(2_000);
    for task in 0..TASKS {
        let (mutex, lock) = (mutex.clone(), lock.clone());
        executor.spawn(async move {
            for round in 0..each {
                *mutex.lock_async().await += 1;
                if (round + task) % 4 == 0 {
                    let mut guard = lock.write_async().await;
                    guard.0 += 1;
                    guard.1 += 1;
                } else {
                    let guard = lock.read_async().await;
                    assert_eq!(guard.0, guard.1);
                }
                if round % 8 == 0 {
                    yield_now().await;
                }
            }
        });
    }
    scope(|s| {
        for thread in 0..2 {
            let (mutex, lock) = (mutex.clone(), lock.clone());
            s.spawn(move || {
                for round in 0..each {
                    *mutex.lock() += 1;
                    if (round + thread) % 4 == 0 {
                        let mut guard = lock.write();
                        guard.0 += 1;
                        guard.1 += 1;
                    } else {
                        let guard = lock.read();
                        assert_eq!(guard.0, guard.1);
                    }
                }
            });
        }
        assert!(executor.run(2, Duration::from_secs(100)));
    });
    assert_eq!(*mutex.lock(), (TASKS + 2) * each);
}

/// A guard that is held while other tasks run, and dropped on another thread.
#[test]
#[allow(clippy::await_holding_lock, reason = "the lock suspends tasks")]
fn ten_thousand_tasks_hold_the_lock_while_others_run() {
    let lock = Arc::new(RwLock::new(0));
    let executor = Executor::default();
    let tasks = rounds(10_000);
    for _ in 0..tasks {
        let lock = lock.clone();
        executor.spawn(Sends(async move {
            let mut guard = lock.write_async().await;
            yield_now().await;
            *guard += 1;
        }));
    }
    assert!(executor.run(2, Duration::from_secs(100)));
    assert_eq!(*lock.read(), tasks);
}

/// A task with guards, which its executor moves from thread to thread: our locks allow that, and the feature `send_guard`
/// says so.
struct Sends<F>(F);

// SAFETY: all in it that is not `Send` is a guard of ours, and they may be released by any thread.
unsafe impl<F> Send for Sends<F> {}

impl<F: Future> Future for Sends<F> {
    type Output = F::Output;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<F::Output> {
        // SAFETY: pinned, as the whole is.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(context)
    }
}
