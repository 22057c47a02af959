//! The condition variable in every interleaving: notifications against waits that come,
//! time out and are cancelled, while the mutex is free, held and contended:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib condvar_loom`

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::WordCondvar;
use super::notified::{Notice, Notified, WOKEN};
#[cfg(fairlock_faults)]
use crate::fault::{Fault, with_fault};
use crate::lock::RawMutex;
use crate::platform::System;
use crate::platform::loom::Loom;
#[cfg(fairlock_faults)]
use crate::platform::loom::assert_fails;
use crate::wait::{CancelToken, Wait};

/// Long enough to park.
const TIMEOUT_NS: u64 = 10_000_000;

/// A number that threads wait for.
struct Stage {
    mutex: RawMutex<Loom>,
    changed: WordCondvar<Loom>,
    token: CancelToken<Loom>,
    stage: UnsafeCell<u32>,
}

// SAFETY: `stage` is touched under `mutex` only (loom checks that).
unsafe impl Sync for Stage {}
// SAFETY: as above.
unsafe impl Send for Stage {}

impl Stage {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            mutex: RawMutex::new(),
            changed: WordCondvar::new(),
            token: CancelToken::new(),
            stage: UnsafeCell::new(0),
        })
    }

    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.mutex.lock();
        let result = f();
        // SAFETY: taken above.
        unsafe { self.mutex.unlock() };
        result
    }

    fn is_set(&self) -> bool {
        // SAFETY: the mutex is held.
        self.stage.with(|stage| unsafe { *stage > 0 })
    }

    fn set(&self) {
        // SAFETY: the mutex is held.
        self.stage.with_mut(|stage| unsafe { *stage += 1 });
    }

    fn wait(&self) -> usize {
        let mut came = 0;
        self.locked(|| {
            while !self.is_set() {
                // SAFETY: the mutex is held.
                unsafe { self.changed.wait(&self.mutex) };
                came += 1;
            }
        });
        came
    }

    /// Waits once; returns how many notifications came, none or one.
    fn wait_timed(&self) -> usize {
        self.locked(|| {
            let deadline = Loom::now() + TIMEOUT_NS;
            // SAFETY: the mutex is held.
            !self.is_set()
                && unsafe { self.changed.wait_with(&self.mutex, Wait::until_nanos(deadline)) }
                    .is_ok()
        })
        .into()
    }

    fn wait_cancellable(&self) -> usize {
        self.locked(|| {
            // SAFETY: the mutex is held.
            let wait = || unsafe {
                self.changed.wait_with(&self.mutex, Wait::FOREVER.cancellable(&self.token))
            };
            !self.is_set() && wait().is_ok()
        })
        .into()
    }
}

/// Runs each in a thread of its own, `notify` in the model's. A waiter returns how many of its
/// waits were notified, `notify` how many waits it notified.
fn check<const N: usize>(waiters: [fn(&Stage) -> usize; N], notify: fn(&Stage) -> usize) {
    loom::model(move || {
        let stage = Stage::new();
        let waiters: Vec<_> = waiters
            .iter()
            .map(|&waiter| {
                let stage = stage.clone();
                loom::thread::spawn(move || waiter(&stage))
            })
            .collect();
        let notified = notify(&stage);
        let came: usize = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
        assert_eq!(notified, came);
        assert!(!stage.mutex.is_locked() && !stage.changed.has_waiters());
    });
}

fn set_and_notify_one(stage: &Stage) -> usize {
    stage.locked(|| {
        stage.set();
        stage.changed.notify_one().into()
    })
}

fn set_then_notify_all(stage: &Stage) -> usize {
    stage.locked(|| stage.set());
    stage.changed.notify_all()
}

fn set_and_notify_all(stage: &Stage) -> usize {
    stage.locked(|| {
        stage.set();
        stage.changed.notify_all()
    })
}

#[test]
fn notify_under_the_mutex() {
    check([Stage::wait], set_and_notify_one);
}

#[test]
fn notify_without_the_mutex() {
    check([Stage::wait], set_then_notify_all);
}

#[test]
fn two_that_wait() {
    check([Stage::wait, Stage::wait], set_and_notify_all);
    check([Stage::wait, Stage::wait], set_then_notify_all);
}

#[test]
fn a_notification_against_a_timeout() {
    check([Stage::wait_timed], set_and_notify_one);
    check([Stage::wait_timed], set_then_notify_all);
}

/// The waiter that times out leaves the notification to the other.
#[test]
fn a_notification_against_a_timeout_beside_another_wait() {
    check([Stage::wait_timed, Stage::wait], |stage| {
        stage.locked(|| stage.set());
        usize::from(stage.changed.notify_one()) + usize::from(stage.changed.notify_one())
    });
}

#[test]
fn a_notification_against_a_cancel() {
    check([Stage::wait_cancellable], |stage| {
        let notified = set_and_notify_one(stage);
        stage.token.cancel();
        notified
    });
    check([Stage::wait_cancellable], |stage| {
        stage.token.cancel();
        set_then_notify_all(stage)
    });
}

/// A notice, and the list that it is put on. Cells of it are touched by one thread at a time (loom checks that).
struct Shared(Notified<Loom>, [Notice<Loom>; 2]);

// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The one that notifies puts two on its list, while another takes off what it finds.
#[test]
fn whoever_takes_one_off_the_list_finds_the_next() {
    loom::model(|| {
        let me = Loom::thread();
        let shared: &Shared =
            Box::leak(Box::new(Shared(Notified::new(), [Notice::new(me), Notice::new(me)])));
        let Shared(list, [first, second]) = shared;
        let other = loom::thread::spawn(move || _ = shared.0.wake_first());
        first.next.set(second);
        list.change(|_| first);
        while list.wake_first() {}
        other.join().unwrap();
        assert!([first, second].iter().all(|notice| notice.state() == WOKEN));
    });
}

/// A test for each mistake: it is found.
#[cfg(fairlock_faults)]
macro_rules! controls {
    ($($name:ident: $complaint:literal, $fault:ident, $waiters:expr, $notify:expr;)+) => {
        $(#[test]
        fn $name() {
            assert_fails(concat!(module_path!(), "::broken::", stringify!($name)), $complaint);
        })+

        mod broken {
            use super::*;

            $(#[test]
            #[ignore = "fails: a negative control"]
            fn $name() {
                with_fault(Some(Fault::$fault), || check($waiters, $notify));
            })+
        }
    };
}

#[cfg(fairlock_faults)]
controls! {
    queues_too_late: "deadlock", QueuesTooLate, [Stage::wait], set_and_notify_one;
    broken_forgets_followers: "deadlock", ForgetsFollowers, [Stage::wait, Stage::wait], set_and_notify_all;
    broken_takes_notification: "left == right", TakesNotification, [Stage::wait_timed], set_and_notify_one;
}
