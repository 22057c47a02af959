//! What is said before a notification is seen by the thread that takes it, whichever way it does:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`
//!
//! What is not seen is waited for once more, and nobody notifies again: a deadlock.

use core::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

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
