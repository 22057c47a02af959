//! The thin mutex beside its inflation and deflation, and its condition variable, in every
//! interleaving of two or three threads, with every value the memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`
//!
//! A lock becomes thin here after one acquisition that found nobody. All locks of a model share
//! a pool, the condition variable's queue lock too: the second lock gets the slot that the
//! first one has left.

use loom::cell::UnsafeCell;

use super::inflate::Inflates;
use super::mutex::ThinMutex;
use super::word::Place;
use crate::condvar::ThinCondvar;
use crate::fault::Fault;
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::models::{self, Scene, many, models};
use crate::platform::loom::Loom;
use crate::wait::{CancelToken, Wait};

struct Guarded {
    lock: ThinMutex<Loom>,
    value: UnsafeCell<u32>,
}

struct Both {
    locks: [Guarded; 2],
    /// The condition variable of the first lock, and what is waited for.
    changed: ThinCondvar<Loom>,
    is_set: UnsafeCell<bool>,
    stop: CancelToken<Loom>,
}

// SAFETY: `value` is touched under the lock only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}
// SAFETY: `is_set` is touched under the first lock only (loom checks that).
unsafe impl Sync for Both {}
// SAFETY: as above.
unsafe impl Send for Both {}

/// What a thread does once, at the first lock.
#[derive(Clone, Copy)]
enum Visit {
    Lock,
    LockFair,
    TryLock,
    LockUntil,
    LockCancellable,
    Cancel,
    /// Inflates the lock, as a thread that finds it taken does.
    Inflate,
    /// At the second lock.
    InflateOther,
    LockOther,
    Wait,
    WaitUntil,
    SetAndNotify,
    SetThenNotify,
    /// Under an inflated lock.
    InflateSetAndNotify,
    InflateSetAndNotifyAll,
}
use Visit::*;

const DEADLINE: u64 = 100_000;

impl Guarded {
    /// Changes the value if the lock was taken, and releases it; returns how often it did.
    fn section(&self, taken: bool) -> u32 {
        if taken {
            self.change();
            // SAFETY: just taken.
            unsafe { self.lock.unlock() };
        }
        taken.into()
    }

    fn change(&self) {
        // SAFETY: the lock is held (loom checks that).
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

impl Both {
    fn is_set(&self) -> bool {
        // SAFETY: the lock is held (loom checks that).
        self.is_set.with(|is_set| unsafe { *is_set })
    }

    fn set(&self) {
        // SAFETY: the lock is held (loom checks that).
        self.is_set.with_mut(|is_set| unsafe { *is_set = true });
    }
}

impl Scene for Both {
    type Visit = Visit;

    /// Returns how often the first value was changed.
    fn visit(&self, visit: Visit) -> u32 {
        let [guarded, other] = &self.locks;
        let lock = &guarded.lock;
        match visit {
            Lock => {
                lock.lock();
                guarded.section(true)
            }
            LockFair => {
                lock.lock();
                guarded.change();
                // SAFETY: just taken.
                unsafe { lock.unlock_fair() };
                1
            }
            TryLock => guarded.section(lock.try_lock()),
            LockUntil => guarded.section(lock.lock_with(Wait::until_nanos(DEADLINE)).is_ok()),
            LockCancellable => {
                guarded.section(lock.lock_with(Wait::FOREVER.cancellable(&self.stop)).is_ok())
            }
            Cancel => {
                self.stop.cancel();
                0
            }
            Inflate => {
                lock.lock_inflating();
                guarded.section(true)
            }
            InflateOther => {
                other.lock.lock_inflating();
                other.section(true);
                0
            }
            LockOther => {
                other.lock.lock();
                other.section(true);
                0
            }
            Wait => {
                lock.lock();
                while !self.is_set() {
                    // SAFETY: the lock is held.
                    unsafe { self.changed.wait(lock) };
                }
                guarded.section(true)
            }
            WaitUntil => {
                lock.lock();
                if !self.is_set() {
                    // SAFETY: the lock is held.
                    let _ = unsafe { self.changed.wait_with(lock, Wait::until_nanos(DEADLINE)) };
                }
                guarded.section(true)
            }
            SetAndNotify => {
                lock.lock();
                self.set();
                self.changed.notify_one();
                guarded.section(true)
            }
            InflateSetAndNotify | InflateSetAndNotifyAll => {
                lock.lock_inflating();
                self.set();
                if matches!(visit, InflateSetAndNotifyAll) {
                    self.changed.notify_all();
                } else {
                    self.changed.notify_one();
                }
                guarded.section(true)
            }
            SetThenNotify => {
                lock.lock();
                self.set();
                let changed = guarded.section(true);
                self.changed.notify_all();
                changed
            }
        }
    }

    fn check(&self, changed: u32) {
        for guarded in &self.locks {
            let lock = &guarded.lock;
            assert!(!lock.is_contended() && !lock.is_locked());
            // Two acquisitions in which nobody is in the way make the lock thin.
            for _ in 0..2 {
                lock.lock();
                // SAFETY: just taken.
                unsafe { lock.unlock() };
            }
            assert_eq!(lock.load(), Place::NONE, "it does not become thin");
        }
        // SAFETY: nobody else is here.
        self.locks[0].value.with(|value| assert_eq!(unsafe { *value }, changed));
    }
}

fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let guarded = || Guarded { lock: ThinMutex::new(), value: UnsafeCell::new(0) };
    let both = move || Both {
        locks: [guarded(), guarded()],
        changed: ThinCondvar::new(),
        is_set: UnsafeCell::new(false),
        stop: CancelToken::new(),
    };
    models::check(&many(), fault, both, threads);
}

models! {
    check;
    two_threads: [&[Lock, Lock], &[Lock, Lock]];
    three_threads: [&[Lock], &[Lock], &[Lock]];
    a_holder_beside_an_inflation: [&[Lock, Lock], &[Inflate, Lock]];
    inflations_beside_each_other: [&[Inflate, Lock], &[Inflate, Lock]];
    an_inflation_and_two_holders: [&[Inflate], &[Lock, Lock], &[Lock]];
    fair_releases: [&[LockFair, LockFair], &[Inflate, Lock]];
    a_fair_release_and_two_that_wait: [&[LockFair], &[Lock], &[Inflate]];
    attempts: [&[Inflate, Lock, TryLock], &[TryLock, TryLock, Lock]];
    attempts_beside_holders: [&[Lock, Lock], &[TryLock, TryLock], &[Inflate]];
    a_wait_that_times_out: [&[Lock, Lock], &[LockUntil, Lock]];
    a_wait_that_times_out_beside_another: [&[Lock], &[LockUntil], &[Lock]];
    a_wait_that_is_cancelled: [&[Lock], &[LockCancellable, Lock], &[Cancel]];
    // The slot goes from one lock to the other, and back.
    a_slot_that_changes_hands: [&[Inflate, Lock, InflateOther, LockOther], &[Lock]];
    a_slot_that_changes_hands_beside_attempts:
        [&[Inflate, Lock, InflateOther, LockOther], &[TryLock, TryLock]];
    a_slot_that_changes_hands_beside_a_wait_that_times_out:
        [&[Inflate, Lock, InflateOther, LockOther], &[LockUntil]];
    notify_under_the_mutex: [&[SetAndNotify], &[Wait]];
    notify_without_the_mutex: [&[SetThenNotify], &[Wait]];
    notify_two: [&[SetThenNotify], &[Wait], &[Wait]];
    notify_beside_an_inflation: [&[Inflate, SetAndNotify], &[Wait]];
    notify_beside_another_holder: [&[SetThenNotify], &[Wait], &[Lock]];
    notify_beside_another_inflation: [&[SetAndNotify], &[Wait], &[Inflate]];
    notify_beside_a_timeout: [&[SetAndNotify], &[WaitUntil, Lock]];
    // A sleeper is moved to the queue of the mutex.
    notify_under_the_inflated_mutex: [&[InflateSetAndNotify, Lock], &[Wait, Lock]];
    notify_under_the_inflated_mutex_beside_a_holder: [&[InflateSetAndNotify], &[Wait], &[Lock]];
    notify_under_the_inflated_mutex_beside_a_timeout: [&[InflateSetAndNotify], &[WaitUntil, Lock]];
    notify_two_under_the_inflated_mutex: [&[InflateSetAndNotifyAll], &[Wait], &[Wait]];
    notify_while_another_holds_the_inflated_mutex: [&[SetThenNotify], &[Wait], &[Inflate]];
    notify_while_the_slot_changes_hands:
        [&[SetThenNotify], &[Wait], &[Inflate, Lock, InflateOther, LockOther]];
    two_timed_waits_under_the_inflated_mutex:
        [&[InflateSetAndNotifyAll], &[WaitUntil], &[WaitUntil]];
    a_timed_wait_and_a_timed_attempt: [&[InflateSetAndNotify], &[WaitUntil], &[LockUntil]];
    a_timed_wait_while_another_holds_the_mutex: [&[SetThenNotify], &[WaitUntil], &[Inflate]];
    notify_under_the_inflated_mutex_beside_a_fair_release:
        [&[InflateSetAndNotify], &[Wait], &[LockFair]];
}

/// Both thin and inflated.
#[test]
fn freed_by_its_last_owner() {
    let inflated = || {
        let mutex = ThinMutex::<Loom>::new();
        mutex.lock_inflating();
        // SAFETY: just taken.
        unsafe { mutex.unlock() };
        mutex
    };
    models::last_owner_drops(ThinMutex::<Loom>::new, ThinMutex::lock, ThinMutex::unlock);
    models::last_owner_drops(inflated, ThinMutex::lock, ThinMutex::unlock);
}

#[cfg(fairlock_faults)]
controls! {
    pins_any_slot: "deadlock";
    broken_deflates_pinned: "deadlock";
    takes_any_slot: "deadlock";
    enters_blindly: "Causality violation";
    overtakes_thin: "Causality violation";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;

    #[test]
    #[ignore = "fails: a negative control"]
    fn pins_any_slot() {
        check(Some(Fault::PinsAnySlot), &[&[Inflate, Lock], &[Lock]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_deflates_pinned() {
        check(Some(Fault::DeflatesPinned), &[&[Inflate, Lock, Lock], &[Lock, Lock]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn takes_any_slot() {
        check(Some(Fault::TakesAnySlot), &[&[Inflate, Lock, InflateOther, LockOther], &[TryLock]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn enters_blindly() {
        check(Some(Fault::EntersBlindly), &[&[Lock], &[Inflate]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn overtakes_thin() {
        check(Some(Fault::OvertakesSolo), &[&[Lock], &[Inflate]]);
    }
}
