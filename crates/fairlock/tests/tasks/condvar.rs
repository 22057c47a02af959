//! Tasks that wait for a notification, beside threads.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use fairlock::future::WaitFuture;
use fairlock::{Condvar, Mutex, MutexAsyncExt};
use fairlock_testing::{join, rounds, scope, until};

use crate::executor::{Counter, Executor, block_on, poll, yield_now};

pub(crate) type Waits<'a> = Pin<Box<WaitFuture<'a, u32>>>;

/// A task that has released the mutex and waits.
pub(crate) fn waiting<'a>(changed: &'a Condvar, mutex: &'a Mutex<u32>, waker: &Waker) -> Waits<'a> {
    let mut future = Box::pin(changed.wait_async(mutex.lock()));
    assert!(poll(&mut future, waker).is_pending());
    assert!(!mutex.is_locked(), "a task that waits has the mutex");
    future
}

#[test]
fn a_wait_is_send_and_fused() {
    fn check<T: Send>(it: T) -> T {
        it
    }
    let (mutex, changed, (_, waker)) = (Mutex::new(0), Condvar::new(), Counter::new());
    let mut future = check(waiting(&changed, &mutex, &waker));
    assert!(changed.notify_one());
    let Poll::Ready(guard) = poll(&mut future, &waker) else { panic!("it was notified") };
    assert!(mutex.is_locked());
    drop(guard);
    assert!(poll(&mut future, &waker).is_pending());
    drop(check(async {
        *changed.wait_while_async(mutex.lock_async().await, |count| *count == 0).await -= 1;
    }));
}

#[test]
fn a_future_that_is_never_polled_holds_the_mutex_until_it_is_dropped() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let future = changed.wait_async(mutex.lock());
    assert!(mutex.is_locked());
    assert!(!changed.notify_one());
    drop(future);
    assert!(!mutex.is_locked());
}

#[test]
fn threads_and_tasks_are_notified_in_the_order_in_which_they_came() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let [came, began] = [const { AtomicBool::new(false) }; 2];
    let wakers = [Counter::new(), Counter::new()];
    scope(|s| {
        let mut first = waiting(&changed, &mutex, &wakers[0].1);
        let thread = s.spawn(|| {
            let mut guard = mutex.lock();
            began.store(true, Ordering::SeqCst);
            changed.wait(&mut guard);
            came.store(true, Ordering::SeqCst);
        });
        until(|| began.load(Ordering::SeqCst));
        // It lets the mutex go when it is queued.
        drop(mutex.lock());
        let mut last = waiting(&changed, &mutex, &wakers[1].1);
        let counts = || wakers.each_ref().map(|(counter, _)| counter.count());
        assert!(changed.notify_one());
        assert_eq!((counts(), came.load(Ordering::SeqCst)), ([1, 0], false));
        drop(poll(&mut first, &wakers[0].1));
        assert!(changed.notify_one());
        join(thread);
        assert_eq!(counts(), [1, 0]);
        assert!(changed.notify_one());
        assert_eq!(counts(), [1, 1]);
        assert!(poll(&mut last, &wakers[1].1).is_ready());
    });
    assert!(!changed.notify_one());
}

#[test]
fn a_notification_of_a_future_that_is_dropped_goes_on_to_the_next() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let wakers: Vec<_> = (0..3).map(|_| Counter::new()).collect();
    let mut tasks: Vec<_> = wakers.iter().map(|(_, w)| waiting(&changed, &mutex, w)).collect();
    let woken = || wakers.iter().map(|(counter, _)| counter.count() > 0).collect::<Vec<_>>();
    assert!(changed.notify_one());
    // Notified, and not polled since.
    drop(tasks.remove(0));
    assert_eq!(woken(), [true, true, false]);
    // Notified, and queued for the mutex.
    let guard = mutex.lock();
    assert!(poll(&mut tasks[0], &wakers[1].1).is_pending());
    drop(tasks.remove(0));
    assert_eq!(woken(), [true; 3]);
    drop(guard);
    assert!(poll(&mut tasks[0], &wakers[2].1).is_ready());
    assert!(!changed.notify_one());
    // Ready: nothing is left to go on.
    let (last, waker) = Counter::new();
    let next = waiting(&changed, &mutex, &waker);
    drop(tasks);
    assert_eq!(last.count(), 0);
    drop(next);
    assert!(wakers.iter().all(|(counter, _)| Arc::strong_count(counter) == 2));
}

#[test]
fn a_future_that_all_were_notified_with_passes_nothing_on() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let [(_, first), (late, second)] = [Counter::new(), Counter::new()];
    let notified = waiting(&changed, &mutex, &first);
    assert_eq!(changed.notify_all(), 1);
    let waits = waiting(&changed, &mutex, &second);
    drop(notified);
    assert_eq!(late.count(), 0);
    drop(waits);
}

#[test]
fn a_future_that_is_dropped_while_it_waits_leaves_nothing_behind() {
    let (mutex, changed, (counter, waker)) = (Mutex::new(0), Condvar::new(), Counter::new());
    let mut tasks: Vec<_> = (0..4).map(|_| waiting(&changed, &mutex, &waker)).collect();
    // From the middle, the end and the front.
    for place in [1, 2, 0] {
        drop(tasks.remove(place));
    }
    assert!(changed.notify_one());
    assert!(!changed.notify_one());
    assert_eq!(counter.count(), 1);
    drop(tasks);
    assert_eq!(Arc::strong_count(&counter), 2, "a waker has stayed");
}

#[test]
fn many_are_notified_at_once_and_the_last_waker_counts() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let ((old, before), (counter, waker)) = (Counter::new(), Counter::new());
    let mut tasks: Vec<_> = (0..40).map(|_| waiting(&changed, &mutex, &before)).collect();
    for task in &mut tasks {
        assert!(poll(task, &waker).is_pending());
    }
    assert_eq!(changed.notify_all(), 40);
    assert_eq!((old.count(), counter.count()), (0, 40));
    assert_eq!(changed.notify_all(), 0);
    for task in &mut tasks {
        assert!(poll(task, &waker).is_ready());
    }
}

/// Threads and tasks take what others give; some tasks give up at some time. Each item wakes one.
#[test]
fn no_item_is_left_while_somebody_waits_for_it() {
    let shared = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let items = rounds(2_000) as u32;
    let executor = Executor::default();
    for n in 0..items {
        let taken = shared.clone();
        executor.spawn(async move {
            let (mutex, changed) = &*taken;
            // Every third gives up its place once, if it has not had the item by so many polls, and comes again.
            let mut polls = if n % 3 == 0 { n % 5 + 1 } else { u32::MAX };
            loop {
                let mut waits = Box::pin(
                    changed.wait_while_async(mutex.lock_async().await, |count| *count == 0),
                );
                let taken = std::future::poll_fn(|context| {
                    if polls == 0 {
                        return Poll::Ready(false);
                    }
                    polls -= 1;
                    if polls < 5 {
                        context.waker().wake_by_ref();
                    }
                    waits.as_mut().poll(context).map(|mut count| *count -= 1).map(|()| true)
                })
                .await;
                if taken {
                    return;
                }
                drop(waits);
                polls = u32::MAX;
                yield_now().await;
            }
        });
    }
    scope(|s| {
        let taker = s.spawn(|| {
            for _ in 0..items / 4 {
                let mut count = shared.0.lock();
                shared.1.wait_while(&mut count, |count| *count == 0);
                *count -= 1;
            }
        });
        let giver = s.spawn(|| {
            for _ in 0..items + items / 4 {
                *shared.0.lock() += 1;
                shared.1.notify_one();
            }
        });
        assert!(executor.run(2, Duration::from_secs(60)));
        join(taker);
        join(giver);
    });
    assert_eq!(*shared.0.lock(), 0);
    assert!(!shared.1.notify_one());
}

#[test]
fn a_task_that_waits_is_woken_by_the_notification_of_a_thread() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    scope(|s| {
        let waiter = s.spawn(|| {
            block_on(async {
                drop(changed.wait_while_async(mutex.lock_async().await, |count| *count < 3).await);
            });
        });
        for _ in 0..3 {
            *mutex.lock() += 1;
            changed.notify_all();
        }
        join(waiter);
    });
}
