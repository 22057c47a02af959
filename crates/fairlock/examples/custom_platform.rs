//! A lock on a platform of your own: what a kernel, a hypervisor or a runtime
//! with its own threads has to supply.
//!
//! This one is the smallest that works. Its waits spin, its clock counts
//! looks, and its thread records come from a fixed table that a thread enters
//! with a number of its own. It uses nothing of fairlock's `std` feature:
//!
//! ```sh
//! cargo run -p fairlock --no-default-features --example custom_platform
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::lock::RawRwLock;
use fairlock::platform::{Heap, PooledPlatform, Slots, System, WaitOutcome};
use fairlock::wait::{CancelToken, Thread};
use fairlock::{RwLockExt, WaitError, lock_api};

/// The platform: a name for a set of functions.
struct Spinning;

/// At most this many threads use the locks.
const THREADS: usize = 8;

/// One record per thread, never freed.
static RECORDS: [OnceLock<Thread<Spinning>>; THREADS] = [const { OnceLock::new() }; THREADS];

std::thread_local! {
    /// Which record is this thread's. A kernel has its own notion of "current".
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

// SAFETY: `NUMBER` is unique, so no two threads share a record, and `RECORDS`
// is static. The atomics are the processor's. Wake-ups cannot be lost: nobody
// sleeps, a wait looks at the word until it changes.
unsafe impl System for Spinning {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    fn pause() {
        std::hint::spin_loop();
    }

    /// Whatever lets another thread run here.
    fn yield_now() {
        std::thread::yield_now();
    }

    /// Nanoseconds, more or less: each look at the clock moves it on.
    fn now() -> u64 {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        LOOKS.fetch_add(100, Ordering::Relaxed)
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        _interruptible: bool,
    ) -> WaitOutcome {
        while word.load(Ordering::Acquire) == expected {
            if deadline.is_some_and(|deadline| Self::now() >= deadline) {
                return WaitOutcome::TimedOut;
            }
            Self::yield_now();
        }
        WaitOutcome::Woken
    }

    /// The store that precedes this call is all a spinning waiter needs.
    fn wake_one(_word: &AtomicU32) {}

    fn thread() -> &'static Thread<Self> {
        RECORDS[NUMBER.with(|number| *number)].get_or_init(Thread::new)
    }

    fn thread_hint() -> usize {
        std::ptr::from_ref(Self::thread()) as usize
    }

    fn cpus() -> usize {
        2
    }
}

// SAFETY: the hint is the address of the thread's record; there is one pool.
unsafe impl PooledPlatform for Spinning {
    type Memory = Heap;

    /// What locks have while threads wait for them.
    fn slots() -> &'static Slots<Self> {
        static SLOTS: Slots<Spinning> = Slots::new_const();
        &SLOTS
    }
}

/// The typed lock on it. With atomics that can be constants it can be a static.
type RwLock<T> = lock_api::RwLock<RawRwLock<Spinning>, T>;

/// Two numbers that are equal whenever nobody writes.
static ACCOUNT: RwLock<[u64; 2]> = RwLock::new([0; 2]);

fn main() {
    const DEPOSITS: u64 = 2_000;
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..DEPOSITS {
                    ACCOUNT.write().iter_mut().for_each(|number| *number += 1);
                }
            });
            s.spawn(|| {
                for _ in 0..DEPOSITS {
                    let [a, b] = *ACCOUNT.read();
                    assert_eq!(a, b, "a reader saw half a deposit");
                }
            });
        }
    });
    assert_eq!(*ACCOUNT.read(), [3 * DEPOSITS; 2]);

    // Deadlines and tokens work on any platform.
    let token = CancelToken::new();
    token.cancel();
    let held = ACCOUNT.write();
    assert_eq!(ACCOUNT.read_for(Duration::from_micros(1)).err(), Some(WaitError::TimedOut));
    assert_eq!(ACCOUNT.write_cancellable(&token).err(), Some(WaitError::Cancelled));
    drop(held);
    assert!(!ACCOUNT.is_locked() && !ACCOUNT.has_waiters());

    println!("6 threads, {} deposits, no half seen: {:?}", 3 * DEPOSITS, *ACCOUNT.read());
}

#[cfg(test)]
use fairlock_testing as _; // the watchdog

#[test]
fn a_lock_runs_on_a_platform_of_the_users() {
    main();
}
