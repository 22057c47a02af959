//! The batched ticket lock as callers see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairlock::events::{self, Event, set_counting};
use fairlock::platform::Native;
use fairlock::ticket::{AdaptiveTicketLock, BatchSize, BatchedTicketLock, TicketLock};
use fairlock_testing::{alone, scope, until};

static STATIC: BatchedTicketLock<Native> = BatchedTicketLock::new_const();
static STATIC_ADAPTIVE: AdaptiveTicketLock<Native> = AdaptiveTicketLock::new_const();

#[test]
fn locks_can_be_statics() {
    assert!(STATIC.try_lock() && STATIC_ADAPTIVE.try_lock());
    // SAFETY: just taken.
    unsafe {
        STATIC.unlock();
        STATIC_ADAPTIVE.unlock();
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn sizes_are_as_stated() {
    assert_eq!(size_of::<BatchedTicketLock<Native, 1>>(), 64);
    assert_eq!(size_of::<BatchedTicketLock<Native, 64>>(), 64);
    assert_eq!(size_of::<AdaptiveTicketLock<Native>>(), 104);
}

#[test]
fn try_lock_takes_a_free_lock_only() {
    let lock = BatchedTicketLock::<Native, 4>::new();
    assert!(!lock.is_locked() && !lock.is_contended());
    assert!(lock.try_lock());
    assert!(lock.is_locked() && !lock.is_contended());
    assert!(!lock.try_lock());
    // SAFETY: taken above.
    unsafe { lock.unlock() };
    assert!(!lock.is_locked());
    assert!(lock.try_lock());
    // SAFETY: just taken.
    unsafe { lock.unlock() };
}

/// Takes the lock while another thread waits for it, `then` lets it go.
fn beside_a_waiter(lock: &BatchedTicketLock<Native, 1>, then: impl FnOnce()) {
    lock.lock();
    scope(|s| {
        s.spawn(|| {
            lock.lock();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        });
        until(|| lock.is_contended());
        then();
        // SAFETY: taken above.
        unsafe { lock.unlock() };
    });
    assert!(!lock.is_contended() && !lock.is_locked());
}

#[test]
fn a_waiter_shows() {
    let lock = BatchedTicketLock::new();
    beside_a_waiter(&lock, || assert!(lock.is_locked()));
}

/// These locks count for the whole process only.
#[test]
fn a_waiter_parks_and_is_kicked() {
    alone(|| {
        set_counting(true);
        let count = |event| events::global().get(event);
        let lock = BatchedTicketLock::new();
        until(|| {
            let before = count(Event::TakenSlow);
            beside_a_waiter(&lock, || {
                until(|| count(Event::TakenSlow) > before);
                // It is about to sleep. If it does not by then, it is not kicked.
                std::thread::sleep(Duration::from_millis(1));
            });
            count(Event::ReleasedSlowKicked) > 0
        });
        assert!(count(Event::ReleasedSlow) >= count(Event::ReleasedSlowKicked));
    });
}

/// As above, where the one that has the lock waited for it: all have tickets. The first release finds one that has
/// just parked, the next one a waiter that was listed.
#[test]
fn waiters_behind_another_park_and_are_kicked() {
    alone(|| {
        set_counting(true);
        let counts = || {
            let events = [Event::TakenSlow, Event::ReleasedSlow, Event::ReleasedSlowKicked];
            events.map(|event| events::global().get(event))
        };
        let lock = &BatchedTicketLock::<Native, 1>::new();
        until(|| {
            let left = AtomicBool::new(false);
            lock.lock();
            scope(|s| {
                let first = s.spawn(|| {
                    let mut before = [0; 3];
                    scope(|s| {
                        lock.lock();
                        until(|| left.load(Ordering::Acquire));
                        before = counts();
                        for _ in 0..2 {
                            s.spawn(|| {
                                lock.lock();
                                // SAFETY: just taken.
                                unsafe { lock.unlock() };
                            });
                        }
                        until(|| counts()[0] == before[0] + 2);
                        // They are about to sleep. Those that do not by then are not kicked.
                        std::thread::sleep(Duration::from_millis(1));
                        // SAFETY: taken above.
                        unsafe { lock.unlock() };
                    });
                    let after = counts();
                    (after[1], after[2]) == (before[1] + 1, before[2] + 2)
                });
                until(|| lock.is_contended());
                // SAFETY: taken above.
                unsafe { lock.unlock() };
                left.store(true, Ordering::Release);
                first.join().unwrap()
            })
        });
    });
}

/// Many more threads than CPUs, in a loop: everybody gets in.
fn nobody_starves<S: BatchSize>() {
    const THREADS: usize = 24;
    let lock = TicketLock::<Native, S>::new();
    let stop = AtomicBool::new(false);
    let done = [const { AtomicU64::new(0) }; THREADS];
    scope(|s| {
        for done in &done {
            let (lock, stop) = (&lock, &stop);
            s.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    lock.lock();
                    (0..50).for_each(|_| std::hint::spin_loop());
                    // SAFETY: just taken.
                    unsafe { lock.unlock() };
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until(|| done.iter().all(|n| n.load(Ordering::Relaxed) >= 20));
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nobody_starves_with_batches_of_1() {
    nobody_starves::<fairlock::ticket::Fixed<1>>();
}

#[test]
fn nobody_starves_with_batches_of_64() {
    nobody_starves::<fairlock::ticket::Fixed<64>>();
}

#[test]
fn nobody_starves_with_adaptive_batches() {
    nobody_starves::<fairlock::ticket::Adaptive<65_536>>();
}
