//! An inflated lock, in memory that is never given back.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use fairlock::Policy;
use fairlock::platform::Platform;
use fairlock::rwsem::RwSem;

use crate::head::Holders;
use crate::stats::Stats;
use crate::still::Still;

/// A lock that was, or is, contended. Recycled as it is: whoever released it last, and
/// let its user go on to destroy it, may still be busy in its queue, which does the next
/// user no harm.
#[repr(C, align(64))] // the head of a lock has room for so many bits of its address
pub(crate) struct Slot<P: Platform> {
    sem: UnsafeCell<RwSem<P>>,
    pub(crate) stats: Stats,
    pub(crate) still: Still,
    /// The address of the program's lock; zero if there is none.
    pub(crate) address: AtomicUsize,
    /// The process in which `sem` was last made sure to have no waiters of another one: see
    /// [`enter_process`](Self::enter_process).
    process: AtomicU32,
    /// The next in its list of the registry, which guards it, or of the pool.
    pub(crate) next: AtomicPtr<Slot<P>>,
}

// SAFETY: `sem` is shared as it is made to be; see `sem` and `enter_process`.
unsafe impl<P: Platform> Sync for Slot<P> {}

impl<P: Platform> Slot<P> {
    pub(crate) fn new(policy: Policy, process: u32) -> Self {
        Self {
            sem: UnsafeCell::new(RwSem::new(policy)),
            stats: Stats::new(),
            still: Still::new(),
            address: AtomicUsize::new(0),
            process: AtomicU32::new(process),
            next: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    #[inline(always)]
    pub(crate) fn sem(&self) -> &RwSem<P> {
        // SAFETY: shared, but for `forget_waiters`, which nobody can see at work.
        unsafe { &*self.sem.get() }
    }

    /// Whether the slot has been used in the process of this number.
    #[inline(always)]
    pub(crate) fn is_of_process(&self, process: u32) -> bool {
        // Acquire: and it has no waiters of another one.
        self.process.load(Ordering::Acquire) == process
    }

    /// Before a slot is used in a process, which `number` tells from those it comes from:
    /// whoever waited in another one does not exist, nor who was busy in the queue. What was
    /// counted there does not count. `nap` waits a moment for whoever is at it.
    #[cold]
    pub(crate) fn enter_process(&self, number: u32, nap: impl Fn()) {
        /// Somebody is at it, in the process that the other bits say.
        const BUSY: u32 = 1 << 31;
        loop {
            let seen = self.process.load(Ordering::Acquire);
            if seen == number {
                return;
            }
            if seen == number | BUSY {
                nap();
                continue;
            }
            let ours = (number | BUSY, Ordering::Acquire, Ordering::Relaxed);
            if self.process.compare_exchange(seen, ours.0, ours.1, ours.2).is_ok() {
                // SAFETY: nobody has used it in this process, and all who do come here first.
                unsafe { &mut *self.sem.get() }.forget_waiters();
                self.stats.reset();
                // Release: whoever finds the number finds it so.
                self.process.store(number, Ordering::Release);
                return;
            }
        }
    }

    /// These hold the lock, which is not known to anybody yet.
    pub(crate) fn adopt(&self, holders: Holders) {
        match holders {
            Holders::Readers(0) => {}
            Holders::Readers(count) => self.sem().adopt_readers(count as usize),
            Holders::Writer => self.sem().adopt_writer(),
        }
    }
}
