//! What a reader/writer lock must do, as checks on any `lock_api` lock: of ours,
//! which must pass, and of broken ones (`broken.rs`), which must not.
//!
//! A check ends with a complaint rather than for ever: threads that hang are
//! left behind. None depends on how fast the machine is; a bound is only
//! reached by a lock that will never do better.

#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use fairlock::lock_api::RawRwLock;
use fairlock_testing::within;

/// What is wrong with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// Two were inside that exclude each other, or one did not see the other's write.
    Excludes,
    /// Threads wait for a lock that nobody holds.
    LosesWakeUps,
    /// A thread never had its turn while others had theirs.
    Starves,
    /// The lock is not free after everybody has left.
    Remains,
}

/// How long a lock that is to pass may keep its threads waiting: none comes near.
pub(crate) use fairlock_testing::patience;

/// Who is inside, checked at every entry.
#[derive(Default)]
struct Inside {
    /// Readers inside, or -1 for a writer.
    now: AtomicI64,
    /// Added to by writers in two steps.
    value: AtomicUsize,
    writes: AtomicUsize,
    broken: AtomicBool,
}

impl Inside {
    fn must(&self, holds: bool) {
        if !holds {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    fn read(&self, linger: bool) {
        self.must(self.now.fetch_add(1, Ordering::Relaxed) >= 0);
        let before = self.value.load(Ordering::Relaxed);
        if linger {
            thread::yield_now();
        }
        self.must(self.value.load(Ordering::Relaxed) == before);
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    fn write(&self, linger: bool) {
        self.must(self.now.fetch_sub(1, Ordering::Relaxed) == 0);
        let before = self.value.load(Ordering::Relaxed);
        if linger {
            thread::yield_now();
        }
        self.value.store(before + 1, Ordering::Relaxed);
        self.now.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

struct Run<L> {
    lock: L,
    inside: Inside,
    start: Barrier,
    /// Threads that are done.
    done: AtomicUsize,
}

fn read<L: RawRwLock>(run: &Run<L>, linger: bool) {
    run.lock.lock_shared();
    run.inside.read(linger);
    // SAFETY: just taken.
    unsafe { run.lock.unlock_shared() };
}

fn write<L: RawRwLock>(run: &Run<L>, linger: bool) {
    run.lock.lock_exclusive();
    run.inside.write(linger);
    // SAFETY: just taken.
    unsafe { run.lock.unlock_exclusive() };
}

/// `readers` and `writers`, each `turns` times; now and then inside for as long
/// as it takes the others to come.
pub(crate) fn excludes_and_wakes<L: RawRwLock + Send + Sync + 'static>(
    lock: L,
    readers: usize,
    writers: usize,
    turns: usize,
    patience: Duration,
) -> Result<(), Complaint> {
    let threads = readers + writers;
    let run = Arc::new(Run {
        lock,
        inside: Inside::default(),
        start: Barrier::new(threads),
        done: AtomicUsize::new(0),
    });
    for i in 0..threads {
        let run = run.clone();
        thread::spawn(move || {
            run.start.wait();
            for turn in 0..turns {
                let linger = (turn + i) % 7 == 0;
                if i < readers { read(&run, linger) } else { write(&run, linger) }
            }
            run.done.fetch_add(1, Ordering::Release);
        });
    }
    let is_broken = || run.inside.broken.load(Ordering::Relaxed);
    if !within(patience, || is_broken() || run.done.load(Ordering::Acquire) == threads) {
        return Err(Complaint::LosesWakeUps);
    }
    let value = run.inside.value.load(Ordering::Relaxed);
    if is_broken() || value != writers * turns {
        return Err(Complaint::Excludes);
    }
    is_free(&run.lock)
}

/// Threads that always want the lock and are always inside with somebody else
/// waiting: each must have `turns` before the patience ends.
pub(crate) fn serves_everybody<L: RawRwLock + Send + Sync + 'static>(
    lock: L,
    readers: usize,
    writers: usize,
    turns: usize,
    patience: Duration,
) -> Result<(), Complaint> {
    let threads = readers + writers;
    let run = Arc::new(Run {
        lock,
        inside: Inside::default(),
        start: Barrier::new(threads),
        done: AtomicUsize::new(0),
    });
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..threads)
        .map(|i| {
            let (run, stop) = (run.clone(), stop.clone());
            thread::spawn(move || {
                run.start.wait();
                let mut turn = 0;
                while !stop.load(Ordering::Relaxed) {
                    if i < readers {
                        read(&run, false)
                    } else {
                        write(&run, false)
                    }
                    turn += 1;
                    if turn == turns {
                        run.done.fetch_add(1, Ordering::Release);
                    }
                }
            })
        })
        .collect();
    let served = within(patience, || run.done.load(Ordering::Acquire) == threads);
    stop.store(true, Ordering::Relaxed);
    if !within(self::patience(), || workers.iter().all(|worker| worker.is_finished())) {
        return Err(Complaint::LosesWakeUps);
    }
    if run.inside.broken.load(Ordering::Relaxed) {
        return Err(Complaint::Excludes);
    }
    if !served {
        return Err(Complaint::Starves);
    }
    is_free(&run.lock)
}

/// Nobody is inside: anybody may be.
fn is_free<L: RawRwLock>(lock: &L) -> Result<(), Complaint> {
    if lock.is_locked() {
        return Err(Complaint::Remains);
    }
    if !lock.try_lock_exclusive() {
        return Err(Complaint::Remains);
    }
    // SAFETY: just taken.
    unsafe { lock.unlock_exclusive() };
    Ok(())
}
