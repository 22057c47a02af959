//! One record per live thread, from a pool that only grows.
//!
//! Spinner nodes and parkers must outlive every late touch by a neighbour
//! (rules 11 and 12), so records are leaked and recycled, never freed.
//!
//! A thread gives its record back in the destructor of a thread-local variable. One that
//! uses a lock after that, in a later destructor, is not told of its end any more. It
//! keeps the record it takes then, and the pool notes where the thread has its variables:
//! a thread that has them in the same place comes after it, and takes the record over.
//! So no more records are kept than there are such places: about as many as there have
//! been threads at a time.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::Platform;
use crate::wait::Thread;

/// The records of a platform's threads that are in nobody's use, or may be.
pub(super) struct Pool<P: Platform>(Mutex<Records<P>>);

struct Records<P: Platform> {
    free: Vec<&'static Thread<P>>,
    /// By the place of their threads' variables.
    kept: BTreeMap<usize, &'static Thread<P>>,
}

impl<P: Platform> Pool<P> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Records { free: Vec::new(), kept: BTreeMap::new() }))
    }

    /// A record for the calling thread, which has none, and has its variables at `place`.
    pub(super) fn take(&self, place: usize) -> &'static Thread<P> {
        let mut records = self.records();
        let used = records.kept.remove(&place).or_else(|| records.free.pop());
        used.unwrap_or_else(|| Box::leak(Box::new(Thread::new())))
    }

    /// The calling thread ends, or does not use its record any more.
    pub(super) fn give(&self, record: &'static Thread<P>) {
        self.records().free.push(record);
    }

    /// The calling thread, which has its variables at `place`, uses its record to the end.
    pub(super) fn keep(&self, place: usize, record: &'static Thread<P>) {
        self.records().kept.insert(place, record);
    }

    fn records(&self) -> MutexGuard<'_, Records<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the platform type `$platform` its pool: `record()` and `record_hint()`.
macro_rules! thread_records {
    ($platform:ty) => {
        static POOL: $crate::platform::threads::Pool<$platform> =
            $crate::platform::threads::Pool::new();

        std::thread_local! {
            // No destructor, so it can be read while the thread's other
            // locals are being destroyed.
            static RECORD: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
            static RECYCLE: Recycle = const { Recycle };
        }

        /// Gives the record back to the pool when its thread ends.
        struct Recycle;

        impl Drop for Recycle {
            fn drop(&mut self) {
                let address = RECORD.replace(0);
                if address != 0 {
                    // SAFETY: `RECORD` holds zero or the address of a leaked record.
                    POOL.give(unsafe { &*(address as *const $crate::wait::Thread<$platform>) });
                }
            }
        }

        #[inline(always)]
        fn record_hint() -> usize {
            RECORD.get()
        }

        #[inline]
        fn record() -> &'static $crate::wait::Thread<$platform> {
            match RECORD.get() {
                0 => new_record(),
                // SAFETY: `RECORD` holds zero or the address of a leaked record.
                address => unsafe { &*(address as *const $crate::wait::Thread<$platform>) },
            }
        }

        #[cold]
        fn new_record() -> &'static $crate::wait::Thread<$platform> {
            let place = RECORD.with(|own| core::ptr::from_ref(own) as usize);
            let record = POOL.take(place);
            RECORD.set(core::ptr::from_ref(record) as usize);
            // Fails only in a thread whose locals are already being destroyed.
            if RECYCLE.try_with(|_| ()).is_err() {
                POOL.keep(place, record);
            }
            record
        }
    };
}
pub(super) use thread_records;
