//! The sixteen rules (`docs/rules.md`), as far as a test has to look inside.
//! `tests/rules.rs` tries them from outside, the models in every interleaving.

use crate::platform::System;
use std::cell::UnsafeCell;
use std::sync::Barrier;

use super::*;

/// Readers granted together are all counted: those that leave at once do not
/// let the queued writer in beside the others.
#[test]
fn rule_02_readers_granted_together_are_all_counted() {
    for_each_policy(|lock| {
        for _ in 0..rounds(40) {
            lock.write();
            scope(|s| {
                for i in 0..6 {
                    s.spawn(move || {
                        lock.read();
                        for _ in 0..i * 20 {
                            let word = word(lock);
                            assert!(!word.is_written() && word.readers() > 0, "{word:?}");
                        }
                        // SAFETY: just taken.
                        unsafe { lock.unlock_read() };
                    });
                }
                s.spawn(|| visit(lock, Kind::Writer));
                until(|| waiters(lock) == 7);
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
            });
        }
    });
}

/// HANDOFF is one bit, even if many set it at once and waiters inherit it: it is cleared as one.
#[test]
fn rule_04_handoff_set_twice_leaves_no_other_bit() {
    for_each_policy(|lock| {
        for _ in 0..rounds(40) {
            lock.write();
            let token = CancelToken::new();
            scope(|s| {
                let leaver = s.spawn(|| lock.write_with(Wait::FOREVER.cancellable(&token)));
                s.spawn(|| visit(lock, Kind::Writer));
                until(|| waiters(lock) == 2);
                let closers: Vec<_> = (0..3).map(|_| s.spawn(|| close(lock))).collect();
                token.cancel();
                for closer in closers {
                    let word = join(closer);
                    assert!(word.is_written());
                    assert_eq!(word.readers(), 0);
                }
                assert_eq!(join(leaver), Err(WaitError::Cancelled));
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
            });
            assert_free(lock);
        }
    });
}

fn closed_then_first_cancelled(lock: &Lock, first: Kind, second: Kind) {
    let token = CancelToken::new();
    lock.write();
    scope(|s| {
        let leaver = s.spawn(|| match first {
            Kind::Reader => lock.read_with(Wait::FOREVER.cancellable(&token)),
            Kind::Writer => lock.write_with(Wait::FOREVER.cancellable(&token)),
        });
        until(|| waiters(lock) == 1);
        let next = s.spawn(|| visit(lock, second));
        until(|| waiters(lock) == 2);
        assert!(close(lock).is_closed());
        token.cancel();
        assert_eq!(join(leaver), Err(WaitError::Cancelled));
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(next);
    });
    assert_free(lock);
}

#[test]
fn rule_05_cancelled_waiter_leaves_handoff_to_the_next() {
    for_each_policy(|lock| {
        closed_then_first_cancelled(lock, Kind::Writer, Kind::Writer);
        closed_then_first_cancelled(lock, Kind::Writer, Kind::Reader);
    });
}

#[test]
fn rule_06_handoff_goes_with_the_last_waiter() {
    for_each_policy(|lock| {
        for kind in [Kind::Reader, Kind::Writer] {
            let token = CancelToken::new();
            lock.write();
            scope(|s| {
                let leaver = s.spawn(|| match kind {
                    Kind::Reader => lock.read_with(Wait::FOREVER.cancellable(&token)),
                    Kind::Writer => lock.write_with(Wait::FOREVER.cancellable(&token)),
                });
                until(|| close(lock).is_closed());
                token.cancel();
                assert_eq!(join(leaver), Err(WaitError::Cancelled));
            });
            assert_eq!(word(lock), Word::WRITTEN);
            // Nor can it be set now.
            assert_eq!(close(lock), Word::WRITTEN);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
        }
    });
}

/// What was in the way is gone before the waiter has queued: nobody will come
/// to wake it.
#[test]
fn rule_07_arriving_waiter_looks_for_itself() {
    for_each_policy(|lock| {
        scope(|s| {
            join(s.spawn(|| {
                write_slowly(lock);
                // SAFETY: just taken.
                unsafe { lock.unlock_write() };
                lock.read();
                read_slowly(lock);
                assert_eq!(word(lock).readers(), 2);
                // SAFETY: taken twice.
                unsafe { (0..2).for_each(|_| lock.unlock_read()) };
            }));
        });
    });
}

#[test]
fn rule_08_cancelled_reader_at_the_head_wakes_the_next() {
    for_each_policy(|lock| {
        closed_then_first_cancelled(lock, Kind::Reader, Kind::Writer);
        closed_then_first_cancelled(lock, Kind::Reader, Kind::Reader);
    });
}

/// The state of a thread, as `ps` shows it.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn rule_10_those_behind_the_head_sleep() {
    for_each_policy(|lock| {
        lock.write();
        let (send_id, ids) = std::sync::mpsc::channel();
        scope(|s| {
            for _ in 0..6 {
                let send_id = send_id.clone();
                s.spawn(move || {
                    // SAFETY: always succeeds.
                    send_id.send(unsafe { libc::gettid() }).unwrap();
                    visit(lock, Kind::Writer);
                });
            }
            let ids: Vec<_> = (0..6).map(|_| ids.recv().unwrap()).collect();
            until(|| waiters(lock) == 6);
            // The waiter that is next may be awake.
            until(|| ids.iter().filter(|&&id| sleeps(id)).count() >= 5);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
        });
    });
}

#[test]
fn rule_11_spinner_nodes_outlive_their_threads_and_locks() {
    for (_, policy) in POLICIES {
        let mut records = Vec::new();
        for _ in 0..rounds(20) {
            let lock = Lock::new(policy);
            let start = Barrier::new(4);
            scope(|s| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        s.spawn(|| {
                            start.wait();
                            (0..rounds(50)).for_each(|_| visit(&lock, Kind::Writer));
                            Native::thread()
                        })
                    })
                    .collect();
                records.extend(threads.into_iter().map(|thread| join(thread)));
            });
            assert_free(&lock);
        }
    }
    // The records of all those are still records. (Tests that run beside this
    // one may use them again, so what they hold is not looked at.)
    let now: Vec<_> = (0..4).map(|_| thread::spawn(Native::thread).join().unwrap()).collect();
    assert!(now.iter().all(|record| record.hint() != 0));
}

/// A thread is woken long after the wait that the wake-up was for: it goes back
/// to sleep.
#[test]
fn rule_12_late_wake_up_grants_nothing() {
    struct Value(UnsafeCell<u32>);
    // SAFETY: used under the lock only.
    unsafe impl Sync for Value {}
    for_each_policy(|lock| {
        let value = Value(UnsafeCell::new(0));
        scope(|s| {
            let value = &value;
            lock.write();
            let (send, record) = std::sync::mpsc::channel();
            let waiter = s.spawn(move || {
                send.send(Native::thread()).unwrap();
                lock.write();
                // SAFETY: the lock is held.
                let found = unsafe { *value.0.get() };
                // SAFETY: as above.
                unsafe { lock.unlock_write() };
                found
            });
            let record = record.recv().unwrap();
            until(|| waiters(lock) == 1);
            for i in 1..=rounds(100) as u32 {
                record.parker.unpark();
                thread::yield_now();
                assert!(!waiter.is_finished() && waiters(lock) == 1);
                // SAFETY: the lock is held.
                unsafe { *value.0.get() = i };
            }
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            assert_eq!(join(waiter), rounds(100) as u32);
            // Also after the thread has gone.
            record.parker.unpark();
        });
    });
}

#[test]
fn rule_14_timed_out_writer_wakes_the_readers_behind_it() {
    for_each_policy(|lock| {
        for closed in [false, true] {
            lock.read();
            scope(|s| {
                // Long enough for the readers to queue; if not, they have the
                // lock all the same.
                let writer = s.spawn(|| lock.write_with(Wait::until_nanos(soon(10))));
                until(|| waiters(lock) == 1 || writer.is_finished());
                if closed {
                    close(lock);
                }
                let behind: Vec<_> = (0..3).map(|_| s.spawn(|| lock.read())).collect();
                // This thread reads all the while: only the writer that leaves the queue can let
                // them in.
                behind.into_iter().for_each(|reader| join(reader));
                assert_eq!(join(writer), Err(WaitError::TimedOut));
            });
            // SAFETY: this thread's, and the three readers'.
            unsafe { (0..4).for_each(|_| lock.unlock_read()) };
            assert_free(lock);
        }
    });
}

#[test]
fn rule_15_failed_try_read_leaves_no_count() {
    for_each_policy(|lock| {
        let full = Word::FREE.with_readers(READERS_LIMIT);
        for blocked in [Word::WRITTEN, full, full.with_reader()] {
            lock.word.store(blocked);
            assert!(!lock.try_read() && !lock.try_read_recursive());
            assert_eq!(word(lock), blocked);
        }
        lock.word.store(Word::FREE);
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| visit(lock, Kind::Writer));
            until(|| waiters(lock) == 1);
            // A reader that tries neither gets in nor shows in the word.
            let seen: Vec<_> = (0..rounds(1_000))
                .map(|_| {
                    assert!(!lock.try_read());
                    word(lock).readers()
                })
                .collect();
            assert!(seen.iter().all(|&count| count == 1));
            // SAFETY: taken above.
            unsafe { lock.unlock_read() };
            join(writer);
        });
    });
}

/// The count of a reader that may not stay is seen by the last one that leaves, and by a writer that is woken.
#[test]
fn rule_15_count_taken_back_wakes_the_writer_that_it_kept_out() {
    for_each_policy(|lock| {
        lock.read();
        scope(|s| {
            let writer = visit_asleep(&s, lock, Kind::Writer);
            take_count_back(lock);
            join(writer);
        });
    });
}
