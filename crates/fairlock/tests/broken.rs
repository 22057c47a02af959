//! Negative controls: locks with one mistake each. The checks that ours pass
//! must complain about them.

#![cfg(not(fairlock_loom))]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use common::{Complaint, excludes_and_wakes, patience, serves_everybody};
use fairlock::lock_api::{GuardSend, RawRwLock};
use fairlock_testing::within;

// What is wrong with [`Broken`].
const ADMITS_WRITERS: u32 = 1;
const FORGETS_TO_WAKE: u32 = 2;
const SERVES_READERS_ONLY: u32 = 3;
const KEEPS_A_READER: u32 = 4;
const NOTHING: u32 = 0;

/// A plain lock under a mutex, with the mistake number `FAULT`.
struct Broken<const FAULT: u32> {
    /// Readers inside, or `WRITER`.
    inside: Mutex<usize>,
    changed: Condvar,
    releases: AtomicUsize,
}

const WRITER: usize = usize::MAX;

impl<const FAULT: u32> Broken<FAULT> {
    fn take(&self, wait: bool, may: impl Fn(usize) -> bool, then: impl Fn(usize) -> usize) -> bool {
        let mut inside = self.inside.lock().unwrap();
        while !may(*inside) {
            if !wait {
                return false;
            }
            inside = self.changed.wait(inside).unwrap();
        }
        *inside = then(*inside);
        true
    }

    fn release(&self, left: impl Fn(usize) -> usize) {
        let mut inside = self.inside.lock().unwrap();
        *inside = left(*inside);
        // Forgets after a while, so that there is somebody to forget.
        let release = self.releases.fetch_add(1, Ordering::Relaxed);
        if FAULT != FORGETS_TO_WAKE || release < 50 {
            self.changed.notify_all();
        }
    }
}

// SAFETY: none: it is broken. Nothing but the checks' atomics is guarded by it.
unsafe impl<const FAULT: u32> RawRwLock for Broken<FAULT> {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api's way to initialise")]
    const INIT: Self =
        Self { inside: Mutex::new(0), changed: Condvar::new(), releases: AtomicUsize::new(0) };
    type GuardMarker = GuardSend;

    fn lock_shared(&self) {
        self.take(true, |inside| inside != WRITER, |readers| readers + 1);
    }

    fn try_lock_shared(&self) -> bool {
        self.take(false, |inside| inside != WRITER, |readers| readers + 1)
    }

    unsafe fn unlock_shared(&self) {
        self.release(|readers| {
            // Under the mutex, as the count is changed there: exactly one release sees it so.
            let keeps = FAULT == KEEPS_A_READER && self.releases.load(Ordering::Relaxed) == 7;
            readers - usize::from(!keeps)
        });
    }

    fn lock_exclusive(&self) {
        if FAULT == SERVES_READERS_ONLY {
            // Looks now and then: it has no place in a queue. As the check counts time, too, of which the checking
            // thread may have less.
            let pause = || within(Duration::from_millis(400), || false);
            while !self.take(false, |inside| inside == 0, |_| WRITER) {
                pause();
            }
            // And then as often as a patient check allows: not 20 times.
            pause();
        } else {
            let admits = |inside| inside == 0 || (FAULT == ADMITS_WRITERS && inside == WRITER);
            self.take(true, admits, |_| WRITER);
        }
    }

    fn try_lock_exclusive(&self) -> bool {
        self.take(false, |inside| inside == 0, |_| WRITER)
    }

    unsafe fn unlock_exclusive(&self) {
        self.release(|_| 0);
    }

    fn is_locked(&self) -> bool {
        *self.inside.lock().unwrap() != 0
    }

    fn is_locked_exclusive(&self) -> bool {
        *self.inside.lock().unwrap() == WRITER
    }
}

/// What never ends, or never happens, is believed after this long; the control takes as
/// long.
const SHORTLY: Duration = Duration::from_millis(1_500);

#[test]
fn checks_pass_a_plain_lock() {
    let lock = Broken::<NOTHING>::INIT;
    assert_eq!(excludes_and_wakes(lock, 2, 2, 500, patience()), Ok(()));
}

#[test]
fn lock_without_exclusion_is_caught() {
    let lock = Broken::<ADMITS_WRITERS>::INIT;
    assert_eq!(excludes_and_wakes(lock, 0, 4, 20_000, patience()), Err(Complaint::Excludes));
}

#[test]
fn lost_wake_up_is_caught() {
    let lock = Broken::<FORGETS_TO_WAKE>::INIT;
    assert_eq!(excludes_and_wakes(lock, 0, 4, 20_000, SHORTLY), Err(Complaint::LosesWakeUps));
}

#[test]
fn unfair_lock_is_caught() {
    let lock = Broken::<SERVES_READERS_ONLY>::INIT;
    assert_eq!(serves_everybody(lock, 2, 1, 20, SHORTLY), Err(Complaint::Starves));
}

#[test]
fn reader_that_is_never_counted_out_is_caught() {
    let lock = Broken::<KEEPS_A_READER>::INIT;
    assert_eq!(excludes_and_wakes(lock, 3, 0, 100, patience()), Err(Complaint::Remains));
}
