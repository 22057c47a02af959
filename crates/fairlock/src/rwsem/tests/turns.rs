//! Whose turn it is, and for how long.

use crate::platform::System;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;

/// A reader leaves for good; the writer behind it takes the idle lock long
/// before the tenure would have ended.
#[test]
fn lock_that_readers_left_idle_is_taken_before_the_tenure_ends() {
    // So long that it is not over within the test's patience.
    const LONG: Duration = Duration::from_secs(7 * 24 * 3600);
    let lock = &Lock::new(Policy { aim: LONG, ..Policy::DEFAULT });
    for kind in [Kind::Writer, Kind::Reader] {
        if kind == Kind::Writer {
            lock.write()
        } else {
            lock.read()
        }
        scope(|s| {
            let waiter = visit_asleep(&s, lock, Kind::Writer);
            // Readers have only as long as writers used.
            assert!(kind == Kind::Reader || !word(lock).is_closed(), "the tenure is not over");
            // SAFETY: taken above.
            unsafe { if kind == Kind::Writer { lock.unlock_write() } else { lock.unlock_read() } }
            join(waiter);
        });
    }
    assert_free(lock);
}

/// Any policy that can be written can be used.
#[test]
fn tenure_of_any_length_is_a_tenure() {
    // The last two are a few nanoseconds long if their high bits are lost.
    let ages = [
        Duration::MAX,
        Duration::from_nanos(u64::MAX),
        Duration::from_nanos(u64::MAX) + Duration::from_nanos(3),
    ];
    for after in ages {
        let lock = &Lock::new(Policy { aim: after, ..Policy::DEFAULT });
        let planned = lock.planned_wait_ns(1);
        // Two threads share it.
        assert!(planned >= i64::MAX as u64 / 4, "{after:?}: {planned}");
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 1);
            let queue = &lock.turns().queue;
            let over = queue.with(|q| q.own.clock.is_over(Native::now()));
            assert!(!over, "{after:?}: the tenure is over as it begins");
            // SAFETY: taken above.
            unsafe { lock.unlock_read_fair() };
            join(writer);
        });
    }
}

/// Readers that sleep inside do not keep the others out: far more of them than
/// there are CPUs are inside at once, although writers wait.
#[test]
fn readers_that_sleep_inside_let_the_others_in() {
    const READERS: usize = 12;
    let lock = &Lock::new(Policy::DEFAULT);
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let enough = Native::cpus() as u32 + 4;
    let done = AtomicBool::new(false);
    scope(|s| {
        for reads in [true; READERS].into_iter().chain([false, false]) {
            let (inside, most, done) = (&inside, &most, &done);
            s.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    if reads {
                        lock.read();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        // SAFETY: taken above.
                        unsafe { lock.unlock_read() };
                    } else {
                        lock.write();
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        // SAFETY: taken above.
                        unsafe { lock.unlock_write() };
                    }
                }
            });
        }
        until(|| most.load(Ordering::SeqCst) >= enough.min(READERS as u32));
        done.store(true, Ordering::SeqCst);
    });
}
