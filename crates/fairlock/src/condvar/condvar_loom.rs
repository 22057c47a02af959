//! The condition variable in every interleaving: notifications against waits that come,
//! time out and are cancelled, of threads and tasks, while the mutex is free, held and contended (two that wait, of which one or
//! both are tasks: in a part of them, but for the deep check):
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib condvar_loom`

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;

use super::notified::{Notice, Notified, WOKEN};
use super::{RawWaitFuture, WordCondvar};
#[cfg(fairlock_faults)]
use crate::fault::{Fault, with_fault};
use crate::lock::RawMutex;
use crate::models::of_millions;
use crate::models::tasks::Task;
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

/// What tasks do. Each is polled by a thread of its own.
impl Stage {
    fn wait_task(&self) -> usize {
        self.wait_polled(|wait| Task::new().block_on(wait))
    }

    /// The task is polled by another waker first.
    fn wait_moved(&self) -> usize {
        self.wait_polled(|wait| {
            let mut wait = pin!(wait);
            match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => unreachable!("it was not queued"),
                Poll::Pending => Task::new().block_on(wait),
            }
        })
    }

    /// `poll` polls each wait until it is ready.
    fn wait_polled(&self, poll: impl Fn(RawWaitFuture<'_, Loom>)) -> usize {
        let mut came = 0;
        self.mutex.lock();
        while !self.is_set() {
            // SAFETY: just taken.
            poll(unsafe { self.changed.wait_async(&self.mutex) });
            came += 1;
        }
        // SAFETY: as above.
        unsafe { self.mutex.unlock() };
        came
    }

    /// Waits once, and gives up when it was queued.
    fn drop_queued(&self) -> usize {
        self.poll_and_drop(1)
    }

    /// Waits once, and gives up when it was woken, or queued for the mutex.
    fn drop_woken(&self) -> usize {
        self.poll_and_drop(2)
    }

    fn poll_and_drop(&self, polls: u32) -> usize {
        self.mutex.lock();
        let is_set = self.is_set();
        // SAFETY: just taken.
        let wait = unsafe { self.changed.wait_async(&self.mutex) };
        // A future that was not polled has the mutex, and releases it.
        let came = Task::new().poll_and_drop(wait, if is_set { 0 } else { polls });
        if came {
            // SAFETY: it was ready.
            unsafe { self.mutex.unlock() };
        }
        came.into()
    }
}

/// Runs each in a thread of its own, `notify` in the model's. A waiter returns how many of its
/// waits were notified, `notify` how many waits it notified.
fn check<const N: usize>(waiters: [fn(&Stage) -> usize; N], notify: fn(&Stage) -> usize) {
    run(&[Builder::new()], waiters, notify, |notified, came| assert_eq!(notified, came));
}

/// The same of what has too many interleavings, and is alike enough to one that is checked whole.
fn check_like<const N: usize>(waiters: [fn(&Stage) -> usize; N], notify: fn(&Stage) -> usize) {
    run(&of_millions(), waiters, notify, |notified, came| assert_eq!(notified, came));
}

/// Some give up: a notification may find nobody else.
fn check_dropped<const N: usize>(waiters: [fn(&Stage) -> usize; N], notify: fn(&Stage) -> usize) {
    run(&[Builder::new()], waiters, notify, |notified, came| assert!(came <= notified));
}

/// As `check_like`.
fn check_dropped_like<const N: usize>(
    waiters: [fn(&Stage) -> usize; N],
    notify: fn(&Stage) -> usize,
) {
    run(&of_millions(), waiters, notify, |notified, came| assert!(came <= notified));
}

fn run<const N: usize>(
    builders: &[Builder],
    waiters: [fn(&Stage) -> usize; N],
    notify: fn(&Stage) -> usize,
    counts: fn(usize, usize),
) {
    let model = move || {
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
        counts(notified, came);
        assert!(!stage.mutex.is_locked() && !stage.changed.has_waiters());
    };
    builders.iter().for_each(|builder| builder.check(model));
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
    check_like([Stage::wait, Stage::wait], set_then_notify_all);
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

#[test]
fn a_task_that_waits() {
    check([Stage::wait_task], set_and_notify_one);
    check([Stage::wait_task], set_then_notify_all);
}

#[test]
fn a_task_that_is_polled_by_another_waker() {
    check([Stage::wait_moved], set_and_notify_one);
    check([Stage::wait_moved], set_then_notify_all);
}

#[test]
fn a_task_beside_a_thread() {
    check_like([Stage::wait_task, Stage::wait], set_and_notify_all);
    check_like([Stage::wait_task, Stage::wait], set_then_notify_all);
}

#[test]
fn two_tasks() {
    check_like([Stage::wait_task, Stage::wait_task], set_then_notify_all);
}

#[test]
fn a_task_that_gives_up_beside_a_thread() {
    check_dropped([Stage::drop_queued, Stage::wait], set_and_notify_one);
}

#[test]
fn a_task_that_gives_up_beside_a_task() {
    check_dropped_like([Stage::drop_queued, Stage::wait_task], set_and_notify_one);
    check_dropped_like([Stage::drop_woken, Stage::wait_task], set_and_notify_all);
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
    ($($name:ident: $complaint:literal, $fault:ident, $check:ident, $waiters:expr, $notify:expr;)+) => {
        $(#[test]
        fn $name() {
            assert_fails(concat!(module_path!(), "::broken::", stringify!($name)), $complaint);
        })+

        mod broken {
            use super::*;

            $(#[test]
            #[ignore = "fails: a negative control"]
            fn $name() {
                with_fault(Some(Fault::$fault), || $check($waiters, $notify));
            })+
        }
    };
}

#[cfg(fairlock_faults)]
controls! {
    queues_too_late: "deadlock", QueuesTooLate, check, [Stage::wait], set_and_notify_one;
    broken_forgets_followers: "deadlock", ForgetsFollowers, check, [Stage::wait, Stage::wait], set_and_notify_all;
    task_queues_too_late: "deadlock", QueuesTooLate, check, [Stage::wait_task], set_and_notify_one;
    keeps_waker: "deadlock", KeepsWaker, check, [Stage::wait_moved], set_and_notify_one;
    keeps_notification: "deadlock", KeepsNotification, check_dropped, [Stage::drop_queued, Stage::wait], set_and_notify_one;
    broken_takes_notification: "left == right", TakesNotification, check, [Stage::wait_timed], set_and_notify_one;
}
