//! Textbook spinlocks, to compare with: what a lock does that is only fair, or only fast. None of
//! them ever yields; the queue locks have a form whose waiters park. And two sleeping locks,
//! `rwsem_2017` and `futex`.
//!
//! Written once against [`Platform`], like the locks of this project, so that
//! they run on any machine these run on.

mod futex;
mod mcs;
mod queue_unfair;
mod rwsem_2017;
mod tas;
mod ticket;

use fairlock::platform::{Atomic, Platform};
use fairlock::wait::Thread;

use crate::locks::entry::{LockEntry, Runs};
use crate::locks::monitor::Monitor;
use futex::FutexMutex;
pub(crate) use futex::Futexes;
use mcs::Mcs;
use queue_unfair::UnfairQueue;
use rwsem_2017::Rwsem2017;
use tas::TestAndSet;
use ticket::Ticket;

/// How long waiters spin before they park: as long as those of the ticket locks, which these are
/// compared with.
const SPIN_NS: u64 = 40_000;

/// The thread whose record is at `address`.
///
/// # Safety
/// A thread was parked with the record at `address`.
unsafe fn parked_at<P: Platform>(address: usize) -> &'static Thread<P> {
    // SAFETY: records are never freed.
    unsafe { &*core::ptr::with_exposed_provenance(address) }
}

/// Spins until `done` accepts the word's value, however long that takes.
/// Acquire: what was stored before that value is seen afterwards.
fn spin_until<P: Platform, T, A: Atomic<T>>(word: &A, done: impl Fn(T) -> bool) {
    while !P::spin_until(word, u64::MAX, &done) {}
}

/// The locks of this family on a platform.
pub fn entries<P: Platform, T: Runs>() -> Vec<LockEntry<T>> {
    vec![
        LockEntry::mutex::<FutexMutex<P>>(
            "ref:futex",
            "a word of three states; condition variables that count notifications",
        )
        .with_condvar::<Monitor<Futexes<P>>>(),
        LockEntry::mutex::<Ticket<P>>("ref:ticket", "ticket lock: in order of arrival"),
        LockEntry::mutex::<Mcs<P, false>>(
            "ref:mcs",
            "MCS queue lock: in order of arrival, each spins on its own line",
        ),
        LockEntry::mutex::<Mcs<P, true>>(
            "ref:mcs_park",
            "the same; who spins for long parks, and is kicked",
        ),
        LockEntry::mutex::<UnfairQueue<P, false>>(
            "ref:queue_unfair",
            "queue lock that newcomers may steal",
        ),
        LockEntry::mutex::<UnfairQueue<P, true>>(
            "ref:queue_unfair_park",
            "the same; who spins for long parks, and is kicked",
        ),
        LockEntry::mutex::<TestAndSet<P>>("ref:tas", "test-and-set lock: no order at all"),
    ]
}

/// The plain lock that the published range lock was compared with, around everything.
pub fn plain_for_ranges<P: Platform, T: Runs>() -> LockEntry<T> {
    LockEntry::rw::<Rwsem2017<P>>("ref:rwsem_2017", "writers spin and steal, no handoff")
        .around_everything::<Rwsem2017<P>>()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use fairlock::platform::Native;
    use fairlock::platform::portable::Portable;
    use fairlock_sim::{Machine, Sim, Simulation};

    use super::*;
    use crate::locks::BenchLock;

    /// As many threads as can run at once: with more, a lock in order of arrival takes minutes.
    const THREADS: u32 = 2;
    const EACH: u32 = 5_000;
    const FEW: u32 = 300;

    fn excludes<M: BenchLock>() {
        let (lock, total) = (M::create(), AtomicU32::new(0));
        fairlock_testing::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        lock.write(|| {
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
        excludes::<Mcs<Native, false>>();
        excludes::<Mcs<Native, true>>();
        excludes::<UnfairQueue<Native, false>>();
        excludes::<UnfairQueue<Native, true>>();
        excludes::<TestAndSet<Native>>();
        excludes::<FutexMutex<Native>>();
        excludes::<Ticket<Portable>>();
        excludes::<Mcs<Portable, false>>();
        excludes::<Mcs<Portable, true>>();
        excludes::<UnfairQueue<Portable, false>>();
        excludes::<UnfairQueue<Portable, true>>();
        excludes::<TestAndSet<Portable>>();
        excludes::<FutexMutex<Portable>>();
    }

    /// As above, with readers. There are fewer turns: spinners collapse with more threads than
    /// CPUs.
    fn excludes_readers<L: BenchLock>() {
        let (lock, total) = (L::create(), AtomicU32::new(0));
        fairlock_testing::scope(|scope| {
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

    /// Who held the lock, in order, and how often threads slept: each of six threads on two CPUs
    /// takes it ten times, for longer than a waiter spins.
    fn turns_of_parked_waiters<M: BenchLock>() -> (Vec<usize>, u64) {
        let machine = Machine::builtin("two_cpu").unwrap();
        let (lock, turns) = (M::create(), std::sync::Mutex::new(Vec::new()));
        let mut simulation = Simulation::new(&machine, 1);
        for _ in 0..6 {
            simulation.spawn(|| {
                for _ in 0..10 {
                    lock.write(|| {
                        turns.lock().unwrap().push(fairlock_sim::thread());
                        fairlock_sim::busy(3 * SPIN_NS);
                    });
                }
            });
        }
        // This fails with a deadlock if a parked waiter is forgotten.
        let report = simulation.run().unwrap();
        let sleeps = report.threads.iter().map(|thread| thread.sleeps).sum();
        (turns.into_inner().unwrap(), sleeps)
    }

    #[test]
    fn parked_waiters_are_kicked_in_order_of_arrival() {
        let (turns, sleeps) = turns_of_parked_waiters::<Mcs<Sim, true>>();
        assert!(sleeps >= 40, "{sleeps}");
        // Once all have come, each comes again only behind all others.
        let in_turn = turns[6..55].windows(6).all(|w| !w[1..].contains(&w[0]));
        assert!(turns.len() == 60 && in_turn, "{turns:?}");
    }

    #[test]
    fn a_parked_head_is_kicked_however_often_it_is_overtaken() {
        let (turns, sleeps) = turns_of_parked_waiters::<UnfairQueue<Sim, true>>();
        assert!(sleeps > 5, "{sleeps}");
        assert_eq!(turns.len(), 60);
    }

    #[test]
    fn a_queue_lock_is_released_by_a_panic() {
        let lock = Mcs::<Native, true>::create();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.write(|| panic!("in the section"));
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.write(|| 7), 7);
    }
}
