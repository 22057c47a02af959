//! The mutex that its holder may lock again.
#![cfg(feature = "std")]

use std::cell::Cell;
use std::num::NonZeroUsize;

use fairlock::lock_api::GetThreadId;
use fairlock::{RawThreadId, ReentrantMutex, ReentrantMutexGuard};
use fairlock_testing::{join, rounds, scope};

#[test]
fn other_threads_wait_for_the_last_guard() {
    let lock = ReentrantMutex::new(Cell::new(0));
    scope(|s| {
        let first = lock.lock();
        let other = s.spawn(|| lock.lock().set(1));
        for _ in 0..3 {
            assert_eq!(lock.lock().get(), 0);
        }
        assert!(lock.is_locked() && lock.is_owned_by_current_thread());
        drop(first);
        join(other);
    });
    assert_eq!(lock.into_inner().get(), 1);
}

#[test]
fn a_thread_at_a_time_is_inside_however_often() {
    let lock = ReentrantMutex::new(Cell::new((0u32, 0u32)));
    let times = rounds(2_000);
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..times {
                    let outer = lock.lock();
                    outer.set((outer.get().0 + 1, outer.get().1));
                    let inner = lock.lock();
                    inner.set((inner.get().0, inner.get().1 + 1));
                    ReentrantMutexGuard::unlock_fair(inner);
                    assert_eq!(outer.get().0, outer.get().1);
                }
            });
        }
    });
    assert_eq!(lock.into_inner().get().0 as usize, 3 * times as usize);
}

/// A thread whose record in the pool is gone is still nobody else: it may hold a mutex while
/// the destructors of its variables run.
#[test]
fn a_thread_that_ends_keeps_its_id_to_the_end() {
    struct Looks;
    impl Drop for Looks {
        fn drop(&mut self) {
            IDS.lock().unwrap().push(RawThreadId.nonzero_thread_id());
        }
    }
    thread_local!(static LATE: Looks = const { Looks });
    static IDS: std::sync::Mutex<Vec<NonZeroUsize>> = std::sync::Mutex::new(Vec::new());

    // Joined, as a scope does not wait for destructors.
    let ends = std::thread::spawn(|| {
        // Before the record, so destroyed after it.
        LATE.with(|_| ());
        drop(ReentrantMutex::new(()).lock());
        IDS.lock().unwrap().push(RawThreadId.nonzero_thread_id());
    });
    ends.join().unwrap();
    let ids = IDS.lock().unwrap();
    assert!(ids.len() == 2 && ids[0] == ids[1] && ids[0] != RawThreadId.nonzero_thread_id());
}
