//! What a thread remembers of the locks that it took: which are inflated, and their slots.
//!
//! Right after the exchange that released a lock, a load of its word costs a third of an uncontended
//! acquisition on some CPUs (7 of 20 ns on an Intel Xeon). So the fast path begins with an exchange
//! instead. On an inflated lock that exchange fails, and takes the cache line from all CPUs that read
//! it. So a thread remembers, by their addresses, the locks that it found inflated. A wrong mark costs
//! only time: before a slot is used, the lock's word is checked to name it. So a mark may also be torn,
//! as a signal handler that interrupts its stores may leave it.

use core::cell::Cell;
use core::ptr;

use super::slot::Slot;
use crate::platform::{Platform, PooledPlatform};
use crate::rwsem::RwSem;
use crate::wait::Thread;

/// How many locks a thread remembers. A power of two.
const MARKS: usize = 16;

/// The locks that a thread found inflated. Used by that thread only.
pub(crate) struct Marks<P: Platform>([Mark<P>; MARKS]);

// SAFETY: a slot is only used by reference, as by any thread: its pool is shared.
unsafe impl<P: Platform> Send for Marks<P> {}

/// A lock that a thread found inflated.
// Aligned, so that where it is takes no multiplication.
#[repr(align(32))]
pub(super) struct Mark<P: Platform> {
    /// The lock's address; zero if there is none.
    lock: Cell<usize>,
    slot: Cell<*const Slot<P, RwSem<P>>>,
    /// The lock seemed calm when the thread took it. The thread should not look at that again as it
    /// leaves: another reader may have come meanwhile, and have fetched the line.
    calm: Cell<bool>,
}

impl<P: Platform> Marks<P> {
    pub(crate) const fn new() -> Self {
        Self([const { Mark::none() }; MARKS])
    }

    /// Where the lock of this address has its mark. Neighbouring locks have different places.
    #[inline(always)]
    fn of(&self, address: usize) -> &Mark<P> {
        &self.0[(address >> 3 ^ address >> 7) % MARKS]
    }
}

impl<P: Platform> Mark<P> {
    const fn none() -> Self {
        Self { lock: Cell::new(0), slot: Cell::new(ptr::null()), calm: Cell::new(false) }
    }

    /// The slot that the lock had then.
    #[inline(always)]
    pub(super) fn slot(&self) -> Option<&'static Slot<P, RwSem<P>>>
    where
        P: PooledPlatform,
    {
        // SAFETY: null, or a slot of the platform's pool, which is there for as long as its threads.
        unsafe { self.slot.get().as_ref() }
    }

    /// Whether the lock seemed calm when the thread took it.
    #[inline(always)]
    pub(super) fn is_calm(&self) -> bool {
        self.calm.get()
    }

    /// The thread takes the lock again, and now it seems calm, or not.
    #[inline(always)]
    pub(super) fn set_calm(&self, calm: bool) {
        self.calm.set(calm);
    }
}

/// If the calling thread found the lock inflated when it last looked: the thread's record, and the
/// mark.
#[inline(always)]
pub(super) fn find<P: PooledPlatform, L>(
    lock: &L,
) -> Option<(&'static Thread<P>, &'static Mark<P>)> {
    let me = known::<P>()?;
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    (mark.lock.get() == address).then_some((me, mark))
}

/// The calling thread's record, if it has one already. Threads that have waited, or have found a
/// lock inflated, have one.
#[inline(always)]
pub(super) fn known<P: PooledPlatform>() -> Option<&'static Thread<P>> {
    let record = P::thread_hint() as *const Thread<P>;
    // SAFETY: zero, or the address of the calling thread's record (`PooledPlatform`).
    unsafe { record.as_ref() }
}

/// The calling thread, `me`, has found the lock inflated, with this slot; `calm`: it seems calm.
#[inline]
pub(super) fn mark<P: PooledPlatform, L>(
    me: &Thread<P>,
    lock: &L,
    slot: &'static Slot<P, RwSem<P>>,
    calm: bool,
) {
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    mark.lock.set(address);
    mark.slot.set(slot);
    mark.calm.set(calm);
}

/// The calling thread has found the lock thin.
#[inline]
pub(super) fn unmark<P: PooledPlatform, L>(lock: &L) {
    if let Some((_, mark)) = find::<P, L>(lock) {
        mark.lock.set(0);
    }
}
