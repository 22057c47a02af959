//! Waits and notifications in every interleaving of two or three threads, with every value the
//! memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --test preload loom`

use fairlock::platform::loom::Loom;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;

struct Shared {
    queue: Mutex<Queue<Loom>>,
    /// The program's mutex, and what it guards: how many waiters may go on.
    mutex: Mutex<u32>,
    /// Written before a notification, without the mutex, and read after it.
    told: UnsafeCell<u32>,
    cancelled: AtomicBool,
}

// SAFETY: the model checks that `told` is not touched by two threads at once.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(Queue::new()),
            mutex: Mutex::new(0),
            told: UnsafeCell::new(0),
            cancelled: AtomicBool::new(false),
        })
    }

    /// Waits until it may go on; false if it gave up first.
    fn wait(&self, gives_up: impl Fn() -> bool) -> bool {
        loop {
            let mut left = self.mutex.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                return true;
            }
            let waiter = Waiter::new(0);
            // SAFETY: the waiter stays here until it was woken or has given up.
            unsafe { self.queue.lock().unwrap().push(&waiter) };
            drop(left);
            let mut ended = waiter.sleep(None, &gives_up).is_err();
            if ended && waiter.leaves() {
                self.queue.lock().unwrap().take_out(&waiter);
            } else if ended {
                waiter.sleep(None, || false).unwrap();
                ended = false;
            }
            drop(self.mutex.lock().unwrap());
            if ended {
                return false;
            }
        }
    }

    fn allow(&self, count: u32) {
        *self.mutex.lock().unwrap() += count;
    }

    fn notify_one(&self) {
        let notified = self.queue.lock().unwrap().notify(1);
        notified.wake();
    }

    fn notify_all(&self) {
        let notified = self.queue.lock().unwrap().notify(usize::MAX);
        notified.wake();
    }
}

fn spawn(shared: &Arc<Shared>, f: impl Fn(&Shared) + 'static) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || f(&shared))
}

#[test]
fn a_notification_reaches_who_waits() {
    loom::model(|| {
        let shared = Shared::new();
        let waiter = spawn(&shared, |s| assert!(s.wait(|| false)));
        shared.allow(1);
        shared.notify_one();
        waiter.join().unwrap();
    });
}

#[test]
fn what_came_before_a_notification_is_seen_after_it() {
    loom::model(|| {
        let shared = Shared::new();
        let notifier = spawn(&shared, |s| {
            // SAFETY: read by the thread that the notification below wakes (loom checks that).
            s.told.with_mut(|told| unsafe { *told = 7 });
            let notified = s.queue.lock().unwrap().notify(1);
            notified.wake();
        });
        let waiter = Waiter::new(0);
        // SAFETY: as above.
        unsafe { shared.queue.lock().unwrap().push(&waiter) };
        if waiter.sleep(None, || true).is_err() && waiter.leaves() {
            shared.queue.lock().unwrap().take_out(&waiter);
            // The notifier may come yet, and finds nobody.
        } else {
            waiter.sleep(None, || false).unwrap();
            // SAFETY: after the notification.
            shared.told.with(|told| assert_eq!(unsafe { *told }, 7));
        }
        notifier.join().unwrap();
    });
}

#[test]
fn all_are_woken() {
    loom::model(|| {
        let shared = Shared::new();
        let waiters = [(); 2].map(|()| spawn(&shared, |s| assert!(s.wait(|| false))));
        shared.allow(2);
        shared.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// A waiter that gives up takes no notification with it: the other gets that.
#[test]
fn a_notification_beside_one_that_gives_up_is_not_lost() {
    loom::model(|| {
        let shared = Shared::new();
        let quitter = spawn(&shared, |s| {
            s.wait(|| s.cancelled.load(Ordering::SeqCst));
        });
        // What ends the wait has come already, or comes with a wake-up that nobody misses here.
        shared.cancelled.store(true, Ordering::SeqCst);
        let waiter = spawn(&shared, |s| {
            s.wait(|| false);
        });
        shared.allow(2);
        shared.notify_one();
        shared.notify_one();
        quitter.join().unwrap();
        waiter.join().unwrap();
    });
}
