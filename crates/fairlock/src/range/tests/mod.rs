//! What only a look inside can tell, and the naive model beside the lock.
//!
//! No test depends on how long anything takes. What must happen is waited for,
//! and a test that waits in vain ends the process after [`PATIENCE`].

mod defects;
mod model;
mod rules;
mod scripts;
mod stripes;
mod torture;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io::{self, Write};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Instant;

use super::{RangeReadGuard, RangeRwLock, RangeWriteGuard, word};
use crate::platform::Native;

type Lock = RangeRwLock<Native>;
type ReadGuard<'a> = RangeReadGuard<'a, Native>;
type WriteGuard<'a> = RangeWriteGuard<'a, Native>;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the process: a test that failed would wait for its threads, which wait
/// for the lock. Past the test harness, which would keep the words to itself.
fn end(why: &str) -> ! {
    let test = thread::current();
    let _ = writeln!(io::stderr(), "{}: {why}", test.name().unwrap_or("a thread of a test"));
    std::process::abort();
}

/// A scope that ends the process if it panics.
fn scope<'env, T>(f: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> T) -> T {
    struct EndOnPanic;
    impl Drop for EndOnPanic {
        fn drop(&mut self) {
            if thread::panicking() {
                end("failed (why: with --nocapture)");
            }
        }
    }
    thread::scope(|s| {
        let _end = EndOnPanic;
        f(s)
    })
}

/// Waits for what must happen.
fn until(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        if started.elapsed() > PATIENCE {
            end(&format!("what must happen did not, in {PATIENCE:?}"));
        }
        thread::sleep(Duration::from_micros(100));
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    until(|| thread.is_finished());
    thread.join().unwrap()
}

/// Nothing is left of anybody: not in the word, not in a slot, not in the tree.
fn assert_free(lock: &Lock) {
    let word = lock.word.load(Ordering::SeqCst);
    let ours = word & !(word::WHOLE | word::DRAIN | word::TRACED | word::STRIPED);
    assert_eq!(ours, 0, "{word:#x}");
    assert!(lock.slots.iter().all(|slot| slot.load(Ordering::SeqCst) == 0));
    assert!(lock.striped_words().all(|(_, word)| !word::has_slots(word)));
    lock.with_queue(|q| assert!(q.ranges.is_empty() && q.patient.is_empty()));
    assert!(!lock.is_locked() && lock.ranges().is_empty());
    drop(lock.try_write(..).unwrap());
}

/// Waits until so many threads are queued in the tree.
fn until_queued(lock: &Lock, count: usize) {
    until(|| lock.with_queue(|q| q.ranges.waiting()) == count);
}
