//! The lock of a slot's queue, in every interleaving of two or three threads:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib queue_lock_loom`

use loom::cell::UnsafeCell;

use super::queue_lock::QueueLock;
use crate::fault::Fault;
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::models::{self, Scene, many, models};
use crate::platform::loom::Loom;

struct Guarded {
    lock: QueueLock<Loom>,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched under the lock only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

/// What a thread does once.
#[derive(Clone, Copy)]
enum Visit {
    Lock,
    TryLock,
}

use Visit::{Lock, TryLock};

impl Scene for Guarded {
    type Visit = Visit;

    fn visit(&self, visit: Visit) -> u32 {
        match visit {
            Lock => self.lock.lock(),
            TryLock if !self.lock.try_lock() => return 0,
            TryLock => {}
        }
        // SAFETY: the lock is held.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.lock.unlock();
        1
    }

    fn check(&self, changes: u32) {
        assert!(!self.lock.is_locked());
        // SAFETY: the other threads have ended.
        assert_eq!(self.value.with(|value| unsafe { *value }), changes);
    }
}

/// A lost wake-up is a deadlock, which loom reports.
fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let scene = || Guarded { lock: QueueLock::new(), value: UnsafeCell::new(0) };
    models::check(&many(), fault, scene, threads);
}

models! {
    check;
    two_threads: [&[Lock, Lock], &[Lock, Lock]];
    three_threads: [&[Lock], &[Lock], &[Lock]];
    four_threads: [&[Lock], &[Lock], &[Lock], &[Lock]];
    one_comes_again: [&[Lock, Lock], &[Lock], &[Lock]];
    an_attempt_beside: [&[Lock], &[TryLock], &[Lock]];
}

#[cfg(fairlock_faults)]
controls! {
    broken_claims_alone: "deadlock";
    broken_claims_for_ever: "deadlock";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_claims_alone() {
        check(Some(Fault::ClaimsAlone), &[&[Lock], &[Lock], &[Lock], &[Lock]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_claims_for_ever() {
        check(Some(Fault::ClaimsForEver), &[&[Lock, Lock], &[Lock], &[Lock]]);
    }
}
