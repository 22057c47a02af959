//! Tasks at locks with a name.

use std::panic::Location;
use std::task::{Poll, Waker};
use std::time::Duration;

use fairlock::stats::{self, NamedExt, Place, SideStats};
use fairlock::{
    CancelToken, Condvar, Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt, Semaphore, Wait, WaitError,
};
use fairlock_testing::until;

use crate::executor::{Counter, block_on, poll};

/// Of reads, and of writes.
fn sides(name: &str) -> [SideStats; 2] {
    let now = stats::snapshot();
    let stats = now.get(name).unwrap();
    [stats.reads.clone(), stats.writes.clone()]
}

#[test]
fn acquisitions_of_tasks_count_as_those_of_threads() {
    let lock = RwLock::named("tasks, free", 0);
    drop(block_on(lock.read_async()));
    drop(lock.read());
    drop(block_on(lock.upgradable_read_async()));
    drop(block_on(lock.write_async()));
    let [reads, writes] = sides("tasks, free");
    assert_eq!((reads.acquisitions, writes.acquisitions), (2, 2));
    assert_eq!((reads.waited.count, writes.waited.count), (0, 0));
}

#[test]
fn a_wait_of_a_task_is_timed_and_has_a_place() {
    let mutex = Mutex::named("tasks, waiting", 0);
    let (counter, waker) = Counter::new();
    let guard = mutex.lock();
    let (mut future, line) = (Box::pin(mutex.lock_async()), Location::caller().line());
    assert!(poll(&mut future, &waker).is_pending());
    assert!(poll(&mut future, &waker).is_pending());
    std::thread::sleep(Duration::from_millis(2));
    drop(guard);
    until(|| counter.count() > 0);
    let Poll::Ready(guard) = poll(&mut future, &waker) else { panic!("the mutex is free") };
    assert_eq!(sides("tasks, waiting")[1].held_now.len(), 1);
    drop(guard);
    assert!(poll(&mut future, &waker).is_pending());
    let [_, writes] = sides("tasks, waiting");
    assert_eq!((writes.acquisitions, writes.waited.count, writes.given_up), (2, 1, 0));
    let longest = writes.longest_wait.unwrap();
    assert!(longest.time >= Duration::from_millis(2));
    let Some(Place::Line(at)) = longest.at else { panic!("no place") };
    assert_eq!((at.file(), at.line()), (file!(), line));
}

/// Dropped, or ended.
#[test]
fn a_task_that_gives_up_counts() {
    let (lock, token) = (RwLock::named("tasks, giving up", 0), CancelToken::new());
    let guard = lock.write();
    let mut dropped = Box::pin(lock.read_async());
    assert!(poll(&mut dropped, Waker::noop()).is_pending());
    drop(dropped);
    drop(lock.read_async());
    let mut ended = Box::pin(lock.write_async_with(Wait::FOREVER.cancellable(&token)));
    assert!(poll(&mut ended, Waker::noop()).is_pending());
    token.cancel();
    assert!(poll(&mut ended, Waker::noop()).is_ready());
    assert!(poll(&mut ended, Waker::noop()).is_pending());
    drop((guard, ended));
    let [reads, writes] = sides("tasks, giving up");
    assert_eq!((reads.given_up, reads.acquisitions), (1, 0));
    assert_eq!((writes.given_up, writes.acquisitions), (1, 1));
    assert!(lock.try_write().is_some());
}

#[test]
fn permits_of_tasks_count() {
    let semaphore = Semaphore::named("tasks, permits", 2);
    let (counter, waker) = Counter::new();
    let one = block_on(semaphore.acquire_async());
    let mut two = Box::pin(semaphore.acquire_many_async(2));
    assert!(poll(&mut two, &waker).is_pending());
    let in_vain = semaphore.acquire_many_async_with(2, Wait::within(Duration::from_millis(1)));
    assert!(block_on(in_vain).is_err());
    drop(one);
    until(|| counter.count() > 0);
    let Poll::Ready(permit) = poll(&mut two, &waker) else { panic!("they are free") };
    assert_eq!((permit.count(), semaphore.available_permits()), (2, 0));
    drop(permit);
    assert_eq!(semaphore.available_permits(), 2);
    let [permits, _] = sides("tasks, permits");
    assert_eq!((permits.acquisitions, permits.waited.count, permits.given_up), (2, 2, 1));
}

#[test]
fn futures_of_named_locks_are_send() {
    fn check<T: Send>(_: &T) {}
    let (mutex, lock) = (Mutex::named("tasks, send", 0), RwLock::named("tasks, send", 0));
    let semaphore = Semaphore::named("tasks, send", 1);
    check(&mutex.lock_async());
    check(&lock.write_async_with(Wait::FOREVER));
    check(&semaphore.acquire_async());
    check(&Condvar::new().wait_async(mutex.lock()));
}

#[test]
fn a_task_with_a_named_mutex_waits_for_a_notification() {
    let (mutex, changed) = (Mutex::named("tasks, notified", 0), Condvar::new());
    let held = || sides("tasks, notified")[1].held_now.len();
    let mut future = Box::pin(changed.wait_async(mutex.lock()));
    assert_eq!(held(), 1);
    assert!(poll(&mut future, Waker::noop()).is_pending());
    assert_eq!((held(), mutex.is_locked()), (0, false));
    *mutex.lock() += 1;
    assert!(changed.notify_one());
    let Poll::Ready(guard) = poll(&mut future, Waker::noop()) else { panic!("it was notified") };
    assert_eq!((*guard, held()), (1, 1));
    drop(guard);
    assert!(poll(&mut future, Waker::noop()).is_pending());
    let now = stats::snapshot();
    let stats = now.get("tasks, notified").unwrap();
    assert_eq!((stats.conditions.count, stats.writes.acquisitions, held()), (1, 2, 0));
}

/// Not polled; while it waits; and notified. And by a token.
#[test]
fn a_wait_for_a_notification_that_ends_without_one_counts() {
    let (mutex, changed) = (Mutex::named("tasks, not notified", 0), Condvar::new());
    let waits = || stats::snapshot().get("tasks, not notified").unwrap().conditions.count;
    drop(changed.wait_async(mutex.lock()));
    assert_eq!((mutex.is_locked(), waits()), (false, 0));
    for notified in [false, true] {
        let mut future = Box::pin(changed.wait_async(mutex.lock()));
        assert!(poll(&mut future, Waker::noop()).is_pending());
        assert_eq!(notified && changed.notify_one(), notified);
        drop(future);
    }
    assert_eq!(waits(), 2);
    let token = CancelToken::new();
    token.cancel();
    let wait = Wait::FOREVER.cancellable(&token);
    let (guard, ended) = block_on(changed.wait_async_with(mutex.lock(), wait));
    assert_eq!((ended, waits()), (Err(WaitError::Cancelled), 3));
    // There is nothing to wait for.
    let guard = block_on(changed.wait_while_async(guard, |count| *count > 0));
    assert_eq!(sides("tasks, not notified")[1].held_now.len(), 1);
    drop(guard);
    assert_eq!((mutex.is_locked(), waits()), (false, 3));
    assert!(sides("tasks, not notified")[1].held_now.is_empty());
}

#[test]
fn a_task_that_waits_is_in_the_list() {
    let (mutex, semaphore) =
        (Mutex::named("tasks, listed", 0), Semaphore::named("tasks, listed", 0));
    let guard = mutex.lock();
    let (mut first, line) = (Box::pin(mutex.lock_async()), Location::caller().line());
    let mut second = Box::pin(mutex.lock_async());
    let mut permits = Box::pin(semaphore.acquire_async());
    assert!(poll(&mut first, Waker::noop()).is_pending());
    assert!(poll(&mut permits, Waker::noop()).is_pending());
    // Another thread polls this one, for the second time.
    assert!(poll(&mut second, Waker::noop()).is_pending());
    let worker = std::thread::Builder::new().name("a worker".into());
    let polls = move || {
        assert!(poll(&mut second, Waker::noop()).is_pending());
        stats::snapshot()
    };
    let now = std::thread::scope(|s| worker.spawn_scoped(s, polls).unwrap().join().unwrap());
    let lock = now.get("tasks, listed").unwrap();
    assert_eq!((lock.writes.waiting.len(), lock.reads.waiting.len()), (2, 1));
    assert!(lock.writes.waiting.iter().all(|now| now.is_task && now.time.is_some()));
    let Some(Place::Line(at)) = lock.writes.waiting[0].at else { panic!("no place") };
    assert_eq!((at.file(), at.line()), (file!(), line));
    assert_eq!(lock.writes.waiting[1].thread, "a worker");
    assert!(now.to_string().contains(" by a task, polled by a worker at "));
    assert!(now.to_json().contains(",\"thread\":\"a worker\",\"is_task\":true,"));
    // The second was dropped by its thread; one is dropped here, and the last has the mutex.
    drop(permits);
    let left = sides("tasks, listed").map(|side| side.waiting.len());
    assert_eq!(left, [0, 1]);
    drop(guard);
    assert!(poll(&mut first, Waker::noop()).is_ready());
    assert!(sides("tasks, listed")[1].waiting.is_empty());
}

/// Once, and again when it has ended.
#[test]
fn a_long_wait_of_a_task_is_told_while_it_lasts() {
    static TOLD: std::sync::Mutex<Vec<bool>> = std::sync::Mutex::new(Vec::new());
    fairlock_testing::alone(|| {
        stats::on_long_wait(Duration::from_nanos(1), |wait| {
            TOLD.lock().unwrap().push(wait.ongoing)
        });
        let mutex = Mutex::named("tasks, told", 0);
        let guard = mutex.lock();
        let mut future = Box::pin(mutex.lock_async());
        assert!(poll(&mut future, Waker::noop()).is_pending());
        for _ in 0..2 {
            drop(stats::snapshot());
            assert_eq!(*TOLD.lock().unwrap(), [true]);
        }
        drop(guard);
        assert!(poll(&mut future, Waker::noop()).is_ready());
        assert_eq!(*TOLD.lock().unwrap(), [true, false]);
    });
}
