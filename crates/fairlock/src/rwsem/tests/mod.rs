//! Tests that have to look inside: who is queued, and what the word is.
//!
//! No test depends on how long anything takes. What must happen is waited for,
//! and a test that waits in vain ends the process (`fairlock_testing`).
#![allow(clippy::duplicate_mod, reason = "the lock of the proposals has to pass the same tests")]

#[path = "../../published/tests/cancel.rs"]
mod cancel;
#[path = "../../published/tests/full.rs"]
mod full;
#[path = "../../published/tests/grants.rs"]
mod grants;
#[cfg(all(target_os = "linux", not(miri)))]
mod priority;
#[path = "../../published/tests/rules.rs"]
mod rules;
mod turns;
mod upgrade;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use fairlock_testing::{Scope, end, join, rounds, scope, until};

use super::word::{Flags, READERS_LIMIT, Word};
use super::{Percent, Policy, RwSem};
use crate::platform::{Native, System};
use crate::wait::{Access, CancelToken, Kind, Wait, WaitError};

type Lock = RwSem<Native>;

/// Turns of the usual length, and turns that end as often as they can.
const POLICIES: [(&str, Policy); 2] = [
    ("tenure", Policy::DEFAULT),
    (
        "short tenure",
        Policy { aim: Duration::ZERO, budget: Percent::new(100).unwrap(), ..Policy::DEFAULT },
    ),
];

fn for_each_policy(test: impl Fn(&Lock)) {
    for (name, policy) in POLICIES {
        println!("policy: {name}");
        let lock = Lock::new(policy);
        test(&lock);
        assert_free(&lock);
    }
}

fn waiters(lock: &Lock) -> usize {
    lock.with_waiters(|waiters| waiters.len())
}

fn word(lock: &Lock) -> Word {
    lock.word.load(Ordering::SeqCst)
}

/// Closes the lock if anybody is queued; returns the word after that.
fn close(lock: &Lock) -> Word {
    lock.word.flag_queue(Flags::HANDOFF)
}

/// A signal that only these tests use.
#[cfg(all(target_os = "linux", not(miri)))]
fn signal(which: i32) -> i32 {
    libc::SIGRTMIN() + 3 + which
}

/// As if the lock had been written as the thread came.
fn write_slowly(lock: &Lock) {
    lock.turns().write_slow_forever(Word::WRITTEN);
}

/// As [`write_slowly`], for reading.
fn read_slowly(lock: &Lock) {
    lock.word.enter(Access::Shared, Ordering::SeqCst);
    lock.turns().read_slow_forever(Word::WRITTEN);
}

/// A reader that was counted takes its count back.
fn take_count_back(lock: &Lock) {
    lock.turns().take_count_back();
}

fn assert_free(lock: &Lock) {
    assert_eq!((word(lock), waiters(lock)), (Word::FREE, 0));
    assert!(!lock.has_waiters() && lock.try_write());
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

fn soon(ms: u64) -> u64 {
    Native::now() + ms * 1_000_000
}

/// Takes the lock and lets it go.
fn visit(lock: &Lock, kind: Kind) {
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
fn visit_asleep<'s>(s: &Scope<'s, '_>, lock: &'s Lock, kind: Kind) -> ScopedJoinHandle<'s, ()> {
    let (send, record) = mpsc::channel();
    let visitor = s.spawn(move || {
        send.send(Native::thread()).unwrap();
        visit(lock, kind);
    });
    let record = record.recv().unwrap();
    until(|| record.is_asleep());
    visitor
}

#[test]
fn planned_wait_grows_with_the_grants_ahead() {
    let lock = RwSem::<Native>::new(Policy::DEFAULT);
    // Two threads share the aim of 4 ms; while both sides wait, tenures of many may take twice as long together.
    let waits = [1, 10, 100].map(|ahead| lock.planned_wait_ns(ahead));
    assert!(waits.is_sorted() && waits[0] >= 2_000_000 && waits[2] >= 8_000_000, "{waits:?}");
    assert_eq!(lock.planned_wait_ns(0), 0);
}

#[test]
fn readers_behind_a_writer_that_turns_to_reading_are_not_forgotten() {
    for _ in 0..rounds(50) {
        let lock = Lock::new(Policy::DEFAULT);
        let lock = &lock;
        lock.write();
        scope(|s| {
            let readers = [(); 4].map(|()| {
                s.spawn(move || {
                    lock.read();
                    // SAFETY: taken above.
                    unsafe { lock.unlock_read() };
                })
            });
            until(|| waiters(lock) == 4);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            // Enough to share the tenure; then it never comes back.
            for _ in 0..20 {
                lock.read();
                // SAFETY: taken above.
                unsafe { lock.unlock_read() };
            }
            for reader in readers {
                join(reader);
            }
        });
        assert!(!lock.has_waiters());
    }
}

/// A caller that was not inside leaves no trace.
#[test]
fn who_leaves_as_a_reader_and_may_be_wrong_is_told() {
    for_each_policy(|lock| {
        // SAFETY: nobody relies on the lock.
        let leaves = || unsafe { lock.try_unlock_read() };
        assert!(!leaves() && !lock.is_locked());
        lock.read();
        assert!(leaves() && !leaves());
        lock.write();
        assert!(!leaves() && lock.is_write_locked());
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        assert!(lock.try_read() && leaves());
    });
}

/// As [`RwSem::unlock_read`] it lets the writer in that waits.
#[test]
fn the_last_reader_that_may_be_wrong_wakes_the_writer() {
    for_each_policy(|lock| {
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 1);
            // SAFETY: taken above.
            assert!(unsafe { lock.try_unlock_read() });
            join(writer);
        });
    });
}
