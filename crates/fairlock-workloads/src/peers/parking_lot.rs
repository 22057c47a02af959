//! parking_lot, the newest release and the one before it: 0.13 dropped the
//! eventual fairness (a fair unlock every half millisecond or so) of 0.12.

use crate::locks::condvar;
use crate::locks::entry::LockEntry;
use crate::locks::typed::Typed;
use parking_lot::{Mutex, ReentrantMutex, RwLock};
use parking_lot_012::{Mutex as Mutex12, ReentrantMutex as ReentrantMutex12, RwLock as RwLock12};

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::rw::<Typed<RwLock<()>>>("parking_lot")
            .with_mutex::<Typed<Mutex<()>>>()
            .around_everything::<Typed<RwLock<()>>>()
            .with_condvar::<condvar::ParkingLot>()
            .with_upgradable::<RwLock<()>>()
            .with_reentrant::<ReentrantMutex<()>>(),
        LockEntry::rw::<Typed<RwLock<()>, true>>("parking_lot:fair")
            .with_mutex::<Typed<Mutex<()>, true>>(),
        LockEntry::rw::<Typed<RwLock12<()>>>("parking_lot_0.12")
            .with_mutex::<Typed<Mutex12<()>>>()
            .around_everything::<Typed<RwLock12<()>>>()
            .with_upgradable::<RwLock12<()>>()
            .with_reentrant::<ReentrantMutex12<()>>(),
        LockEntry::rw::<Typed<RwLock12<()>, true>>("parking_lot_0.12:fair")
            .with_mutex::<Typed<Mutex12<()>, true>>(),
    ]
}
