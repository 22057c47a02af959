//! Statistics of locks with a name.

use std::panic::Location;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::lock_api::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use fairlock::stats::{self, Builder, Deadlock, LockStats, NamedExt, Place};
use fairlock::{CancelToken, Condvar, Mutex, MutexExt, Policy, RwLock, RwLockExt, Wait, WaitError};
use fairlock_testing::rounds;

fn stats_of(name: &str) -> LockStats {
    stats::snapshot().get(name).unwrap_or_else(|| panic!("no lock {name}")).clone()
}

/// Waits until somebody waits for the lock.
fn line_of(at: Option<Place>) -> &'static Location<'static> {
    let Some(Place::Line(at)) = at else { panic!("not a line: {at:?}") };
    at
}

/// Waits until so many threads wait for the locks of this name.
fn until_waiting(name: &str, count: usize) {
    let waiting = |lock: &LockStats| lock.reads.waiting.len() + lock.writes.waiting.len();
    fairlock_testing::until(|| stats::snapshot().get(name).is_some_and(|it| waiting(it) == count));
}

fn until_waited_for<T>(lock: &stats::RwLock<T>) {
    while !lock.has_waiters() {
        thread::yield_now();
    }
}

#[test]
fn acquisitions_are_counted_exactly_while_snapshots_are_taken() {
    const THREADS: u64 = 12;
    const TIMES: u64 = 3_000;
    let rwlock = RwLock::named("counted rwlock", 0);
    let mutex = Mutex::named("counted mutex", 0);
    let ends = AtomicBool::new(false);
    thread::scope(|s| {
        let watcher = s.spawn(|| {
            let (mut seen, mut looks) = (0, 0);
            while !ends.load(Ordering::Relaxed) || looks == 0 {
                let now = stats::snapshot();
                let reads = now.get("counted rwlock").map_or(0, |lock| lock.reads.acquisitions);
                assert!(reads >= seen && reads <= THREADS * TIMES);
                (seen, looks) = (reads, looks + 1);
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                s.spawn(|| {
                    for i in 0..TIMES {
                        let _ = *rwlock.read();
                        *mutex.lock() += 1;
                        if i % 3 == 0 {
                            *rwlock.write() += 1;
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ends.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    let (rwlock, mutex) = (stats_of("counted rwlock"), stats_of("counted mutex"));
    assert_eq!(rwlock.reads.acquisitions, THREADS * TIMES);
    assert_eq!(rwlock.writes.acquisitions, THREADS * TIMES / 3);
    assert_eq!(mutex.writes.acquisitions, THREADS * TIMES);
    assert!(mutex.reads.is_unused());
    assert_eq!(mutex.writes.held.count, (THREADS * TIMES).div_ceil(64));
    assert_eq!(mutex.writes.given_up, 0);
}

#[test]
fn a_thread_goes_on_counting_where_one_ended() {
    let lock = RwLock::named("threads that end", ());
    let threads = rounds(100);
    for _ in 0..threads {
        thread::scope(|s| _ = s.spawn(|| drop(lock.read())));
    }
    assert_eq!(stats_of("threads that end").reads.acquisitions, threads as u64);
}

#[test]
fn locks_count_from_their_first_use_and_after_they_are_dropped() {
    let of_name = || stats::snapshot().get("short-lived").cloned();
    for round in 1..=3 {
        let [first, second] = [1, 2].map(|value| Mutex::named("short-lived", value));
        assert_eq!(of_name().map_or(0, |lock| lock.locks), 0);
        (0..100).for_each(|_| *first.lock() += 1);
        drop(second.lock());
        assert_eq!(of_name().unwrap().locks, 2);
        drop(first);
        let now = of_name().unwrap();
        assert_eq!((now.locks, now.writes.acquisitions), (1, 101 * round));
    }
    let now = of_name().unwrap();
    // Of each lock the first hold is a sample, and one of 64.
    assert_eq!((now.locks, now.writes.held.count), (0, 3 * 3));
    assert_eq!(line_of(now.writes.longest_hold.unwrap().at).file(), file!());
}

#[test]
fn names_may_be_made_while_the_program_runs() {
    for shard in 0..1000 {
        let name = format!("shard of {}", shard % 2);
        let lock = RwLock::named(name, shard);
        assert_eq!(*lock.read(), shard);
    }
    let now = stats::snapshot();
    for name in ["shard of 0", "shard of 1"] {
        assert_eq!(now.get(name).unwrap().reads.acquisitions, 500);
    }
}

#[test]
fn a_thousand_locks_of_one_name_are_one_row() {
    let shards: Vec<_> = (0..1000).map(|i| Mutex::named("shards", i)).collect();
    shards.iter().for_each(|shard| *shard.lock() += 1);
    let table = stats::snapshot().to_string();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("shards")).collect();
    assert_eq!(rows.len(), 1, "{table}");
    assert!(rows[0].starts_with("shards (1000) ") && rows[0].contains(" 1000 "), "{table}");
}

#[test]
fn numbers_of_a_period_are_differences() {
    let lock = RwLock::named("period", 0);
    let wait = || {
        let writer = lock.write();
        thread::scope(|s| {
            let gives_up = || assert!(lock.try_read_for(Duration::from_millis(1)).is_none());
            s.spawn(gives_up).join().unwrap();
        });
        drop(writer);
    };
    wait();
    let before = stats::snapshot();
    let nothing = stats::snapshot().since(&before);
    assert!(nothing.get("period").unwrap().reads.is_unused());
    wait();
    drop(lock.read());
    let since = stats::snapshot().since(&before).get("period").unwrap().clone();
    assert_eq!((since.reads.acquisitions, since.writes.acquisitions), (1, 1));
    assert_eq!((since.reads.waited.count, since.reads.given_up), (1, 1));
    assert!(since.reads.waited.p50 >= Duration::from_millis(1));
}

#[test]
fn a_reentrant_mutex_has_a_name_too() {
    static LOCK: stats::ReentrantMutex<u32> = Builder::new("reentrant").reentrant_mutex(1);
    let other = fairlock::ReentrantMutex::named("reentrant", 2);
    let guards = (LOCK.lock(), LOCK.lock(), other.lock());
    let now = stats_of("reentrant");
    assert_eq!((now.locks, now.writes.acquisitions, now.writes.held_now.len()), (2, 2, 2));
    drop(guards);
    assert!(stats_of("reentrant").writes.held_now.is_empty());
}

#[test]
fn permits_of_a_semaphore_with_a_name_are_counted_as_reads() {
    static POOL: stats::Semaphore = Builder::new("pool").semaphore(2);
    let other = fairlock::Semaphore::named("other pool", 0);
    assert!(other.try_acquire().is_none());
    other.release(1);
    assert_eq!(other.try_acquire().map(|permit| permit.count()), Some(1));
    assert_eq!((other.available_permits(), stats_of("other pool").reads.acquisitions), (1, 1));
    let all = POOL.acquire_many(2);
    let line = line!() - 1;
    thread::scope(|s| {
        spawn(s, "pool waiter", || drop(POOL.acquire()));
        until_waiting("pool", 1);
        let reads = stats_of("pool").reads;
        assert_eq!((reads.held_now.len(), line_of(reads.held_now[0].at).line()), (1, line));
        assert_eq!(reads.waiting[0].thread, "pool waiter");
        let gives_up = Wait::within(Duration::from_millis(1));
        assert!(POOL.acquire_many_with(1, gives_up).is_err());
        drop(all);
    });
    let reads = stats_of("pool").reads;
    assert_eq!((reads.acquisitions, reads.waited.count, reads.given_up), (2, 2, 1));
    assert!(reads.held_now.is_empty() && reads.waiting.is_empty());
}

fn spawn<'s, T: Send + 's>(
    s: &'s thread::Scope<'s, '_>,
    name: &str,
    f: impl FnOnce() -> T + Send + 's,
) -> thread::ScopedJoinHandle<'s, T> {
    thread::Builder::new().name(name.into()).spawn_scoped(s, f).unwrap()
}

#[test]
fn a_stuck_lock_says_who_holds_it_and_who_waits() {
    let (lock, ready, ends) =
        (Mutex::named("stuck", 0), AtomicBool::new(false), AtomicBool::new(false));
    *lock.lock() += 1; // The next hold is not a sample.
    thread::scope(|s| {
        spawn(s, "checkpoint", || {
            let guard = lock.lock();
            ready.store(true, Ordering::Relaxed);
            fairlock_testing::until(|| ends.load(Ordering::Relaxed));
            drop(guard);
        });
        let hold = line!() - 5;
        fairlock_testing::until(|| ready.load(Ordering::Relaxed));
        let held = stats_of("stuck").writes.held_now;
        // Nobody has looked at a clock, and nobody waits.
        assert_eq!((held.len(), held[0].time, held[0].thread.as_str()), (1, None, "checkpoint"));
        assert_eq!(line_of(held[0].at).line(), hold);
        for name in ["first waiter", "second waiter"] {
            spawn(s, name, || *lock.lock() += 1);
            fairlock_testing::until(|| {
                stats_of("stuck").writes.waiting.iter().any(|now| now.thread == name)
            });
        }
        let now = stats::snapshot();
        let writes = &now.get("stuck").unwrap().writes;
        // No wait has ended.
        assert_eq!((writes.waited.count, writes.waiting.len()), (0, 2));
        assert!(writes.waiting[0].thread == "first waiter");
        assert!(writes.held_now[0].time >= writes.waiting[0].time);
        let (table, json) = (now.to_string(), now.to_json());
        assert!(
            table.contains("    held now ") && table.contains("s by checkpoint at "),
            "{table}"
        );
        assert!(table.contains("    waited for now ") && table.contains("by second waiter at "));
        assert!(json.contains("\"held_now\":[{\"time_ns\":") && json.contains("\"waiting\":[{"));
        // Other tests have deadlocks meanwhile.
        assert!(!now.deadlocks().iter().any(|it| it.to_string().contains("stuck")));
        assert!(json.contains("\"deadlocks\":["));
        ends.store(true, Ordering::Relaxed);
    });
    let writes = stats_of("stuck").writes;
    assert!(writes.waiting.is_empty() && writes.held_now.is_empty());
    assert_eq!((writes.acquisitions, writes.waited.count), (4, 2));
}

/// In each way: to read, for the upgradable reader, and what it becomes; not while a condition variable is waited for.
#[test]
fn what_is_held_now_is_known_in_every_way() {
    let lock = RwLock::named("held now", 0);
    let held = || {
        let now = stats_of("held now");
        [now.reads.held_now.len(), now.writes.held_now.len()]
    };
    for _ in 0..2 {
        let reader = lock.read();
        assert_eq!(held(), [1, 0]);
        thread::scope(|s| {
            s.spawn(|| {
                let _other = lock.read();
                assert_eq!(held(), [2, 0]);
            });
        });
        fairlock_testing::until(|| held() == [1, 0]);
        drop(reader);
        let guard = lock.upgradable_read();
        assert_eq!(held(), [0, 1]);
        let guard = RwLockUpgradableReadGuard::upgrade(guard);
        assert_eq!(held(), [0, 1]);
        let guard = RwLockWriteGuard::downgrade(guard);
        assert_eq!(held(), [1, 0]);
        drop(guard);
        assert_eq!(held(), [0, 0]);
    }
    let (mutex, changed) = (Mutex::named("held by a waiter", ()), Condvar::new());
    let is_held = || !stats_of("held by a waiter").writes.held_now.is_empty();
    let mut guard = mutex.lock();
    thread::scope(|s| {
        s.spawn(|| {
            // As soon as this thread has it, the other waits.
            let guard = mutex.lock();
            changed.notify_one();
            drop(guard);
            fairlock_testing::until(is_held);
        });
        assert!(is_held());
        changed.wait(&mut guard);
        assert!(is_held());
    });
    drop(guard);
    assert!(!is_held());
}

/// Two threads take a lock each, and then that of the other.
#[test]
fn a_deadlock_is_named_by_threads_locks_and_places() {
    let (accounts, journal) = (Mutex::named("accounts", ()), RwLock::named("journal", ()));
    let both = Barrier::new(2);
    let of_these = |it: &&Deadlock| it.to_string().contains("accounts");
    let found = || stats::snapshot().deadlocks().iter().find(of_these).cloned();
    let mut now = None;
    let first = line!() + 3;
    thread::scope(|s| {
        spawn(s, "checkout", || {
            std::mem::forget(accounts.lock());
            both.wait();
            drop(journal.write());
        });
        spawn(s, "audit", || {
            std::mem::forget(journal.read());
            both.wait();
            drop(accounts.lock());
            // SAFETY: this thread forgot the guard.
            unsafe { journal.force_unlock_read() };
        });
        fairlock_testing::until(|| found().is_some());
        now = Some((stats::snapshot(), found().unwrap()));
        // SAFETY: its holder forgot the guard.
        unsafe { accounts.force_unlock() };
    });
    assert!(found().is_none());
    let (now, deadlock) = now.unwrap();
    let mut threads: Vec<_> = deadlock.threads.iter().collect();
    threads.sort_by(|a, b| a.thread.cmp(&b.thread));
    let [audit, checkout] = threads[..] else { panic!("{now}") };
    assert_eq!((audit.thread.as_str(), checkout.thread.as_str()), ("audit", "checkout"));
    let held = checkout.holds.as_ref().unwrap();
    assert_eq!((held.lock.as_str(), line_of(held.at).line()), ("accounts", first));
    let wanted = &checkout.wants;
    assert_eq!((wanted.lock.as_str(), line_of(wanted.at).line()), ("journal", first + 2));
    assert_eq!(audit.holds.as_ref().unwrap().lock, "journal");
    assert_eq!(audit.wants.lock, "accounts");
    let text = now.to_string();
    let line = text
        .lines()
        .find(|line| line.starts_with("DEADLOCK: ") && line.contains("accounts"))
        .unwrap();
    assert!(line.contains("checkout holds accounts at ") && line.contains("; "), "{line}");
    assert!(now.to_json().contains("\"deadlocks\":[[{\"thread\":"));
}

#[test]
fn a_thread_that_waits_for_itself_is_a_deadlock_unless_the_wait_can_end() {
    let lock = Mutex::named("own", ());
    let of_own = || {
        let now = stats::snapshot();
        now.deadlocks().iter().find(|it| it.threads[0].wants.lock == "own").cloned()
    };
    let stop = CancelToken::new();
    thread::scope(|s| {
        s.spawn(|| {
            let _guard = lock.lock();
            assert!(lock.lock_cancellable(&stop).is_err());
        });
        until_waiting("own", 1);
        let found = of_own();
        stop.cancel();
        assert!(found.is_none());
    });
    thread::scope(|s| {
        s.spawn(|| {
            std::mem::forget(lock.lock());
            drop(lock.lock());
        });
        until_waiting("own", 1);
        let found = of_own();
        // SAFETY: its holder forgot the guard.
        unsafe { lock.force_unlock() };
        assert_eq!(found.unwrap().threads.len(), 1);
    });
    // A holder that does not wait keeps others waiting, and is not in a deadlock.
    thread::scope(|s| {
        let guard = lock.lock();
        s.spawn(|| drop(lock.lock()));
        until_waiting("own", 1);
        let found = of_own();
        drop(guard);
        assert!(found.is_none());
    });
}

#[test]
fn a_reader_that_reads_again_behind_a_writer_is_a_deadlock() {
    let (lock, ends) = (RwLock::named("read again", ()), AtomicBool::new(false));
    thread::scope(|s| {
        spawn(s, "reader", || {
            std::mem::forget(lock.read());
            fairlock_testing::until(|| lock.has_waiters());
            // For a while it may still pass the writer. It holds the lock still when it has given up a read of several.
            while !ends.load(Ordering::Relaxed) {
                drop(lock.read());
            }
        });
        fairlock_testing::until(|| lock.try_write().is_none());
        spawn(s, "writer", || drop(lock.write()));
        let mut found = None;
        fairlock_testing::until(|| {
            let now = stats::snapshot();
            let is_it = |it: &&Deadlock| it.threads[0].wants.lock == "read again";
            found = now.deadlocks().iter().find(is_it).cloned();
            found.is_some()
        });
        let threads = found.unwrap().threads;
        let holds = |name| threads.iter().find(|it| it.thread == name).unwrap().holds.is_some();
        assert_eq!((threads.len(), holds("reader"), holds("writer")), (2, true, false));
        ends.store(true, Ordering::Relaxed);
        // SAFETY: its holder, which waits, forgot the guard.
        unsafe { lock.force_unlock_read() };
    });
    assert!(!lock.is_locked());
}

#[test]
fn a_thread_that_reads_several_times_holds_the_lock_until_the_last_release() {
    let lock = RwLock::named("read thrice", ());
    let held = || stats_of("read thrice").reads.held_now;
    let first = (lock.read(), line!());
    let others = [lock.read_recursive(), lock.read_recursive()];
    for guard in others {
        drop(guard);
        let held = held();
        assert_eq!(held.len(), 1);
        let Some(Place::Line(at)) = held[0].at else { panic!("{held:?}") };
        assert_eq!(at.line(), first.1);
    }
    drop(first);
    assert!(held().is_empty());
    assert_eq!(stats_of("read thrice").reads.acquisitions, 3);
    // An upgradable reader that reads, too, and becomes a reader.
    let (upgradable, reader) = (lock.upgradable_read(), lock.read_recursive());
    let downgraded = lock_api::RwLockUpgradableReadGuard::downgrade(upgradable);
    drop(reader);
    assert_eq!(held().len(), 1);
    drop(downgraded);
    assert!(held().is_empty() && !lock.is_locked());
}

/// An upgradable reader that waits keeps no reader waiting.
#[test]
fn what_is_in_nobodys_way_is_no_deadlock() {
    let (lock, other) = (RwLock::named("shared", ()), Mutex::named("beside", ()));
    thread::scope(|s| {
        let guard = other.lock();
        s.spawn(|| {
            let _upgradable = lock.upgradable_read();
            drop(other.lock());
        });
        until_waiting("beside", 1);
        let _reader = lock.read();
        // This thread reads, and holds what the upgradable reader waits for.
        let now = stats::snapshot();
        assert!(!now.deadlocks().iter().any(|it| it.to_string().contains("beside")));
        drop(guard);
    });
}

#[test]
fn a_lock_in_a_static_may_follow_a_policy_or_have_no_statistics() {
    static LOCK: stats::RwLock<u32> =
        Builder::new("static").rwlock_with_policy(Policy::DEFAULT.with_priorities(), 1);
    static QUIET: stats::Mutex<u32> = Builder::new("quiet").statistics(false).mutex(1);
    assert_eq!(
        (*LOCK.read() + *QUIET.lock(), LOCK.policy()),
        (2, Policy::DEFAULT.with_priorities())
    );
    assert_eq!(stats_of("static").reads.acquisitions, 1);
    assert!(stats::snapshot().get("quiet").is_none());
}

#[test]
fn a_lock_is_named_by_either_of_its_types() {
    let mutex: stats::Mutex<u32> = stats::Mutex::named("by its own type", 1);
    let rwlock: stats::RwLock<u32> = stats::RwLock::named("by its own type", 1);
    let part: stats::MappedMutexGuard<'_, u32> =
        stats::MutexGuard::map(mutex.lock(), |value| value);
    assert_eq!(*part + *rwlock.read(), 2);
    assert_eq!(stats_of("by its own type").writes.acquisitions, 1);
}

#[cfg(feature = "lock_api_05")]
#[test]
fn a_lock_of_lock_api_05_has_a_name_too() {
    use fairlock::lock_api_05::{RawRwLock, lock_api};
    let raw = stats::Named::new("of 0.5", <RawRwLock as lock_api::RawRwLock>::INIT);
    let lock = lock_api::RwLock::from_raw(raw, 1);
    let guard = lock.write();
    let line = line!() - 1;
    assert!(lock.try_read_for(Duration::from_millis(1)).is_none());
    drop(guard);
    let stats = stats_of("of 0.5");
    assert_eq!((stats.writes.acquisitions, stats.reads.given_up), (1, 1));
    let at = line_of(stats.writes.longest_hold.unwrap().at);
    assert_eq!((at.file(), at.line()), (file!(), line));
}

#[test]
fn a_name_costs_room_only_where_it_is_given() {
    assert_eq!((size_of::<Mutex<()>>(), size_of::<RwLock<()>>()), (8, 8));
    if cfg!(target_pointer_width = "64") {
        assert_eq!((size_of::<stats::Mutex<()>>(), size_of::<stats::RwLock<()>>()), (32, 32));
    }
}

/// The second hold, which is not a sample.
#[test]
fn who_kept_others_waiting_is_named_with_the_place() {
    let lock = RwLock::named("kept", 0);
    let began = Instant::now();
    drop(lock.write());
    let first = began.elapsed();
    let mut line = 0;
    thread::scope(|s| {
        let holder = thread::Builder::new().name("slow".into());
        let lock = &lock;
        let line = &mut line;
        holder
            .spawn_scoped(s, move || {
                let guard = lock.write();
                *line = std::line!() - 1;
                let waiter = thread::Builder::new().name("waiter".into());
                let waiter = waiter.spawn_scoped(s, || assert_eq!(*lock.read(), 0)).unwrap();
                until_waited_for(lock);
                thread::sleep(first + Duration::from_millis(1));
                drop(guard);
                waiter.join().unwrap();
            })
            .unwrap();
    });
    let stats = stats_of("kept");
    let hold = stats.writes.longest_hold.unwrap();
    let at = line_of(hold.at);
    assert_eq!((hold.thread.as_str(), at.file(), at.line()), ("slow", file!(), line));
    assert!(hold.time > first && hold.time == stats.writes.held.longest);
    let wait = stats.reads.longest_wait.unwrap();
    assert_eq!((wait.thread.as_str(), line_of(wait.at).line()), ("waiter", line + 3));
    assert_eq!((stats.reads.waited.count, wait.time), (1, stats.reads.waited.longest));
    assert_eq!((stats.writes.acquisitions, stats.writes.waited.count), (2, 0));
}

#[test]
fn those_that_came_later_and_went_first_are_counted() {
    let (lock, stop) = (RwLock::named("passed", ()), CancelToken::new());
    let reader = lock.read();
    thread::scope(|s| {
        let writer = s.spawn(|| lock.write_cancellable(&stop).map(drop));
        until_waited_for(&lock);
        (0..3).for_each(|_| drop(lock.read_recursive()));
        stop.cancel();
        assert_eq!(writer.join().unwrap(), Err(WaitError::Cancelled));
    });
    drop(reader);
    let stats = stats_of("passed");
    assert_eq!((stats.writes.passed_over, stats.writes.most_passed_over), (3, 3));
    assert_eq!((stats.writes.given_up, stats.writes.waited.count), (1, 1));
    assert_eq!((stats.writes.acquisitions, stats.reads.acquisitions), (0, 4));
    assert!(stats.writes.longest_wait.is_some_and(|wait| wait.time == stats.writes.waited.p50));
}

#[test]
fn a_hold_is_timed_while_it_lasts_in_the_same_way() {
    let lock = RwLock::named("changed", 0);
    let guard = lock.upgradable_read();
    let guard = RwLockUpgradableReadGuard::upgrade(guard);
    let guard = RwLockWriteGuard::downgrade(guard);
    assert!(lock.try_write().is_none());
    drop(guard);
    let stats = stats_of("changed");
    // One acquisition, which was the first, and a sample.
    assert_eq!((stats.writes.acquisitions, stats.writes.held.count), (1, 1));
    assert_eq!((stats.reads.acquisitions, stats.reads.held.count), (0, 0));
    assert!(stats.reads.longest_hold.is_some());
}

#[test]
fn a_wait_for_a_condition_variable_is_no_hold() {
    let (mutex, changed) = (Mutex::named("condition", false), Condvar::new());
    let has_it = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            let mut ready = mutex.lock();
            has_it.store(true, Ordering::Relaxed);
            changed.wait_while(&mut ready, |ready| !*ready);
        });
        fairlock_testing::until(|| has_it.load(Ordering::Relaxed));
        // When this thread has the mutex, the other waits. Its hold, the first, is a sample.
        *mutex.lock() = true;
        let writes = stats_of("condition").writes;
        changed.notify_one();
        assert_eq!((writes.acquisitions, writes.held.count), (2, 1));
    });
    let stats = stats_of("condition");
    let wait = stats.longest_condition.unwrap();
    // From where the mutex was taken before.
    assert_eq!((line_of(wait.at).file(), wait.time), (file!(), stats.conditions.longest));
    // It does not count as a wait for the mutex.
    assert_eq!((stats.conditions.count, stats.writes.acquisitions), (1, 2));
    let now = stats::snapshot();
    let table = now.to_string();
    assert!(table.lines().any(|line| line.starts_with("condition ") && line.contains(" cond ")));
    assert!(now.to_json().contains(r#""conditions":{"waited":{"count":1,"#));
}

#[test]
fn nothing_is_counted_while_statistics_are_off() {
    fairlock_testing::alone(|| {
        let lock = RwLock::named("switched", ());
        let mutex = Mutex::named("switched mutex", ());
        drop((lock.write(), mutex.lock()));
        let held = stats_of("switched").writes.held.longest;
        stats::set_collecting(false);
        drop(lock.write());
        let mut guard = mutex.lock();
        assert!(Condvar::new().wait_for(&mut guard, Duration::from_millis(1)).timed_out());
        drop(guard);
        let began_off = lock.read();
        stats::set_collecting(true);
        drop(began_off);
        let began_on = lock.write();
        stats::set_collecting(false);
        drop(began_on);
        thread::sleep(held + Duration::from_millis(5));
        // Nothing is left of the hold before, which would be as long as the pause.
        drop(lock.write());
        stats::set_collecting(true);
        let of_mutex = stats_of("switched mutex");
        assert_eq!((of_mutex.writes.acquisitions, of_mutex.conditions.count), (1, 0));
        let now = stats_of("switched");
        assert_eq!((now.writes.acquisitions, now.reads.acquisitions), (2, 0));
        assert_eq!((now.writes.held.count, now.writes.held.longest), (1, held));
    });
}

#[test]
fn a_long_wait_is_told_when_the_lock_is_released() {
    static LOCK: stats::RwLock<()> = Builder::new("told").rwlock(());
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    fairlock_testing::alone(|| {
        stats::on_long_wait(Duration::from_millis(1), |wait| {
            // The release is over; else this would wait for ever.
            drop(LOCK.write_for(Duration::from_secs(60)).unwrap());
            let is_known = wait.lock == "told" && line_of(wait.at).file() == file!();
            assert!(is_known && wait.waited >= Duration::from_millis(1) && wait.held.is_some());
            assert!(!wait.ongoing && wait.thread == "waiter");
            let holder = wait.holder.as_ref().unwrap();
            assert!(holder.thread == "holder" && line_of(holder.at).file() == file!());
            TOLD.fetch_add(1, Ordering::Relaxed);
        });
        thread::scope(|s| {
            spawn(s, "holder", || {
                let guard = LOCK.write();
                let waiter = spawn(s, "waiter", || {
                    let guard = LOCK.write();
                    assert_eq!(TOLD.load(Ordering::Relaxed), 0);
                    drop(guard);
                    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
                });
                until_waited_for(&LOCK);
                thread::sleep(Duration::from_millis(2));
                drop(guard);
                waiter.join().unwrap();
            });
        });
    });
}

/// By a thread that comes to wait, too, or by one that looks; each wait once.
#[test]
fn a_long_wait_is_told_while_it_lasts() {
    static LOCK: stats::Mutex<()> = Builder::new("told early").mutex(());
    static TOLD: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    fairlock_testing::alone(|| {
        stats::on_long_wait(Duration::from_nanos(1), |wait| {
            let holder = wait.holder.as_ref().map_or("", |holder| &holder.thread);
            let told = format!("{} waits for {holder}", wait.thread);
            if wait.ongoing {
                TOLD.lock().unwrap().push(told);
            }
        });
        thread::scope(|s| {
            let guard = spawn(s, "holder", || std::mem::forget(LOCK.lock()));
            guard.join().unwrap();
            for name in ["first", "second"] {
                spawn(s, name, || drop(LOCK.lock()));
                let waits = || stats_of("told early").writes.waiting;
                fairlock_testing::until(|| waits().iter().any(|now| now.thread == name));
            }
            // By the second, or by this thread.
            for _ in 0..2 {
                drop(stats::snapshot());
                let told = TOLD.lock().unwrap();
                assert_eq!(told.len(), 2, "{told:?}");
                assert!(told[0].starts_with("first waits for "));
                assert!(told[1].starts_with("second waits for "));
            }
            // SAFETY: its holder forgot the guard.
            unsafe { LOCK.force_unlock() };
        });
    });
}

#[test]
fn a_snapshot_is_a_table_and_json() {
    let lock = RwLock::named("a \"name\"", ());
    drop(lock.read());
    let now = stats::snapshot();
    let table = now.to_string();
    assert!(table.lines().any(|line| line.starts_with("a \"name\"") && line.contains(" read ")));
    let json = now.to_json();
    assert!(json.starts_with("{\"locks\":[{\"name\":") && json.ends_with("]}"));
    let of_lock = r#"{"name":"a \"name\"","locks":1,"reads":{"acquisitions":1,"given_up":0,"#;
    assert!(json.contains(of_lock));
    assert!(json.contains("\"longest_wait\":null"));
    for (open, close) in [('{', '}'), ('[', ']')] {
        assert_eq!(json.matches(open).count(), json.matches(close).count());
    }
}

/// While the program runs, and at its end; for a folder, and for a file.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_record_is_written_where_the_profile_is() {
    use std::{env, fs, process};

    if let Some(folder) = env::var_os("FAIRLOCK_TEST_FOLDER") {
        let lock = Mutex::named("written\n\"here\"", 0);
        let records = || {
            let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            let files = files.filter(|path| path.extension().is_some_and(|end| end == "named"));
            files.filter_map(|path| fairlock_profile::load(&path).ok())
        };
        let guard = lock.lock();
        thread::scope(|s| {
            let waits = || {
                let _guard = lock.lock();
            };
            thread::Builder::new().name("waiter".into()).spawn_scoped(s, waits).unwrap();
            // By a thread, while the lock is held.
            fairlock_testing::until(|| {
                records().any(|record| {
                    let Some(waiter) = record.threads.iter().find(|it| it.name == "waiter") else {
                        return false;
                    };
                    let lock = waiter.asleep.as_ref().unwrap().lock;
                    let held = record.held_now(lock).unwrap();
                    assert_eq!(record.waiting(lock).len(), 1);
                    // A name is cut off.
                    assert!(
                        "a_record_is_written_where_the_profile_is"
                            .starts_with(record.name(held.thread))
                    );
                    assert!(record.line(held.stack).unwrap().file.ends_with("stats.rs"));
                    assert!(record.as_of_ns.unwrap() >= held.since_ns.unwrap());
                    true
                })
            });
            drop(guard);
        });
        (0..40).for_each(|_| *lock.lock() += 1);
        return;
    }
    for name in ["", "record-%p"] {
        let folder =
            env::temp_dir().join(format!("fairlock-stats-{}-{}", process::id(), name.len()));
        fs::create_dir(&folder).unwrap();
        let child = process::Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_record_is_written_where_the_profile_is"])
            .env("FAIRLOCK_PROFILE", folder.join(name))
            .env("FAIRLOCK_TEST_FOLDER", &folder)
            .stdout(process::Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        let file = folder.join(format!("{}{}.named", name.replace("%p", ""), child.id()));
        assert!(child.wait().unwrap().success());
        let record = fairlock_profile::load(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(record.ended_ns.is_some() && record.threads.is_empty());
        let [lock] = &record.locks[..] else { panic!("{:?}", record.locks) };
        assert_eq!((lock.name.as_deref(), lock.writes), (Some("written\n\"here\""), 42));
        assert_eq!(lock.contention.as_ref().unwrap().writes, 1);
    }
}
