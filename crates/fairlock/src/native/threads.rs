//! One record per live thread, from a pool that only grows.
//!
//! Spinner nodes and parkers must outlive every late touch by a neighbour
//! (rules 11 and 12), so records are recycled, never freed.
//!
//! A thread gives its record back in the destructor of a thread-local variable. A thread that uses
//! a lock after that, in a later destructor or in that of a pthread key, is not told of its end any
//! more, and keeps the record that it takes then. So the record notes where the thread that took it
//! has its variables: a thread that later has its variables in the same place comes after it, and may
//! take the record over. Before the pool makes a record, it looks for such a one. So there are at most
//! as many records as such places: about as many as there have been threads at a time.
//!
//! A thread may need a record while it allocates memory, as the program's allocator may be behind a lock. So nothing here
//! uses that allocator.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::Layout;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cpus;
use crate::platform::{Platform, Thread};
use crate::pool::{FromSystem, Memory};
use crate::system::errno;
use crate::system::fork::{self, PerProcess};

/// See [`System::cpus`](crate::platform::System::cpus).
#[inline]
pub(super) fn cpus() -> usize {
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a cached number that any thread may compute again.
    match CPUS.load(Ordering::Relaxed) {
        0 => {
            // It reads files.
            let n = errno::kept(cpus::count);
            CPUS.store(n, Ordering::Relaxed);
            n
        }
        n => n,
    }
}

/// The records of a platform's threads that nobody uses, or that may be unused.
pub(super) struct Pool<P: Platform>(PerProcess<Mutex<Records<P>>>);

struct Records<P: Platform> {
    free: Option<&'static Thread<P>>,
    /// All records that were made.
    made: Option<&'static Thread<P>>,
    /// Memory for more, and for how many.
    memory: *mut Thread<P>,
    left: usize,
}

// SAFETY: the memory is used by nobody else.
unsafe impl<P: Platform> Send for Records<P> {}

impl<P: Platform> Pool<P> {
    pub(super) const fn new() -> Self {
        Self(PerProcess::new(Self::none()))
    }

    const fn none() -> Mutex<Records<P>> {
        let memory = core::ptr::null_mut();
        Mutex::new(Records { free: None, made: None, memory, left: 0 })
    }

    /// The child of a fork makes new records: threads of the parent may still have been using
    /// these. `own` is the address of the calling thread's record, or zero.
    ///
    /// # Safety
    /// The calling thread is the only one of the process, and in no other function of this.
    pub(super) unsafe fn enter_child(&self, own: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.renew(Self::none()) }
        fork::enter_child();
        // SAFETY: null, or a record, which is never freed.
        if let Some(own) = unsafe { (own as *const Thread<P>).as_ref() } {
            own.links.place.set(0);
            own.enter_child();
        }
    }

    /// A record for the calling thread, which has none, and has its variables at `place`.
    pub(super) fn take(&self, place: usize) -> &'static Thread<P> {
        let mut records = self.records();
        let record = records.pop().or_else(|| records.kept(place));
        let record = match record {
            Some(record) => {
                record.begin_anew();
                record
            }
            None => records.make(),
        };
        record.links.place.set(place);
        record
    }

    /// The calling thread ends, or does not use its record any more. One of the parent of a fork is not
    /// used again.
    pub(super) fn give(&self, record: &'static Thread<P>) {
        let mut records = self.records();
        if record.links.place.get() != 0 {
            record.links.next_free.set(records.free.replace(record));
        }
    }

    fn records(&self) -> MutexGuard<'_, Records<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Platform> Records<P> {
    /// How many records there is memory for at a time.
    const CHUNK: usize = 16;

    /// One that was given back.
    fn pop(&mut self) -> Option<&'static Thread<P>> {
        let record = self.free?;
        self.free = record.links.next_free.take();
        Some(record)
    }

    /// That of a thread that has ended without giving it back.
    fn kept(&self, place: usize) -> Option<&'static Thread<P>> {
        core::iter::successors(self.made, |record| record.links.next_made.get())
            .find(|record| record.links.place.get() == place)
    }

    fn make(&mut self) -> &'static Thread<P> {
        if self.left == 0 {
            let memory = FromSystem::take(Self::CHUNK);
            let none = || std::alloc::handle_alloc_error(Layout::new::<Thread<P>>());
            (self.memory, self.left) = (memory.unwrap_or_else(none), Self::CHUNK);
        }
        self.left -= 1;
        // SAFETY: the memory is for so many, is never freed, and nobody else has this part of it.
        let record = unsafe {
            let record = self.memory.add(self.left);
            record.write(Thread::new());
            &*record
        };
        record.links.next_made.set(self.made.replace(record));
        record
    }
}

/// Gives the platform type `$platform` its pool: `record()` and `record_hint()`. The child of a
/// fork begins with `$in_child`, if a thread of its parent had a record.
macro_rules! thread_records {
    ($platform:ty, $in_child:path) => {
        pub(super) static POOL: $crate::native::threads::Pool<$platform> =
            $crate::native::threads::Pool::new();

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
                    <$platform as $crate::platform::System>::set_reader_hint(core::ptr::null());
                    // SAFETY: `RECORD` holds zero or the address of a leaked record.
                    POOL.give(unsafe { &*(address as *const $crate::platform::Thread<$platform>) });
                }
            }
        }

        #[inline(always)]
        fn record_hint() -> usize {
            RECORD.get()
        }

        #[inline]
        fn record() -> &'static $crate::platform::Thread<$platform> {
            match RECORD.get() {
                0 => $crate::system::errno::kept(new_record),
                // SAFETY: `RECORD` holds zero or the address of a leaked record.
                address => unsafe { &*(address as *const $crate::platform::Thread<$platform>) },
            }
        }

        #[cold]
        fn new_record() -> &'static $crate::platform::Thread<$platform> {
            static IS_TOLD: core::sync::atomic::AtomicBool =
                core::sync::atomic::AtomicBool::new(false);
            $crate::system::fork::tell(&IS_TOLD, $in_child);
            let place = RECORD.with(|own| core::ptr::from_ref(own) as usize);
            let record = POOL.take(place);
            RECORD.set(core::ptr::from_ref(record) as usize);
            if record.visible.is_listed() {
                record.visible.set_hint();
            }
            // Fails in a thread whose locals are already being destroyed, and does nothing where they have been.
            _ = RECYCLE.try_with(|_| ());
            record
        }
    };
}
pub(super) use thread_records;

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use crate::platform::{Platform, linux, portable};

    fn is_had_in_a_child<P: Platform>(pool: &'static super::Pool<P>) {
        let [takes, forked] = [(); 2].map(|()| Barrier::new(2));
        P::thread();
        thread::scope(|s| {
            s.spawn(|| {
                let _records = pool.records();
                takes.wait();
                forked.wait();
            });
            takes.wait();
            fairlock_testing::in_child(|| {
                thread::spawn(|| _ = P::thread()).join().unwrap();
            });
            forked.wait();
        });
    }

    #[test]
    fn a_thread_does_not_go_on_with_the_waits_of_one_that_ended() {
        let (pool, place) = (Box::leak(Box::new(super::Pool::<linux::Linux>::new())), 1);
        let record = pool.take(place);
        record.lock.ages.note(1, 100, 200);
        record.lock.is_to_give_way(1, 300, 400);
        (0..4).for_each(|_| record.watch.yields.ended(false));
        assert!(!record.watch.yields.begins());
        pool.give(record);
        assert!(std::ptr::eq(pool.take(place), record) && record.lock.ages.at(1).is_none());
        assert!(record.watch.yields.begins());
        assert_eq!(record.lock.gives_way.get(), 0);
    }

    #[test]
    fn a_thread_of_a_child_has_a_record_whoever_takes_one_at_the_fork() {
        // Alone: the standard library has a mutex while a thread begins or ends, which the child's would wait for.
        fairlock_testing::alone(|| {
            is_had_in_a_child(&linux::POOL);
            is_had_in_a_child(&portable::POOL);
        });
    }
}
