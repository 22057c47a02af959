//! Locks of C and C++ libraries: oneTBB, abseil, nsync, Boost, Concurrency Kit.
//!
//! Each is reached through a C ABI that the shims in `native/` define (`peer.h`
//! has the macro, `build.rs` compiles them with `-O2`). What is measured is the
//! lock plus, at each acquire and each release, one call that the compiler cannot
//! inline. It costs 2 ns at the most, uncontended (`ck:fas` takes 2.5 ns instead
//! of 2.1 for both on a 2-CPU x86-64 machine, `ck:ticket` 7.4 either way), and
//! does not show elsewhere. A C++ program has such a call too for abseil and
//! nsync (in the library) and Boost (too long to inline); not for oneTBB and
//! Concurrency Kit.
//!
//! The queuing locks of oneTBB need a node per acquisition. The shim keeps it in
//! a thread-local, so a thread may hold at most one `tbb:queuing_mutex` and one
//! `tbb:queuing_rw_mutex` at a time. All the workloads hold one lock a thread.
//!
//! Concurrency Kit's locks spin without ever yielding, and all but `ck:rwlock`
//! and `ck:fas` serve in order of arrival: with more threads than CPUs they wait
//! for the scheduler at almost every hand-over.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::locks::RwBench;
use crate::locks::entry::LockEntry;

/// Defines one type for each lock, and the entries of all of them. `$symbol` is the lock's name in
/// `native/`, `$entry` a function of [`LockEntry`].
macro_rules! native_locks {
    ($($type:ident: $symbol:literal, $name:literal, $entry:ident;)*) => {
        $(
            /// From `new`, not null, and valid until `free`.
            struct $type(NonNull<c_void>);

            // SAFETY: a lock is made to be used from many threads at once, and
            // is nowhere tied to the thread that made it.
            unsafe impl Send for $type {}
            // SAFETY: as above.
            unsafe impl Sync for $type {}

            const _: () = {
                // SAFETY: as FL_PEER in native/peer.h declares them, but for the
                // pointee, which is opaque here.
                unsafe extern "C" {
                    #[link_name = concat!("fl_peer_", $symbol, "_new")]
                    safe fn new() -> *mut c_void;
                    #[link_name = concat!("fl_peer_", $symbol, "_free")]
                    fn free(lock: *mut c_void);
                    #[link_name = concat!("fl_peer_", $symbol, "_read_lock")]
                    fn read_lock(lock: *mut c_void);
                    #[link_name = concat!("fl_peer_", $symbol, "_read_unlock")]
                    fn read_unlock(lock: *mut c_void);
                    #[link_name = concat!("fl_peer_", $symbol, "_write_lock")]
                    fn write_lock(lock: *mut c_void);
                    #[link_name = concat!("fl_peer_", $symbol, "_write_unlock")]
                    fn write_unlock(lock: *mut c_void);
                }

                impl RwBench for $type {
                    fn new() -> Self {
                        Self(NonNull::new(new()).expect("aborts when out of memory"))
                    }

                    #[inline(always)]
                    fn read_lock(&self) {
                        // SAFETY: valid until `self` is dropped. A thread that
                        // takes a lock it holds waits for ever or, with the
                        // queuing locks, breaks its node: the workloads hold
                        // one lock a thread.
                        unsafe { read_lock(self.0.as_ptr()) };
                    }

                    #[inline(always)]
                    unsafe fn read_unlock(&self) {
                        // SAFETY: valid, and the caller holds it for reading.
                        unsafe { read_unlock(self.0.as_ptr()) };
                    }

                    #[inline(always)]
                    fn write_lock(&self) {
                        // SAFETY: as in `read_lock`.
                        unsafe { write_lock(self.0.as_ptr()) };
                    }

                    #[inline(always)]
                    unsafe fn write_unlock(&self) {
                        // SAFETY: valid, and the caller holds it for writing.
                        unsafe { write_unlock(self.0.as_ptr()) };
                    }
                }

                impl Drop for $type {
                    fn drop(&mut self) {
                        // SAFETY: valid, freed once, and we own it: nobody else
                        // can hold it or wait for it.
                        unsafe { free(self.0.as_ptr()) };
                    }
                }
            };
        )*

        /// The locks of these libraries.
        pub fn entries() -> Vec<LockEntry> {
            vec![$(LockEntry::$entry::<$type>($name)),*]
        }

        /// What the tests check, for the lock of each entry.
        #[cfg(test)]
        const CHECKS: &[tests::Check] = &[$(tests::Check::of::<$type>()),*];
    };
}

native_locks! {
    TbbRwMutex: "tbb_rw_mutex", "tbb:rw_mutex", rw;
    TbbQueuingRwMutex: "tbb_queuing_rw_mutex", "tbb:queuing_rw_mutex", rw;
    TbbSpinRwMutex: "tbb_spin_rw_mutex", "tbb:spin_rw_mutex", rw;
    Abseil: "abseil", "abseil", both;
    Nsync: "nsync", "nsync", both;
    Boost: "boost", "boost", rw;
    CkRwlock: "ck_rwlock", "ck:rwlock", rw;
    CkPflock: "ck_pflock", "ck:pflock", rw;
    CkTflock: "ck_tflock", "ck:tflock", rw;
    TbbSpinMutex: "tbb_spin_mutex", "tbb:spin_mutex", mutex;
    TbbQueuingMutex: "tbb_queuing_mutex", "tbb:queuing_mutex", mutex;
    CkTicket: "ck_ticket", "ck:ticket", mutex;
    CkFas: "ck_fas", "ck:fas", mutex;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::{Barrier, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cell::UsedAs;

    /// The checks, compiled for one lock.
    pub(super) struct Check {
        excludes: fn() -> Result<(), String>,
        readers_share: fn() -> bool,
    }

    impl Check {
        pub(super) const fn of<L: RwBench>() -> Self {
            Self { excludes: excludes::<L>, readers_share: readers_share::<L> }
        }
    }

    const THREADS: usize = 4;
    const INCREMENTS: u64 = 10_000;
    /// A thread that takes longer stops. A lock that spins in order of arrival does a few hundred
    /// increments a second when threads outnumber CPUs.
    const PATIENCE: Duration = Duration::from_secs(1);
    /// After this many increments a thread yields in the middle of one, so that even on one CPU the
    /// others meet a lock that is held; and then it reads.
    const EVERY: u64 = 16;

    /// Whether increments get lost, or a reader sees half of one.
    fn excludes<L: RwBench>() -> Result<(), String> {
        let lock = L::new();
        // One number, kept twice; a load and a store each, so that only the lock
        // makes an increment whole.
        let pair = [AtomicU64::new(0), AtomicU64::new(0)];
        let start = Barrier::new(THREADS);

        let work = || {
            start.wait();
            let begin = Instant::now();
            let mut torn = 0;
            for done in 0..INCREMENTS {
                if begin.elapsed() > PATIENCE {
                    return (done, torn);
                }
                let pause = done % EVERY == 0;
                lock.write_lock();
                let [a, b] = pair.each_ref().map(|half| half.load(Relaxed));
                pair[0].store(a + 1, Relaxed);
                if pause {
                    thread::yield_now();
                }
                pair[1].store(b + 1, Relaxed);
                // SAFETY: this thread acquired for writing above.
                unsafe { lock.write_unlock() };

                if pause {
                    lock.read_lock();
                    let [a, b] = pair.each_ref().map(|half| half.load(Relaxed));
                    torn += u64::from(a != b);
                    // SAFETY: this thread acquired for reading above.
                    unsafe { lock.read_unlock() };
                }
            }
            (INCREMENTS, torn)
        };
        let (done, torn) = fairlock_testing::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .fold((0, 0), |sum, thread| (sum.0 + thread.0, sum.1 + thread.1))
        });
        let kept = pair.map(AtomicU64::into_inner);
        if kept == [done; 2] && torn == 0 {
            Ok(())
        } else {
            Err(format!("of {done} increments it kept {kept:?}; {torn} reads were torn"))
        }
    }

    /// Whether a second reader gets in while a first one stays.
    fn readers_share<L: RwBench>() -> bool {
        let lock = L::new();
        let (entered, second) = mpsc::channel();
        fairlock_testing::scope(|scope| {
            lock.read_lock();
            scope.spawn(|| {
                lock.read_lock();
                entered.send(()).unwrap();
                // SAFETY: this thread acquired for reading above.
                unsafe { lock.read_unlock() };
            });
            let shared = second.recv_timeout(Duration::from_millis(200)).is_ok();
            // SAFETY: as above; the second reader of a mutex gets in now.
            unsafe { lock.read_unlock() };
            shared
        })
    }

    #[test]
    fn native_locks_exclude() {
        for (entry, check) in entries().iter().zip(CHECKS) {
            let result = (check.excludes)();
            assert!(result.is_ok(), "{}: {}", entry.name, result.unwrap_err());
        }
    }

    #[test]
    fn native_readers_share_unless_it_is_a_mutex() {
        for (entry, check) in entries().iter().zip(CHECKS) {
            assert_eq!((check.readers_share)(), entry.is(UsedAs::ReaderWriter), "{}", entry.name);
        }
    }

    /// Lets everybody in: what the check must catch.
    struct NoLock;

    impl RwBench for NoLock {
        fn new() -> Self {
            Self
        }
        fn read_lock(&self) {}
        unsafe fn read_unlock(&self) {}
        fn write_lock(&self) {}
        unsafe fn write_unlock(&self) {}
    }

    #[test]
    fn a_lock_that_lets_everybody_in_is_caught() {
        assert!(excludes::<NoLock>().is_err());
    }
}
