//! Data behind a test-and-set lock: a queue of sleepers, as sleeping locks have it.

use core::cell::UnsafeCell;

use fairlock::platform::Platform;

use super::tas::TestAndSet;
use crate::locks::RwBench;

pub struct Guarded<P: Platform, T> {
    lock: TestAndSet<P>,
    /// Reached only by the holder of `lock`.
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time (`with`).
unsafe impl<P: Platform, T: Send> Sync for Guarded<P, T> {}

impl<P: Platform, T> Guarded<P, T> {
    pub fn new(value: T) -> Self {
        Self { lock: TestAndSet::new(), value: UnsafeCell::new(value) }
    }

    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.lock.write_lock();
        // SAFETY: the lock is held, so this is the only reference to the value.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: taken above. If `f` panics, the lock stays held.
        unsafe { self.lock.write_unlock() };
        result
    }
}
