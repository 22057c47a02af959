//! What is done before a notification, or a grant, is seen by the thread that takes it, whichever way it does:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`
//!
//! What is not seen is waited for once more, and nobody notifies again: a deadlock.

use core::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::queue::{Access, GRANTED, Waiter, WakeList};
use crate::platform::System;
use crate::platform::loom::Loom;

/// So many threads say something and notify the model's own one, which begins like this.
fn check(notifiers: usize, begin: fn()) {
    loom::model(move || {
        let me = Loom::thread();
        let said: Vec<_> = (0..notifiers).map(|_| Arc::new(AtomicU32::new(0))).collect();
        let others: Vec<_> = said
            .iter()
            .cloned()
            .map(|said| {
                thread::spawn(move || {
                    said.store(1, Ordering::Relaxed);
                    me.parker.unpark();
                })
            })
            .collect();
        begin();
        while said.iter().any(|said| said.load(Ordering::Relaxed) == 0) {
            me.parker.park(None, false);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// As one for a wait that still goes on, while the thread waits for a queue lock.
#[test]
fn a_notification_that_is_forgotten() {
    check(1, || Loom::thread().parker.forget_notification());
}

#[test]
fn a_second_notification_over_the_first() {
    check(2, || ());
}

struct Told {
    waiter: Waiter<Loom>,
    value: UnsafeCell<u32>,
}

// SAFETY: the granter touches `value` before the grant, and the waiter after it (loom checks that).
unsafe impl Sync for Told {}
// SAFETY: as above.
unsafe impl Send for Told {}

/// A waiter that looks before it sleeps, or while it spins, learns of the grant from its state only.
#[test]
fn a_grant_comes_with_what_the_granter_did() {
    loom::model(|| {
        let told = Arc::new(Told {
            waiter: Waiter::new(Access::Exclusive, Loom::thread(), 0, 0),
            value: UnsafeCell::new(0),
        });
        let granter = {
            let told = told.clone();
            thread::spawn(move || {
                // SAFETY: not granted yet.
                told.value.with_mut(|value| unsafe { *value = 1 });
                let mut wakes = WakeList::<_, 1>::new();
                told.waiter.grant(&mut wakes);
                wakes.wake_all();
            })
        };
        if told.waiter.state() == GRANTED {
            // SAFETY: granted.
            told.value.with(|value| assert_eq!(unsafe { *value }, 1));
        }
        granter.join().unwrap();
    });
}
