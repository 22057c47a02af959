//! The mutex and its condition variable, in every
//! interleaving of two or three threads, with every value the memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`
//!
//! A lock gives its slot back here after one acquisition that found nobody. All locks of a model share
//! a pool, the condition variable's queue lock too: the second lock gets the slot that the
//! first one has left.

use loom::cell::UnsafeCell;

use super::RawMutex;
use crate::condvar::WordCondvar;
use crate::fault::Fault;
use crate::models::{self, Scene, many, models};
use crate::platform::loom::Loom;
use crate::wait::{CancelToken, Wait};

type Guarded = models::Guarded<RawMutex<Loom>>;

struct Both {
    locks: [Guarded; 2],
    /// The condition variable of the first lock, and what is waited for.
    changed: WordCondvar<Loom>,
    is_set: UnsafeCell<bool>,
    stop: CancelToken<Loom>,
}

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
    /// Knows the lock, as a thread that finds it taken does.
    Know,
    /// At the second lock.
    LockOther,
    Wait,
    WaitUntil,
    SetAndNotify,
    SetThenNotify,
    /// As a thread that knows of waiters.
    KnowSetAndNotify,
    KnowSetAndNotifyAll,
}
use Visit::*;

const DEADLINE: u64 = 100_000;

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
            Know => {
                lock.lock();
                lock.know_of_waiters();
                guarded.section(true)
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
            KnowSetAndNotify | KnowSetAndNotifyAll => {
                lock.lock();
                lock.know_of_waiters();
                self.set();
                if matches!(visit, KnowSetAndNotifyAll) {
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
            // An acquisition in which nobody waits gives the slot back.
            lock.lock();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
            assert!(!lock.has_slot());
        }
        assert_eq!(self.locks[0].seen(), changed);
    }
}

fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let guarded = || Guarded::new(RawMutex::new());
    let both = move || Both {
        locks: [guarded(), guarded()],
        changed: WordCondvar::new(),
        is_set: UnsafeCell::new(false),
        stop: CancelToken::new(),
    };
    models::check(&many(), fault, both, threads);
}

models! {
    check;
    two_threads: [&[Lock, Lock], &[Lock, Lock]];
    three_threads: [&[Lock], &[Lock], &[Lock]];
    a_holder_beside_a_known_holder: [&[Lock, Lock], &[Know, Lock]];
    known_holders_beside_each_other: [&[Know, Lock], &[Know, Lock]];
    a_known_holder_and_two_holders: [&[Know], &[Lock, Lock], &[Lock]];
    fair_releases: [&[LockFair, LockFair], &[Know, Lock]];
    a_fair_release_and_two_that_wait: [&[LockFair], &[Lock], &[Know]];
    attempts: [&[Know, Lock, TryLock], &[TryLock, TryLock, Lock]];
    attempts_beside_holders: [&[Lock, Lock], &[TryLock, TryLock], &[Know]];
    a_wait_that_times_out: [&[Lock, Lock], &[LockUntil, Lock]];
    a_wait_that_times_out_beside_another: [&[Lock], &[LockUntil], &[Lock]];
    a_wait_that_is_cancelled: [&[Lock], &[LockCancellable, Lock], &[Cancel]];
    // The slot goes from one lock to the other, and back.
    a_slot_that_changes_hands: [&[Know, Lock, LockOther], &[Lock]];
    a_slot_that_changes_hands_beside_attempts:
        [&[Know, Lock, LockOther], &[TryLock, TryLock]];
    a_slot_that_changes_hands_beside_a_wait_that_times_out:
        [&[Know, Lock, LockOther], &[LockUntil]];
    notify_under_the_mutex: [&[SetAndNotify], &[Wait]];
    notify_without_the_mutex: [&[SetThenNotify], &[Wait]];
    notify_two: [&[SetThenNotify], &[Wait], &[Wait]];
    notify_beside_a_known_holder: [&[Know, SetAndNotify], &[Wait]];
    notify_beside_another_holder: [&[SetThenNotify], &[Wait], &[Lock]];
    notify_beside_another_known_holder: [&[SetAndNotify], &[Wait], &[Know]];
    notify_beside_a_timeout: [&[SetAndNotify], &[WaitUntil, Lock]];
    // A sleeper is moved to the queue of the mutex.
    notify_under_the_known_mutex: [&[KnowSetAndNotify, Lock], &[Wait, Lock]];
    notify_under_the_known_mutex_beside_a_holder: [&[KnowSetAndNotify], &[Wait], &[Lock]];
    notify_under_the_known_mutex_beside_a_timeout: [&[KnowSetAndNotify], &[WaitUntil, Lock]];
    notify_two_under_the_known_mutex: [&[KnowSetAndNotifyAll], &[Wait], &[Wait]];
    notify_while_another_holds_the_known_mutex: [&[SetThenNotify], &[Wait], &[Know]];
    notify_while_the_slot_changes_hands:
        [&[SetThenNotify], &[Wait], &[Know, Lock, LockOther]];
    two_timed_waits_under_the_known_mutex:
        [&[KnowSetAndNotifyAll], &[WaitUntil], &[WaitUntil]];
    a_timed_wait_and_a_timed_attempt: [&[KnowSetAndNotify], &[WaitUntil], &[LockUntil]];
    a_timed_wait_while_another_holds_the_mutex: [&[SetThenNotify], &[WaitUntil], &[Know]];
    notify_under_the_known_mutex_beside_a_fair_release:
        [&[KnowSetAndNotify], &[Wait], &[LockFair]];
}

#[test]
fn freed_by_its_last_owner() {
    let known = || {
        let mutex = RawMutex::<Loom>::new();
        mutex.know_of_waiters();
        mutex
    };
    models::last_owner_drops(RawMutex::<Loom>::new, RawMutex::lock, RawMutex::unlock);
    models::last_owner_drops(known, RawMutex::lock, RawMutex::unlock);
}
