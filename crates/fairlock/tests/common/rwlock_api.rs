//! The public face of a reader/writer lock, under each of its policies: the file that has this one as a module says
//! which lock that is. No test depends on how long anything takes: where one thread must be asleep, the test waits
//! until the lock says that somebody is queued.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fairlock::events::{Event, EventCounts};
use fairlock::{CancelToken, RwLockExt, Wait, WaitError};
use fairlock_testing::{join, scope, until};

use super::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, POLICIES, Policy, RawRwLock, RwLock,
    RwLockReadGuard, RwLockWriteGuard,
};

/// Long enough to never end while a test runs.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(2);

fn for_each_policy(test: impl Fn(Policy)) {
    POLICIES.into_iter().for_each(test);
}

fn wait_until_queued<T>(lock: &RwLock<T>) {
    until(|| lock.has_waiters());
}

/// Counters for the events of this lock alone.
fn counts_of<T>(lock: &RwLock<T>) -> &'static EventCounts {
    let counts = Box::leak(Box::new(EventCounts::new()));
    lock.set_events(Some(counts));
    counts
}

/// The lock is free and nothing of an earlier wait is left in it.
fn assert_pristine<T: std::fmt::Debug>(lock: &RwLock<T>) {
    assert!(!lock.is_locked() && !lock.has_waiters(), "{lock:?}");
    drop(lock.try_write().expect("free for writing"));
    let first = lock.try_read().expect("free for reading");
    drop(lock.try_read().expect("free for a second reader"));
    drop(first);
}

// ---- guards ----

#[test]
fn readers_share_and_writers_exclude() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 1);
        assert_eq!(lock.policy(), policy);
        {
            let (a, b) = (lock.read(), lock.try_read().expect("readers share"));
            assert_eq!(*a + *b, 2);
            assert!(lock.try_write().is_none());
            assert!(lock.is_locked() && !lock.is_locked_exclusive());
        }
        {
            let mut writer = lock.write();
            *writer += 1;
            assert!(lock.try_read().is_none() && lock.try_write().is_none());
            assert!(lock.is_locked_exclusive());
        }
        assert_eq!(*lock.read(), 2);
        assert_pristine(&lock);
        assert_eq!(lock.into_inner(), 2);
    });
}

#[test]
fn contended_writers_lose_no_update_and_readers_see_no_half() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 2_000;
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, (0u64, 0u64));
        scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    for _ in 0..TURNS {
                        let mut pair = lock.write();
                        pair.0 += 1;
                        pair.1 += 1;
                    }
                });
                s.spawn(|| {
                    for _ in 0..TURNS {
                        let pair = lock.read();
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(*lock.read(), (THREADS * TURNS, THREADS * TURNS));
        assert_pristine(&lock);
    });
}

#[test]
fn mapped_guards_hold_the_lock() {
    let lock = RwLock::new((1, String::from("one")));
    let name: MappedRwLockReadGuard<'_, str> =
        RwLockReadGuard::map(lock.read(), |pair| pair.1.as_str());
    assert_eq!(&*name, "one");
    assert!(lock.try_write().is_none());
    drop(name);

    let mut number: MappedRwLockWriteGuard<'_, i32> =
        RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0);
    *number = 2;
    assert!(lock.try_read().is_none());
    drop(number);

    let whole = RwLockReadGuard::try_map(lock.read(), |pair| pair.1.strip_prefix("two"))
        .expect_err("not there: the guard comes back");
    assert_eq!(whole.0, 2);
    drop(whole);
    assert_pristine(&lock);
}

#[test]
fn a_guard_of_an_extended_wait_is_an_ordinary_guard() {
    let lock = RwLock::new([1, 2]);
    let guard: RwLockWriteGuard<'_, [i32; 2]> = lock.write_for(LONG).unwrap();
    let guard: RwLockReadGuard<'_, [i32; 2]> = RwLockWriteGuard::downgrade(guard);
    let second = RwLockReadGuard::map(guard, |array| &array[1]);
    assert_eq!(*second, 2);
}

#[cfg(feature = "send_guard")]
#[test]
fn a_guard_may_be_dropped_by_another_thread() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        scope(|s| {
            let writer = lock.write();
            s.spawn(move || drop(writer));
            let reader = lock.read();
            s.spawn(move || drop(reader));
        });
        assert_pristine(&lock);
    });
}

#[test]
fn unsized_values_work() {
    let lock: Box<RwLock<[i32]>> = Box::new(RwLock::new([1, 2, 3]));
    lock.write_for(LONG).unwrap()[0] = 4;
    assert_eq!(lock.read_recursive().iter().sum::<i32>(), 9);
}

#[test]
fn statics_need_no_initialisation() {
    static PLAIN: RwLock<u32> = RwLock::new(0);
    static OTHER: RwLock<u32> = RwLock::from_raw(RawRwLock::with_policy(POLICIES[1]), 0);
    for lock in [&PLAIN, &OTHER] {
        scope(|s| {
            for _ in 0..4 {
                s.spawn(|| *lock.write() += 1);
            }
        });
        assert_eq!(*lock.read(), 4);
    }
    assert_eq!((PLAIN.policy(), OTHER.policy()), (POLICIES[0], POLICIES[1]));
}

#[test]
fn debug_output_does_not_wait_for_the_lock() {
    let lock = RwLock::new(3);
    assert!(format!("{lock:?}").contains('3'));
    let _writer = lock.write();
    assert!(format!("{lock:?}").contains("locked"));
}

// ---- downgrade, recursion, fair release ----

#[test]
fn downgrade_admits_queued_readers_and_no_writer() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        scope(|s| {
            let mut writer = lock.write();
            let reader = s.spawn(|| *lock.read());
            wait_until_queued(&lock);
            *writer = 1;
            let downgraded = RwLockWriteGuard::downgrade(writer);
            // The reader gets in beside the downgraded guard.
            assert_eq!(join(reader), 1);
            assert!(lock.try_write().is_none());
            assert_eq!(*downgraded, 1);
        });
        assert_pristine(&lock);
    });
}

#[test]
fn downgrade_lets_no_queued_writer_in_between() {
    for_each_policy(|policy| {
        for _ in 0..100 {
            let lock = RwLock::with_policy(policy, 0);
            scope(|s| {
                let mut writer = lock.write();
                s.spawn(|| *lock.write() += 10);
                wait_until_queued(&lock);
                *writer = 1;
                let downgraded = RwLockWriteGuard::downgrade(writer);
                assert_eq!(*downgraded, 1);
            });
            assert_eq!(*lock.read(), 11);
        }
    });
}

#[test]
fn recursive_read_passes_a_queued_writer() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        scope(|s| {
            let outer = lock.read();
            s.spawn(|| *lock.write() += 1);
            wait_until_queued(&lock);
            assert!(lock.try_read().is_none(), "an ordinary read would queue");
            assert_eq!(*lock.read_recursive(), 0);
            assert_eq!(*lock.try_read_recursive().unwrap(), 0);
            // However it would wait, it does not have to.
            let stop = CancelToken::new();
            stop.cancel();
            assert_eq!(*lock.read_recursive_with(Wait::within(Duration::ZERO)).unwrap(), 0);
            assert_eq!(*lock.read_recursive_with(Wait::until(Instant::now())).unwrap(), 0);
            assert_eq!(*lock.read_recursive_with(Wait::FOREVER.interruptible()).unwrap(), 0);
            assert_eq!(*lock.read_recursive_with(Wait::FOREVER.cancellable(&stop)).unwrap(), 0);
            drop(outer);
        });
        assert_eq!(*lock.read(), 1);
        assert_pristine(&lock);
    });
}

#[test]
fn recursive_read_does_not_pass_a_writer_inside() {
    let (lock, stop) = (RwLock::new(0), CancelToken::new());
    let _writer = lock.write();
    assert!(lock.try_read_recursive().is_none());
    let timed_out = Some(WaitError::TimedOut);
    assert_eq!(lock.read_recursive_with(Wait::within(Duration::from_millis(1))).err(), timed_out);
    assert_eq!(lock.read_recursive_with(Wait::until(Instant::now())).err(), timed_out);
    stop.cancel();
    assert_eq!(
        lock.read_recursive_with(Wait::FOREVER.cancellable(&stop)).err(),
        Some(WaitError::Cancelled)
    );
}

#[test]
fn fair_release_leaves_no_gap_for_the_releaser() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        let seen = Barrier::new(2);
        scope(|s| {
            let mine = lock.write();
            s.spawn(|| {
                let _theirs = lock.write();
                seen.wait();
            });
            wait_until_queued(&lock);
            RwLockWriteGuard::unlock_fair(mine);
            assert!(lock.try_write().is_none() && lock.try_read().is_none());
            seen.wait();
        });
        assert_pristine(&lock);
    });
}

#[test]
fn bump_lets_a_waiter_through() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        scope(|s| {
            let mut mine = lock.write();
            s.spawn(|| *lock.write() += 1);
            wait_until_queued(&lock);
            RwLockWriteGuard::bump(&mut mine);
            assert_eq!(*mine, 1);
        });
        assert_pristine(&lock);
    });
}

// ---- deadlines ----

#[test]
fn a_timed_wait_ends_after_its_deadline_and_leaves_no_trace() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        let writer = lock.write();
        let deadline = Instant::now() + SHORT;
        assert_eq!(lock.read_for(SHORT).err(), Some(WaitError::TimedOut));
        assert!(Instant::now() >= deadline);
        let deadline = Instant::now() + SHORT;
        assert_eq!(lock.read_until(deadline).err(), Some(WaitError::TimedOut));
        assert!(Instant::now() >= deadline);
        assert_eq!(lock.write_for(SHORT).err(), Some(WaitError::TimedOut));
        assert_eq!(lock.write_until(Instant::now() + SHORT).err(), Some(WaitError::TimedOut));
        assert!(lock.try_read_for(SHORT).is_none());
        assert!(lock.try_read_until(Instant::now() + SHORT).is_none());
        assert!(lock.try_write_for(SHORT).is_none());
        assert!(lock.try_write_until(Instant::now() + SHORT).is_none());
        assert!(!lock.has_waiters());
        drop(writer);
        assert_pristine(&lock);

        let reader = lock.read();
        assert_eq!(lock.write_for(SHORT).err(), Some(WaitError::TimedOut));
        drop(reader);
        assert_pristine(&lock);
    });
}

#[test]
fn a_deadline_that_has_passed_still_takes_a_free_lock() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        let past = Instant::now();
        drop(lock.read_for(Duration::ZERO).unwrap());
        drop(lock.write_for(Duration::ZERO).unwrap());
        drop(lock.read_until(past).unwrap());
        drop(lock.write_until(past).unwrap());
        let _writer = lock.write();
        assert_eq!(lock.read_for(Duration::ZERO).err(), Some(WaitError::TimedOut));
        assert_eq!(lock.write_until(past).err(), Some(WaitError::TimedOut));
    });
}

#[test]
fn a_timed_wait_is_granted_before_its_deadline() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        // The longest timeout there is must not overflow anything.
        for timeout in [LONG, Duration::MAX] {
            scope(|s| {
                let writer = lock.write();
                s.spawn(|| *lock.write_for(timeout).unwrap() += 1);
                s.spawn(|| drop(lock.read_for(timeout).unwrap()));
                s.spawn(|| *lock.try_write_for(timeout).unwrap() += 1);
                wait_until_queued(&lock);
                drop(writer);
            });
        }
        assert_eq!(*lock.read(), 4);
        assert_pristine(&lock);
    });
}

#[test]
fn readers_behind_a_writer_that_gives_up_move_up() {
    for_each_policy(|policy| {
        let (lock, stop) = (RwLock::with_policy(policy, 0), CancelToken::new());
        let counts = counts_of(&lock);
        scope(|s| {
            let held = lock.read();
            let writer = s.spawn(|| lock.write_cancellable(&stop).map(drop));
            wait_until_queued(&lock);
            let readers: Vec<_> = (0..3).map(|_| s.spawn(|| drop(lock.read()))).collect();
            let asleep = || counts.get(Event::SleepReader) > 0;
            while !asleep() && !readers.iter().all(|reader| reader.is_finished()) {
                thread::yield_now();
            }
            stop.cancel();
            assert_eq!(join(writer), Err(WaitError::Cancelled));
            for reader in readers {
                join(reader);
            }
            drop(held);
        });
        assert_pristine(&lock);
    });
}

// ---- cancellation ----

#[test]
fn a_token_cancelled_before_ends_the_wait_but_does_not_refuse_a_free_lock() {
    for_each_policy(|policy| {
        let (lock, stop) = (RwLock::with_policy(policy, 0), CancelToken::new());
        stop.cancel();
        assert!(stop.is_cancelled());
        drop(lock.read_cancellable(&stop).unwrap());
        drop(lock.write_cancellable(&stop).unwrap());
        let writer = lock.write();
        assert_eq!(lock.read_cancellable(&stop).err(), Some(WaitError::Cancelled));
        assert_eq!(lock.write_cancellable(&stop).err(), Some(WaitError::Cancelled));
        assert!(!lock.has_waiters());
        drop(writer);
        assert_pristine(&lock);
    });
}

#[test]
fn a_cancel_ends_every_wait_under_the_token_and_no_other() {
    for_each_policy(|policy| {
        let (lock, stop, go_on) =
            (RwLock::with_policy(policy, 0), CancelToken::new(), CancelToken::new());
        scope(|s| {
            let held = lock.write();
            let stopped: Vec<_> = (0..6)
                .map(|i| {
                    let (lock, stop) = (&lock, &stop);
                    s.spawn(move || match i % 2 {
                        0 => lock.read_cancellable(stop).map(drop),
                        _ => lock.write_cancellable(stop).map(drop),
                    })
                })
                .collect();
            let reader = s.spawn(|| lock.read_cancellable(&go_on).map(drop));
            let writer = s.spawn(|| lock.write_cancellable(&go_on).map(drop));
            wait_until_queued(&lock);
            stop.cancel();
            for waiter in stopped {
                assert_eq!(join(waiter), Err(WaitError::Cancelled));
            }
            drop(held);
            assert_eq!(join(reader), Ok(()));
            assert_eq!(join(writer), Ok(()));
        });
        assert_pristine(&lock);
    });
}

#[test]
fn a_cancel_after_the_grant_changes_nothing() {
    for_each_policy(|policy| {
        let (lock, stop) = (RwLock::with_policy(policy, 0), CancelToken::new());
        let granted = Barrier::new(2);
        scope(|s| {
            let held = lock.write();
            let waiter = s.spawn(|| {
                let mut guard = lock.write_cancellable(&stop).expect("granted before the cancel");
                granted.wait();
                granted.wait();
                *guard += 1;
            });
            wait_until_queued(&lock);
            drop(held);
            granted.wait();
            stop.cancel();
            assert!(lock.is_locked_exclusive());
            granted.wait();
            join(waiter);
        });
        assert_eq!(*lock.read(), 1);
        assert_pristine(&lock);
    });
}

#[test]
fn a_wait_granted_and_cancelled_at_once_has_the_lock_or_not_but_says_which() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        for round in 0..300 {
            let stop = CancelToken::new();
            let start = Barrier::new(2);
            scope(|s| {
                let held = lock.write();
                let waiter = s.spawn(|| match round % 2 {
                    0 => lock.read_cancellable(&stop).map(|guard| {
                        assert!(lock.is_locked() && lock.try_write().is_none());
                        drop(guard);
                    }),
                    _ => lock.write_cancellable(&stop).map(|guard| {
                        assert!(lock.is_locked_exclusive());
                        drop(guard);
                    }),
                });
                s.spawn(|| {
                    start.wait();
                    stop.cancel();
                });
                wait_until_queued(&lock);
                start.wait();
                drop(held);
                assert!(matches!(join(waiter), Ok(()) | Err(WaitError::Cancelled)));
            });
            assert_pristine(&lock);
        }
    });
}

// ---- panics ----

#[test]
fn a_panic_under_a_guard_releases_the_lock_and_poisons_nothing() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = lock.write();
            *guard = 1;
            std::panic::resume_unwind(Box::new("under a write guard"));
        }));
        assert!(unwound.is_err());
        assert_eq!(*lock.read(), 1, "as the panic left it");
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.read();
            std::panic::resume_unwind(Box::new("under a read guard"));
        }));
        assert!(unwound.is_err());
        assert_pristine(&lock);
    });
}

#[test]
fn a_panic_under_a_guard_lets_waiters_in() {
    for_each_policy(|policy| {
        let lock = RwLock::with_policy(policy, 0);
        scope(|s| {
            let guard = lock.write();
            s.spawn(|| *lock.write() += 1);
            s.spawn(|| drop(lock.read()));
            wait_until_queued(&lock);
            let unwound = catch_unwind(AssertUnwindSafe(move || {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("with waiters"));
            }));
            assert!(unwound.is_err());
        });
        assert_eq!(*lock.read(), 1);
        assert_pristine(&lock);
    });
}

// ---- statistics ----

#[test]
fn a_lock_counts_its_slow_paths_where_it_is_told_to() {
    for_each_policy(|policy| {
        let (lock, stop) = (RwLock::with_policy(policy, 0), CancelToken::new());
        let counts = counts_of(&lock);
        let wait_for = |event: Event| until(|| counts.get(event) > 0);
        drop((lock.read(), lock.read()));
        drop(lock.write());
        assert_eq!(counts.snapshot().iter().map(|(_, n)| n).sum::<usize>(), 0, "no slow path");
        scope(|s| {
            let _held = lock.write();
            s.spawn(|| lock.write_cancellable(&stop).map(drop).unwrap_err());
            wait_for(Event::SleepWriter);
            s.spawn(|| lock.read_cancellable(&stop).map(drop).unwrap_err());
            wait_for(Event::SleepReader);
            stop.cancel();
            wait_for(Event::WriteFail);
            wait_for(Event::ReadFail);
            let fails = counts.snapshot();
            assert_eq!((fails.get(Event::ReadFail), fails.get(Event::WriteFail)), (1, 1));
            assert_eq!((fails.get(Event::ReadLock), fails.get(Event::WriteLock)), (0, 0));
        });
        let grant_both = || {
            counts.reset();
            scope(|s| {
                let held = lock.write();
                s.spawn(|| *lock.write() += 1);
                wait_for(Event::SleepWriter);
                s.spawn(|| drop(lock.read()));
                wait_for(Event::SleepReader);
                drop(held);
            });
        };
        grant_both();
        let granted = counts.snapshot();
        assert_eq!((granted.get(Event::ReadFail), granted.get(Event::WriteFail)), (0, 0));
        assert_eq!((granted.get(Event::ReadLock), granted.get(Event::WriteLock)), (1, 1));
        // A waiter may have woken by its own timer.
        until(|| {
            let are_woken = counts.get(Event::WakeReader) > 0 && counts.get(Event::WakeWriter) > 0;
            if !are_woken {
                grant_both();
            }
            are_woken
        });

        lock.set_events(None);
        let before = counts.snapshot();
        let _held = lock.write();
        assert!(lock.read_for(Duration::ZERO).is_err());
        assert_eq!(counts.snapshot(), before);
    });
}

// ---- generic code ----

/// What a library that is generic over `lock_api` may ask for.
fn use_generically<R>()
where
    R: lock_api::RawRwLockFair
        + lock_api::RawRwLockDowngrade
        + lock_api::RawRwLockTimed<Duration = Duration, Instant = Instant>
        + Send
        + Sync,
{
    let lock = lock_api::RwLock::<R, _>::new(0);
    scope(|s| {
        s.spawn(|| *lock.write() += 1);
        s.spawn(|| *lock.try_write_for(LONG).unwrap() += 1);
        s.spawn(|| {
            let mut guard = lock.try_write_until(Instant::now() + LONG).unwrap();
            *guard += 1;
            let guard = lock_api::RwLockWriteGuard::downgrade(guard);
            lock_api::RwLockReadGuard::unlock_fair(guard);
        });
        s.spawn(|| lock_api::RwLockReadGuard::bump(&mut lock.read()));
    });
    assert_eq!(*lock.try_read_for(Duration::ZERO).unwrap(), 3);
}

#[test]
fn generic_code_over_lock_api_runs() {
    use_generically::<RawRwLock>();
}

#[test]
fn the_lock_and_its_errors_have_the_usual_traits() {
    fn shared<T: Send + Sync>() {}
    fn error<T: std::error::Error + Send + Sync + Copy + 'static>() {}
    shared::<RwLock<String>>();
    shared::<CancelToken>();
    error::<WaitError>();
    assert_eq!(*RwLock::<u32>::default().read(), 0);
    assert_eq!(*RwLock::from(5).read(), 5);
}

// ---- signals ----

#[cfg(all(target_os = "linux", not(miri)))]
mod signals {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Handlers that ran, by signal.
    static HANDLED: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

    extern "C" fn handler(signal: libc::c_int) {
        HANDLED[signal as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn install(signal: libc::c_int, flags: libc::c_int) {
        // SAFETY: a zeroed `sigaction` is a valid one; the handler only counts.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = flags;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        assert_eq!(result, 0);
    }

    type Take = fn(&RwLock<u32>) -> Result<(), WaitError>;

    /// Runs `take` in a thread while the lock is held for writing, and sends
    /// that thread `signal` again and again: until it returns, or `enough`
    /// handlers have run, after which the lock is let go.
    fn take_under_signals(
        policy: Policy,
        take: Take,
        signal: libc::c_int,
        enough: usize,
    ) -> Result<(), WaitError> {
        let lock = &RwLock::with_policy(policy, 0);
        let (send_id, id) = mpsc::channel();
        let result = scope(|s| {
            let held = lock.write();
            let waiter = s.spawn(move || {
                // SAFETY: always succeeds.
                send_id.send(unsafe { libc::pthread_self() }).unwrap();
                take(lock)
            });
            let id = id.recv().unwrap();
            wait_until_queued(lock);
            let handled = || HANDLED[signal as usize].load(Ordering::Relaxed);
            let before = handled();
            until(|| {
                // SAFETY: the thread has not been joined, so its id is valid.
                unsafe { libc::pthread_kill(id, signal) };
                waiter.is_finished() || handled() - before >= enough
            });
            if waiter.is_finished() {
                assert!(!lock.has_waiters());
            }
            drop(held);
            join(waiter)
        });
        assert_pristine(lock);
        result
    }

    const INTERRUPTIBLE: [Take; 3] = [
        |lock| lock.read_interruptible().map(drop),
        |lock| lock.read_recursive_with(Wait::FOREVER.interruptible()).map(drop),
        |lock| lock.write_interruptible().map(drop),
    ];

    #[test]
    fn a_handler_ends_an_interruptible_wait() {
        install(libc::SIGUSR1, 0);
        for_each_policy(|policy| {
            for take in INTERRUPTIBLE {
                let result = take_under_signals(policy, take, libc::SIGUSR1, usize::MAX);
                assert_eq!(result, Err(WaitError::Interrupted));
            }
        });
    }

    #[test]
    fn a_handler_with_sa_restart_ends_it_too() {
        install(libc::SIGUSR2, libc::SA_RESTART);
        for_each_policy(|policy| {
            for take in INTERRUPTIBLE {
                let result = take_under_signals(policy, take, libc::SIGUSR2, usize::MAX);
                assert_eq!(result, Err(WaitError::Interrupted));
            }
        });
    }

    #[test]
    fn a_handler_ends_no_other_wait() {
        const OTHERS: [Take; 5] = [
            |lock| {
                drop(lock.read());
                Ok(())
            },
            |lock| {
                drop(lock.write());
                Ok(())
            },
            |lock| lock.read_for(LONG).map(drop),
            |lock| lock.write_for(LONG).map(drop),
            |lock| lock.write_cancellable(&CancelToken::new()).map(drop),
        ];
        install(libc::SIGWINCH, 0);
        for_each_policy(|policy| {
            for take in OTHERS {
                assert_eq!(take_under_signals(policy, take, libc::SIGWINCH, 10), Ok(()));
            }
        });
    }

    #[test]
    fn an_interruptible_wait_without_a_signal_gets_the_lock() {
        for_each_policy(|policy| {
            for take in INTERRUPTIBLE {
                assert_eq!(take_under_signals(policy, take, 0, 0), Ok(()));
            }
        });
    }
}
