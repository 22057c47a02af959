//! Locks to compare with, and to predict other people's tables with: textbook spinlocks, which
//! never yield (`tas`, `backoff`, `ticket`, `mcs`, `cna`, `queue_unfair`; some queue locks have a form whose
//! waiters park), and sleeping locks (`futex`, `pi_futex`, `parking`, `rwsem_2017`, `percpu`, `bravo`). Those that are known by a publication are written from its description.
//!
//! Written once against [`Platform`], like the locks of this project, so that
//! they run on any machine these run on.

mod asks;
mod backoff;
mod bravo;
mod cna;
mod futex;
mod guarded;
mod mcs;
mod parking;
mod percpu;
mod pi_futex;
mod queue_unfair;
mod rwsem_2017;
mod tas;
mod ticket;

use fairlock::platform::{Atomic, Platform};
use fairlock::wait::Thread;

use crate::locks::entry::{LockEntry, Runs};
use crate::locks::monitor::Monitor;
pub use asks::Asks;
use backoff::BackingOff;
use bravo::Bravo;
use cna::Cna;
pub(crate) use futex::Futexes;
use futex::{FutexMutex, LOOKS};
use mcs::{Mcs, Parks, Spins};
use parking::Parking;
use percpu::PerCpu;
use pi_futex::PiFutex;
use queue_unfair::UnfairQueue;
use rwsem_2017::Rwsem2017;
use tas::{Napping, TestAndSet};
use ticket::Ticket;

/// The most pauses between two attempts of a lock that backs off.
const MOST_PAUSES: u32 = 1024;

/// How long waiters spin before they park: as long as those of the ticket locks, which these are
/// compared with.
const SPIN_NS: u64 = 40_000;

/// How often a thread looks at a PI futex that is held before it calls the system, as in Swift's library.
const PI_LOOKS: u32 = 1_000;

/// On a cache line of its own: simulations do not depend on where the allocator puts it.
#[repr(align(128))]
struct Line<T>(T);

/// A word on which threads sleep. Never freed: a wake-up may come after its last use.
fn word<P: Platform>() -> &'static P::AtomicU32 {
    &Box::leak(Box::new(Line(P::AtomicU32::new(0)))).0
}

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
pub fn entries<P: Asks, T: Runs>() -> Vec<LockEntry<T>> {
    vec![
        LockEntry::mutex::<FutexMutex<P, LOOKS>>("ref:futex").with_condvar::<Monitor<Futexes<P>>>(),
        LockEntry::mutex::<FutexMutex<P, 0>>("ref:futex_asleep"),
        LockEntry::mutex::<Ticket<P>>("ref:ticket"),
        LockEntry::mutex::<Mcs<P, Spins>>("ref:mcs"),
        LockEntry::mutex::<Mcs<P, Parks>>("ref:mcs_park"),
        LockEntry::mutex::<UnfairQueue<P, Spins>>("ref:queue_unfair"),
        LockEntry::mutex::<UnfairQueue<P, Parks>>("ref:queue_unfair_park"),
        LockEntry::mutex::<TestAndSet<P>>("ref:tas"),
        LockEntry::mutex::<BackingOff<P, false, 1>>("ref:cas"),
        LockEntry::mutex::<BackingOff<P, true, MOST_PAUSES>>("ref:ttas_backoff"),
        // Those of systems and libraries.
        LockEntry::mutex::<Napping<P>>("ref:micro_spin"),
        LockEntry::mutex::<Cna<P, false>>("ref:qspin"),
        LockEntry::mutex::<Cna<P, true>>("ref:cna"),
        LockEntry::mutex::<PiFutex<P, PI_LOOKS>>("ref:pi_futex"),
        LockEntry::mutex::<Parking<P>>("ref:parking_fair"),
        LockEntry::both::<PerCpu<P>>("ref:percpu"),
        LockEntry::both::<Bravo<P, Rwsem2017<P>>>("ref:bravo"),
    ]
}

/// The plain lock that the published range lock was compared with, around everything: writers spin
/// and steal, and there is no handoff.
pub fn plain_for_ranges<P: Platform, T: Runs>() -> LockEntry<T> {
    LockEntry::rw::<Rwsem2017<P>>("ref:rwsem_2017").around_everything::<Rwsem2017<P>>()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
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

    fn every_mutex_excludes<P: Asks>() {
        excludes::<Ticket<P>>();
        excludes::<Mcs<P, Spins>>();
        excludes::<Mcs<P, Parks>>();
        excludes::<UnfairQueue<P, Spins>>();
        excludes::<UnfairQueue<P, Parks>>();
        excludes::<TestAndSet<P>>();
        excludes::<BackingOff<P, false, 1>>();
        excludes::<BackingOff<P, true, MOST_PAUSES>>();
        excludes::<FutexMutex<P, LOOKS>>();
        excludes::<FutexMutex<P, 0>>();
        excludes::<Parking<P>>();
        excludes::<Napping<P>>();
        excludes::<Cna<P, false>>();
        excludes::<Cna<P, true>>();
        excludes::<PiFutex<P, PI_LOOKS>>();
        excludes::<PiFutex<P, 0>>();
    }

    #[test]
    fn reference_locks_exclude_on_every_platform() {
        every_mutex_excludes::<Native>();
        every_mutex_excludes::<Portable>();
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
    fn reader_writer_locks_exclude_and_nobody_is_left_behind() {
        excludes_readers::<Rwsem2017<Native>>();
        excludes_readers::<Rwsem2017<Portable>>();
        excludes_readers::<PerCpu<Native>>();
        excludes_readers::<PerCpu<Portable>>();
        excludes_readers::<Bravo<Native, Rwsem2017<Native>>>();
        excludes_readers::<Bravo<Portable, Rwsem2017<Portable>>>();
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

    /// 16 threads take the lock, if `reads` two times in three to read: on two simulated CPUs, then on
    /// 8 sockets. Fails if a waiter is forgotten, or a writer is not alone.
    fn excludes_simulated<L: BenchLock>(reads: bool) {
        for machine in ["two_cpu", "ivybridge_240"] {
            let machine = Machine::builtin(machine).unwrap();
            let (lock, inside) = (L::create(), Cell::new((0_u32, 0_u32)));
            let mut simulation = Simulation::new(&machine, 1);
            for thread in 0..16 {
                let (lock, inside) = (&lock, &inside);
                simulation.spawn(move || {
                    let section = |readers: u32, writers: u32| {
                        let add = |(r, w): (u32, u32)| (r + readers, w + writers);
                        inside.set(add(inside.get()));
                        fairlock_sim::busy(2_000);
                        let (r, w) = inside.get();
                        assert!((r == 0 && w == 1) || w == 0, "{r} readers, {w} writers");
                        inside.set((r - readers, w - writers));
                    };
                    for turn in 0..60 {
                        if !reads || (turn + thread) % 3 == 0 {
                            lock.write(|| section(0, 1));
                        } else {
                            lock.read(|| section(1, 0));
                        }
                        fairlock_sim::busy(500);
                    }
                });
            }
            simulation.run().unwrap();
        }
    }

    #[test]
    fn reference_locks_exclude_on_simulated_machines() {
        excludes_simulated::<Mcs<Sim, Spins>>(false);
        excludes_simulated::<Ticket<Sim>>(false);
        excludes_simulated::<Mcs<Sim, Parks>>(false);
        excludes_simulated::<UnfairQueue<Sim, Spins>>(false);
        excludes_simulated::<UnfairQueue<Sim, Parks>>(false);
        excludes_simulated::<TestAndSet<Sim>>(false);
        excludes_simulated::<BackingOff<Sim, false, 1>>(false);
        excludes_simulated::<BackingOff<Sim, true, MOST_PAUSES>>(false);
        excludes_simulated::<FutexMutex<Sim, LOOKS>>(false);
        excludes_simulated::<FutexMutex<Sim, 0>>(false);
        excludes_simulated::<Parking<Sim>>(false);
        excludes_simulated::<Napping<Sim>>(false);
        excludes_simulated::<Cna<Sim, false>>(false);
        excludes_simulated::<Cna<Sim, true>>(false);
        excludes_simulated::<PiFutex<Sim, PI_LOOKS>>(false);
        excludes_simulated::<PiFutex<Sim, 0>>(false);
        excludes_simulated::<Rwsem2017<Sim>>(true);
        excludes_simulated::<PerCpu<Sim>>(true);
        excludes_simulated::<Bravo<Sim, Rwsem2017<Sim>>>(true);
    }

    /// Forty threads of 8 sockets at a lock for 50 ms: the share of turns that go to another socket, and the fewest and
    /// the most turns of a thread.
    fn turns_by_socket<L: BenchLock>() -> (f64, u32, u32) {
        let machine = Machine::builtin("ivybridge_240").unwrap();
        let (lock, before, moves) = (L::create(), Cell::new(0), Cell::new(0_u32));
        let mut simulation = Simulation::new(&machine, 1);
        let threads = (0..40).map(|_| {
            simulation.spawn(|| {
                let mut turns = 0_u32;
                while !fairlock_sim::stopped() {
                    lock.write(|| {
                        let socket = fairlock_sim::socket();
                        let moved = before.replace(socket) != socket;
                        moves.set(moves.get() + u32::from(moved));
                        fairlock_sim::busy(500);
                    });
                    turns += 1;
                }
                turns
            })
        });
        let threads: Vec<_> = threads.collect();
        simulation.run_for(50_000_000).unwrap();
        let turns: Vec<u32> = threads.into_iter().map(|thread| thread.join()).collect();
        let moved = f64::from(moves.get()) / f64::from(turns.iter().sum::<u32>());
        (moved, *turns.iter().min().unwrap(), *turns.iter().max().unwrap())
    }

    #[test]
    fn cna_stays_in_a_socket_for_10_ms() {
        let (moved, least, most) = turns_by_socket::<Cna<Sim, false>>();
        assert!(moved > 0.5 && most - least <= 10, "{moved}, {least} to {most}");
        let (moved, least, most) = turns_by_socket::<Cna<Sim, true>>();
        // Five times 10 ms are not enough for eight sockets, but those that have none are aside.
        assert!(moved < 0.05 && least < most / 100, "{moved}, {least} to {most}");
    }

    #[test]
    fn a_pi_futex_is_handed_over_in_order_of_arrival() {
        let (turns, sleeps) = turns_of_parked_waiters::<PiFutex<Sim, 0>>();
        assert!(sleeps >= 40, "{sleeps}");
        let in_turn = turns[6..55].windows(6).all(|w| !w[1..].contains(&w[0]));
        assert!(turns.len() == 60 && in_turn, "{turns:?}");
    }

    #[test]
    fn parked_waiters_are_kicked_in_order_of_arrival() {
        let (turns, sleeps) = turns_of_parked_waiters::<Mcs<Sim, Parks>>();
        assert!(sleeps >= 40, "{sleeps}");
        // Once all have come, each comes again only behind all others.
        let in_turn = turns[6..55].windows(6).all(|w| !w[1..].contains(&w[0]));
        assert!(turns.len() == 60 && in_turn, "{turns:?}");
    }

    #[test]
    fn a_parked_head_is_kicked_however_often_it_is_overtaken() {
        let (turns, sleeps) = turns_of_parked_waiters::<UnfairQueue<Sim, Parks>>();
        assert!(sleeps > 5, "{sleeps}");
        assert_eq!(turns.len(), 60);
    }

    #[test]
    fn a_queue_lock_is_released_by_a_panic() {
        let lock = Mcs::<Native, Parks>::create();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.write(|| panic!("in the section"));
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.write(|| 7), 7);
    }
}
