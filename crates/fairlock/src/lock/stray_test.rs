//! Platforms for tests: one whose locks may be copied, and one that has no memory for slots. And mutexes there.

use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(fairlock_loom)]
use loom::{lazy_static, thread_local};

use super::{PooledPlatform, Slots, VisibleOwners, VisibleReaders};
use crate::platform::{Native, System, Thread, WaitOutcome};
use crate::pool::{Heap, Memory};

/// A platform as the one of this build, with records and slots of its own.
macro_rules! platform {
    ($(#[$doc:meta])* $name:ident: $memory:ty, $new:ident { $($own:item)* }) => {
        $(#[$doc])*
        pub(super) struct $name;

        thread_local! {
            // Leaked: a record outlives its thread.
            static $new: &'static Thread<$name> = Box::leak(Box::new(Thread::new()));
        }

        // SAFETY: one record per thread, leaked; all else is the platform's of this build.
        unsafe impl System for $name {
            type AtomicUsize = <Native as System>::AtomicUsize;
            type AtomicU32 = <Native as System>::AtomicU32;
            type AtomicU64 = <Native as System>::AtomicU64;
            type Thread = Thread<Self>;

            fn pause() {
                Native::pause();
            }

            fn now() -> u64 {
                Native::now()
            }

            fn wait(
                word: &Self::AtomicU32,
                expected: u32,
                deadline: Option<u64>,
                interruptible: bool,
            ) -> WaitOutcome {
                Native::wait(word, expected, deadline, interruptible)
            }

            fn wake_one(word: &Self::AtomicU32) {
                Native::wake_one(word);
            }

            fn thread() -> &'static Thread<Self> {
                $new.with(|record| *record)
            }

            fn thread_hint() -> usize {
                core::ptr::from_ref(Self::thread()).addr()
            }

            fn light_fence() {
                Native::light_fence();
            }

            fn process_barrier() {
                Native::process_barrier();
            }

            fn has_process_barrier() -> bool {
                Native::has_process_barrier()
            }

            fn cpus() -> usize {
                2
            }

            fn spin_until<T, A: crate::platform::Atomic<T>>(
                word: &A,
                bound_ns: u64,
                done: impl Fn(T) -> bool,
            ) -> bool {
                Native::spin_until(word, bound_ns, done)
            }
        }

        // SAFETY: there is one pool, and the platform has thread records.
        unsafe impl PooledPlatform for $name {
            type Memory = $memory;

            fn slots() -> &'static Slots<Self> {
                #[cfg(fairlock_loom)]
                lazy_static! {
                    static ref SLOTS: Slots<$name> = Slots::new();
                }
                #[cfg(not(fairlock_loom))]
                static SLOTS: Slots<$name> = Slots::new_const();
                &SLOTS
            }

            $($own)*
        }
    };
}

/// The process that this one seems to be: a test may seem to fork.
pub(super) static PROCESS: AtomicUsize = AtomicUsize::new(1);

/// The heap, with zeros in it.
pub(super) struct Zeros;

// SAFETY: as that of the heap.
unsafe impl Memory for Zeros {
    fn take<T>(items: usize) -> Option<*mut T> {
        let memory = Heap::take::<T>(items)?;
        // SAFETY: it has room for so many.
        unsafe { memory.write_bytes(0, items) };
        Some(memory)
    }

    unsafe fn give_back<T>(memory: *mut T, items: usize) {
        // SAFETY: the caller's promise.
        unsafe { Heap::give_back(memory, items) };
    }
}

platform! {
    /// As the library that is preloaded.
    Stray: Zeros, OF_STRAY {
        const NAMES_MAY_BE_STRAY: bool = true;

        fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
            #[cfg(fairlock_loom)]
            lazy_static! {
                static ref VISIBLE: VisibleReaders<Stray> = VisibleReaders::new();
            }
            #[cfg(not(fairlock_loom))]
            static VISIBLE: VisibleReaders<Stray> = VisibleReaders::new_const();
            Some(&VISIBLE)
        }

        fn visible_owners() -> Option<&'static VisibleOwners<Self>> {
            #[cfg(fairlock_loom)]
            lazy_static! {
                static ref OWNERS: VisibleOwners<Stray> = VisibleOwners::new();
            }
            #[cfg(not(fairlock_loom))]
            static OWNERS: VisibleOwners<Stray> = VisibleOwners::new_const();
            Some(&OWNERS)
        }

        fn process() -> usize {
            PROCESS.load(Ordering::Relaxed)
        }

        fn forgetting(forget: impl FnOnce()) {
            #[cfg(fairlock_loom)]
            lazy_static! {
                static ref FORGETTING: loom::sync::Mutex<()> = loom::sync::Mutex::new(());
            }
            #[cfg(not(fairlock_loom))]
            static FORGETTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
            let _guard = FORGETTING.lock().unwrap();
            forget();
        }
    }
}

#[cfg(not(any(fairlock_loom, miri)))]
mod tests {
    use core::mem::MaybeUninit;
    use core::sync::atomic::AtomicU64;
    use std::time::Duration;

    use fairlock_testing::until;

    use super::*;
    use crate::lock::{Policy, RawMutex, RawRwLock};
    use crate::wait::{Wait, WaitError};

    /// No memory at all.
    pub(super) struct Nothing;

    // SAFETY: it returns none.
    unsafe impl Memory for Nothing {
        fn take<T>(_: usize) -> Option<*mut T> {
            None
        }

        unsafe fn give_back<T>(_: *mut T, _: usize) {}
    }

    platform! {
        /// Without slots.
        Scarce: Nothing, OF_SCARCE {}
    }

    /// The lock, taken; and released.
    fn section<P: PooledPlatform>(lock: &RawMutex<P>) {
        lock.lock();
        // SAFETY: just taken.
        unsafe { lock.unlock() };
    }

    /// Bytes that are a mutex, and are never dropped.
    struct Bytes(MaybeUninit<RawMutex<Stray>>);

    impl Bytes {
        fn free() -> Self {
            Self(MaybeUninit::new(RawMutex::new()))
        }

        fn of_halves(held: u32, queue: u32) -> Self {
            let mut bytes = Self::free();
            // SAFETY: the two halves of a mutex.
            unsafe { bytes.0.as_mut_ptr().cast::<[u32; 2]>().write([held, queue]) };
            bytes
        }

        fn lock(&self) -> &RawMutex<Stray> {
            // SAFETY: any bytes are.
            unsafe { self.0.assume_init_ref() }
        }

        /// As a program copies them.
        fn copied(&self) -> Self {
            // SAFETY: nobody changes them meanwhile.
            let [held, queue] = unsafe { self.0.as_ptr().cast::<[u32; 2]>().read() };
            Self::of_halves(held, queue)
        }
    }

    #[test]
    fn a_copy_is_a_lock_of_its_own() {
        let original = Bytes::free();
        original.lock().know_of_waiters();
        let copy = original.copied();
        assert!(original.lock().has_slot() && copy.lock().has_slot());
        original.lock().lock();
        section(copy.lock());
        assert!(copy.lock().lock_with(Wait::within(Duration::ZERO)).is_ok());
        assert!(!original.lock().try_lock());
        // A thread that has to wait there does not wait here.
        std::thread::scope(|s| {
            s.spawn(|| section(copy.lock()));
            until(|| copy.lock().is_contended());
            assert!(!original.lock().is_contended());
            // SAFETY: taken above.
            unsafe { copy.lock().unlock() };
        });
        // SAFETY: as above.
        unsafe { original.lock().unlock() };
    }

    /// Whatever the queue's half says, of which no thread knows.
    #[test]
    fn bytes_that_nobody_holds_are_a_free_lock() {
        // So there are some slots.
        let locks: Vec<_> = (0..40).map(|_| Bytes::free()).collect();
        locks.iter().for_each(|bytes| bytes.lock().know_of_waiters());
        let mut random: u64 = 1;
        for _ in 0..20_000 {
            random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(1);
            let queue = (random >> 32) as u32;
            for queue in [queue, queue & 0x3ff, queue & 15] {
                let bytes = [(); 2].map(|()| Bytes::of_halves(0, queue));
                assert!(bytes[0].lock().try_lock(), "{queue:#x}");
                assert!(!bytes[0].lock().try_lock());
                // SAFETY: just taken.
                unsafe { bytes[0].lock().unlock() };
                section(bytes[1].lock());
                assert!(!bytes[0].lock().is_locked() && !bytes[1].lock().is_locked());
            }
        }
        for bytes in &locks {
            assert!(bytes.lock().has_slot(), "of a lock that is whole");
            section(bytes.lock());
        }
    }

    #[test]
    fn locks_that_are_given_up_without_a_word_leave_their_slots() {
        let before = Stray::slots().made();
        for _ in 0..10_000 {
            Bytes::free().lock().know_of_waiters();
        }
        assert!(Stray::slots().made() < before + 100);
    }

    /// As a program that copies and uses its locks all the time.
    #[test]
    fn copies_exclude_and_forget_nobody() {
        const ROUNDS: u64 = 3_000;
        for _ in 0..10 {
            let source = Bytes::free();
            source.lock().know_of_waiters();
            let locks = [(); 3].map(|()| (source.copied(), AtomicU64::new(0)));
            std::thread::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        for round in 0..ROUNDS {
                            let (bytes, value) = &locks[round as usize % locks.len()];
                            bytes.lock().lock();
                            let seen = value.load(Ordering::Relaxed);
                            if round % 8 == 0 {
                                std::thread::yield_now();
                            }
                            value.store(seen + 1, Ordering::Relaxed);
                            // SAFETY: just taken.
                            unsafe { bytes.lock().unlock() };
                            Stray::slots().sweep();
                        }
                    });
                }
            });
            let values = locks.each_ref().map(|(_, value)| value.load(Ordering::Relaxed));
            assert_eq!(values.iter().sum::<u64>(), 4 * ROUNDS);
        }
    }

    #[test]
    fn threads_wait_where_there_is_no_slot() {
        let (lock, value) = (&RawMutex::<Scarce>::new(), &AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 0..50 {
                        lock.lock();
                        let seen = value.load(Ordering::Relaxed);
                        if round % 8 == 0 {
                            std::thread::sleep(Duration::from_micros(300));
                        }
                        value.store(seen + 1, Ordering::Relaxed);
                        // SAFETY: just taken.
                        unsafe { lock.unlock() };
                    }
                });
            }
        });
        assert!(value.load(Ordering::Relaxed) == 200 && Scarce::slots().made() == 0);
        lock.lock();
        std::thread::scope(|s| {
            s.spawn(|| assert!(lock.lock_with(Wait::within(Duration::from_millis(2))).is_err()));
        });
    }

    /// The upgrade keeps nobody out meanwhile.
    #[test]
    fn a_reader_that_upgrades_without_memory_looks_from_time_to_time() {
        let lock = RawRwLock::<Scarce>::new(Policy::DEFAULT);
        lock.upgradable_read();
        lock.read();
        let wait = Wait::within(Duration::from_millis(1));
        // SAFETY: held upgradably.
        let ended = unsafe { lock.upgrade_with(wait) };
        assert_eq!(ended, Err(WaitError::TimedOut));
        assert!(lock.try_read());
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(1));
                // SAFETY: taken above, twice.
                unsafe { (lock.unlock_read(), lock.unlock_read()) };
            });
            // SAFETY: as above; then written.
            unsafe { (lock.upgrade(), lock.unlock_write()) };
        });
        assert!(!lock.is_locked());
    }
}
