//! Waits for a `Mutex` that end without it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlock::platform::{Native, System};
use fairlock::ticket::{BatchSize, Fixed, TicketLock};
use fairlock::{CancelToken, Mutex, MutexExt, MutexGuard, Wait, WaitError};
use fairlock_testing::{scope, until};

const SOON: Duration = Duration::from_millis(2);
const LATE: Duration = Duration::from_secs(3600);

#[test]
fn a_timed_wait_ends_not_before_its_time() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    for timeout in [Duration::ZERO, Duration::from_micros(50), SOON] {
        let began = Instant::now();
        assert_eq!(mutex.lock_for(timeout).err(), Some(WaitError::TimedOut));
        assert!(mutex.try_lock_for(timeout).is_none());
        assert!(mutex.try_lock_until(Instant::now() + timeout).is_none());
        assert!(began.elapsed() >= timeout * 3);
    }
    drop(guard);
    assert!(mutex.try_lock_for(Duration::ZERO).is_some());
    assert!(mutex.lock_until(Instant::now()).is_ok());
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_timed_wait_comes_to_the_lock() {
    let mutex = Mutex::new(0);
    scope(|s| {
        for _ in 0..8 {
            s.spawn(|| (0..1_000).for_each(|_| *mutex.lock_for(LATE).unwrap() += 1));
        }
    });
    assert_eq!(*mutex.lock(), 8_000);
}

#[test]
fn a_cancelled_wait_ends_and_a_cancelled_token_waits_for_nobody() {
    let (mutex, token) = (Mutex::new(()), CancelToken::new());
    let guard = mutex.lock();
    scope(|s| {
        // The first in line, and those behind it.
        for _ in 0..3 {
            s.spawn(|| {
                assert_eq!(mutex.lock_cancellable(&token).err(), Some(WaitError::Cancelled));
            });
        }
        // SAFETY: only looked at.
        until(|| unsafe { mutex.raw() }.is_contended());
        token.cancel();
    });
    assert_eq!(mutex.lock_cancellable(&token).err(), Some(WaitError::Cancelled));
    drop(guard);
    assert!(mutex.lock_cancellable(&token).is_ok());
}

/// Who gives up, first in line or not, in a batch or before it, leaves a lock that works.
fn waiters_come_and_go<S: BatchSize>() {
    let lock = TicketLock::<Native, S>::new();
    let (token, done) = (fairlock::wait::CancelToken::new(), AtomicBool::new(false));
    let (entered, timed_out) = (AtomicU64::new(0), AtomicU64::new(0));
    scope(|s| {
        for thread in 0..6 {
            let (lock, token, done) = (&lock, &token, &done);
            let (entered, timed_out) = (&entered, &timed_out);
            s.spawn(move || {
                let mut turn = thread;
                while !done.load(Ordering::Relaxed) {
                    turn += 1;
                    let taken = match turn % 4 {
                        0 => {
                            lock.lock();
                            Ok(())
                        }
                        1 => lock.lock_with(Wait::FOREVER.cancellable(token)),
                        _ => lock.lock_with(Wait::until_nanos(Native::now() + 1_000 * (turn % 97))),
                    };
                    if taken.is_err() {
                        timed_out.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    entered.fetch_add(1, Ordering::Relaxed);
                    if turn % 50 == 0 {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    // SAFETY: just taken.
                    unsafe { lock.unlock() };
                }
            });
        }
        let enough = |count: &AtomicU64| count.load(Ordering::Relaxed) > 2_000;
        until(|| enough(&entered) && enough(&timed_out));
        token.cancel();
        done.store(true, Ordering::Relaxed);
    });
    lock.check_idle().unwrap();
}

#[test]
fn tickets_given_up_leave_nothing_behind() {
    waiters_come_and_go::<Fixed<1>>();
    waiters_come_and_go::<Fixed<8>>();
    waiters_come_and_go::<fairlock::ticket::Adaptive<65_536>>();
}

/// Those behind them in line are of the next batches.
#[test]
fn who_comes_after_many_that_gave_up_is_served() {
    let lock = TicketLock::<Native, Fixed<1>>::new();
    let token = fairlock::wait::CancelToken::new();
    lock.lock();
    scope(|s| {
        // Takes the first ticket, and stays.
        let first = s.spawn(|| {
            lock.lock();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        });
        until(|| lock.tickets().0 == 1);
        let many: Vec<_> = (0..20)
            .map(|_| s.spawn(|| lock.lock_with(Wait::FOREVER.cancellable(&token)).unwrap_err()))
            .collect();
        until(|| lock.tickets().0 == 21);
        let last = s.spawn(|| {
            lock.lock();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        });
        until(|| lock.tickets().0 == 22);
        token.cancel();
        until(|| many.iter().all(|waiter| waiter.is_finished()));
        // SAFETY: taken above.
        unsafe { lock.unlock() };
        until(|| first.is_finished() && last.is_finished());
    });
    lock.check_idle().unwrap();
}

/// Its ticket is the one that it had: those that came after its first attempt are not
/// before it.
#[test]
fn who_waits_in_short_attempts_keeps_its_turn() {
    let lock = TicketLock::<Native, Fixed<1>>::new();
    lock.lock();
    let first = || {
        lock.lock();
        // SAFETY: just taken.
        unsafe { lock.unlock() };
    };
    scope(|s| {
        let first = s.spawn(first);
        until(|| lock.tickets().0 == 1);
        s.spawn(|| {
            let attempt = || {
                let wait = Wait::until_nanos(Native::now() + 60_000);
                assert_eq!(lock.lock_with(wait), Err(WaitError::TimedOut));
                lock.tickets().0
            };
            // One that begins after its deadline takes no ticket.
            until(|| attempt() == 2);
            (0..100).for_each(|_| assert_eq!(attempt(), 2, "it took another ticket"));
        })
        .join()
        .unwrap();
        // SAFETY: taken above.
        unsafe { lock.unlock() };
        until(|| first.is_finished());
    });
    lock.check_idle().unwrap();
}

/// Others take the lock all the time: it comes to the lock as if it waited for ever, but for
/// the instants between two attempts.
#[test]
fn a_loop_of_timed_waits_is_not_starved() {
    let (mutex, done) = (Mutex::new(()), AtomicBool::new(false));
    let section = |guard: MutexGuard<'_, ()>| {
        std::thread::sleep(Duration::from_micros(100));
        drop(guard);
    };
    scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    section(mutex.lock());
                }
            });
        }
        for _ in 0..20 {
            until(|| mutex.lock_for(Duration::from_micros(150)).map(section).is_ok());
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_an_interruptible_wait() {
    extern "C" fn handler(_: libc::c_int) {}
    // SAFETY: a handler that does nothing, installed with SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    scope(|s| {
        for _ in 0..2 {
            let id = AtomicU64::new(0);
            let id = &*Box::leak(Box::new(id));
            let waiter = s.spawn(|| {
                // SAFETY: asks who it is.
                id.store(unsafe { libc::pthread_self() } as u64, Ordering::Release);
                mutex.lock_interruptible().err()
            });
            until(|| {
                let thread = id.load(Ordering::Acquire);
                if thread != 0 && !waiter.is_finished() {
                    // SAFETY: the thread has not been joined.
                    unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1) };
                }
                waiter.is_finished()
            });
            assert_eq!(waiter.join().unwrap(), Some(WaitError::Interrupted));
        }
    });
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn the_planned_wait_is_longer_behind_more_waiters() {
    let mutex = Mutex::new(());
    let grows = || {
        let planned = [1, 10, 100].map(|ahead| mutex.planned_wait_ns(ahead));
        assert!(planned.is_sorted() && planned[0] > 0 && planned[0] < planned[2], "{planned:?}");
    };
    grows();
    let guard = mutex.lock();
    scope(|s| {
        s.spawn(|| drop(mutex.lock()));
        // SAFETY: a look.
        until(|| unsafe { mutex.raw() }.is_contended());
        grows();
        drop(guard);
    });
}
