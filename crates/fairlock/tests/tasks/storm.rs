//! Futures that are dropped at any instant.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use fairlock::{Mutex, MutexAsyncExt, RwLock, RwLockAsyncExt, Semaphore};
use fairlock_testing::{rounds, scope, until};

use crate::executor::Executor;

/// Of each storm; about a third of them drop a future.
const STEPS: usize = if cfg!(miri) { 1_000 } else { 1_600_000 };

/// A number that follows from the one before.
fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

/// A task's waker, which notes that it was called.
struct Notes(AtomicBool);

impl Wake for Notes {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls the future until it is ready, or gives it up at a random instant: before its first poll, as it waits, or when it was
/// woken.
fn poll_or_drop<F: Future>(future: F, random: &mut u64) -> Option<F::Output> {
    let notes = Arc::new(Notes(AtomicBool::new(false)));
    let waker = Waker::from(notes.clone());
    let mut future: Pin<Box<F>> = Box::pin(future);
    let (patience, when_woken) = (next(random) % 64, next(random) % 4 == 0);
    for look in 0.. {
        if look == patience && !when_woken {
            return None;
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let mut looks = 0;
        while !notes.0.swap(false, Ordering::SeqCst) {
            looks += 1;
            if !when_woken && looks > patience {
                return None;
            }
            if looks % 8 == 0 {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        if when_woken && next(random) % 2 == 0 {
            return None;
        }
    }
    None
}

struct Both {
    mutex: Mutex<usize>,
    lock: RwLock<(usize, usize)>,
}

#[test]
fn a_storm_of_dropped_futures_loses_nothing() {
    let both = Both { mutex: Mutex::new(0), lock: RwLock::new((0, 0)) };
    let (added, written, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    scope(|s| {
        for thread in 0..4 {
            let (both, added, written, dropped) = (&both, &added, &written, &dropped);
            s.spawn(move || {
                let mut random = thread;
                let count = |counter: &AtomicUsize| _ = counter.fetch_add(1, Ordering::Relaxed);
                for _ in 0..rounds(if cfg!(miri) { 1_000 } else { 50_000 }) {
                    match next(&mut random) % 8 {
                        0..3 => match poll_or_drop(both.mutex.lock_async(), &mut random) {
                            Some(mut guard) => {
                                *guard += 1;
                                count(added);
                            }
                            None => count(dropped),
                        },
                        3 | 4 => match poll_or_drop(both.lock.write_async(), &mut random) {
                            Some(mut guard) => {
                                guard.0 += 1;
                                guard.1 += 1;
                                count(written);
                            }
                            None => count(dropped),
                        },
                        5 | 6 => match poll_or_drop(both.lock.read_async(), &mut random) {
                            Some(guard) => assert_eq!(guard.0, guard.1),
                            None => count(dropped),
                        },
                        _ => {
                            *both.mutex.lock() += 1;
                            count(added);
                            let guard = both.lock.read();
                            assert_eq!(guard.0, guard.1);
                        }
                    }
                }
            });
        }
    });
    println!("{dropped:?} futures dropped");
    assert_eq!(both.mutex.try_lock().map(|n| *n), Some(added.into_inner()));
    let written = written.into_inner();
    assert_eq!(both.lock.try_write().map(|n| *n), Some((written, written)));
}

/// The futures that a thread has at a lock, each of a task of its own, and the guards that it has.
struct Hand<'a, F: Future> {
    futures: Vec<(Pin<Box<F>>, Arc<Notes>)>,
    guards: Vec<F::Output>,
    make: &'a dyn Fn() -> F,
    dropped: usize,
    taken: usize,
}

impl<F: Future> Hand<'_, F> {
    /// One step: a new future; a poll, whether it was woken or not; a future or guard that is dropped.
    fn step(&mut self, random: &mut u64) {
        let number = next(random) as usize;
        match next(random) % 8 {
            0 | 1 if self.futures.len() < 6 => {
                self.futures.push(((self.make)(), Notes(true.into())).into_boxed());
            }
            2 if !self.futures.is_empty() => {
                drop(self.futures.swap_remove(number % self.futures.len()));
                self.dropped += 1;
            }
            3 | 4 if !self.guards.is_empty() => {
                drop(self.guards.swap_remove(number % self.guards.len()));
            }
            _ if !self.futures.is_empty() => self.poll(number % self.futures.len()),
            _ => {}
        }
    }

    fn poll(&mut self, number: usize) {
        let (future, notes) = &mut self.futures[number];
        notes.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(notes.clone());
        if let Poll::Ready(guard) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            drop(self.futures.swap_remove(number));
            self.guards.push(guard);
            self.taken += 1;
        }
    }

    /// Releases all, and polls the futures that are left when they are woken, until they are ready.
    fn end(&mut self) {
        self.guards.clear();
        until(|| {
            let woken = |(_, notes): &(_, Arc<Notes>)| notes.0.load(Ordering::SeqCst);
            while let Some(number) = self.futures.iter().position(woken) {
                self.poll(number);
                self.guards.clear();
            }
            self.futures.is_empty()
        });
    }
}

trait IntoBoxed<F> {
    fn into_boxed(self) -> (Pin<Box<F>>, Arc<Notes>);
}

impl<F> IntoBoxed<F> for (F, Notes) {
    fn into_boxed(self) -> (Pin<Box<F>>, Arc<Notes>) {
        (Box::pin(self.0), Arc::new(self.1))
    }
}

/// Threads with a hand of futures each, of which only those that are left at the end have to be served.
fn storm_of<F: Future>(make: &(dyn Fn() -> F + Sync), steps: usize, threads: u64) -> usize {
    let dropped = AtomicUsize::new(0);
    for round in 0..10 {
        scope(|s| {
            for thread in 0..threads {
                let dropped = &dropped;
                s.spawn(move || {
                    let mut random = round * threads + thread;
                    let (futures, guards) = (Vec::new(), Vec::new());
                    let mut hand = Hand { futures, guards, make, dropped: 0, taken: 0 };
                    for _ in 0..steps / 10 {
                        hand.step(&mut random);
                    }
                    hand.end();
                    dropped.fetch_add(hand.dropped, Ordering::Relaxed);
                });
            }
        });
    }
    dropped.into_inner()
}

#[test]
fn a_storm_of_futures_that_wait_for_a_mutex_ends() {
    let mutex = Mutex::new(());
    let dropped = storm_of(&|| mutex.lock_async(), STEPS, 3);
    println!("{dropped} futures dropped");
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_storm_of_futures_that_wait_for_a_lock_in_all_ways_ends() {
    /// A future of one of three kinds.
    struct Any<'a>(Pin<Box<dyn Future<Output = Held<'a>> + 'a>>);
    enum Held<'a> {
        Read { _guard: fairlock::RwLockReadGuard<'a, ()> },
        Upgradable { _guard: fairlock::RwLockUpgradableReadGuard<'a, ()> },
        Write { _guard: fairlock::RwLockWriteGuard<'a, ()> },
    }
    impl<'a> Future for Any<'a> {
        type Output = Held<'a>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Held<'a>> {
            self.0.as_mut().poll(context)
        }
    }
    let (lock, number) = (RwLock::new(()), AtomicUsize::new(0));
    let make = || {
        Any(match number.fetch_add(1, Ordering::Relaxed) % 5 {
            0..3 => Box::pin(async { Held::Read { _guard: lock.read_async().await } }),
            3 => {
                Box::pin(async { Held::Upgradable { _guard: lock.upgradable_read_async().await } })
            }
            _ => Box::pin(async { Held::Write { _guard: lock.write_async().await } }),
        })
    };
    let dropped = storm_of(&make, STEPS, 3);
    println!("{dropped} futures dropped");
    assert!(lock.try_write().is_some());
}

/// For one permit to all of them.
#[test]
fn a_storm_of_futures_that_wait_for_permits_ends() {
    const PERMITS: u32 = 3;
    let (semaphore, number) = (Semaphore::new(PERMITS), AtomicUsize::new(0));
    let make = || {
        let count = 1 + number.fetch_add(1, Ordering::Relaxed) as u32 % PERMITS;
        semaphore.acquire_many_async(count)
    };
    let dropped = storm_of(&make, STEPS, 3);
    println!("{dropped} futures dropped");
    assert!(!semaphore.has_waiters());
    assert_eq!(semaphore.available_permits(), PERMITS);
}

/// Threads, which may give up, and tasks, which may be dropped.
#[test]
fn a_storm_of_threads_and_tasks_loses_no_permit() {
    const PERMITS: u32 = 3;
    let (semaphore, out) = (Semaphore::new(PERMITS), AtomicUsize::new(0));
    scope(|s| {
        for thread in 0..4 {
            let (semaphore, out) = (&semaphore, &out);
            s.spawn(move || {
                let mut random = thread;
                for _ in 0..rounds(if cfg!(miri) { 1_000 } else { 20_000 }) {
                    let count = 1 + next(&mut random) as u32 % PERMITS;
                    let soon = Duration::from_micros(next(&mut random) % 100);
                    let permit = match next(&mut random) % 8 {
                        0 => semaphore.try_acquire_many(count),
                        1 | 2 => {
                            semaphore.acquire_many_with(count, fairlock::Wait::within(soon)).ok()
                        }
                        3 => Some(semaphore.acquire_many(count)),
                        _ => poll_or_drop(semaphore.acquire_many_async(count), &mut random),
                    };
                    if permit.is_some() {
                        let count = count as usize;
                        let before = out.fetch_add(count, Ordering::Relaxed);
                        assert!(before + count <= PERMITS as usize);
                        out.fetch_sub(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(!semaphore.has_waiters());
    assert_eq!(semaphore.available_permits(), PERMITS);
}

/// Tasks that give up beside tasks that do not: each of those gets in.
#[test]
fn tasks_that_stay_get_in_beside_those_that_give_up() {
    let (mutex, executor) = (Arc::new(Mutex::new(0)), Executor::default());
    let tasks = 20;
    let each = rounds(2_000);
    for task in 0..tasks {
        let mutex = mutex.clone();
        executor.spawn(async move {
            let mut random = task as u64;
            for _ in 0..each {
                if task % 2 == 0 {
                    *mutex.lock_async().await += 1;
                    continue;
                }
                let mut future = Box::pin(mutex.lock_async());
                let mut polls = next(&mut random) % 3;
                std::future::poll_fn(|context| {
                    if polls == 0 {
                        return Poll::Ready(());
                    }
                    polls -= 1;
                    if let Poll::Ready(mut guard) = future.as_mut().poll(context) {
                        *guard += 2;
                        return Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
        });
    }
    assert!(executor.run(2, Duration::from_secs(100)));
    assert!(*mutex.try_lock().expect("somebody holds the lock") >= tasks / 2 * each);
}
