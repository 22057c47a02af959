//! A mutex and condition variables as most systems' libraries have them: a word of three states,
//! and a counter of notifications, on which threads sleep. No order at all.

use core::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::platform::{Atomic, Platform, WaitOutcome};

use super::word;
use crate::locks::condvar::{Set, Which};
use crate::locks::monitor::{RawMonitor, deadline};
use crate::locks::{BenchLock, RwBench};

/// How often a thread looks at a mutex that is held before it sleeps, as in Rust's library; glibc's
/// does not look.
pub const LOOKS: u32 = 100;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep.
const AWAITED: u32 = 2;

/// `LOOKS`: how often a thread looks before it sleeps.
pub struct FutexMutex<P: Platform, const LOOKS: u32> {
    state: &'static P::AtomicU32,
}

impl<P: Platform, const LOOKS: u32> FutexMutex<P, LOOKS> {
    fn acquire(&self, deadline: Option<u64>) -> bool {
        if self.take() {
            return true;
        }
        let mut state = self.look();
        if state == FREE && self.take() {
            return true;
        }
        loop {
            // Acquire: what was done under the mutex before.
            if state != AWAITED && self.state.swap(AWAITED, Ordering::Acquire) == FREE {
                return true;
            }
            if P::wait(self.state, AWAITED, deadline, false) == WaitOutcome::TimedOut {
                return false;
            }
            state = self.look();
        }
    }

    /// Takes the mutex if it is free. Acquire: as above.
    pub(super) fn take(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Looks for a while whether the mutex is free; returns what was seen last.
    fn look(&self) -> u32 {
        let mut state = HELD;
        for _ in 0..LOOKS {
            state = self.state.load(Ordering::Relaxed);
            // If others sleep already, this thread had better do so, too.
            if state != HELD {
                break;
            }
            P::pause();
        }
        state
    }

    fn release(&self) {
        // Release: what was done under the mutex is seen by whoever takes it.
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            P::wake_one(self.state);
        }
    }
}

impl<P: Platform, const LOOKS: u32> RwBench for FutexMutex<P, LOOKS> {
    fn new() -> Self {
        Self { state: word::<P>() }
    }

    #[inline(always)]
    fn write_lock(&self) {
        self.acquire(None);
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        self.release();
    }
}

/// A condition variable. Relaxed throughout: the mutex orders what notifications are about.
pub struct Changed<P: Platform> {
    /// Grows with each notification.
    count: &'static P::AtomicU32,
    /// How many may sleep. Changed under the mutex.
    waiting: P::AtomicU32,
}

impl<P: Platform> Changed<P> {
    fn new() -> Self {
        Self { count: word::<P>(), waiting: P::AtomicU32::new(0) }
    }

    fn notify(&self, most: u32) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let waiting = self.waiting.load(Ordering::Relaxed);
        (0..waiting.min(most)).for_each(|_| P::wake_one(self.count));
    }
}

/// The mutex with two condition variables.
pub type Futexes<P> = Set<FutexMutex<P, LOOKS>, Changed<P>>;

// SAFETY: it is a mutex.
unsafe impl<P: Platform> RawMonitor for Futexes<P> {
    fn new() -> Self {
        Self { mutex: FutexMutex::create(), first: Changed::new(), second: Changed::new() }
    }

    fn lock_for(&self, timeout: Option<Duration>) -> bool {
        self.mutex.acquire(deadline::<P>(timeout))
    }

    unsafe fn unlock(&self) {
        self.mutex.release();
    }

    unsafe fn wait_for(&self, which: Which, timeout: Option<Duration>) {
        let deadline = deadline::<P>(timeout);
        let Changed { count, waiting } = self.get(which);
        let before = count.load(Ordering::Relaxed);
        waiting.fetch_add(1, Ordering::Relaxed);
        self.mutex.release();
        P::wait(count, before, deadline, false);
        self.mutex.acquire(None);
        waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn notify_one(&self, which: Which) {
        self.get(which).notify(1);
    }

    fn notify_all(&self, which: Which) {
        self.get(which).notify(u32::MAX);
    }
}
