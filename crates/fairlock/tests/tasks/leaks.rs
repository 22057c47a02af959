//! What leaks memory on purpose: futures that are forgotten, and wakers that panic.

use std::sync::Arc;
use std::task::{Wake, Waker};

use fairlock::{Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt, RwLockExt};
use fairlock_testing::{scope, until};

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

fn is_contended_by(mutex: &Mutex<u32>, lock: &RwLock<u32>) -> bool {
    is_contended(mutex) && lock.has_waiters()
}
