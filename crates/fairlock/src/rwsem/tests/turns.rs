//! Whose turn it is, and for how long.

use crate::platform::System;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;

/// Rule 7, and more readers than one wake takes: nobody leaves before all are in.
#[test]
fn more_readers_than_one_wake_takes_are_all_let_in() {
    let all = rounds(300);
    for_each_policy(|lock| {
        let all_inside = Barrier::new(all);
        lock.write();
        scope(|s| {
            let readers: Vec<_> = (0..all)
                .map(|_| {
                    s.spawn(|| {
                        lock.read();
                        all_inside.wait();
                        // SAFETY: just taken.
                        unsafe { lock.unlock_read() };
                    })
                })
                .collect();
            until(|| waiters(lock) == all);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            readers.into_iter().for_each(|reader| join(reader));
        });
    });
}

/// Writers that become readers for a moment do not make that count as the readers' turn.
#[test]
fn reader_is_served_among_writers_that_downgrade() {
    for_each_policy(|lock| {
        let served = AtomicBool::new(false);
        let writes = AtomicU32::new(0);
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while !served.load(Ordering::Relaxed) {
                        lock.write();
                        // Longer than a tenure, so that it ends meanwhile.
                        thread::sleep(Duration::from_millis(6));
                        writes.fetch_add(1, Ordering::Relaxed);
                        // SAFETY: taken above; for reading after the downgrade.
                        unsafe {
                            lock.downgrade();
                            lock.unlock_read();
                        }
                    }
                });
            }
            until(|| lock.has_waiters());
            let reader = s.spawn(|| {
                visit(lock, Kind::Reader);
                served.store(true, Ordering::Relaxed);
            });
            let is_queued = || lock.with_waiters(|waiters| waiters.first(Kind::Reader).is_some());
            until(|| is_queued() || served.load(Ordering::Relaxed));
            let before = writes.load(Ordering::Relaxed);
            until(|| {
                let during = writes.load(Ordering::Relaxed) - before;
                // For many times as long as the reader may have no CPU.
                if during > 1_000 {
                    end(&format!("{during} writes while one reader waited"));
                }
                served.load(Ordering::Relaxed)
            });
            println!("{} writes", writes.load(Ordering::Relaxed) - before);
            join(reader);
        });
    });
}

/// A reader leaves for good; the writer behind it takes the idle lock long
/// before the tenure would have ended.
#[test]
fn lock_that_readers_left_idle_is_taken_before_the_tenure_ends() {
    // So long that it is not over within the test's patience.
    const LONG: Duration = Duration::from_secs(7 * 24 * 3600);
    let lock = &Lock::new(Policy::tenure(TenurePolicy { aim: LONG, ..TenurePolicy::DEFAULT }));
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
        let lock = &Lock::new(Policy::tenure(TenurePolicy { aim: after, ..TenurePolicy::DEFAULT }));
        let planned = lock.planned_wait_ns(1).unwrap();
        // Two threads share it.
        assert!(planned >= i64::MAX as u64 / 4, "{after:?}: {planned}");
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 1);
            let queue = &lock.turns().unwrap().queue;
            let over = queue.with(|q| q.own.clock.is_over(Native::now()));
            assert!(!over, "{after:?}: the tenure is over as it begins");
            // SAFETY: taken above.
            unsafe { lock.unlock_read_fair() };
            join(writer);
        });
        let lock = &Lock::new(Policy::published(PublishedPolicy {
            handoff_after: Some(after),
            ..PublishedPolicy::HANDOFF
        }));
        lock.write();
        scope(|s| {
            let writer = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 1);
            thread::sleep(Duration::from_millis(1));
            assert!(!word(lock).is_closed(), "{after:?}: the waiter is due as it arrives");
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
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

/// Else they would have one after the other what they could have together.
#[test]
fn readers_in_the_queue_join_one_that_goes_past_it() {
    use ReaderSpin::*;
    for reader_spin in [Off, One, On, Always] {
        let policy = PublishedPolicy { reader_spin, ..PublishedPolicy::HANDOFF };
        let lock = &Lock::new(Policy::published(policy));
        lock.write();
        scope(|s| {
            let reader = visit_asleep(&s, lock, Kind::Reader);
            // As if the wake-up of its release were still to come.
            lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
            lock.read();
            join(reader);
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        });
        assert_free(lock);
    }
}

/// Under `Always`, a writer that knew of a vain spin tells readers.
#[test]
fn a_writer_that_would_have_spun_in_vain_discourages_readers() {
    let policy = PublishedPolicy { reader_spin: ReaderSpin::Always, ..PublishedPolicy::HANDOFF };
    let lock = &Lock::new(Policy::published(policy));
    lock.read();
    lock.kernel().set_nonspinnable();
    scope(|s| {
        let writer = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        join(writer);
        assert!(lock.kernel().readers_are_discouraged());
        // SAFETY: taken by that thread.
        unsafe { lock.unlock_write() };
    });
}
