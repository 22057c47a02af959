//! The semaphore in every interleaving:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib semaphore_loom`

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use crate::Semaphore;
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::wait::{CancelToken, Wait, WaitError};

/// Long enough to park.
const TIMEOUT_NS: u64 = 10_000_000;

struct Shared {
    semaphore: Semaphore,
    token: CancelToken<Loom>,
    /// Touched by the thread that has all permits.
    data: UnsafeCell<u32>,
}

// SAFETY: one thread at a time touches `data`, the one that has all permits (loom checks that).
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn count(&self) {
        // SAFETY: the caller has all permits.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn timed(&self, count: u32) -> Result<(), WaitError> {
        let deadline = Loom::now() + TIMEOUT_NS;
        self.semaphore.wait(count, &Wait::until_nanos(deadline).begin())
    }
}

fn check<const N: usize>(permits: u32, threads: [fn(&Shared); N]) {
    loom::model(move || {
        let shared = Arc::new(Shared {
            semaphore: Semaphore::new(permits),
            token: CancelToken::new(),
            data: UnsafeCell::new(0),
        });
        let [first, others @ ..] = &threads[..] else { unreachable!() };
        let others: Vec<_> = others
            .iter()
            .map(|&thread| {
                let shared = shared.clone();
                loom::thread::spawn(move || thread(&shared))
            })
            .collect();
        first(&shared);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(shared.semaphore.available_permits(), permits);
        assert!(shared.semaphore.try_acquire_many(permits).is_some(), "somebody seems to wait");
    });
}

fn one(shared: &Shared) {
    let _permit = shared.semaphore.acquire();
    shared.count();
}

#[test]
fn one_permit_excludes_and_wakes() {
    check(1, [one, one]);
}

#[test]
fn who_wants_all_permits_has_them() {
    check(
        2,
        [
            |shared| {
                let _all = shared.semaphore.acquire_many(2);
                shared.count();
            },
            |shared| drop(shared.semaphore.acquire()),
        ],
    );
}

#[test]
fn a_wait_that_times_out_leaves_nothing() {
    check(
        1,
        [
            |shared| {
                if shared.timed(1).is_ok() {
                    shared.count();
                    shared.semaphore.release(1);
                }
            },
            one,
        ],
    );
}

#[test]
fn a_wait_that_is_cancelled_leaves_nothing() {
    check(
        1,
        [
            |shared| {
                drop(
                    shared.semaphore.acquire_many_with(1, Wait::FOREVER.cancellable(&shared.token)),
                )
            },
            |shared| {
                one(shared);
                shared.token.cancel();
            },
        ],
    );
}
