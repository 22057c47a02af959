//! Tests that have to look inside: who is queued, and what the word is.
//!
//! No test depends on how long anything takes. What must happen is waited for,
//! and a test that waits in vain ends the process (`fairlock_testing`).

mod cancel;
mod full;
mod grants;
mod rules;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Barrier, mpsc};
use std::thread::{self, ScopedJoinHandle};

use fairlock_testing::{Scope, end, join, rounds, scope, until};

use super::phase_tests::{free_without_wake_check, reader_steals, writer_steals};
use super::word::{Flags, READERS_LIMIT, Word};
use super::{Policy, ReaderSpin, RwSem};
use crate::events::{Event, EventCounts};
use crate::platform::{Native, System};
use crate::wait::{
    Access, CancelToken, GRANTED, Kind, Queue, Wait, WaitContext, WaitError, Waiter, WakeList,
};

pub(super) type Lock = RwSem<Native>;

/// With a handoff now and then, and with as many as there can be.
const POLICIES: [(&str, Policy); 3] = [
    ("handoff", Policy::HANDOFF),
    ("writer phase", Policy::WRITER_PHASE),
    ("immediate", Policy { handoff_after: Some(Duration::ZERO), ..Policy::WRITER_PHASE }),
];

fn for_each_policy(test: impl Fn(&Lock)) {
    for (name, policy) in POLICIES {
        println!("policy: {name}");
        let lock = Lock::new(policy);
        test(&lock);
        assert_free(&lock);
    }
}

impl Lock {
    fn with_waiters<R>(&self, f: impl FnOnce(&Queue<Native>) -> R) -> R {
        self.queue.with(|q| f(q))
    }
}

pub(super) fn waiters(lock: &Lock) -> usize {
    lock.with_waiters(|waiters| waiters.len())
}

pub(super) fn word(lock: &Lock) -> Word {
    lock.word.load(Ordering::SeqCst)
}

/// Closes the lock if anybody is queued; returns the word after that.
pub(super) fn close(lock: &Lock) -> Word {
    lock.word.close()
}

/// A signal that only these tests use.
#[cfg(all(target_os = "linux", not(miri)))]
fn signal(which: i32) -> i32 {
    libc::SIGRTMIN() + which
}

/// As if the lock had been written as the thread came.
fn write_slowly(lock: &Lock) {
    lock.write_slow_forever(Word::WRITTEN);
}

/// As [`write_slowly`], for reading.
fn read_slowly(lock: &Lock) {
    lock.word.enter(Ordering::SeqCst);
    lock.read_slow_forever(Word::WRITTEN);
}

/// A reader that was counted takes its count back.
fn take_count_back(lock: &Lock) {
    lock.take_back_count();
}

pub(super) fn assert_free(lock: &Lock) {
    assert_eq!((word(lock), waiters(lock)), (Word::FREE, 0));
    assert!(!lock.has_waiters() && lock.try_write());
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

fn soon(ms: u64) -> u64 {
    Native::now() + ms * 1_000_000
}

/// Takes the lock and lets it go.
pub(super) fn visit(lock: &Lock, kind: Kind) {
    match kind {
        Kind::Reader => {
            lock.read();
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        }
        Kind::Writer => {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
    }
}

/// A thread that [visits](visit) the lock, and has gone to sleep in its queue.
pub(super) fn visit_asleep<'s>(
    s: &Scope<'s, '_>,
    lock: &'s Lock,
    kind: Kind,
) -> ScopedJoinHandle<'s, ()> {
    let (send, record) = mpsc::channel();
    let visitor = s.spawn(move || {
        send.send(Native::thread()).unwrap();
        visit(lock, kind);
    });
    let record = record.recv().unwrap();
    until(|| record.is_asleep());
    visitor
}

/// The head of its queue is past its deadline as it comes.
const IMMEDIATE: Policy = Policy { handoff_after: Some(Duration::ZERO), ..Policy::HANDOFF };

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
    let wait = |access| lock.wait(access, Native::thread(), &WaitContext::FOREVER);
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

/// The time that a waiter may be passed over begins when it comes.
#[test]
fn the_head_closes_the_lock_at_its_deadline_and_not_before() {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    for (after, closes) in [(None, false), (Some(WEEK), false), (Some(Duration::ZERO), true)] {
        for kind in [Kind::Reader, Kind::Writer] {
            let lock = &Lock::new(Policy { handoff_after: after, ..Policy::NO_READER_SPIN });
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

/// A deadline further away than the clock goes is one that nobody sees.
#[test]
fn a_very_long_deadline_is_not_over_as_it_begins() {
    // The last is a few nanoseconds long if its high bits are lost.
    for after in [
        Duration::MAX,
        Duration::from_nanos(u64::MAX),
        Duration::from_nanos(u64::MAX) + Duration::from_nanos(3),
    ] {
        let lock = Lock::new(Policy { handoff_after: Some(after), ..Policy::HANDOFF });
        assert!(!lock.is_due(&Waiter::new(Access::Shared, Native::thread(), Native::now(), 0)));
    }
}

/// A deadline that lies between two looks of the head: what counts is how long ago it came.
#[test]
fn a_deadline_is_counted_from_the_arrival() {
    let after = Duration::from_millis(4);
    assert_eq!(Policy::HANDOFF.handoff_after, Some(after));
    assert_eq!(Policy::UNFAIR.handoff_after, None);
    let lock = Lock::new(Policy::HANDOFF);
    let due = |kind, arrived| {
        let access = if kind == Kind::Reader { Access::Shared } else { Access::Exclusive };
        lock.is_due(&Waiter::new(access, Native::thread(), arrived, 0))
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
        lock.wake_after_release();
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
    assert!(
        !alone.is_open_to_readers() && !alone.is_open_past_queue() && !alone.is_read_stealable()
    );
    assert!(!alone.is_write_stealable());
    let lock = &Lock::new(Policy::NO_READER_SPIN);
    lock.write();
    scope(|s| {
        let head = visit_asleep(&s, lock, Kind::Writer);
        assert!(close(lock).is_closed());
        free_without_wake_check(lock);
        assert!(!lock.try_read() && !lock.try_write());
        // The reader last: it queues, and wakes the head.
        assert!(!writer_steals(lock) && !reader_steals(lock));
        lock.wake_after_release();
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
    let kernel = &lock;
    let all: Vec<_> =
        (0..300).map(|_| Waiter::new(Access::Shared, Native::thread(), 0, 0)).collect();
    let wake = || {
        kernel.queue.with(|q| {
            kernel.wake_check(q, true, &mut WakeList::new());
            q.len()
        })
    };
    kernel.queue.with(|q| {
        // SAFETY: they are granted the lock below, and so out of the queue.
        all.iter().for_each(|waiter| unsafe { q.push(waiter) });
        kernel.word.set(Flags::WAITERS, Ordering::Relaxed);
    });
    assert_eq!((wake(), word(&lock).readers()), (44, 256));
    assert_eq!((wake(), word(&lock).readers()), (0, 300));
    assert!(all.iter().all(|waiter| waiter.state() == GRANTED));
    // SAFETY: those of all of them.
    all.iter().for_each(|_| unsafe { lock.unlock_read() });
    assert_free(&lock);
}

/// The head has been handed the lock and holds it. Those behind it are not past their deadlines, so
/// running threads may steal again.
#[test]
fn handoff_ends_when_the_head_takes_the_lock() {
    let policy = Policy { handoff_after: None, ..Policy::HANDOFF };
    for first in [Kind::Writer, Kind::Reader] {
        let lock = &Lock::new(policy);
        let (taken, seen) = (Barrier::new(2), Barrier::new(2));
        lock.write();
        scope(|s| {
            let head = s.spawn(|| {
                if first == Kind::Writer {
                    lock.write()
                } else {
                    lock.read()
                }
                taken.wait();
                seen.wait();
                // SAFETY: just taken.
                unsafe {
                    if first == Kind::Writer { lock.unlock_write() } else { lock.unlock_read() }
                }
            });
            until(|| waiters(lock) == 1);
            let behind = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 2);
            // SAFETY: taken above.
            unsafe { lock.unlock_write_fair() };
            taken.wait();
            assert_eq!(waiters(lock), 1);
            let word = word(lock);
            assert!(word.has_waiters() && !word.is_closed(), "{first:?}: {word:?}");
            seen.wait();
            join(head);
            join(behind);
        });
        assert_free(lock);
    }
}

#[test]
fn rule_09_nobody_spins_for_an_unknown_owner() {
    for_each_policy(|lock| {
        lock.write();
        lock.owner.set(0);
        scope(|s| {
            let others =
                [Kind::Reader, Kind::Writer].map(|kind| s.spawn(move || visit(lock, kind)));
            // Spinning ends in the queue.
            until(|| waiters(lock) == 2);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            for other in others {
                join(other);
            }
        });
    });
}

#[test]
fn a_reader_that_is_granted_the_lock_is_counted_as_woken() {
    static COUNTS: EventCounts = EventCounts::new();
    for_each_policy(|lock| {
        lock.set_events(Some(&COUNTS));
        COUNTS.reset();
        lock.write();
        scope(|s| {
            let reader = visit_asleep(&s, lock, Kind::Reader);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            join(reader);
        });
        assert_eq!(COUNTS.get(Event::WakeReader), 1);
    });
}

/// Else they would have one after the other what they could have together.
#[test]
fn readers_in_the_queue_join_one_that_goes_past_it() {
    use ReaderSpin::*;
    for reader_spin in [Off, One, On, Always] {
        let policy = Policy { reader_spin, ..Policy::HANDOFF };
        let lock = &Lock::new(policy);
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
    let policy = Policy { reader_spin: ReaderSpin::Always, ..Policy::HANDOFF };
    let lock = &Lock::new(policy);
    lock.read();
    lock.set_nonspinnable();
    scope(|s| {
        let writer = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        join(writer);
        assert!(lock.readers_are_discouraged());
        // SAFETY: taken by that thread.
        unsafe { lock.unlock_write() };
    });
}
