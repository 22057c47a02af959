//! The standard library only: for systems without futexes, and as a second
//! opinion on those that have them.
//!
//! Sleeping is by a small table of mutexes and condition variables, found by the word's address.
//! This platform cannot tell that a signal handler ran, so interruptible waits are never
//! interrupted here; and a handler may not cancel a token.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::{pools, threads};
use crate::platform::{PooledPlatform, Thread};
use crate::system::fork::PerProcess;
use crate::system::{System, WaitOutcome};

/// The portable platform.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

threads::thread_records!(Portable, in_child);
pools!(Portable);

extern "C" fn in_child() {
    // SAFETY: the thread that forked is alone in the child, and did not fork in here.
    unsafe {
        POOL.enter_child(record_hint());
        Portable::slots().enter_child();
        TABLE.renew(NOBODY);
        if EPOCH.get().is_none() {
            EPOCH.renew(OnceLock::new());
        }
    }
}

struct Bucket {
    lock: Mutex<()>,
    changed: Condvar,
}

const BUCKETS: usize = 64;
static TABLE: PerProcess<[Bucket; BUCKETS]> = PerProcess::new(NOBODY);
#[allow(clippy::declare_interior_mutable_const)] // only what the table is made of
const NOBODY: [Bucket; BUCKETS] =
    [const { Bucket { lock: Mutex::new(()), changed: Condvar::new() } }; BUCKETS];

fn bucket(word: &AtomicU32) -> &'static Bucket {
    // Thread records are 128-byte aligned: the low bits say nothing.
    &TABLE[(core::ptr::from_ref(word) as usize >> 7) % BUCKETS]
}

static EPOCH: PerProcess<OnceLock<Instant>> = PerProcess::new(OnceLock::new());

fn epoch() -> Instant {
    *EPOCH.get_or_init(Instant::now)
}

// SAFETY: records come from `threads`; the atomics are the processor's; the
// word is compared under the mutex that `wake_one` takes after the waker's
// store, so a wake-up is never lost.
unsafe impl System for Portable {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    fn pause() {
        core::hint::spin_loop();
    }

    fn yield_now() {
        std::thread::yield_now();
    }

    fn now() -> u64 {
        epoch().elapsed().as_nanos() as u64
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        _interruptible: bool,
    ) -> WaitOutcome {
        let bucket = bucket(word);
        let guard = bucket.lock.lock().unwrap_or_else(|e| e.into_inner());
        if word.load(Ordering::Acquire) != expected {
            return WaitOutcome::Woken;
        }
        let Some(deadline) = deadline else {
            drop(bucket.changed.wait(guard));
            return WaitOutcome::Woken;
        };
        let left = Duration::from_nanos(deadline.saturating_sub(Self::now()));
        let (_guard, result) =
            bucket.changed.wait_timeout(guard, left).unwrap_or_else(|e| e.into_inner());
        if result.timed_out() { WaitOutcome::TimedOut } else { WaitOutcome::Woken }
    }

    fn wake_one(word: &AtomicU32) {
        let bucket = bucket(word);
        drop(bucket.lock.lock().unwrap_or_else(|e| e.into_inner()));
        // Several words may share the bucket: the right sleeper must be among the woken.
        bucket.changed.notify_all();
    }

    fn thread() -> &'static Thread<Self> {
        record()
    }

    fn thread_hint() -> usize {
        record_hint()
    }

    fn cpus() -> usize {
        threads::cpus()
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_child_sleeps_whoever_was_about_to_sleep_at_the_fork() {
        fairlock_testing::alone(|| {
            let word = AtomicU32::new(0);
            let [sleeps, forked] = [(); 2].map(|()| Barrier::new(2));
            Portable::thread();
            thread::scope(|s| {
                s.spawn(|| {
                    let bucket = bucket(&word).lock.lock();
                    EPOCH.get_or_init(|| {
                        sleeps.wait();
                        forked.wait();
                        Instant::now()
                    });
                    drop(bucket);
                });
                sleeps.wait();
                fairlock_testing::in_child(|| {
                    let outcome = Portable::wait(&word, 0, Some(Portable::now()), false);
                    assert_eq!(outcome, WaitOutcome::TimedOut);
                });
                forked.wait();
            });
        });
    }
}
