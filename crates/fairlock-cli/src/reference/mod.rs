//! Spinlocks of the textbook, to compare with: what a lock does that is only
//! fair, or only fast. None of them ever sleeps or yields.
//!
//! Written once against [`Platform`], like the locks of this project, so that
//! they run on any machine these run on.

mod mcs;
mod queue_unfair;
mod rwsem_2017;
mod tas;
mod ticket;

use fairlock::platform::{Atomic, Platform};

use crate::locks::LockEntry;
use crate::workload::testbed::Testbed;
use mcs::Mcs;
use queue_unfair::UnfairQueue;
use rwsem_2017::Rwsem2017;
use tas::TestAndSet;
use ticket::Ticket;

/// Spins until `done` accepts the word's value, however long that takes.
/// Acquire: what was stored before that value is seen afterwards.
fn spin_until<P: Platform, T, A: Atomic<T>>(word: &A, done: impl Fn(T) -> bool) {
    while !P::spin_until(word, u64::MAX, &done) {}
}

/// The locks of this family on a platform.
pub fn entries<P: Platform, T: Testbed>() -> Vec<LockEntry<T>> {
    vec![
        LockEntry::mutex::<Ticket<P>>("ref:ticket", "ticket lock: in order of arrival"),
        LockEntry::mutex::<Mcs<P>>(
            "ref:mcs",
            "MCS queue lock: in order of arrival, each spins on its own line",
        ),
        LockEntry::mutex::<UnfairQueue<P>>(
            "ref:queue_unfair",
            "queue lock that newcomers may steal",
        ),
        LockEntry::mutex::<TestAndSet<P>>("ref:tas", "test-and-set lock: no order at all"),
    ]
}

/// The plain lock that the published range lock was compared with, around everything.
pub fn plain_for_ranges<P: Platform, T: Testbed>() -> LockEntry<T> {
    LockEntry::rw::<Rwsem2017<P>>("ref:rwsem_2017", "writers spin and steal, no handoff")
        .around_everything::<Rwsem2017<P>>()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use fairlock::platform::Native;
    use fairlock::platform::portable::Portable;

    use super::*;
    use crate::locks::{BenchLock, BenchMutex};

    /// As many as can run at once, or a lock in order of arrival takes minutes.
    const THREADS: u32 = 2;
    const EACH: u32 = 5_000;
    const FEW: u32 = 300;

    fn excludes<M: BenchMutex>() {
        let (lock, total) = (M::create(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        lock.hold(|| {
                            // A load and a store: only the lock makes them one.
                            let before = total.load(Ordering::Relaxed);
                            core::hint::spin_loop();
                            total.store(before + 1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), THREADS * EACH);
    }

    #[test]
    fn reference_locks_exclude_on_every_platform() {
        excludes::<Ticket<Native>>();
        excludes::<Mcs<Native>>();
        excludes::<UnfairQueue<Native>>();
        excludes::<TestAndSet<Native>>();
        excludes::<Ticket<Portable>>();
        excludes::<Mcs<Portable>>();
        excludes::<UnfairQueue<Portable>>();
        excludes::<TestAndSet<Portable>>();
    }

    /// Readers among them. Fewer turns: its spinners collapse with more threads than CPUs.
    fn excludes_readers<L: BenchLock>() {
        let (lock, total) = (L::create(), AtomicU32::new(0));
        thread::scope(|scope| {
            for number in 0..3 {
                let (lock, total) = (&lock, &total);
                scope.spawn(move || {
                    for turn in 0..FEW {
                        let now = || total.load(Ordering::Relaxed);
                        if (turn + number) % 3 == 0 {
                            lock.write(|| {
                                let before = now();
                                thread::yield_now();
                                total.store(before + 1, Ordering::Relaxed);
                            });
                        } else {
                            lock.read(|| {
                                let before = now();
                                core::hint::spin_loop();
                                assert_eq!(now(), before);
                            });
                        }
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), FEW);
    }

    #[test]
    fn the_plain_lock_excludes_and_nobody_is_left_behind() {
        excludes_readers::<Rwsem2017<Native>>();
        excludes_readers::<Rwsem2017<Portable>>();
    }

    #[test]
    fn a_queue_lock_is_released_by_a_panic() {
        let lock = Mcs::<Native>::create();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.hold(|| panic!("in the section"));
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.hold(|| 7), 7);
    }
}
