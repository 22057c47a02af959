//! Where a thread waits for ticket locks, if the wait may end without the lock: see `give_up`.

use core::cell::Cell;

use alloc::boxed::Box;

use super::park::Parked;
use crate::system::System;
use crate::wait::Parker;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LockId {
    pub(super) name: u64,
    pub(super) address: usize,
}

/// Where a thread waits, and leaves its ticket if it gives up. Belongs to the thread, but for what
/// [`Parked`] says.
pub(super) struct ParkingPlace<P: System> {
    pub(super) entry: Parked<P>,
    pub(super) lock: Cell<LockId>,
    next: *const ParkingPlace<P>,
}

/// The places of a thread, never freed: one for each lock in which it has given up at the same
/// time, and one more.
pub(crate) struct Places<P: System> {
    first: Cell<*const ParkingPlace<P>>,
}

// SAFETY: places belong to the thread that has the record; what a lock may do with them meanwhile,
// it may do beside any thread.
unsafe impl<P: System> Send for Places<P> {}

impl<P: System> Places<P> {
    pub(crate) const fn new() -> Self {
        Self { first: Cell::new(core::ptr::null()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    pub(super) fn find(
        &self,
        wanted: impl Fn(&ParkingPlace<P>) -> bool,
    ) -> Option<&'static ParkingPlace<P>> {
        let mut next = self.first.get();
        // SAFETY: places are never freed.
        while let Some(place) = unsafe { next.as_ref() } {
            if wanted(place) {
                return Some(place);
            }
            next = place.next;
        }
        None
    }

    #[cold]
    pub(super) fn add(&self, parker: &'static Parker<P>) -> &'static ParkingPlace<P> {
        let place = Box::leak(Box::new(ParkingPlace {
            entry: Parked::new(0, parker),
            lock: Cell::new(LockId { name: 0, address: 0 }),
            next: self.first.get(),
        }));
        self.first.set(place);
        place
    }
}
