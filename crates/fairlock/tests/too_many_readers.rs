//! As many readers as can be counted, as safe code can have them: by forgetting guards.

use fairlock_testing as _; // the watchdog
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fairlock::{RwLock, RwLockExt, Wait, WaitError};

const MOST_READERS: usize = 1 << 23;

/// A lock with so many guards forgotten.
fn forgotten(guards: usize) -> RwLock<u32> {
    let lock = RwLock::new(7);
    (0..guards).for_each(|_| mem::forget(lock.read()));
    lock
}

#[test]
fn no_writer_gets_in_beside_forgotten_readers_however_many() {
    let lock = forgotten(MOST_READERS - 1);
    let last = lock.read();
    assert!(lock.try_read().is_none() && lock.try_read_recursive().is_none());
    for read in [RwLock::read, RwLock::read_recursive] {
        let read = catch_unwind(AssertUnwindSafe(|| drop(read(&lock))));
        let message = read.unwrap_err();
        let message = message.downcast::<String>().unwrap();
        assert_eq!(*message, "the lock is held by more readers than can be counted");
    }
    let error = Some(WaitError::TooManyReaders);
    assert_eq!(lock.read_for(Duration::from_secs(1_000)).err(), error);
    assert_eq!(lock.read_recursive_with(Wait::within(Duration::ZERO)).err(), error);
    assert_eq!(lock.read_interruptible().err(), error);
    assert!(lock.try_write().is_none() && *last == 7);
    assert_eq!(lock.write_for(Duration::from_millis(1)).err(), Some(WaitError::TimedOut));
    drop(last);
    assert_eq!(*lock.read(), 7);
}
