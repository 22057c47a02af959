//! `Condvar` as callers see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairlock::{CancelToken, Condvar, CondvarExt, Mutex, WaitError};
use fairlock_testing::{scope, until};

static STATIC: Condvar = Condvar::new();

#[test]
fn nobody_waits_and_nobody_is_notified() {
    assert!(!STATIC.notify_one());
    assert_eq!(STATIC.notify_all(), 0);
}

/// Two threads, each the other's waiter.
#[test]
fn ping_pong() {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    scope(|s| {
        for me in 0..2 {
            let (turn, changed) = (&turn, &changed);
            s.spawn(move || {
                let mut turn = turn.lock();
                for _ in 0..2_000 {
                    changed.wait_while(&mut turn, |turn| *turn % 2 != me);
                    *turn += 1;
                    changed.notify_one();
                }
            });
        }
    });
    assert_eq!(*turn.lock(), 4_000);
}

/// Waiters in the order of their numbers; `then` is called while all of them wait, and with
/// the mutex or without; who came back.
fn queued(n: usize, condvar: &Condvar, held: bool, then: impl Fn(usize)) -> Vec<usize> {
    let (order, back) = (Mutex::new(vec![]), Mutex::new(vec![]));
    scope(|s| {
        for me in 0..n {
            let (order, back) = (&order, &back);
            s.spawn(move || {
                let mut order = order.lock();
                order.push(me);
                condvar.wait(&mut order);
                back.lock().push(me);
            });
            // The mutex is let go when the waiter is queued.
            until(|| order.lock().len() == me + 1);
        }
        let guard = held.then(|| order.lock());
        then(n);
        drop(guard);
    });
    back.into_inner()
}

#[test]
fn notify_one_is_first_come_first_notified() {
    for held in [false, true] {
        let condvar = Condvar::new();
        let notify = |n| (0..n).for_each(|_| assert!(condvar.notify_one()));
        let mut back = queued(8, &condvar, held, notify);
        assert!(!condvar.notify_one());
        back.sort_unstable();
        assert_eq!(back, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn notify_one_takes_the_first() {
    let (mutex, changed) = (Mutex::new(vec![]), Condvar::new());
    let back = Mutex::new(vec![]);
    scope(|s| {
        for me in 0..5 {
            let (mutex, changed, back) = (&mutex, &changed, &back);
            s.spawn(move || {
                let mut queued = mutex.lock();
                queued.push(me);
                changed.wait(&mut queued);
                back.lock().push(me);
            });
            until(|| mutex.lock().len() == me + 1);
        }
        for n in 1..=5 {
            assert!(changed.notify_one());
            until(|| back.lock().len() == n);
        }
    });
    assert_eq!(back.into_inner(), [0, 1, 2, 3, 4]);
}

#[test]
fn notify_all_notifies_all_and_counts_them() {
    for n in [1, 2, 64, 300] {
        for held in [false, true] {
            let condvar = Condvar::new();
            let mut back = queued(n, &condvar, held, |n| assert_eq!(condvar.notify_all(), n));
            back.sort_unstable();
            assert!(back.into_iter().eq(0..n));
        }
    }
}

/// Also where the mutex has waiters of its own.
#[test]
fn waiters_move_to_a_contended_mutex() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let (ready, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _guard = mutex.lock();
                    std::thread::sleep(Duration::from_micros(30));
                }
            });
        }
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                s.spawn(|| {
                    for _ in 0..50 {
                        let mut guard = mutex.lock();
                        ready.fetch_add(1, Ordering::Relaxed);
                        changed.wait(&mut guard);
                        *guard += 1;
                    }
                })
            })
            .collect();
        let mut notified = 0;
        until(|| {
            notified += if notified % 3 == 0 {
                changed.notify_all()
            } else {
                usize::from(changed.notify_one())
            };
            waiters.iter().all(|waiter| waiter.is_finished())
        });
        assert_eq!(notified, 400);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(*mutex.lock(), 400);
}

#[test]
fn a_timed_wait_ends_not_before_its_time_and_holds_the_mutex_again() {
    let (mutex, changed) = (Mutex::new(()), Condvar::new());
    let mut guard = mutex.lock();
    for timeout in [Duration::ZERO, Duration::from_millis(2)] {
        let began = Instant::now();
        assert!(changed.wait_for(&mut guard, timeout).timed_out());
        assert!(changed.wait_until(&mut guard, began + timeout).timed_out());
        assert!(began.elapsed() >= timeout);
        assert!(mutex.is_locked());
    }
    assert!(!changed.notify_one());
}

/// Each notification that counted somebody is one wait that did not time out.
#[test]
fn no_notification_is_lost_to_a_wait_that_times_out() {
    let (mutex, changed) = (Mutex::new(()), Condvar::new());
    let (notified, came, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    scope(|s| {
        for waiter in 0..4u64 {
            let (mutex, changed, came, done) = (&mutex, &changed, &came, &done);
            s.spawn(move || {
                let mut timeout = waiter;
                while !done.load(Ordering::Relaxed) {
                    timeout = (timeout + 7) % 100;
                    let timeout = Duration::from_micros(timeout);
                    if !changed.wait_for(&mut mutex.lock(), timeout).timed_out() {
                        came.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        until(|| {
            notified.fetch_add(usize::from(changed.notify_one()), Ordering::Relaxed);
            notified.fetch_add(changed.notify_all(), Ordering::Relaxed);
            notified.load(Ordering::Relaxed) > 2_000
        });
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(notified.into_inner(), came.into_inner());
}

#[test]
fn a_cancelled_wait_ends() {
    let (mutex, changed, token) = (Mutex::new(0), Condvar::new(), CancelToken::new());
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let mut count = mutex.lock();
                *count += 1;
                assert_eq!(changed.wait_cancellable(&mut count, &token), Err(WaitError::Cancelled));
                *count -= 1;
            });
        }
        until(|| *mutex.lock() == 3);
        token.cancel();
    });
    assert_eq!((*mutex.lock(), changed.notify_all()), (0, 0));
}

#[test]
fn waiters_of_several_mutexes() {
    let (mutexes, changed) = ([const { Mutex::new(false) }; 3], Condvar::new());
    scope(|s| {
        for mutex in mutexes.iter().cycle().take(9) {
            let changed = &changed;
            s.spawn(move || {
                let mut waits = mutex.lock();
                *waits = true;
                changed.wait(&mut waits);
            });
        }
        let mut notified = 0;
        until(|| {
            notified += changed.notify_all();
            notified == 9
        });
    });
}

/// The last of them frees mutex and condition variable at once.
#[test]
fn both_may_be_freed_by_who_was_notified_last() {
    for _ in 0..300 {
        let shared = std::sync::Arc::new((Mutex::new(0), Condvar::new()));
        scope(|s| {
            for _ in 0..3 {
                let shared = shared.clone();
                s.spawn(move || {
                    let (count, changed) = &*shared;
                    let mut count = count.lock();
                    *count += 1;
                    if *count == 3 {
                        changed.notify_all();
                    }
                    changed.wait_while(&mut count, |count| *count < 3);
                });
            }
            drop(shared);
        });
    }
}
