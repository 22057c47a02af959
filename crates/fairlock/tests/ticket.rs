//! The batched ticket lock as callers see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlock::events::{self, Event, set_counting};
use fairlock::platform::Native;
use fairlock::ticket::{AdaptiveTicketLock, BatchSize, BatchedTicketLock, TicketLock};

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
    assert_eq!(size_of::<BatchedTicketLock<Native, 1>>(), 56);
    assert_eq!(size_of::<BatchedTicketLock<Native, 64>>(), 56);
    assert_eq!(size_of::<AdaptiveTicketLock<Native>>(), 96);
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

#[test]
fn a_waiter_shows_and_parks_and_is_kicked() {
    set_counting(true);
    let lock = BatchedTicketLock::<Native, 1>::new();
    lock.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        });
        let before = events::global().get(Event::TakenSlow);
        let started = Instant::now();
        while events::global().get(Event::TakenSlow) == before
            && started.elapsed() < Duration::from_secs(1)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(lock.is_contended());
        std::thread::sleep(Duration::from_millis(10));
        // SAFETY: taken above.
        unsafe { lock.unlock() };
    });
    assert!(!lock.is_contended() && !lock.is_locked());
    assert!(
        events::global().get(Event::TakenSlow) > 0
            && events::global().get(Event::ReleasedSlowKicked) > 0
    );
    set_counting(false);
}

/// Many more threads than CPUs, in a loop: everybody gets in.
fn nobody_starves<S: BatchSize>() {
    const THREADS: usize = 24;
    let lock = TicketLock::<Native, S>::new();
    let stop = AtomicBool::new(false);
    let done = [const { AtomicU64::new(0) }; THREADS];
    std::thread::scope(|scope| {
        for done in &done {
            let (lock, stop) = (&lock, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    lock.lock();
                    (0..50).for_each(|_| std::hint::spin_loop());
                    // SAFETY: just taken.
                    unsafe { lock.unlock() };
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(600));
        stop.store(true, Ordering::Relaxed);
    });
    let done = done.map(AtomicU64::into_inner);
    assert!(done.iter().all(|n| *n > 1), "{done:?}");
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

/// Sections of a millisecond after thousands of short ones: the batch that was
/// large enough for the short ones must not keep anybody waiting for minutes.
#[test]
fn adaptive_batches_close_early_when_sections_grow() {
    let lock = AdaptiveTicketLock::<Native>::new();
    let slow = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let longest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let measured = slow.load(Ordering::Relaxed);
                    let started = Instant::now();
                    lock.lock();
                    if measured {
                        let waited = started.elapsed().as_millis() as u64;
                        longest.fetch_max(waited, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    // SAFETY: just taken.
                    unsafe { lock.unlock() };
                }
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        slow.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(700));
        stop.store(true, Ordering::Relaxed);
    });
    let longest = longest.into_inner();
    assert!(longest < 300, "waited {longest} ms");
}
