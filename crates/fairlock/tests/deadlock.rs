//! Deadlocks are found, and nothing else is taken for one.
#![cfg(feature = "deadlock_detection")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};

use fairlock::deadlock::{DeadlockedThread, check_deadlock};
use fairlock::stats::{Access, Claim, NamedExt, Place};
use fairlock::{
    Condvar, FairMutex, Mutex, ReentrantMutex, RwLock, RwLockExt, RwLockUpgradableReadGuard, Wait,
};
use fairlock::{lock_api, platform::Native, published};
use fairlock_testing::{rounds, scope, until};

type FullLock = lock_api::RwLock<published::RwSem<Native>, ()>;

/// What is found is so in the whole process.
static ONE_AT_A_TIME: StdMutex<()> = StdMutex::new(());

/// Two threads take `first` each, and then `second`, by what they are; `release` lets the first
/// of them go on, once the deadlock was reported. What was reported.
fn deadlock_of(
    first: [&(dyn Fn() + Sync); 2],
    second: [&(dyn Fn() + Sync); 2],
    release: impl FnOnce(),
) -> Vec<DeadlockedThread> {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let barrier = Barrier::new(2);
    let mut found = Vec::new();
    scope(|s| {
        for (first, second) in first.into_iter().zip(second) {
            let barrier = &barrier;
            s.spawn(move || {
                first();
                barrier.wait();
                second();
            });
        }
        until(|| {
            found = check_deadlock();
            !found.is_empty()
        });
        assert!(check_deadlock().is_empty(), "it was reported before");
        release();
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Of two different threads, and where they wait.
fn assert_both_sides(threads: &[DeadlockedThread]) {
    assert_eq!(threads.len(), 2);
    assert_ne!(threads[0].thread_id(), threads[1].thread_id());
    for thread in threads {
        let backtrace = thread.backtrace().to_string();
        assert!(backtrace.contains("deadlock"), "{backtrace}");
    }
}

fn forget<T>(guard: T) {
    std::mem::forget(guard);
}

#[test]
fn two_threads_that_lock_two_mutexes_the_other_way_round() {
    let (a, b) = (Mutex::new(()), Mutex::new(()));
    let threads = deadlock_of(
        [&|| forget(a.lock()), &|| forget(b.lock())],
        [&|| drop(b.lock()), &|| {
            drop(a.lock());
            // SAFETY: this thread forgot the guard.
            unsafe { b.force_unlock() };
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { a.force_unlock() },
    );
    assert_both_sides(&threads);
}

/// By the names of threads and locks, what each holds and where it was taken; a lock without a name by a number.
#[test]
fn who_holds_what_is_told_with_names_and_places() {
    let (accounts, plain) = (Mutex::named("accounts", ()), RwLock::new(()));
    let (journal, table) = (RwLock::named("journal", ()), Mutex::named("table", false));
    let changed = Condvar::new();
    let first = line!() + 4;
    let threads = deadlock_of(
        [
            &|| {
                forget((plain.read(), accounts.lock()));
                let mut done = table.lock();
                // Taken again, it is held from the same place.
                changed.wait_for(&mut done, std::time::Duration::from_millis(1));
                forget(done);
            },
            &|| forget(journal.upgradable_read()),
        ],
        [&|| drop(journal.write()), &|| {
            drop(accounts.lock());
            // SAFETY: this thread forgot the guard.
            unsafe { lock_api::RawRwLockUpgrade::unlock_upgradable(journal.raw()) };
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { accounts.force_unlock() },
    );
    let [checkout, audit] = if threads[0].wants().lock == "journal" { [0, 1] } else { [1, 0] };
    let (checkout, audit) = (&threads[checkout], &threads[audit]);
    let line = |claim: &Claim| match claim.at {
        Some(Place::Line(at)) if at.file() == file!() => at.line() - first,
        at => panic!("not a line here: {at:?}"),
    };
    let held: Vec<_> = checkout.holds().iter().map(|it| (it.lock.as_str(), line(it))).collect();
    assert!(held[0].0.starts_with("lock "), "{held:?}");
    assert_eq!((held[0].1, &held[1..]), (0, &[("accounts", 0), ("table", 1)][..]));
    assert_eq!((checkout.wants().access, line(checkout.wants())), (Access::Write, 8));
    assert_eq!((audit.holds().len(), audit.wants().lock.as_str()), (1, "accounts"));
    let text = checkout.to_string();
    let who = format!("{} ({})", checkout.name(), checkout.thread_id());
    assert!(!checkout.name().is_empty());
    for part in [&*who, " holds lock ", ", accounts at ", "; waits for journal at "] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn fair_and_reentrant_mutexes() {
    let (a, b) = (FairMutex::new(()), ReentrantMutex::new(()));
    let threads = deadlock_of(
        [&|| forget(a.lock()), &|| forget((b.lock(), b.lock()))],
        [&|| drop(b.lock()), &|| {
            drop(a.lock());
            // SAFETY: this thread forgot the guards.
            unsafe {
                b.force_unlock();
                b.force_unlock();
            }
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { a.force_unlock() },
    );
    assert_both_sides(&threads);
}

#[test]
fn a_writer_and_a_reader_that_wait_for_each_other() {
    let (a, b) = (RwLock::new(()), RwLock::new(()));
    let threads = deadlock_of(
        [&|| forget(a.write()), &|| forget(b.read())],
        [&|| drop(b.write()), &|| {
            drop(a.read());
            // SAFETY: this thread forgot the guard.
            unsafe { b.force_unlock_read() };
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { a.force_unlock_write() },
    );
    assert_both_sides(&threads);
}

#[test]
fn waits_for_ever_by_the_argument() {
    let (a, b) = (RwLock::new(()), RwLock::new(()));
    let threads = deadlock_of(
        [&|| forget(a.write_with(Wait::FOREVER)), &|| forget(b.read_with(Wait::FOREVER))],
        [&|| drop(b.write_with(Wait::FOREVER)), &|| {
            drop(a.read_with(Wait::FOREVER));
            // SAFETY: this thread forgot the guard.
            unsafe { b.force_unlock_read() };
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { a.force_unlock_write() },
    );
    assert_both_sides(&threads);
}

#[test]
fn an_upgrade_that_waits_for_a_reader() {
    let (a, b) = (RwLock::new(()), Mutex::new(()));
    let threads = deadlock_of(
        [&|| forget(b.lock()), &|| forget(a.read_recursive())],
        [&|| drop(RwLockUpgradableReadGuard::upgrade(a.upgradable_read())), &|| {
            drop(b.lock());
            // SAFETY: this thread forgot the guard.
            unsafe { a.force_unlock_read() };
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { b.force_unlock() },
    );
    assert_both_sides(&threads);
}

/// Notified or not: it has to have the mutex again.
#[test]
fn a_wait_for_a_notification_whose_mutex_does_not_come_free() {
    let (a, b, changed) = (Mutex::new(false), Mutex::new(()), Condvar::new());
    let threads = deadlock_of(
        [&|| forget(b.lock()), &|| ()],
        [&|| changed.wait_while(&mut a.lock(), |is_set| !*is_set), &|| {
            // Notified under the mutex: else the waiter may look at the flag before it is set, and wait again.
            let mut held = None;
            until(|| {
                let is_set = a.lock();
                changed.notify_one().then(|| held = Some(is_set)).is_some()
            });
            held.iter_mut().for_each(|is_set| **is_set = true);
            drop(b.lock());
        }],
        // SAFETY: its holder forgot the guard.
        || unsafe { b.force_unlock() },
    );
    assert_both_sides(&threads);
}

#[test]
fn a_thread_that_locks_what_it_holds() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let a = Mutex::new(());
    scope(|s| {
        s.spawn(|| {
            forget(a.lock());
            drop(a.lock());
        });
        let mut found = Vec::new();
        until(|| {
            found = check_deadlock();
            !found.is_empty()
        });
        assert_eq!((found.len(), found[0].len()), (1, 1));
        // SAFETY: its holder forgot the guard.
        unsafe { a.force_unlock() };
    });
}

/// `keep` forgets a guard of a lock; another lock comes to its place, and `take` waits for that, which
/// another thread has (`with`).
fn is_not_found<L: Sync>(
    new: fn() -> L,
    keep: fn(&L),
    take: fn(&L),
    with: impl Fn(&L, &dyn Fn()) + Sync,
    has_waiters: impl Fn(&L) -> bool + Sync,
) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for is_moved in [false, true] {
        let mut lock = new();
        keep(&lock);
        let before = std::mem::replace(&mut lock, new());
        // A lock that moved is still held, where it is now.
        let _before = is_moved.then_some(before);
        let ready = Barrier::new(2);
        scope(|s| {
            s.spawn(|| {
                with(&lock, &|| {
                    ready.wait();
                    until(|| has_waiters(&lock));
                    let found = check_deadlock();
                    assert!(found.is_empty(), "{found:?}");
                });
            });
            ready.wait();
            take(&lock);
        });
    }
}

#[test]
fn a_lock_in_the_place_of_one_that_is_held_is_another_one() {
    is_not_found(
        || Mutex::new(()),
        |lock| forget(lock.lock()),
        |lock| drop(lock.lock()),
        |lock, f| {
            let _held = lock.lock();
            f();
        },
        // SAFETY: the lock is not released by this.
        |lock| unsafe { lock.raw() }.is_contended(),
    );
    is_not_found(
        || RwLock::new(()),
        |lock| forget(lock.read()),
        |lock| drop(lock.write()),
        |lock, f| {
            let _held = lock.write();
            f();
        },
        RwLockExt::has_waiters,
    );
    is_not_found(
        || FullLock::new(()),
        |lock| forget(lock.read()),
        |lock| drop(lock.write()),
        |lock, f| {
            let _held = lock.read();
            f();
        },
        RwLockExt::has_waiters,
    );
}

#[test]
fn a_thread_that_locks_what_it_holds_elsewhere() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let is_released = AtomicBool::new(false);
    let lock = Mutex::new(());
    forget(lock.lock());
    let moved = Box::new(lock);
    scope(|s| {
        s.spawn(|| {
            // SAFETY: its holder forgot the guard.
            assert_eq!(circle(&is_released, || unsafe { moved.force_unlock() }), 1);
        });
        drop(moved.lock());
    });
}

/// Reads until a deadlock was found: the writer may not wait yet.
fn read_until(a: &RwLock<()>, is_found: &AtomicBool) {
    while !is_found.load(Ordering::Relaxed) {
        drop(a.read());
    }
}

/// How many threads are in the only circle, once there is one; then `release` lets them go on.
fn circle(is_found: &AtomicBool, release: impl FnOnce()) -> usize {
    let mut found = Vec::new();
    until(|| {
        found = check_deadlock();
        !found.is_empty()
    });
    is_found.store(true, Ordering::Relaxed);
    release();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].len()
}

/// The second cannot get in before the writer, nor the writer before the first, which waits for the
/// second's mutex.
#[test]
fn a_reader_behind_a_writer_that_waits_for_readers() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (a, b, is_found, ready) =
        (RwLock::new(()), Mutex::new(()), AtomicBool::new(false), Barrier::new(3));
    scope(|s| {
        s.spawn(|| {
            let _read = a.read();
            ready.wait();
            drop(b.lock());
        });
        s.spawn(|| {
            forget(b.lock());
            ready.wait();
            read_until(&a, &is_found);
        });
        s.spawn(|| {
            ready.wait();
            drop(a.write());
        });
        // SAFETY: its holder forgot the guard.
        let threads = circle(&is_found, || unsafe { b.force_unlock() });
        assert_eq!(threads, 3);
    });
}

#[test]
fn a_thread_that_reads_again_behind_a_writer() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (a, is_found, ready) = (RwLock::new(()), AtomicBool::new(false), Barrier::new(2));
    scope(|s| {
        s.spawn(|| {
            forget(a.read());
            ready.wait();
            read_until(&a, &is_found);
        });
        s.spawn(|| {
            ready.wait();
            drop(a.write());
        });
        // SAFETY: its holder forgot the guard.
        let threads = circle(&is_found, || unsafe { a.force_unlock_read() });
        assert_eq!(threads, 2);
    });
}

/// Many threads that keep an order, wait for each other by a condition variable, read together,
/// change from one mode to another, and end.
#[test]
fn nothing_else_is_taken_for_a_deadlock() {
    const THREADS: usize = 6;
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (a, b, c) = (Mutex::new(0), RwLock::new(0), Mutex::new(0));
    let (changed, ended) = (Condvar::new(), AtomicUsize::new(0));
    scope(|s| {
        for thread in 0..THREADS {
            let (a, b, c, changed, ended) = (&a, &b, &c, &changed, &ended);
            s.spawn(move || {
                for round in 0..rounds(1_000) {
                    let mut turn = a.lock();
                    match (thread + round) % 4 {
                        0 => *b.write() += 1,
                        1 => {
                            let guard = RwLockUpgradableReadGuard::upgrade(b.upgradable_read());
                            let guard = fairlock::RwLockWriteGuard::downgrade(guard);
                            *c.lock() += *guard;
                        }
                        2 => *c.lock() += *b.read(),
                        _ => drop((b.read(), c.lock())),
                    }
                    *turn += 1;
                    changed.notify_one();
                    let timeout = std::time::Duration::from_micros(50);
                    changed.wait_for(&mut turn, timeout);
                }
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        while ended.load(Ordering::Relaxed) < THREADS {
            let found = check_deadlock();
            assert!(found.is_empty(), "{found:?}");
            std::thread::yield_now();
        }
    });
}
