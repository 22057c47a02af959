//! What leaves no trace but a count or a flag.

use core::time::Duration;

use fairlock_testing::{join, scope, until};

use crate::events::{Event, EventCounts};
use crate::platform::{Native, System};
use crate::rwsem::sem::Rules;
use crate::rwsem::tests::{Lock, assert_free, soon, visit_asleep, waiters, word};
use crate::rwsem::{Policy, PublishedPolicy};
use crate::wait::{Access, Kind, Wait, WaitContext};

/// The head of its queue is past its deadline as it comes.
const IMMEDIATE: Policy = Policy::published(PublishedPolicy {
    handoff_after: Some(Duration::ZERO),
    ..PublishedPolicy::HANDOFF
});

/// Each event, of a lock that is written while one thread comes, and waits, or gives up.
#[test]
fn what_happens_to_a_waiter_is_counted_once() {
    static COUNTS: EventCounts = EventCounts::new();
    use Event::*;
    let lock = &Lock::new(IMMEDIATE);
    lock.set_events(Some(&COUNTS));
    for (kind, sleeps, counted) in [
        (Kind::Reader, SleepReader, [ReadHandoff, WakeReader, ReadLock]),
        (Kind::Writer, SleepWriter, [WriteHandoff, WakeWriter, WriteLock]),
    ] {
        COUNTS.reset();
        lock.write();
        scope(|s| {
            let waiter = visit_asleep(&s, lock, kind);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            join(waiter);
        });
        assert!(COUNTS.get(sleeps) >= 1, "{COUNTS}");
        assert_eq!(counted.map(|event| COUNTS.get(event)), [1; 3], "{COUNTS}");
    }
    COUNTS.reset();
    lock.write();
    let wait = Wait::until_nanos(soon(1));
    assert!(lock.read_with(wait).is_err() && lock.write_with(wait).is_err());
    assert_eq!([ReadFail, WriteFail].map(|event| COUNTS.get(event)), [1; 2], "{COUNTS}");
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
    assert_free(lock);
}

/// It was about to queue, and the lock had come free.
#[test]
fn a_reader_that_finds_a_free_lock_as_it_queues_is_counted() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = Lock::new(Policy::HANDOFF);
    lock.set_events(Some(&COUNTS));
    let wait = |access| lock.kernel().wait(access, Native::thread(), 0, &WaitContext::FOREVER);
    assert!(wait(Access::Exclusive).is_ok());
    assert_eq!(COUNTS.get(Event::ReadFast), 0);
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
    assert!(wait(Access::Shared).is_ok());
    assert_eq!(COUNTS.get(Event::ReadFast), 1);
    // SAFETY: just taken.
    unsafe { lock.unlock_read() };
    assert_free(&lock);
}

/// Whatever the machine allows: the priority is said to be that of the waiter.
#[test]
fn a_lock_is_closed_while_a_real_time_thread_waits() {
    for (priority, closes) in [(0, false), (5, true)] {
        let lock = &Lock::new(Policy::UNFAIR.with_priorities());
        lock.read();
        scope(|s| {
            let waiter = s.spawn(move || {
                let me = Native::thread();
                let context = WaitContext::FOREVER;
                assert!(lock.kernel().wait(Access::Exclusive, me, priority, &context).is_ok());
                // SAFETY: just taken.
                unsafe { lock.unlock_write() };
            });
            until(|| waiters(lock) == 1);
            assert_eq!(word(lock).is_closed(), closes);
            // SAFETY: taken above.
            unsafe { lock.unlock_read() };
            join(waiter);
        });
        assert_free(lock);
    }
}

#[test]
fn a_policy_knows_priorities_if_it_was_told_to() {
    for policy in [PublishedPolicy::HANDOFF, PublishedPolicy::WRITER_PHASE] {
        for priorities in [false, true] {
            let policy = PublishedPolicy { priorities, ..policy };
            assert_eq!(Rules::<Native>::priorities(&policy), priorities);
        }
    }
}

/// The next one is past its deadline, too, and asleep.
#[test]
fn a_lock_that_is_handed_over_at_once_stays_closed() {
    let lock = &Lock::new(IMMEDIATE);
    lock.write();
    scope(|s| {
        let first = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        let second = visit_asleep(&s, lock, Kind::Writer);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(first);
        assert!(word(lock).is_closed());
        // SAFETY: taken by that thread.
        unsafe { lock.unlock_write() };
        join(second);
    });
    assert_free(lock);
}

#[test]
fn what_is_tried_at_a_lock_that_is_held_fails() {
    let lock = Lock::new(Policy::HANDOFF);
    assert!(!lock.write_again(), "this discipline knows no such way");
    assert!(lock.kernel().take_write_at_once());
    assert!(!lock.kernel().take_write_at_once() && !lock.write_again());
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
    assert_free(&lock);
}
