//! A lock's next owner may free it although the release that let it in has not returned yet.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fairlock::lock::RawRwLock;
use fairlock::platform::{Heap, Native, PooledPlatform, Slots, System, WaitOutcome};
use fairlock::ticket::{Adaptive, BatchSize, Fixed, TicketLock};
use fairlock::wait::Thread;
use fairlock::{Policy, Semaphore};
use fairlock_testing::{rounds, until, within};

/// This target, but a release that wakes another thread does not return before that one has
/// freed the lock.
struct Lingering;

thread_local! {
    /// Whether the lock is freed that this thread releases next.
    static FREED: Cell<Option<Arc<AtomicBool>>> = const { Cell::new(None) };
}

// SAFETY: one record a thread, never freed; the rest is another platform's.
unsafe impl System for Lingering {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    fn pause() {
        Native::pause();
    }

    fn now() -> u64 {
        Native::now()
    }

    fn wait(word: &AtomicU32, expected: u32, until: Option<u64>, signals: bool) -> WaitOutcome {
        Native::wait(word, expected, until, signals)
    }

    fn wake_one(word: &AtomicU32) {
        Native::wake_one(word);
        if let Some(freed) = FREED.take() {
            // For a while: if the lock is not yet released, nobody can free it.
            within(Duration::from_secs(1), || freed.load(Ordering::SeqCst));
        }
    }

    fn thread() -> &'static Thread<Self> {
        static ALL: Mutex<Vec<&Thread<Lingering>>> = Mutex::new(Vec::new());
        thread_local!(static RECORD: &'static Thread<Lingering> = {
            let record = Box::leak(Box::new(Thread::new()));
            ALL.lock().unwrap().push(record);
            record
        });
        RECORD.with(|record| *record)
    }

    fn thread_hint() -> usize {
        std::ptr::from_ref(Self::thread()).expose_provenance()
    }

    fn cpus() -> usize {
        Native::cpus()
    }
}

// SAFETY: the hint is the address of the thread's record; there is one pool.
unsafe impl PooledPlatform for Lingering {
    type Memory = Heap;

    fn slots() -> &'static Slots<Self> {
        static SLOTS: Slots<Lingering> = Slots::new_const();
        &SLOTS
    }
}

/// Not an address: of a pointer that was one Miri knows less.
struct Pointer<T>(*mut T);

// SAFETY: who uses it says why.
unsafe impl<T> Send for Pointer<T> {}

impl<T> Pointer<T> {
    fn new(value: T) -> Self {
        Self(Box::into_raw(Box::new(value)))
    }

    fn share(&self) -> Self {
        Self(self.0)
    }

    /// # Safety
    /// Nobody uses it any more.
    unsafe fn free(self) {
        // SAFETY: from a box; the caller's promise.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// What is tried of a lock.
struct Subject<L> {
    make: fn() -> L,
    acquire: fn(&L),
    release: fn(&L),
    is_waited_for: fn(&L) -> bool,
}

impl<L: 'static> Subject<L> {
    /// The next owner frees the lock while the release that woke it is on its way out.
    fn is_freed_by_its_next_owner(&'static self) {
        until(|| {
            let lock = Pointer::new((self.make)());
            // SAFETY: the next owner frees it, and waits.
            unsafe { (self.acquire)(&*lock.0) };
            let (freed, next) = (Arc::new(AtomicBool::new(false)), lock.share());
            let frees = {
                let freed = freed.clone();
                thread::spawn(move || {
                    let lock = next;
                    // SAFETY: the owner before does not use it once it is released.
                    unsafe {
                        (self.acquire)(&*lock.0);
                        (self.release)(&*lock.0);
                        lock.free();
                    }
                    freed.store(true, Ordering::SeqCst);
                })
            };
            // SAFETY: held.
            until(|| (self.is_waited_for)(unsafe { &*lock.0 }));
            // Long enough to fall asleep; if not, it is not woken, and all is tried again.
            thread::sleep(Duration::from_millis(20));
            FREED.set(Some(freed.clone()));
            // SAFETY: held; not used after that.
            unsafe { (self.release)(&*lock.0) };
            let has_lingered = FREED.take().is_none() && freed.load(Ordering::SeqCst);
            frees.join().unwrap();
            has_lingered
        });
    }

    /// Threads that take the lock once each; the last of them frees it, right after its
    /// release.
    fn is_freed_by_its_last_owner(&'static self) {
        const OWNERS: usize = 3;
        for _ in 0..rounds(500) {
            let shared = Pointer::new(((self.make)(), UnsafeCell::new(OWNERS)));
            let owners = [(); OWNERS].map(|()| {
                let shared = shared.share();
                thread::spawn(move || {
                    let shared = shared;
                    let (lock, left) = {
                        // SAFETY: the last owner frees it, and this one is still to come.
                        unsafe { (&(*shared.0).0, (*shared.0).1.get()) }
                    };
                    (self.acquire)(lock);
                    // SAFETY: under the lock.
                    let is_last = unsafe {
                        *left -= 1;
                        *left == 0
                    };
                    (self.release)(lock);
                    if is_last {
                        // SAFETY: all others have released it before.
                        unsafe { shared.free() };
                    }
                })
            });
            owners.into_iter().for_each(|owner| owner.join().unwrap());
        }
    }

    fn is_freed(&'static self) {
        self.is_freed_by_its_next_owner();
        self.is_freed_by_its_last_owner();
    }
}

const fn ticket_lock<S: BatchSize>() -> Subject<TicketLock<Lingering, S>> {
    Subject {
        make: TicketLock::new,
        acquire: TicketLock::lock,
        // SAFETY: by its owner.
        release: |lock| unsafe { lock.unlock() },
        is_waited_for: TicketLock::is_contended,
    }
}

#[test]
fn a_ticket_lock_may_be_freed_by_its_next_owner() {
    const { &ticket_lock::<Fixed<1>>() }.is_freed();
    const { &ticket_lock::<Fixed<8>>() }.is_freed();
    const { &ticket_lock::<Adaptive<65_536>>() }.is_freed();
}

#[test]
fn a_lock_held_for_writing_may_be_freed_by_its_next_owner() {
    const SEM: &Subject<RawRwLock<Lingering>> = &Subject {
        make: || RawRwLock::new(Policy::DEFAULT),
        acquire: RawRwLock::write,
        // SAFETY: by its owner.
        release: |lock| unsafe { lock.unlock_write() },
        is_waited_for: RawRwLock::has_waiters,
    };
    SEM.is_freed();
}

/// The thread that gets the last permit frees it, whether or not those that gave one before have returned.
#[test]
fn a_semaphore_may_be_freed_by_its_last_owner() {
    const PERMITS: &Subject<Semaphore> = &Subject {
        make: || Semaphore::new(1),
        acquire: |semaphore| std::mem::forget(semaphore.acquire()),
        release: |semaphore| semaphore.release(1),
        is_waited_for: Semaphore::has_waiters,
    };
    PERMITS.is_freed_by_its_last_owner();
}
