//! The program's allocator may be behind a lock of this crate: no lock uses it, neither at the first contention nor later.
#![cfg(all(feature = "std", target_os = "linux", not(miri)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::{Condvar, Mutex, MutexExt, RwLock, RwLockExt, Semaphore};
use fairlock_testing::{scope, until};

/// The system's, which counts what threads ask for in a call of a lock.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IN_LOCK: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    ASKED.fetch_add(usize::from(IN_LOCK.get()), Ordering::Relaxed);
}

// SAFETY: the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn in_lock<R>(call: impl FnOnce() -> R) -> R {
    IN_LOCK.set(true);
    let result = call();
    IN_LOCK.set(false);
    result
}

/// As many threads as this call `wait` while the calling thread has the lock, which `leave` releases. Each is a new one, so
/// all need records.
fn contend(threads: usize, take: impl FnOnce(), leave: impl FnOnce(), wait: impl Fn() + Sync) {
    let came = AtomicUsize::new(0);
    scope(|s| {
        in_lock(take);
        for _ in 0..threads {
            s.spawn(|| {
                came.fetch_add(1, Ordering::Relaxed);
                in_lock(&wait);
            });
        }
        until(|| came.load(Ordering::Relaxed) == threads);
        // For as long as a thread stays awake; if it does not sleep yet, less is tested.
        std::thread::sleep(Duration::from_millis(20));
        in_lock(leave);
    });
}

#[test]
fn no_lock_allocates_where_threads_wait() {
    let (mutex, lock, permits) = (Mutex::new(false), RwLock::new(0), Semaphore::new(1));
    let changed = Condvar::new();
    let soon = Duration::from_millis(1);
    // More than there are in a chunk of records, or of slots.
    let threads = 20;
    let guard = Cell::new(None);
    let leave = || drop(guard.take());
    contend(
        threads,
        || guard.set(Some(mutex.lock())),
        leave,
        || {
            drop(mutex.lock_for(soon));
            drop(mutex.lock());
        },
    );
    let guard = Cell::new(None);
    let leave = || drop(guard.take());
    contend(
        2 * threads,
        || guard.set(Some(lock.write())),
        leave,
        || {
            drop(lock.read_for(soon));
            drop(lock.upgradable_read());
            drop(lock.read());
            drop(lock.write());
        },
    );
    let permit = Cell::new(None);
    let leave = || drop(permit.take());
    contend(
        3 * threads,
        || permit.set(Some(permits.acquire())),
        leave,
        || {
            drop(permits.acquire());
        },
    );
    let notify = || {
        *mutex.lock() = true;
        changed.notify_all();
    };
    contend(
        4 * threads,
        || (),
        notify,
        || {
            let mut done = mutex.lock();
            while !*done {
                changed.wait(&mut done);
            }
        },
    );
    assert_eq!(ASKED.load(Ordering::Relaxed), 0);
}
