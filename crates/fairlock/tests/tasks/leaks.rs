//! What leaks memory on purpose: futures that are forgotten, and wakers that panic.

use std::sync::Arc;
use std::task::{Wake, Waker};

use fairlock::{Condvar, Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt, RwLockExt, Semaphore};
use fairlock_testing::{scope, until};

use crate::condvar::waiting;
use crate::executor::{Counter, block_on, poll};
use crate::futures::is_contended;

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics, as the test wants");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a waker panics as it is dropped, as the test wants");
        }
    }
}

#[test]
fn a_waker_that_panics_is_survived() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    let waker = Waker::from(Arc::new(Panics));
    let mut futures: Vec<_> = (0..3).map(|_| Box::pin(lock.read_async())).collect();
    for future in &mut futures {
        assert!(poll(future, &waker).is_pending());
    }
    std::mem::forget(waker);
    drop(guard);
    // The reports of the panics take so long that the first one may be late.
    until(|| {
        futures.retain_mut(|future| poll(future, Waker::noop()).is_pending());
        futures.is_empty()
    });
    assert_eq!(*lock.read(), 0);
    assert!(lock.try_write().is_some());
}

/// A future that is leaked no longer borrows the lock, which may be moved and dropped then.
#[test]
fn a_lock_is_moved_and_dropped_whose_futures_were_leaked() {
    for is_moved in [false, true] {
        let (_, waker) = Counter::new();
        let mutex = Box::new(Mutex::new(0));
        let lock = Box::new(RwLock::new(0));
        let guards = (mutex.lock(), lock.write());
        let (mut one, mut two) = (Box::pin(mutex.lock_async()), Box::pin(lock.read_async()));
        assert!(poll(&mut one, &waker).is_pending() && poll(&mut two, &waker).is_pending());
        std::mem::forget((one, two));
        drop(guards);
        if !is_moved {
            continue;
        }
        let (mutex, lock) = (*mutex, *lock);
        for _ in 0..3 {
            *mutex.lock() += 1;
            *lock.write() += 1;
            assert!(block_on(async { *lock.read_async().await }) > 0);
            block_on(async { *mutex.lock_async().await += 1 });
        }
        scope(|s| {
            let guards = (mutex.lock(), lock.write());
            s.spawn(|| *mutex.lock() += 1);
            s.spawn(|| *lock.write() += 1);
            until(|| is_contended_by(&mutex, &lock));
            drop(guards);
        });
        assert_eq!((*mutex.lock(), *lock.read()), (7, 4));
    }
}

#[test]
fn a_semaphore_is_moved_and_dropped_whose_futures_were_leaked() {
    for is_moved in [false, true] {
        let (_, waker) = Counter::new();
        let semaphore = Box::new(Semaphore::new(1));
        let held = semaphore.acquire();
        let mut future = Box::pin(semaphore.acquire_async());
        assert!(poll(&mut future, &waker).is_pending());
        std::mem::forget(future);
        drop(held);
        if !is_moved {
            continue;
        }
        let semaphore = *semaphore;
        for _ in 0..3 {
            drop(semaphore.acquire());
            drop(block_on(semaphore.acquire_async()));
        }
        assert!(semaphore.try_acquire().is_some());
        scope(|s| {
            let held = semaphore.acquire();
            s.spawn(|| drop(semaphore.acquire()));
            until(|| semaphore.has_waiters());
            drop(held);
        });
        assert!(!semaphore.has_waiters());
    }
}

fn is_contended_by(mutex: &Mutex<u32>, lock: &RwLock<u32>) -> bool {
    is_contended(mutex) && lock.has_waiters()
}

/// Notifies and takes the mutex, as it is called; and panics.
struct Uses(Arc<(Mutex<u32>, Condvar)>);

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        *self.0.0.lock() += 1;
        self.0.1.notify_all();
        panic!("a waker's");
    }
}

#[test]
fn a_waker_may_use_the_condition_variable_and_panic() {
    let both = Arc::new((Mutex::new(0), Condvar::new()));
    let waker = Waker::from(Arc::new(Uses(both.clone())));
    let mut tasks: Vec<_> = (0..20).map(|_| waiting(&both.1, &both.0, &waker)).collect();
    assert_eq!(both.1.notify_all(), 20);
    assert_eq!(*both.0.lock(), 20);
    for task in &mut tasks {
        assert!(poll(task, &waker).is_ready());
    }
}
