//! Locks that the child of a fork makes work there, whatever its parent's other threads were
//! about to do to what the process shares.
//!
//! A child has the mutexes of the standard library as they were at the fork, which somebody has while a thread begins
//! or ends. So each test is alone, and no thread of it does that meanwhile. And not with `deadlock_detection`, as there
//! is such a mutex for backtraces.
#![cfg(all(target_os = "linux", not(any(feature = "deadlock_detection", miri))))]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{Condvar, Mutex, Policy, RwLock, RwLockExt, Semaphore};
use fairlock_testing::{alone, in_child, scope, until};

const THREADS: usize = 3;

/// Each is held, at first, by a thread while another one comes to wait for it.
fn contend(sections: usize) {
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let rwlock = RwLock::new(0);
    // Has a slot from its first use to its end.
    let other = RwLock::with_policy(Policy::DEFAULT.with_priorities(), 0);
    let permits = Semaphore::new(2);
    let all_run = Barrier::new(THREADS);
    thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                all_run.wait();
                for _ in 0..sections {
                    let mut count = mutex.lock();
                    let mut written = rwlock.write();
                    thread::yield_now();
                    (*count, *written) = (*count + 1, *written + 1);
                    drop((count, written));
                    drop(rwlock.read());
                    *other.write() += 1;
                    let _all = permits.acquire_many(2);
                    thread::yield_now();
                }
                let mut count = mutex.lock();
                condvar.notify_all();
                condvar.wait_while(&mut count, |count| *count < THREADS * sections);
            });
        }
    });
    assert_eq!([*mutex.lock(), *rwlock.read(), *other.read()], [THREADS * sections; 3]);
}

#[test]
fn the_locks_of_a_child_are_contended_while_those_of_its_parent_are() {
    alone(|| {
        let (mutex, rwlock, permits) = (Mutex::new(0), RwLock::new(0), Semaphore::new(1));
        let (all_run, stop) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
        scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    all_run.wait();
                    while !stop.load(Ordering::Relaxed) {
                        *mutex.lock() += 1;
                        *rwlock.write() += 1;
                        drop(permits.acquire());
                        *RwLock::with_policy(Policy::DEFAULT.with_priorities(), 0).write() += 1;
                    }
                });
            }
            all_run.wait();
            for _ in 0..200 {
                in_child(|| contend(2));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_lock_of_a_child_has_the_policy_that_it_was_made_with() {
    alone(|| {
        let policy = Policy::DEFAULT.with_priorities();
        let lock = RwLock::with_policy(policy, 0);
        *lock.write() += 1;
        in_child(|| {
            // SAFETY: only looked at.
            assert_eq!(unsafe { lock.raw() }.policy(), policy);
            *lock.write() += 1;
        });
    });
}

/// The child has a condition variable at which threads of its parent sleep, which are notified there, and
/// the mutex that they wait with, which is full. (They were queued at the mutex, and never came.)
#[test]
fn a_mutex_of_a_child_serves_nobody_of_its_parent() {
    alone(|| {
        let (mutex, condvar) = (&Mutex::new((0, false)), &Condvar::new());
        scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    let mut state = mutex.lock();
                    state.0 += 1;
                    condvar.wait_while(&mut state, |(_, over)| !*over);
                });
            }
            until(|| mutex.lock().0 == THREADS);
            let held = mutex.lock();
            let waiter = s.spawn(|| drop(mutex.lock()));
            // SAFETY: only looked at.
            until(|| unsafe { mutex.raw() }.is_contended());
            drop(held);
            waiter.join().unwrap();
            // They wait; now they sleep, too, most likely.
            thread::sleep(Duration::from_millis(20));
            in_child(|| {
                let over = mutex.lock();
                condvar.notify_all();
                drop(over);
                contend(50);
                let end = Instant::now() + Duration::from_millis(50);
                while Instant::now() < end {
                    let _held = mutex.lock();
                    thread::sleep(Duration::from_micros(100));
                }
            });
            mutex.lock().1 = true;
            condvar.notify_all();
        });
    });
}

/// The thread that forks holds a lock that another thread of the parent waits for: in the child nobody does.
#[test]
fn a_child_tries_locks_that_threads_of_the_parent_wait_for() {
    alone(|| {
        let (lock, mutex) = (&RwLock::new(0), &Mutex::new(0));
        let permits = &Semaphore::new(2);
        scope(|s| {
            let mut held = Some((lock.write(), mutex.lock(), permits.acquire_many(2)));
            s.spawn(|| drop(permits.acquire_many(2)));
            s.spawn(|| drop(lock.write()));
            s.spawn(|| drop(mutex.lock()));
            // SAFETY: only looked at.
            until(|| lock.has_waiters() && unsafe { mutex.raw() }.is_contended());
            until(|| permits.has_waiters());
            in_child(|| {
                let (written, locked, taken) = held.take().unwrap();
                drop((written, taken));
                assert!(permits.try_acquire_many(2).is_some() && !permits.has_waiters());
                assert_eq!(permits.acquire_many(2).count(), 2);
                fairlock::MutexGuard::unlock_fair(locked);
                assert!(lock.try_read().is_some() && lock.try_write().is_some());
                assert!(mutex.try_lock().is_some());
                // SAFETY: only looked at.
                assert!(!lock.has_waiters() && !unsafe { mutex.raw() }.is_contended());
            });
            drop(held.take());
        });
    });
}
