//! What the guide and the crate say of programs written for `parking_lot` 0.13: here is one, for
//! both, that differs in its `use` lines only.

use fairlock_testing as _; // the watchdog

macro_rules! program {
    ($name:ident, $library:path) => {
        mod $name {
            use std::time::{Duration, Instant};

            use library::lock_api::{RawMutex as _, RawRwLock as _};
            use library::{
                Condvar, MappedMutexGuard, MappedRecursiveRwLockReadGuard,
                MappedRecursiveRwLockWriteGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard,
                Mutex, MutexGuard, Once, OnceState, RawMutex, RawRwLock, RawRwLockRecursive,
                RecursiveRwLock, RecursiveRwLockReadGuard, RecursiveRwLockWriteGuard, RwLock,
                RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
            };
            use $library as library;

            const SHORT: Duration = Duration::from_millis(1);

            static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
            static PAIR: RwLock<(u32, u32)> = RwLock::new((1, 2));
            static NUMBER: RecursiveRwLock<u32> = RecursiveRwLock::new(7);

            #[test]
            fn once() {
                static DONE: Once = Once::new_completed();
                const _: bool = OnceState::New.is_completed() || OnceState::New.is_poisoned();
                DONE.call_once(|| unreachable!("called"));
                let panics = |f: &dyn Fn()| {
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
                };
                let once = Once::new();
                assert!(panics(&|| once.call_once(|| std::panic::resume_unwind(Box::new(())))));
                assert!(once.state().is_poisoned() && !once.is_completed());
                assert!(panics(&|| once.wait()));
                std::thread::scope(|s| {
                    s.spawn(|| once.wait_force());
                    s.spawn(|| once.call_once_force(|state| assert!(state.is_poisoned())));
                });
                once.wait();
                assert!(once.is_completed() && once.state().is_completed());
            }

            #[test]
            fn mutex() {
                let mut guard: MutexGuard<'_, Vec<&str>> = NAMES.lock();
                guard.push("a");
                assert!(NAMES.is_locked() && NAMES.try_lock().is_none());
                assert!(NAMES.try_lock_for(SHORT).is_none());
                assert!(NAMES.try_lock_until(Instant::now() + SHORT).is_none());
                MutexGuard::bump(&mut guard);
                MutexGuard::unlocked(&mut guard, || NAMES.lock().push("b"));
                MutexGuard::unlocked_fair(&mut guard, || assert!(NAMES.try_lock().is_some()));
                let mut first: MappedMutexGuard<'_, &str> =
                    MutexGuard::map(guard, |names| &mut names[0]);
                *first = "c";
                MappedMutexGuard::unlock_fair(first);
                MutexGuard::unlock_fair(NAMES.lock());
                let none = MutexGuard::try_map(NAMES.lock(), |names| names.get_mut(2));
                assert!(none.is_err());
                drop(none);
                let mut own = Mutex::new(1);
                *own.get_mut() += 1;
                assert_eq!((format!("{own:?}"), own.into_inner()), ("Mutex { data: 2 }".into(), 2));
                assert_eq!(*NAMES.lock(), ["c", "b"]);
                assert_eq!(*Mutex::from_raw(RawMutex::INIT, 3).lock(), 3);
            }

            #[test]
            fn condvar() {
                static STAGE: Mutex<u32> = Mutex::new(0);
                static CHANGED: Condvar = Condvar::new();
                assert!(!CHANGED.notify_one() && CHANGED.notify_all() == 0);
                let mut stage = STAGE.lock();
                let late: WaitTimeoutResult = CHANGED.wait_for(&mut stage, SHORT);
                assert!(late.timed_out());
                assert!(CHANGED.wait_until(&mut stage, Instant::now()).timed_out());
                assert!(CHANGED.wait_while_for(&mut stage, |stage| *stage == 0, SHORT).timed_out());
                std::thread::scope(|s| {
                    s.spawn(|| {
                        let mut stage = STAGE.lock();
                        *stage = 1;
                        CHANGED.notify_one();
                        CHANGED.wait_while(&mut stage, |stage| *stage == 1);
                    });
                    CHANGED.wait(&mut stage);
                    assert_eq!(*stage, 1);
                    *stage = 2;
                    CHANGED.notify_all();
                    drop(stage);
                });
            }

            #[test]
            fn rwlock() {
                let reader: RwLockReadGuard<'_, (u32, u32)> = PAIR.read();
                assert!(PAIR.is_locked() && !PAIR.is_locked_exclusive());
                assert!(PAIR.try_read().is_some() && PAIR.try_write().is_none());
                assert!(PAIR.try_write_for(SHORT).is_none());
                let first: MappedRwLockReadGuard<'_, u32> =
                    RwLockReadGuard::map(reader, |pair| &pair.0);
                assert_eq!(*first, 1);
                MappedRwLockReadGuard::unlock_fair(first);
                let mut writer: RwLockWriteGuard<'_, (u32, u32)> = PAIR.write();
                assert!(PAIR.try_read_until(Instant::now() + SHORT).is_none());
                RwLockWriteGuard::bump(&mut writer);
                RwLockWriteGuard::unlocked(&mut writer, || PAIR.write().0 += 1);
                let mut reader = RwLockWriteGuard::downgrade(writer);
                RwLockReadGuard::bump(&mut reader);
                RwLockReadGuard::unlock_fair(reader);
                let mut second: MappedRwLockWriteGuard<'_, u32> =
                    RwLockWriteGuard::map(PAIR.write(), |pair| &mut pair.1);
                *second += 1;
                drop(second);
                RwLockWriteGuard::unlock_fair(PAIR.write());
                assert_eq!(*PAIR.try_read_for(SHORT).unwrap(), (2, 3));
                assert_eq!(*PAIR.try_write_until(Instant::now()).unwrap(), (2, 3));
                assert_eq!(*RwLock::from_raw(RawRwLock::INIT, 3).read(), 3);
            }

            /// A thread reads again, every way, while a writer waits for it.
            #[test]
            fn recursive_rwlock() {
                let first: RecursiveRwLockReadGuard<'_, u32> = NUMBER.read();
                std::thread::scope(|s| {
                    let writer = s.spawn(|| {
                        let mut writer: RecursiveRwLockWriteGuard<'_, u32> = NUMBER.write();
                        *writer += 1;
                        let writer: MappedRecursiveRwLockWriteGuard<'_, u32> =
                            RecursiveRwLockWriteGuard::map(writer, |number| number);
                        assert_eq!(*writer, 8);
                    });
                    // It waits sooner or later; how many times this thread reads before
                    // that does not matter.
                    for _ in 0..20 {
                        assert!(NUMBER.try_read().is_some());
                        assert!(NUMBER.try_read_for(SHORT).is_some());
                        assert!(NUMBER.try_read_until(Instant::now()).is_some());
                        let second: MappedRecursiveRwLockReadGuard<'_, u32> =
                            RecursiveRwLockReadGuard::map(NUMBER.read(), |number| number);
                        assert_eq!(*second, 7);
                        assert!(NUMBER.try_write_for(SHORT / 10).is_none());
                        assert!(!writer.is_finished());
                    }
                    drop(first);
                });
                let writer = NUMBER.try_write().unwrap();
                let reader = RecursiveRwLockWriteGuard::downgrade(writer);
                RecursiveRwLockReadGuard::unlock_fair(reader);
                assert_eq!(*RecursiveRwLock::from_raw(RawRwLockRecursive::INIT, 3).read(), 3);
            }
        }
    };
}

program!(for_parking_lot, parking_lot_013);
program!(for_fairlock, fairlock::lock_api_05);
