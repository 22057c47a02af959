//! Mutexes with condition variables that are written against the platform, beside a [`Stage`].

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use fairlock::condvar::WordCondvar;
use fairlock::lock::RawMutex;
use fairlock::platform::{Platform, PooledPlatform};
use fairlock::wait::Wait;

use super::condvar::{BenchCondvar, Set, Stage, Which};

/// A mutex and two condition variables, without what the mutex guards. Waits end after a timeout,
/// if there is one.
///
/// # Safety
/// One thread at a time holds the mutex.
pub unsafe trait RawMonitor: Send + Sync + 'static {
    fn new() -> Self;

    /// Takes the mutex; false if that took too long.
    fn lock_for(&self, timeout: Option<Duration>) -> bool;

    /// # Safety
    /// The caller holds the mutex.
    unsafe fn unlock(&self);

    /// Lets the mutex go, and takes it again once notified or when the time is over.
    ///
    /// # Safety
    /// The caller holds the mutex.
    unsafe fn wait_for(&self, which: Which, timeout: Option<Duration>);

    fn notify_one(&self, which: Which);
    fn notify_all(&self, which: Which);
}

/// What a mutex guards, with the mutex.
pub struct Monitor<R> {
    raw: R,
    stage: UnsafeCell<Stage>,
}

// SAFETY: the stage is touched by whoever holds the mutex, one thread at a time (`RawMonitor`).
unsafe impl<R: RawMonitor> Sync for Monitor<R> {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl<R: RawMonitor> Send for Monitor<R> {}

/// Holds the mutex.
pub struct Guard<'a, R: RawMonitor>(&'a Monitor<R>);

impl<R: RawMonitor> Deref for Guard<'_, R> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        // SAFETY: this thread holds the mutex.
        unsafe { &*self.0.stage.get() }
    }
}

impl<R: RawMonitor> DerefMut for Guard<'_, R> {
    fn deref_mut(&mut self) -> &mut Stage {
        // SAFETY: as above.
        unsafe { &mut *self.0.stage.get() }
    }
}

impl<R: RawMonitor> Drop for Guard<'_, R> {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { self.0.raw.unlock() }
    }
}

/// When the time is over, by the platform's clock.
pub(crate) fn deadline<P: Platform>(timeout: Option<Duration>) -> Option<u64> {
    timeout.map(|timeout| P::now() + timeout.as_nanos() as u64)
}

impl<R: RawMonitor> BenchCondvar for Monitor<R> {
    type Guard<'a> = Guard<'a, R>;
    const TIMED: bool = true;

    fn create() -> Self {
        Self { raw: R::new(), stage: UnsafeCell::default() }
    }

    fn lock(&self) -> Self::Guard<'_> {
        let taken = self.raw.lock_for(None);
        debug_assert!(taken, "a wait for ever has ended");
        Guard(self)
    }

    fn lock_for(&self, timeout: Duration) -> Option<Self::Guard<'_>> {
        // Not `then_some`: a guard that is made is dropped.
        self.raw.lock_for(Some(timeout)).then(|| Guard(self))
    }

    fn wait<'a>(
        &'a self,
        which: Which,
        guard: Self::Guard<'a>,
        timeout: Option<Duration>,
    ) -> Self::Guard<'a> {
        // SAFETY: the guard holds its mutex, whichever that is.
        unsafe { guard.0.raw.wait_for(which, timeout) };
        guard
    }

    fn notify_one(&self, which: Which) {
        self.raw.notify_one(which);
    }

    fn notify_all(&self, which: Which) {
        self.raw.notify_all(which);
    }
}

/// Ours: what a `Mutex` and a `Condvar` are, on any platform.
pub type OurSet<P> = Set<RawMutex<P>, WordCondvar<P>>;

// SAFETY: it is a mutex.
unsafe impl<P: PooledPlatform> RawMonitor for OurSet<P> {
    fn new() -> Self {
        let changed = WordCondvar::new;
        Self { mutex: RawMutex::new(), first: changed(), second: changed() }
    }

    fn lock_for(&self, timeout: Option<Duration>) -> bool {
        match deadline::<P>(timeout) {
            Some(deadline) => self.mutex.lock_with(Wait::until_nanos(deadline)).is_ok(),
            None => {
                self.mutex.lock();
                true
            }
        }
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.mutex.unlock() }
    }

    unsafe fn wait_for(&self, which: Which, timeout: Option<Duration>) {
        let changed = self.get(which);
        // SAFETY: the caller's promise.
        unsafe {
            match deadline::<P>(timeout) {
                // Whether the time was over does not matter: the caller looks again.
                Some(deadline) => _ = changed.wait_with(&self.mutex, Wait::until_nanos(deadline)),
                None => changed.wait(&self.mutex),
            }
        }
    }

    fn notify_one(&self, which: Which) {
        self.get(which).notify_one();
    }

    fn notify_all(&self, which: Which) {
        self.get(which).notify_all();
    }
}

#[cfg(test)]
mod tests {
    use fairlock::platform::Native;

    use super::*;
    use crate::reference::Futexes;

    /// A timed attempt that failed let the mutex go, which somebody else held.
    fn a_failed_attempt_leaves_the_mutex_held<R: RawMonitor>() {
        let monitor = Monitor::<R>::create();
        let held = monitor.lock();
        for _ in 0..2 {
            assert!(monitor.lock_for(Duration::ZERO).is_none());
        }
        drop(held);
        assert!(monitor.lock_for(Duration::ZERO).is_some());
    }

    /// The guard says which mutex is held: a wait must not let another one go, and take that.
    fn a_wait_lets_the_mutex_of_its_guard_go<R: RawMonitor>() {
        let [monitor, other] = [(); 2].map(|()| Monitor::<R>::create());
        drop(monitor.wait(Which::First, other.lock(), Some(Duration::ZERO)));
        assert!(monitor.lock_for(Duration::ZERO).is_some());
        assert!(other.lock_for(Duration::ZERO).is_some());
    }

    #[test]
    fn a_failed_attempt_leaves_every_mutex_held() {
        a_failed_attempt_leaves_the_mutex_held::<OurSet<Native>>();
        a_failed_attempt_leaves_the_mutex_held::<Futexes<Native>>();
    }

    #[test]
    fn a_wait_lets_no_mutex_go_but_that_of_its_guard() {
        a_wait_lets_the_mutex_of_its_guard_go::<OurSet<Native>>();
        a_wait_lets_the_mutex_of_its_guard_go::<Futexes<Native>>();
    }
}
