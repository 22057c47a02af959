//! What a thread remembers of the locks that it took: which are inflated, and their slots; and which are
//! visible.
//!
//! Right after the exchange that released a lock, a load of its word costs a third of an uncontended
//! acquisition on some CPUs (7 of 20 ns on an Intel Xeon). So the fast path begins with an exchange
//! instead. On an inflated lock that exchange fails, and takes the cache line from all CPUs that read
//! it. So a thread remembers, by their addresses, the locks that it found inflated. A wrong mark costs
//! only time: before a slot is used, the lock's word is checked to name it. So a mark may also be torn,
//! as a signal handler that interrupts its stores may leave it.

use core::ptr;

use super::local::{Mark, SLOT};
use super::pool::Slot;
use crate::platform::{PooledPlatform, Thread};
use crate::rwsem::RwSem;

impl<P: PooledPlatform> Mark<P> {
    /// The slot that the lock had then.
    #[inline(always)]
    pub(super) fn slot(&self) -> Option<&'static Slot<P, RwSem<P>>> {
        let slot = self.slot_address()? as usize;
        // SAFETY: null or a slot of the platform's pool (`mark`), which is there for as long as its threads.
        unsafe { ptr::with_exposed_provenance::<Slot<P, RwSem<P>>>(slot).as_ref() }
    }

    /// It is that of another lock than the one of this address, and that one was visible.
    pub(super) fn is_other_visible(&self, address: usize) -> bool {
        self.slot_address().is_none() && ![0, address].contains(&self.lock.get())
    }
}

/// If the calling thread found the lock inflated or visible when it last looked: the thread's record, and the
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

/// The calling thread, `me`, has found the lock inflated, with this slot; `uncontended`: it seems so.
#[inline]
pub(super) fn mark<P: PooledPlatform, L>(
    me: &Thread<P>,
    lock: &L,
    slot: &'static Slot<P, RwSem<P>>,
    uncontended: bool,
) {
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    mark.what.set(ptr::from_ref(slot).expose_provenance() as u64 + SLOT);
    mark.lock.set(address);
    mark.uncontended.set(uncontended);
}

/// The calling thread, `me`, has found the lock visible. Whether its mark was that of another such lock.
pub(super) fn mark_visible<P: PooledPlatform, L>(me: &Thread<P>, lock: &L, shown: u64) -> bool {
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    let is_others = mark.is_other_visible(address);
    mark.what.set(shown);
    mark.lock.set(address);
    is_others
}

/// The calling thread has found the lock thin.
#[inline]
pub(super) fn unmark<P: PooledPlatform, L>(lock: &L) {
    if let Some((_, mark)) = find::<P, L>(lock) {
        mark.lock.set(0);
    }
}
