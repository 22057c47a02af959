//! What a semaphore promises.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fairlock::{CancelToken, Mutex, Semaphore, SemaphorePermit, Wait, WaitError};
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

/// Until it is so: a thread that has no CPU for a millisecond is passed.
#[test]
fn a_large_request_is_not_passed_by_small_ones() {
    until(|| {
        let semaphore = Semaphore::new(2);
        let (has_all, passed) = (AtomicU32::new(0), AtomicU32::new(0));
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
                passed.store(1 - has_all.load(Ordering::Relaxed), Ordering::Relaxed);
            });
            drop(one);
        });
        assert_eq!(semaphore.available_permits(), 2);
        passed.into_inner() == 0
    });
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

/// As above.
#[test]
fn waiters_are_served_in_order_of_arrival() {
    until(|| {
        let (semaphore, served) = (Semaphore::new(3), Mutex::new(Vec::new()));
        let all = semaphore.acquire_many(3);
        scope(|s| {
            for place in 0..6 {
                let (semaphore, served) = (&semaphore, &served);
                s.spawn(move || {
                    // None is served beside the one behind it.
                    let _permit = semaphore.acquire_many(2 + place % 2);
                    served.lock().push(place);
                });
                // It is in the queue by then, or else there is another round.
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(all);
        });
        served.into_inner().is_sorted()
    });
}

/// A thread that a signal stops, as a collector of garbage does, while it is the first to wait.
#[cfg(all(target_os = "linux", not(miri)))]
mod stopped {
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};

    use super::*;

    static STOPS: AtomicBool = AtomicBool::new(false);
    static IS_STOPPED: AtomicBool = AtomicBool::new(false);

    extern "C" fn stop(_: libc::c_int) {
        IS_STOPPED.store(true, Ordering::Relaxed);
        while STOPS.load(Ordering::Relaxed) {
            // SAFETY: it may be called in a handler.
            unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
        }
    }

    #[test]
    fn a_thread_that_is_stopped_by_a_signal_stops_no_other() {
        let handler = stop as extern "C" fn(libc::c_int);
        // SAFETY: the handler does what handlers may; nobody else uses this signal.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        let (semaphore, begins) = (Arc::new(Semaphore::new(1)), Arc::new(Barrier::new(2)));
        let held = semaphore.acquire();
        let (own, begun) = (semaphore.clone(), begins.clone());
        let first = std::thread::spawn(move || {
            begun.wait();
            own.acquire().count()
        });
        begins.wait();
        until(|| semaphore.has_waiters());
        STOPS.store(true, Ordering::Relaxed);
        // SAFETY: the thread has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(first.as_pthread_t(), libc::SIGUSR2) }, 0);
        until(|| IS_STOPPED.load(Ordering::Relaxed));
        scope(|s| {
            let others: Vec<_> = (0..3).map(|_| s.spawn(|| semaphore.acquire().count())).collect();
            // They are asleep, and have been for longer than a millisecond.
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            for other in others {
                assert_eq!(other.join().unwrap(), 1);
            }
        });
        until(|| semaphore.try_acquire().is_some());
        assert!(!first.is_finished(), "it runs");
        STOPS.store(false, Ordering::Relaxed);
        assert_eq!(first.join().unwrap(), 1);
    }
}
