//! Tests that have to look inside: who is queued, and what the word is.
//!
//! No test depends on how long anything takes. What must happen is waited for,
//! and a test that waits in vain ends the process (`fairlock_testing`).

mod cancel;
mod full;
#[cfg(all(target_os = "linux", not(miri)))]
mod priority;
mod rules;
mod turns;
mod upgrade;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use fairlock_testing::{Scope, end, join, rounds, scope, until};

use super::sem::Rules;
use super::word::{Flags, Word};
use super::{Either, Percent, Policy, PublishedPolicy, ReaderSpin, RwSem, TenurePolicy, either};
use crate::platform::{Native, System};
use crate::wait::{CancelToken, Kind, Wait, WaitError};

pub(crate) type Lock = RwSem<Native>;

/// Both disciplines, each with its handoff now and then and as often as it can be.
const POLICIES: [(&str, Policy); 5] = [
    ("handoff", Policy::HANDOFF),
    ("writer phase", Policy::WRITER_PHASE),
    (
        "immediate",
        Policy::published(PublishedPolicy {
            handoff_after: Some(Duration::ZERO),
            ..PublishedPolicy::WRITER_PHASE
        }),
    ),
    ("tenure", Policy::DEFAULT),
    (
        "short tenure",
        Policy::tenure(TenurePolicy {
            aim: Duration::ZERO,
            budget: Percent::new(100).unwrap(),
            ..TenurePolicy::DEFAULT
        }),
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

pub(crate) fn waiters(lock: &Lock) -> usize {
    lock.with_waiters(|waiters| waiters.len())
}

pub(crate) fn word(lock: &Lock) -> Word {
    lock.word.load(Ordering::SeqCst)
}

/// Closes the lock if anybody is queued; returns the word after that.
pub(crate) fn close(lock: &Lock) -> Word {
    lock.word.flag_queue(Flags::HANDOFF)
}

pub(crate) fn assert_free(lock: &Lock) {
    assert_eq!((word(lock), waiters(lock)), (Word::FREE, 0));
    assert!(!lock.has_waiters() && lock.try_write());
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

pub(crate) fn soon(ms: u64) -> u64 {
    Native::now() + ms * 1_000_000
}

/// Takes the lock and lets it go.
pub(crate) fn visit(lock: &Lock, kind: Kind) {
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
pub(crate) fn visit_asleep<'s>(
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

#[test]
fn planned_wait_grows_with_the_grants_ahead() {
    let lock = RwSem::<Native>::new(Policy::DEFAULT);
    // Two threads share the aim of 4 ms; while both sides wait, tenures of many may take twice as long together.
    let waits = [1, 10, 100].map(|ahead| lock.planned_wait_ns(ahead).unwrap());
    assert!(waits.is_sorted() && waits[0] >= 2_000_000 && waits[2] >= 8_000_000, "{waits:?}");
    assert_eq!(lock.planned_wait_ns(0), Some(0));
    assert_eq!(RwSem::<Native>::new(Policy::HANDOFF).planned_wait_ns(1), None);
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
