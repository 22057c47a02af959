//! The model checker. Time stands still: a wait with a deadline may end at any
//! moment, a spin bound is one look, and a sleeping thread yields to the model.

use core::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use loom::sync::{Condvar, Mutex};

use super::{Atomic, Platform, WaitOutcome, forward_atomic};
use crate::wait::Thread;

/// The platform of a model check.
#[derive(Debug, Clone, Copy)]
pub struct Loom;

forward_atomic!(AtomicUsize, usize);
forward_atomic!(AtomicU32, u32);
forward_atomic!(AtomicU64, u64);

struct Sleepers {
    lock: Mutex<()>,
    changed: Condvar,
}

loom::lazy_static! {
    static ref SLEEPERS: Sleepers = Sleepers { lock: Mutex::new(()), changed: Condvar::new() };
}

loom::thread_local! {
    // Leaked: a record outlives its thread (rules 11 and 12).
    static RECORD: &'static Thread<Loom> = Box::leak(Box::new(Thread::new()));
}

// SAFETY: one record per model thread, leaked; loom's atomics model the
// language's; the word is compared under the mutex that `wake_one` takes.
unsafe impl Platform for Loom {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;

    fn pause() {
        loom::thread::yield_now();
    }

    fn now() -> u64 {
        0
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        _interruptible: bool,
    ) -> WaitOutcome {
        if deadline.is_some() {
            // A timer that may fire at once: the other threads run, then this one.
            loom::thread::yield_now();
            return WaitOutcome::TimedOut;
        }
        let mut guard = SLEEPERS.lock.lock().unwrap();
        // No spurious wake-ups: one meant for another word would hide that
        // this thread's was lost.
        while word.load(Ordering::Acquire) == expected {
            guard = SLEEPERS.changed.wait(guard).unwrap();
        }
        WaitOutcome::Woken
    }

    fn wake_one(_word: &AtomicU32) {
        drop(SLEEPERS.lock.lock().unwrap());
        SLEEPERS.changed.notify_all();
    }

    fn thread() -> &'static Thread<Self> {
        RECORD.with(|record| *record)
    }

    fn thread_hint() -> usize {
        core::ptr::from_ref(Self::thread()) as usize
    }

    fn cpus() -> usize {
        2
    }

    fn spin_until<T, A: Atomic<T>>(word: &A, _bound_ns: u64, done: impl Fn(T) -> bool) -> bool {
        done(word.load(Ordering::Acquire))
    }
}
