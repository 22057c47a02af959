//! Waits of tasks that end: at a deadline, by a token.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::lock::RawMutex;
use fairlock::platform::Native;
use fairlock::{
    CancelToken, Condvar, Mutex, MutexAsyncExt, MutexExt, RwLock, RwLockAsyncExt, RwLockExt,
    Semaphore, Wait, WaitError,
};
use fairlock_testing::{join, rounds, scope, until};

use crate::executor::{Counter, Executor, block_on, poll};

const SHORT: Duration = Duration::from_millis(5);

/// Runs `check` with a wait that ends soon, by itself or by another thread, and how it ends.
fn both_ends(check: impl Fn(Wait<'_>, WaitError)) {
    check(Wait::within(SHORT), WaitError::TimedOut);
    check(Wait::until(Instant::now() + SHORT), WaitError::TimedOut);
    let token = CancelToken::new();
    thread::scope(|s| {
        s.spawn(|| {
            thread::sleep(SHORT);
            token.cancel();
        });
        check(Wait::FOREVER.cancellable(&token), WaitError::Cancelled);
    });
    // One that was cancelled before.
    check(Wait::within(Duration::from_secs(100)).cancellable(&token), WaitError::Cancelled);
}

#[test]
fn nobody_has_to_poll_a_task_whose_wait_ends() {
    both_ends(|wait, error| {
        let mutex = Mutex::new(0);
        let guard = mutex.lock();
        assert_eq!(block_on(mutex.lock_async_with(wait)).err(), Some(error));
        drop(guard);
        assert!(mutex.try_lock().is_some());
        let lock = RwLock::new(0);
        let guard = lock.write();
        assert_eq!(block_on(lock.read_async_with(wait)).err(), Some(error));
        assert_eq!(block_on(lock.upgradable_read_async_with(wait)).err(), Some(error));
        assert_eq!(block_on(lock.write_async_with(wait)).err(), Some(error));
        drop(guard);
        assert!(lock.try_write().is_some());
        let semaphore = Semaphore::new(2);
        let wanted = semaphore.acquire_many_async_with(3, wait);
        assert_eq!(block_on(wanted).err(), Some(error));
        assert_eq!(semaphore.available_permits(), 2);
        let changed = Condvar::new();
        let (guard, result) = block_on(changed.wait_async_with(mutex.lock(), wait));
        assert!(mutex.is_locked() && result == Err(error));
        drop(guard);
        assert!(!changed.notify_one());
    });
}

#[test]
fn a_free_lock_is_taken_although_the_wait_has_ended() {
    let token = CancelToken::new();
    token.cancel();
    let ended = Wait::within(Duration::ZERO).cancellable(&token);
    let (mutex, lock, semaphore) = (Mutex::new(0), RwLock::new(0), Semaphore::new(1));
    assert!(block_on(mutex.lock_async_with(ended)).is_ok());
    assert!(block_on(lock.read_async_with(ended)).is_ok());
    assert!(block_on(lock.upgradable_read_async_with(ended)).is_ok());
    assert!(block_on(lock.write_async_with(ended)).is_ok());
    assert!(block_on(semaphore.acquire_many_async_with(1, ended)).is_ok());
}

#[test]
fn a_task_has_the_lock_before_its_wait_ends_and_is_fused() {
    let (mutex, token) = (Mutex::new(0), CancelToken::new());
    let (counter, waker) = Counter::new();
    let guard = mutex.lock();
    let wait = Wait::within(Duration::from_secs(100)).cancellable(&token);
    let mut future = Box::pin(mutex.lock_async_with(wait));
    assert!(poll(&mut future, &waker).is_pending());
    drop(guard);
    until(|| counter.count() > 0);
    let Poll::Ready(Ok(guard)) = poll(&mut future, &waker) else { panic!("the lock is free") };
    token.cancel();
    assert!(poll(&mut future, &waker).is_pending());
    drop(guard);
    assert!(poll(&mut future, &waker).is_pending());
    assert!(mutex.try_lock().is_some());
}

/// And the next waiter has the offer.
#[test]
fn an_offer_goes_on_as_the_wait_ends() {
    let (mutex, token) = (Mutex::new(0), CancelToken::new());
    let [(first, first_waker), (second, second_waker)] = [Counter::new(), Counter::new()];
    let guard = mutex.lock();
    let mut ends = Box::pin(mutex.lock_async_with(Wait::FOREVER.cancellable(&token)));
    assert!(poll(&mut ends, &first_waker).is_pending());
    let mut stays = Box::pin(mutex.lock_async());
    assert!(poll(&mut stays, &second_waker).is_pending());
    token.cancel();
    until(|| first.count() > 0);
    let Poll::Ready(Err(error)) = poll(&mut ends, &first_waker) else { panic!("it was cancelled") };
    assert_eq!(error, WaitError::Cancelled);
    assert!(poll(&mut ends, &first_waker).is_pending());
    drop(guard);
    until(|| second.count() > 0);
    assert!(poll(&mut stays, &second_waker).is_ready());
}

#[test]
fn a_notification_is_not_lost_as_the_wait_ends() {
    let (mutex, changed, token) = (Mutex::new(0), Condvar::new(), CancelToken::new());
    let (_, waker) = Counter::new();
    for notified_first in [true, false] {
        let token = if notified_first { &token } else { &CancelToken::new() };
        let wait = Wait::FOREVER.cancellable(token);
        let mut future = Box::pin(changed.wait_async_with(mutex.lock(), wait));
        assert!(poll(&mut future, &waker).is_pending());
        if notified_first {
            assert!(changed.notify_one());
            token.cancel();
        } else {
            token.cancel();
        }
        let Poll::Ready((guard, result)) = poll(&mut future, &waker) else {
            panic!("the mutex is free")
        };
        assert_eq!(result.is_ok(), notified_first);
        drop(guard);
        assert!(poll(&mut future, &waker).is_pending());
        assert!(!changed.notify_one());
    }
}

#[test]
fn futures_that_are_dropped_take_their_alarms_along() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    let token = CancelToken::new();
    let mut counters = Vec::new();
    for number in 0..100 {
        let (counter, waker) = Counter::new();
        let timeout = Duration::from_millis(number % 3);
        let wait = Wait::within(timeout).cancellable(&token);
        let mut future = Box::pin(mutex.lock_async_with(wait));
        assert!(poll(&mut future, &waker).map(|taken| taken.is_err()) != Poll::Ready(false));
        drop((future, waker));
        counters.push(counter);
    }
    token.cancel();
    // A timer that is just calling one has it for a moment.
    until(|| counters.iter().all(|counter| Arc::strong_count(counter) == 1));
    drop(guard);
}

/// With different deadlines, at one lock, all of which end in time; and no other wakes the tasks.
#[test]
fn many_deadlines_end_in_any_order() {
    let mutex = Arc::new(Mutex::new(0));
    let executor = Executor::default();
    let guard = mutex.lock();
    for number in 0..1_000_u64 {
        let mutex = mutex.clone();
        executor.spawn(async move {
            let timeout = Duration::from_micros(number * 7919 % 10_000);
            let began = Instant::now();
            let ended = mutex.lock_async_with(Wait::within(timeout)).await;
            assert_eq!(ended.err(), Some(WaitError::TimedOut));
            assert!(began.elapsed() >= timeout, "it has ended before its time");
        });
    }
    assert!(executor.run(2, Duration::from_secs(60)));
    drop(guard);
}

/// Ends that meet offers: whatever comes first, nobody is left.
#[test]
fn waits_end_as_the_lock_is_passed_on() {
    let mutex = Arc::new(Mutex::new(0));
    let executor = Executor::default();
    for number in 0..8_u64 {
        let mutex = mutex.clone();
        executor.spawn(async move {
            for round in 0..rounds(200) as u64 {
                let timeout = Duration::from_micros((number + round) * 37 % 200);
                match mutex.lock_async_with(Wait::within(timeout)).await {
                    Ok(mut guard) => *guard += 1,
                    Err(error) => assert_eq!(error, WaitError::TimedOut),
                }
                crate::executor::yield_now().await;
            }
        });
    }
    assert!(executor.run(2, Duration::from_secs(60)));
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_task_of_another_token_waits_on() {
    let (mutex, tokens) = (Mutex::new(0), [(); 200].map(|()| CancelToken::new()));
    let guard = mutex.lock();
    let waits = tokens.each_ref().map(|token| {
        let (counter, waker) = Counter::new();
        let wait = Wait::FOREVER.cancellable(token);
        let mut future = Box::pin(mutex.lock_async_with(wait));
        assert!(poll(&mut future, &waker).is_pending());
        (counter, waker, future)
    });
    for (at, (counter, waker, mut future)) in waits.into_iter().enumerate() {
        // Woken for another one, perhaps.
        assert!(poll(&mut future, &waker).is_pending());
        let before = counter.count();
        tokens[at].cancel();
        until(|| counter.count() > before);
        let Poll::Ready(Err(error)) = poll(&mut future, &waker) else { panic!("cancelled") };
        assert_eq!(error, WaitError::Cancelled);
    }
    drop(guard);
}

/// As a thread does.
#[test]
fn a_thread_and_a_task_wait_under_one_token() {
    let (mutex, token) = (Mutex::new(0), CancelToken::new());
    let guard = mutex.lock();
    let wait = Wait::FOREVER.cancellable(&token);
    scope(|s| {
        let thread = s.spawn(|| mutex.lock_with(wait).err());
        let task = s.spawn(|| block_on(mutex.lock_async_with(wait)).err());
        token.cancel();
        assert_eq!(join(thread), Some(WaitError::Cancelled));
        assert_eq!(join(task), Some(WaitError::Cancelled));
    });
    drop(guard);
}

#[test]
fn no_signal_and_no_time_ends_a_wait_that_has_no_end() {
    let mutex = Mutex::new(0);
    let guard = mutex.lock();
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(mutex.lock_async_with(Wait::FOREVER.interruptible()));
    assert!(future.as_mut().poll(&mut context).is_pending());
    drop(guard);
    assert!(future.poll(&mut context).is_ready());
}

/// As those of threads. In the queue a reader would be next for a moment, and then the writer again, which would be woken for
/// nothing.
#[test]
fn attempts_whose_time_is_over_do_not_queue() {
    let token = CancelToken::new();
    token.cancel();
    for ended in [Wait::within(Duration::ZERO), Wait::FOREVER.cancellable(&token)] {
        let mutex = RawMutex::<Native>::new();
        mutex.lock();
        assert!(mutex.lock_with(ended).is_err() && !mutex.has_slot());
        assert!(block_on(mutex.lock_async_with(ended)).is_err());
        let queued = mutex.has_slot();
        // SAFETY: taken above.
        unsafe { mutex.unlock() };
        let lock = RwLock::new(0);
        let guard = lock.write();
        let (counter, waker) = Counter::new();
        let mut writer = Box::pin(lock.write_async());
        assert!(poll(&mut writer, &waker).is_pending());
        assert!(lock.read_with(ended).is_err());
        assert_eq!(counter.count(), 0, "by a thread");
        assert!(block_on(lock.read_async_with(ended)).is_err());
        assert_eq!((queued, counter.count()), (false, 0));
        drop(guard);
    }
}
