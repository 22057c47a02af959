//! Proposal 5, sentence by sentence (`docs/rules.md`, "What keeps each sentence").
//!
//! What a thread may do past the queue is tried with the queue asleep, and the lock free as if the wake-up of its
//! release were still to come. So nothing depends on when a thread runs.

use core::sync::atomic::Ordering;
use core::time::Duration;

use fairlock_testing::{join, scope, until};

use super::Policy;
use super::tests::{Lock, assert_free, close, visit, visit_asleep, waiters, word};
use super::word::{Flags, Word};
use crate::events::{Event, EventCounts};
use crate::wait::{CancelToken, Kind, Wait, WaitError};

/// Nobody is ever past a deadline.
fn phase(writer_phase: bool) -> Lock {
    Lock::new(Policy { handoff_after: None, writer_phase, ..Policy::WRITER_PHASE })
}

/// Whether a reader that comes now gets in past the queue. If not it queues, gives up, and may have the lock
/// before that.
pub(super) fn reader_steals(lock: &Lock) -> bool {
    let counts: &EventCounts = Box::leak(Box::default());
    lock.set_events(Some(counts));
    match lock.read_with(Wait::until_nanos(0)) {
        // SAFETY: just taken.
        Ok(()) => unsafe { lock.unlock_read() },
        Err(error) => assert_eq!(error, WaitError::TimedOut),
    }
    counts.get(Event::ReadSteal) == 1
}

/// As [`reader_steals`], for a writer, which does not queue.
pub(super) fn writer_steals(lock: &Lock) -> bool {
    let stolen = lock.steal_as_writer(word(lock));
    if stolen {
        assert!(word(lock).is_written());
        free_without_wake_check(lock);
    }
    stolen
}

/// Threads of these kinds queue in this order while the lock is written, and sleep. Then `then` runs, with the
/// lock still written, and lets it go.
fn behind_a_writer<const N: usize>(lock: &Lock, kinds: [Kind; N], then: impl FnOnce()) {
    lock.write();
    scope(|s| {
        let visitors = kinds.map(|kind| visit_asleep(&s, lock, kind));
        assert_eq!(waiters(lock), N);
        then();
        visitors.into_iter().for_each(|visitor| join(visitor));
    });
    assert_free(lock);
}

fn unlock_write(lock: &Lock) {
    // SAFETY: each caller holds the lock for writing.
    unsafe { lock.unlock_write() };
}

/// As a release does, but its thread has not come to the wake check yet.
pub(super) fn free_without_wake_check(lock: &Lock) {
    lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
}

fn is_phase(lock: &Lock) -> bool {
    word(lock).is_writer_phase()
}

/// `then` runs while a writer is queued, which gives up after that.
fn beside_a_queued_writer(lock: &Lock, then: impl FnOnce()) {
    let token = CancelToken::new();
    scope(|s| {
        let waiter = s.spawn(|| lock.write_with(Wait::FOREVER.cancellable(&token)));
        until(|| waiters(lock) == 1);
        then();
        token.cancel();
        assert_eq!(join(waiter), Err(WaitError::Cancelled));
    });
}

#[test]
fn phase_begins_when_a_writer_joins_an_empty_queue_if_the_policy_says_so() {
    for writer_phase in [false, true] {
        let lock = &phase(writer_phase);
        behind_a_writer(lock, [Kind::Writer], || {
            assert_eq!(is_phase(lock), writer_phase);
            unlock_write(lock);
        });
        lock.read();
        beside_a_queued_writer(lock, || assert_eq!(is_phase(lock), writer_phase));
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        assert_free(lock);
    }
}

/// The reader holds the lock when the word is looked at, and two writers are left.
#[test]
fn phase_begins_when_a_granted_reader_leaves_the_head_to_a_writer() {
    for writer_phase in [false, true] {
        let lock = &phase(writer_phase);
        lock.write();
        scope(|s| {
            let reader = s.spawn(|| lock.read());
            until(|| waiters(lock) == 1);
            let writers = [(); 2].map(|()| visit_asleep(&s, lock, Kind::Writer));
            assert!(!is_phase(lock), "a reader heads the queue");
            unlock_write(lock);
            join(reader);
            assert_eq!((word(lock).readers(), waiters(lock)), (1, 2));
            assert_eq!(is_phase(lock), writer_phase);
            // The reader leaves, and its wake check is still to come: both writers sleep.
            lock.word.leave(Ordering::Release);
            assert_eq!(reader_steals(lock), !writer_phase);
            // What is left of that release.
            lock.wake_after_release();
            writers.into_iter().for_each(|writer| join(writer));
        });
        assert_free(lock);
    }
}

#[test]
fn phase_begins_when_a_reader_that_gives_up_leaves_the_head_to_a_writer() {
    let lock = &phase(true);
    let token = CancelToken::new();
    lock.write();
    scope(|s| {
        let reader = s.spawn(|| lock.read_with(Wait::FOREVER.cancellable(&token)));
        until(|| waiters(lock) == 1);
        let writer = visit_asleep(&s, lock, Kind::Writer);
        assert!(!is_phase(lock));
        token.cancel();
        assert_eq!(join(reader), Err(WaitError::Cancelled));
        assert!(is_phase(lock));
        unlock_write(lock);
        join(writer);
    });
    assert_free(lock);
}

/// The first of two writers has the lock, and a reader is behind it: granted readers have no phase.
#[test]
fn phase_ends_when_a_reader_becomes_the_head() {
    let lock = &phase(true);
    lock.write();
    scope(|s| {
        let writer = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        let reader = visit_asleep(&s, lock, Kind::Reader);
        assert!(is_phase(lock));
        unlock_write(lock);
        join(writer);
        assert_eq!(waiters(lock), 1);
        assert!(!is_phase(lock), "a reader heads the queue");
        unlock_write(lock);
        join(reader);
    });
    assert_free(lock);
    // The same where the writer gives up.
    let token = CancelToken::new();
    lock.write();
    scope(|s| {
        let writer = s.spawn(|| lock.write_with(Wait::FOREVER.cancellable(&token)));
        until(|| waiters(lock) == 1);
        let reader = visit_asleep(&s, lock, Kind::Reader);
        token.cancel();
        assert_eq!(join(writer), Err(WaitError::Cancelled));
        assert!(!is_phase(lock), "a reader heads the queue");
        unlock_write(lock);
        join(reader);
    });
    assert_free(lock);
}

#[test]
fn phase_ends_when_the_only_waiter_takes_the_lock_or_gives_up() {
    let lock = &phase(true);
    lock.write();
    scope(|s| {
        let writer = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        assert!(is_phase(lock));
        unlock_write(lock);
        join(writer);
    });
    assert_eq!(word(lock), Word::WRITTEN);
    beside_a_queued_writer(lock, || assert!(is_phase(lock)));
    assert_eq!(word(lock), Word::WRITTEN);
    unlock_write(lock);
    assert_free(lock);
}

#[test]
fn phase_lasts_across_writers_that_follow_each_other() {
    let lock = &phase(true);
    lock.write();
    scope(|s| {
        let first = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        let second = visit_asleep(&s, lock, Kind::Writer);
        unlock_write(lock);
        join(first);
        assert_eq!(waiters(lock), 1);
        assert!(is_phase(lock));
        // The second writer is asleep, and no reader passes it.
        free_without_wake_check(lock);
        assert!(!reader_steals(lock));
        lock.wake_after_release();
        join(second);
    });
    assert_free(lock);
}

#[test]
fn no_reader_gets_in_past_the_queue_in_a_phase_by_the_fast_path_or_by_stealing() {
    for writer_phase in [false, true] {
        let lock = &phase(writer_phase);
        behind_a_writer(lock, [Kind::Writer], || {
            free_without_wake_check(lock);
            assert!(!lock.try_read());
            assert!(lock.read_fast().is_err());
            lock.word.leave(Ordering::Release);
            // Off by policy, the reader steals.
            assert_eq!(reader_steals(lock), !writer_phase);
            lock.wake_after_release();
        });
    }
    // The flag alone keeps readers out: it does not need the one that says that somebody waits.
    let alone = Word::FREE.with(Flags::WRITER_PHASE);
    assert!(
        !alone.is_open_to_readers() && !alone.is_open_past_queue() && !alone.is_read_stealable()
    );
}

#[test]
fn readers_steal_while_a_reader_heads_the_queue() {
    let lock = &phase(true);
    behind_a_writer(lock, [Kind::Reader, Kind::Writer], || {
        free_without_wake_check(lock);
        assert!(reader_steals(lock));
    });
}

#[test]
fn writers_steal_in_a_phase() {
    let lock = &phase(true);
    behind_a_writer(lock, [Kind::Writer], || {
        free_without_wake_check(lock);
        assert!(is_phase(lock));
        assert!(writer_steals(lock));
        assert!(is_phase(lock) && waiters(lock) == 1);
        lock.wake_after_release();
    });
}

/// Set by the head that is past its deadline, kept by writers outside, gone when the head has the lock.
#[test]
fn handoff_is_the_same_in_a_phase() {
    let lock = &phase(true);
    behind_a_writer(lock, [Kind::Writer], || {
        assert!(close(lock).is_closed() && is_phase(lock));
        free_without_wake_check(lock);
        assert!(!writer_steals(lock) && !reader_steals(lock));
        lock.wake_after_release();
    });
    let lock = &Lock::new(Policy { handoff_after: Some(Duration::ZERO), ..Policy::WRITER_PHASE });
    lock.write();
    scope(|s| {
        let head = s.spawn(|| visit(lock, Kind::Writer));
        until(|| word(lock).is_closed());
        assert!(is_phase(lock));
        unlock_write(lock);
        join(head);
    });
    assert_free(lock);
}
