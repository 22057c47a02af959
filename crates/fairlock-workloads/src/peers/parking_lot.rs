//! parking_lot, the newest release and the one before it: 0.13 dropped the
//! eventual fairness (a fair unlock every half millisecond or so) of 0.12.

use crate::locks::condvar;
use crate::locks::entry::LockEntry;
use crate::locks::typed::Fair;
use parking_lot::{Mutex, ReentrantMutex, RwLock};
use parking_lot_012::{Mutex as Mutex12, ReentrantMutex as ReentrantMutex12, RwLock as RwLock12};

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::rw::<RwLock<()>>("parking_lot", "parking_lot 0.13")
            .with_mutex::<Mutex<()>>()
            .around_everything::<RwLock<()>>()
            .with_condvar::<condvar::ParkingLot>()
            .with_upgradable::<RwLock<()>>()
            .with_reentrant::<ReentrantMutex<()>>(),
        LockEntry::rw::<Fair<RwLock<()>>>(
            "parking_lot:fair",
            "parking_lot 0.13, every release hands over to a waiter",
        )
        .with_mutex::<Fair<Mutex<()>>>(),
        LockEntry::rw::<RwLock12<()>>(
            "parking_lot_0.12",
            "parking_lot 0.12, with its eventual fairness",
        )
        .with_mutex::<Mutex12<()>>()
        .around_everything::<RwLock12<()>>()
        .with_upgradable::<RwLock12<()>>()
        .with_reentrant::<ReentrantMutex12<()>>(),
        LockEntry::rw::<Fair<RwLock12<()>>>(
            "parking_lot_0.12:fair",
            "parking_lot 0.12, every release hands over to a waiter",
        )
        .with_mutex::<Fair<Mutex12<()>>>(),
    ]
}
