//! What leaves no trace but a count or a flag.

use core::sync::atomic::Ordering;
use core::time::Duration;

use fairlock_testing::{join, scope, until};

use super::phase_tests::{free_without_wake_check, reader_steals, writer_steals};
use crate::events::{Event, EventCounts};
use crate::platform::{Native, System};
use crate::rwsem::sem::Rules;
use crate::rwsem::tests::{Lock, assert_free, close, soon, visit_asleep, waiters, word};
use crate::rwsem::word::{Flags, Word};
use crate::rwsem::{Policy, PublishedPolicy};
use crate::wait::{
    Access, CancelToken, GRANTED, Kind, Wait, WaitContext, WaitError, Waiter, WakeList,
};

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

/// The time that a waiter may be passed over begins when it comes.
#[test]
fn the_head_closes_the_lock_at_its_deadline_and_not_before() {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    for (after, closes) in [(None, false), (Some(WEEK), false), (Some(Duration::ZERO), true)] {
        for kind in [Kind::Reader, Kind::Writer] {
            let lock = &Lock::new(Policy::published(PublishedPolicy {
                handoff_after: after,
                ..PublishedPolicy::NO_READER_SPIN
            }));
            lock.write();
            scope(|s| {
                let head = visit_asleep(&s, lock, kind);
                assert_eq!(word(lock).is_closed(), closes, "{after:?} {kind:?}");
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
                join(head);
            });
            assert_free(lock);
        }
    }
}

/// A deadline that lies between two looks of the head: what counts is how long ago it came.
#[test]
fn a_deadline_is_counted_from_the_arrival() {
    let after = Duration::from_millis(4);
    assert_eq!(PublishedPolicy::HANDOFF.handoff_after, Some(after));
    assert_eq!(PublishedPolicy::UNFAIR.handoff_after, None);
    let lock = Lock::new(Policy::HANDOFF);
    let due = |kind, arrived| {
        let access = if kind == Kind::Reader { Access::Shared } else { Access::Exclusive };
        lock.kernel().is_due(&Waiter::new(access, Native::thread(), arrived, 0))
    };
    for kind in [Kind::Reader, Kind::Writer] {
        assert!(due(kind, Native::now() - 4_000_000));
        assert!(!due(kind, Native::now() + 60_000_000_000));
    }
}

/// Readers ahead of the writers, between them and behind them.
#[test]
fn all_queued_readers_are_granted_past_the_writers_which_keep_their_order() {
    let lock = &Lock::new(Policy::NO_READER_SPIN);
    let queued_writers = || {
        lock.with_waiters(|queue| {
            let writers = queue.iter().filter(|waiter| waiter.kind == Kind::Writer);
            writers.map(|waiter| waiter.thread.hint()).collect::<Vec<_>>()
        })
    };
    lock.write();
    scope(|s| {
        let (mut readers, mut writers) = (vec![], vec![]);
        for (before, kind) in [Kind::Reader, Kind::Writer, Kind::Reader, Kind::Writer, Kind::Reader]
            .iter()
            .enumerate()
        {
            match kind {
                Kind::Reader => {
                    readers.push(s.spawn(|| lock.read()));
                    until(|| waiters(lock) == before + 1);
                }
                Kind::Writer => writers.push(visit_asleep(&s, lock, Kind::Writer)),
            }
        }
        let order = queued_writers();
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        readers.into_iter().for_each(|reader| join(reader));
        assert_eq!(word(lock).readers(), 3);
        assert_eq!(queued_writers(), order);
        assert_eq!(order.len(), 2);
        // SAFETY: those of the three readers.
        unsafe { (0..3).for_each(|_| lock.unlock_read()) };
        writers.into_iter().for_each(|writer| join(writer));
    });
    assert_free(lock);
}

/// The reader has counted itself; then it sees that a writer got in.
#[test]
fn a_reader_at_the_head_takes_its_count_back_and_closes_the_lock() {
    let lock = &Lock::new(IMMEDIATE);
    lock.write();
    scope(|s| {
        let reader = visit_asleep(&s, lock, Kind::Reader);
        let held = Word::WRITTEN.with(Flags::WAITERS.with(Flags::HANDOFF));
        assert_eq!(word(lock), held);
        // As the writer that got in leaves it, and finds the head: nothing has changed.
        lock.kernel().wake_after_release();
        assert_eq!(word(lock), held);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(reader);
    });
    assert_free(lock);
}

/// Free as if the wake-up of its release were still to come.
#[test]
fn a_reader_that_steals_as_the_first_wakes_the_readers_in_the_queue_and_no_reader_steals_beside_readers()
 {
    let lock = &Lock::new(Policy::NO_READER_SPIN);
    lock.write();
    scope(|s| {
        let writer = visit_asleep(&s, lock, Kind::Writer);
        let reader = s.spawn(|| lock.read());
        until(|| waiters(lock) == 2);
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        lock.read();
        // The thief alone can have let it in, past the writer.
        join(reader);
        assert_eq!((word(lock).readers(), waiters(lock)), (2, 1));
        // Readers have the lock, and one that comes queues.
        let wait = Wait::until_nanos(soon(1));
        assert_eq!(lock.read_with(wait), Err(WaitError::TimedOut));
        // SAFETY: taken above, and by that reader.
        unsafe { (0..2).for_each(|_| lock.unlock_read()) };
        join(writer);
    });
    assert_free(lock);
}

/// The flags alone, and a lock that is free, as if the wake-up of its release were still to come.
#[test]
fn nobody_from_outside_gets_in_while_the_lock_is_closed() {
    let alone = Word::FREE.with(Flags::HANDOFF);
    assert!(!alone.is_open_to_readers() && !alone.is_open_to_new_readers());
    assert!(!alone.is_open_past_queue() && !alone.is_read_stealable());
    assert!(!alone.is_write_stealable());
    let lock = &Lock::new(Policy::NO_READER_SPIN);
    lock.write();
    scope(|s| {
        let head = visit_asleep(&s, lock, Kind::Writer);
        assert!(close(lock).is_closed());
        free_without_wake_check(lock);
        assert!(!lock.try_read() && !lock.try_write() && !lock.try_upgradable_read());
        // The reader last: it queues, and wakes the head.
        assert!(!writer_steals(lock) && !reader_steals(lock));
        lock.kernel().wake_after_release();
        join(head);
    });
    assert_free(lock);
}

/// The lock is held meanwhile, so nobody but the one that leaves can have woken the next.
#[test]
fn a_head_that_gives_up_leaves_the_lock_closed_and_wakes_the_next() {
    static COUNTS: EventCounts = EventCounts::new();
    for kind in [Kind::Reader, Kind::Writer] {
        let (lock, token) = (&Lock::new(Policy::UNFAIR), CancelToken::new());
        lock.set_events(Some(&COUNTS));
        lock.write();
        scope(|s| {
            let wait = Wait::FOREVER.cancellable(&token);
            let head = s.spawn(move || match kind {
                Kind::Reader => lock.read_with(wait),
                Kind::Writer => lock.write_with(wait),
            });
            until(|| waiters(lock) == 1);
            let next = visit_asleep(&s, lock, Kind::Writer);
            assert!(close(lock).is_closed());
            COUNTS.reset();
            token.cancel();
            assert_eq!(join(head), Err(WaitError::Cancelled));
            assert!(word(lock).is_closed());
            assert_eq!(COUNTS.get(Event::WakeWriter), 1);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            join(next);
        });
        assert_free(lock);
    }
}

/// All waiters are in this frame, and none has a thread of its own.
#[test]
fn a_wake_takes_256_readers_and_leaves_the_others_to_the_next() {
    let lock = Lock::new(Policy::NO_READER_SPIN);
    let kernel = lock.kernel();
    let all: Vec<_> =
        (0..300).map(|_| Waiter::new(Access::Shared, Native::thread(), 0, 0)).collect();
    let wake = || {
        kernel.with_queue(|q| {
            kernel.wake_check(q, true, &mut WakeList::new());
            q.waiters.len()
        })
    };
    kernel.with_queue(|q| {
        // SAFETY: they are granted the lock below, and so out of the queue.
        all.iter().for_each(|waiter| unsafe { q.waiters.push(waiter) });
        kernel.word.set(Flags::WAITERS, Ordering::Relaxed);
    });
    assert_eq!((wake(), word(&lock).readers()), (44, 256));
    assert_eq!((wake(), word(&lock).readers()), (0, 300));
    assert!(all.iter().all(|waiter| waiter.state() == GRANTED));
    // SAFETY: those of all of them.
    all.iter().for_each(|_| unsafe { lock.unlock_read() });
    assert_free(&lock);
}
