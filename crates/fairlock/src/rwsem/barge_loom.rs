//! Barging beside the queue, in every interleaving of three threads:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p fairlock --release --lib barge_loom`

use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Barge, Policy, RwSem};
use crate::platform::loom::Loom;

struct Guarded {
    lock: RwSem<Loom>,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched under `lock` only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn write(&self) {
        self.lock.write();
        self.leave_after_writing();
    }

    fn barge_to_write(&self) {
        if self.lock.barge_write() == Barge::Taken {
            self.leave_after_writing();
        }
    }

    fn leave_after_writing(&self) {
        // SAFETY: a writer is alone (loom checks that).
        self.value.with_mut(|value| unsafe { *value += 1 });
        // SAFETY: the caller has taken it.
        unsafe { self.lock.unlock_write() };
    }

    fn barge_to_read(&self) {
        if self.lock.barge_read() == Barge::Taken {
            // SAFETY: no writer is inside (loom checks that).
            self.value.with(|value| unsafe { *value });
            // SAFETY: just taken.
            unsafe { self.lock.unlock_read() };
        }
    }
}

/// Two threads write; the third, this one, barges if it comes at the right moment.
fn check(policy: Policy, barge: fn(&Guarded)) {
    loom::model(move || {
        let lock = Arc::new(Guarded { lock: RwSem::new(policy), value: UnsafeCell::new(0) });
        let writers = [0, 1].map(|_| {
            let lock = lock.clone();
            thread::spawn(move || lock.write())
        });
        barge(&lock);
        for writer in writers {
            writer.join().unwrap();
        }
        // SAFETY: everybody has left.
        unsafe { lock.lock.check_idle() }.unwrap();
    });
}

/// Tenures that are over after a look or two at the clock.
const SHORT: Policy = Policy {
    handoff_after: Some(Duration::from_nanos(1)),
    handoff_budget: Some(100),
    ..Policy::DEFAULT
};

#[test]
fn a_writer_barges_into_short_tenures() {
    check(SHORT, Guarded::barge_to_write);
}

#[test]
fn a_writer_barges_into_long_tenures() {
    check(Policy::DEFAULT, Guarded::barge_to_write);
}

#[test]
fn a_reader_barges_into_short_tenures() {
    check(SHORT, Guarded::barge_to_read);
}

#[test]
fn a_reader_barges_into_long_tenures() {
    check(Policy::DEFAULT, Guarded::barge_to_read);
}
