//! Wakers that do what wakers may do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use fairlock::{Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt};
use fairlock_testing::until;

use crate::executor::{Counter, poll};

#[test]
fn the_last_waker_is_the_one_that_is_called() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    let (first, second) = (Counter::new(), Counter::new());
    let mut future = Box::pin(lock.write_async());
    assert!(poll(&mut future, &first.1).is_pending());
    assert!(poll(&mut future, &second.1).is_pending());
    drop(guard);
    assert_eq!((first.0.count(), second.0.count()), (0, 1));
    assert!(poll(&mut future, &first.1).is_ready());
}

/// Takes the lock as it is called.
struct Takes {
    lock: Weak<Lock>,
    taken: AtomicUsize,
}

struct Lock {
    mutex: Mutex<()>,
    lock: RwLock<()>,
}

impl Wake for Takes {
    fn wake(self: Arc<Self>) {
        let Some(lock) = self.lock.upgrade() else { return };
        drop(lock.mutex.lock());
        drop(lock.lock.write());
        self.taken.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
#[cfg_attr(miri, ignore = "without a timer, a task may be woken as it is polled")]
fn a_waker_may_take_the_lock() {
    let lock = Arc::new(Lock { mutex: Mutex::new(()), lock: RwLock::new(()) });
    let takes = Arc::new(Takes { lock: Arc::downgrade(&lock), taken: AtomicUsize::new(0) });
    let waker = Waker::from(takes.clone());
    for _ in 0..100 {
        let before = takes.taken.load(Ordering::SeqCst);
        let guard = lock.mutex.lock();
        let mut future = Box::pin(lock.mutex.lock_async());
        assert!(poll(&mut future, Waker::noop()).is_pending());
        assert!(poll(&mut future, &waker).is_pending());
        drop(guard);
        until(|| takes.taken.load(Ordering::SeqCst) > before);
        assert!(poll(&mut future, &waker).is_ready());

        let before = takes.taken.load(Ordering::SeqCst);
        let guard = lock.lock.write();
        let mut future = Box::pin(lock.lock.read_async());
        assert!(poll(&mut future, &waker).is_pending());
        drop(guard);
        assert!(takes.taken.load(Ordering::SeqCst) > before);
        assert!(poll(&mut future, &waker).is_ready());
    }
}
