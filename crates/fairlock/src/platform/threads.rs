//! One record per live thread, from a pool that only grows.
//!
//! Spinner nodes and parkers must outlive every late touch by a neighbour
//! (rules 11 and 12), so records are leaked and recycled, never freed.

/// Gives the platform type `$platform` its pool: `record()` and `record_hint()`.
macro_rules! thread_records {
    ($platform:ty) => {
        static FREE: std::sync::Mutex<std::vec::Vec<&'static $crate::wait::Thread<$platform>>> =
            std::sync::Mutex::new(std::vec::Vec::new());

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
                    let record = unsafe { &*(address as *const $crate::wait::Thread<$platform>) };
                    FREE.lock().unwrap_or_else(|e| e.into_inner()).push(record);
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
            let recycled = FREE.lock().unwrap_or_else(|e| e.into_inner()).pop();
            let record = recycled.unwrap_or_else(|| {
                std::boxed::Box::leak(std::boxed::Box::new($crate::wait::Thread::new()))
            });
            RECORD.set(core::ptr::from_ref(record) as usize);
            // Fails only in a thread whose locals are already being destroyed;
            // such a thread keeps its record for good, once.
            let _ = RECYCLE.try_with(|_| ());
            record
        }
    };
}
pub(super) use thread_records;
