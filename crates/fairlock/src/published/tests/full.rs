//! The count of readers, full.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::events::{Event, EventCounts};

const FULL: Word = Word::FREE.with_readers(READERS_LIMIT);

/// Leaves the word as if so many guards had been forgotten.
fn fill(lock: &Lock, word: Word) {
    lock.word.store(word);
}

fn unlock_read(lock: &Lock) {
    // SAFETY: the caller has just read it.
    unsafe { lock.unlock_read() };
}

fn panics(read: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(read)).is_err()
}

#[test]
fn beside_as_many_readers_as_can_be_no_way_of_reading_gets_in() {
    static COUNTS: EventCounts = EventCounts::new();
    let token = CancelToken::new();
    let fails = Err(WaitError::TooManyReaders);
    for_each_policy(|lock| {
        lock.set_events(Some(&COUNTS));
        for word in [FULL, FULL.with_reader(), FULL.with_readers(7)] {
            COUNTS.reset();
            fill(lock, word);
            assert!(lock.is_saturated() && lock.is_locked());
            assert!(!lock.try_read() && !lock.try_read_recursive());
            for wait in [
                Wait::FOREVER,
                Wait::until_nanos(0),
                Wait::until_nanos(soon(10_000)),
                Wait::FOREVER.interruptible(),
                Wait::FOREVER.cancellable(&token),
            ] {
                assert_eq!([lock.read_with(wait), lock.read_recursive_with(wait)], [fails; 2]);
            }
            assert!(panics(|| lock.read()) && panics(|| lock.read_recursive()));
            assert_eq!(COUNTS.get(Event::ReadFail), 12);
            assert!(!lock.try_write());
            assert_eq!(lock.write_with(Wait::until_nanos(soon(2))), Err(WaitError::TimedOut));
            assert_eq!(super::word(lock), word, "no trace of any attempt");
        }
        fill(lock, Word::FREE);
    });
}

#[test]
fn the_last_reader_that_can_be_is_one_like_the_others() {
    for_each_policy(|lock| {
        for read in [Lock::read, Lock::read_recursive] {
            fill(lock, FULL.without_reader());
            assert!(!lock.is_saturated());
            read(lock);
            assert_eq!((word(lock), lock.is_saturated()), (FULL, true));
            unlock_read(lock);
            assert!(lock.try_read() && !lock.try_read());
            unlock_read(lock);
            assert!(lock.try_read_recursive() && !lock.try_read_recursive());
            unlock_read(lock);
            assert_eq!(word(lock), FULL.without_reader());
        }
        fill(lock, Word::FREE);
    });
}

#[test]
fn a_reader_that_finds_no_room_does_not_queue_behind_a_writer() {
    for_each_policy(|lock| {
        let token = &CancelToken::new();
        fill(lock, FULL);
        scope(|s| {
            let writer = s.spawn(|| lock.write_with(Wait::FOREVER.cancellable(token)));
            until(|| waiters(lock) == 1);
            let reader = s
                .spawn(|| (lock.read_with(Wait::FOREVER), lock.read_recursive_with(Wait::FOREVER)));
            let fails = Err(WaitError::TooManyReaders);
            assert_eq!(join(reader), (fails, fails));
            token.cancel();
            assert_eq!(join(writer), Err(WaitError::Cancelled));
        });
        assert_eq!(word(lock), FULL);
        fill(lock, Word::FREE);
    });
}

/// Three readers and, if `writer_waits`, a writer are in the queue of a lock that is full once its
/// writer has become a reader. A reader is first: in a writers' phase nobody behind a writer is let
/// in. Returns how the readers' waits ended.
fn let_in_from_the_queue(lock: &Lock, writer_waits: bool) -> [Result<(), WaitError>; 3] {
    let token = &CancelToken::new();
    lock.write();
    let results = scope(|s| {
        let reader = || lock.read_with(Wait::FOREVER.cancellable(token));
        let first = s.spawn(reader);
        until(|| waiters(lock) == 1);
        let readers = [first, s.spawn(reader), s.spawn(reader)];
        let writer =
            writer_waits.then(|| s.spawn(|| lock.write_with(Wait::FOREVER.cancellable(token))));
        until(|| waiters(lock) == 3 + usize::from(writer_waits));
        lock.word.enter_readers(READERS_LIMIT - 1, Ordering::SeqCst);
        // SAFETY: written above.
        unsafe { lock.downgrade() };
        until(|| readers.iter().any(|reader| reader.is_finished()));
        if writer_waits {
            token.cancel(); // nobody who is behind it
        }
        if let Some(writer) = writer {
            assert_eq!(join(writer), Err(WaitError::Cancelled));
        }
        readers.map(|reader| join(reader))
    });
    assert_eq!(word(lock), FULL);
    fill(lock, Word::FREE);
    results
}

#[test]
fn readers_that_are_granted_find_no_room_and_leave() {
    for_each_policy(|lock| {
        let results = let_in_from_the_queue(lock, false);
        assert_eq!(results, [Err(WaitError::TooManyReaders); 3]);
    });
}

#[test]
fn readers_that_are_let_in_beside_others_find_no_room_and_leave() {
    for_each_policy(|lock| {
        let results = let_in_from_the_queue(lock, true);
        assert!(results.contains(&Err(WaitError::TooManyReaders)) && !results.contains(&Ok(())));
    });
}

/// Each reader adds itself for a moment, and there is room for all of them beyond those inside.
#[test]
fn the_count_is_what_it_was_after_many_threads_have_failed() {
    for_each_policy(|lock| {
        fill(lock, FULL);
        scope(|s| {
            let threads = [(); 4].map(|()| {
                s.spawn(|| {
                    for _ in 0..1_000 {
                        assert_eq!(lock.read_with(Wait::FOREVER), Err(WaitError::TooManyReaders));
                        assert!(!lock.try_read() && !lock.try_write());
                        let seen = word(lock);
                        assert!(!seen.has_room() && seen.readers() <= READERS_LIMIT + 4);
                    }
                })
            });
            threads.into_iter().for_each(|thread| join(thread));
        });
        assert_eq!(word(lock), FULL);
        fill(lock, Word::FREE);
    });
}
