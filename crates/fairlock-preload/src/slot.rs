//! An inflated lock, in memory that is never given back.

use core::sync::atomic::{AtomicPtr, AtomicUsize};

use fairlock::Policy;
use fairlock::platform::Platform;
use fairlock::rwsem::RwSem;

use crate::head::Holders;
use crate::stats::Stats;

/// A lock that was, or is, contended. Recycled as it is: whoever released it last, and
/// let its user go on to destroy it, may still be busy in its queue, which does the next
/// user no harm.
#[repr(C, align(64))] // the head of a lock has room for so many bits of its address
pub(crate) struct Slot<P: Platform> {
    pub(crate) sem: RwSem<P>,
    pub(crate) stats: Stats,
    /// The address of the program's lock; zero if there is none.
    pub(crate) address: AtomicUsize,
    /// The next in its list of the registry, which guards it, or of the pool.
    pub(crate) next: AtomicPtr<Slot<P>>,
}

impl<P: Platform> Slot<P> {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            sem: RwSem::new(policy),
            stats: Stats::new(),
            address: AtomicUsize::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// These hold the lock, which is not known to anybody yet.
    pub(crate) fn adopt(&self, holders: Holders) {
        match holders {
            Holders::Readers(0) => {}
            Holders::Readers(count) => self.sem.adopt_readers(count as usize),
            Holders::Writer => self.sem.adopt_writer(),
        }
    }
}
