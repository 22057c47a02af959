//! Statistics of locks with a name.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::lock_api::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use fairlock::stats::{self, Builder, LockStats, NamedExt, Place};
use fairlock::{CancelToken, Condvar, Mutex, Policy, RwLock, RwLockExt, WaitError};
use fairlock_testing::rounds;

fn stats_of(name: &str) -> LockStats {
    stats::snapshot().get(name).unwrap_or_else(|| panic!("no lock {name}")).clone()
}

/// Waits until somebody waits for the lock.
fn line_of(at: Option<Place>) -> &'static Location<'static> {
    let Some(Place::Line(at)) = at else { panic!("not a line: {at:?}") };
    at
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
fn locks_are_listed_from_their_first_use_until_they_are_dropped() {
    let is_listed = || stats::snapshot().get("short-lived").is_some();
    let [first, second] = [1, 2].map(|value| Mutex::named("short-lived", value));
    assert!(!is_listed());
    assert_eq!(*first.lock() + *second.lock(), 3);
    let of_name = |lock: &&LockStats| lock.name == "short-lived";
    assert_eq!(stats::snapshot().locks().iter().filter(of_name).count(), 2);
    drop(first);
    assert!(is_listed());
    assert_eq!(second.into_inner(), 2);
    assert!(!is_listed());
}

#[test]
fn a_lock_in_a_static_may_follow_a_policy_or_have_no_statistics() {
    static LOCK: stats::RwLock<u32> =
        Builder::new("static").rwlock_with_policy(Policy::DEFAULT.with_priorities(), 1);
    static QUIET: stats::Mutex<u32> = Builder::new("quiet").statistics(false).mutex(1);
    assert_eq!(
        (*LOCK.read() + *QUIET.lock(), LOCK.policy()),
        (2, &Policy::DEFAULT.with_priorities())
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

/// The second hold, which is no sample.
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
    // It is no wait for the mutex.
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
            TOLD.fetch_add(1, Ordering::Relaxed);
        });
        let guard = LOCK.write();
        thread::scope(|s| {
            let waiter = s.spawn(|| {
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
}

#[test]
fn a_snapshot_is_a_table_and_json() {
    let lock = RwLock::named("a \"name\"", ());
    drop(lock.read());
    let now = stats::snapshot();
    let table = now.to_string();
    assert!(table.lines().any(|line| line.starts_with("a \"name\"") && line.contains(" read ")));
    let json = now.to_json();
    assert!(json.starts_with("{\"locks\":[{\"name\":") && json.ends_with("}]}"));
    assert!(json.contains(r#"{"name":"a \"name\"","reads":{"acquisitions":1,"given_up":0,"#));
    assert!(json.contains("\"longest_wait\":null"));
    for (open, close) in [('{', '}'), ('[', ']')] {
        assert_eq!(json.matches(open).count(), json.matches(close).count());
    }
}
