//! What a semaphore promises.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fairlock::{CancelToken, Semaphore, SemaphorePermit, Wait, WaitError};
use fairlock_testing::{rounds, scope, until};

#[test]
fn permits_are_counted() {
    let semaphore = Semaphore::new(3);
    let two = semaphore.acquire_many(2);
    assert_eq!((two.count(), semaphore.available_permits()), (2, 1));
    assert!(semaphore.try_acquire_many(2).is_none());
    drop(two);
    std::mem::forget(semaphore.acquire_many(3));
    assert!(semaphore.try_acquire().is_none());
    assert_eq!(semaphore.try_acquire_many(0).map(|none| none.count()), Some(0));
    semaphore.release(4);
    assert_eq!(semaphore.available_permits(), 4);
}

#[test]
#[should_panic(expected = "more permits than can be counted")]
fn too_many_permits_panic() {
    Semaphore::new(u32::MAX).release(1);
}

#[test]
fn too_many_permits_can_be_refused() {
    let semaphore = Semaphore::new(u32::MAX - 1);
    assert!(!semaphore.try_release(2));
    assert_eq!(semaphore.available_permits(), u32::MAX - 1);
    assert!(semaphore.try_release(1));
}

#[test]
fn a_large_request_is_not_passed_by_small_ones() {
    let semaphore = Semaphore::new(2);
    let has_all = AtomicU32::new(0);
    let one = semaphore.acquire();
    scope(|s| {
        s.spawn(|| {
            let _all = semaphore.acquire_many(2);
            has_all.store(1, Ordering::Relaxed);
        });
        until(|| semaphore.has_waiters());
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire().is_none(), "it passed");
        s.spawn(|| {
            let _one = semaphore.acquire();
            assert_eq!(has_all.load(Ordering::Relaxed), 1, "it passed");
        });
        drop(one);
    });
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn waits_end() {
    let semaphore = Semaphore::new(1);
    let why = |result: Result<SemaphorePermit<'_>, WaitError>| result.err();
    let soon = Duration::from_millis(2);
    assert_eq!(why(semaphore.acquire_many_with(2, Wait::within(soon))), Some(WaitError::TimedOut));
    let deadline = Instant::now() + soon;
    assert_eq!(
        why(semaphore.acquire_many_with(2, Wait::until(deadline))),
        Some(WaitError::TimedOut)
    );
    assert!(Instant::now() >= deadline);
    let token = CancelToken::new();
    scope(|s| {
        let waits =
            s.spawn(|| why(semaphore.acquire_many_with(2, Wait::FOREVER.cancellable(&token))));
        until(|| semaphore.has_waiters());
        // One that has given up lets the next one go on.
        let next = s.spawn(|| semaphore.acquire().count());
        token.cancel();
        assert_eq!(waits.join().unwrap(), Some(WaitError::Cancelled));
        assert_eq!(next.join().unwrap(), 1);
    });
    assert!(
        semaphore.acquire_many_with(1, Wait::FOREVER.cancellable(&token)).is_ok(),
        "it need not wait"
    );
}

#[test]
fn no_permit_is_lost_or_made() {
    const PERMITS: u32 = 3;
    let semaphore = Semaphore::new(PERMITS);
    let out = AtomicU32::new(0);
    scope(|s| {
        for thread in 0..4 {
            let (semaphore, out) = (&semaphore, &out);
            s.spawn(move || {
                for round in 0..rounds(2_000) {
                    let count = (thread + round as u32) % PERMITS + 1;
                    let short = Duration::from_micros(20 * (round as u64 % 3));
                    let permit = match round % 4 {
                        0 => semaphore.acquire_many_with(count, Wait::within(short)).ok(),
                        1 => semaphore.try_acquire_many(count),
                        _ => Some(semaphore.acquire_many(count)),
                    };
                    if permit.is_some() {
                        let before = out.fetch_add(count, Ordering::Relaxed);
                        assert!(before + count <= PERMITS);
                        out.fetch_sub(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), PERMITS);
}
