//! parking_lot, the newest release and the one before it: 0.13 dropped the
//! eventual fairness (a fair unlock every half millisecond or so) of 0.12.

use crate::locks::entry::LockEntry;
use crate::locks::{BenchLock, BenchMutex};

/// parking_lot 0.13; `FAIR` releases with `unlock_fair`.
struct ParkingLot13<const FAIR: bool>(parking_lot::RwLock<()>);
/// parking_lot 0.12; `FAIR` releases with `unlock_fair`.
struct ParkingLot12<const FAIR: bool>(parking_lot_012::RwLock<()>);
/// The mutex of 0.13; `FAIR` as above.
struct Mutex13<const FAIR: bool>(parking_lot::Mutex<()>);
/// The mutex of 0.12; `FAIR` as above.
struct Mutex12<const FAIR: bool>(parking_lot_012::Mutex<()>);

macro_rules! bench_locks {
    ($type:ident, $mutex:ident, $version:ident) => {
        impl<const FAIR: bool> BenchLock for $type<FAIR> {
            fn create() -> Self {
                Self($version::RwLock::new(()))
            }

            #[inline(always)]
            fn read<R>(&self, section: impl FnOnce() -> R) -> R {
                let guard = self.0.read();
                let result = section();
                if FAIR {
                    $version::RwLockReadGuard::unlock_fair(guard);
                }
                result
            }

            #[inline(always)]
            fn write<R>(&self, section: impl FnOnce() -> R) -> R {
                let guard = self.0.write();
                let result = section();
                if FAIR {
                    $version::RwLockWriteGuard::unlock_fair(guard);
                }
                result
            }
        }

        impl<const FAIR: bool> BenchMutex for $mutex<FAIR> {
            fn create() -> Self {
                Self($version::Mutex::new(()))
            }

            #[inline(always)]
            fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
                let guard = self.0.lock();
                let result = section();
                if FAIR {
                    $version::MutexGuard::unlock_fair(guard);
                }
                result
            }
        }
    };
}

bench_locks!(ParkingLot13, Mutex13, parking_lot);
bench_locks!(ParkingLot12, Mutex12, parking_lot_012);

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::rw::<ParkingLot13<false>>("parking_lot", "parking_lot 0.13")
            .with_mutex::<Mutex13<false>>()
            .around_everything::<ParkingLot13<false>>(),
        LockEntry::rw::<ParkingLot13<true>>(
            "parking_lot:fair",
            "parking_lot 0.13, every release hands over to a waiter",
        )
        .with_mutex::<Mutex13<true>>(),
        LockEntry::rw::<ParkingLot12<false>>(
            "parking_lot_0.12",
            "parking_lot 0.12, with its eventual fairness",
        )
        .with_mutex::<Mutex12<false>>()
        .around_everything::<ParkingLot12<false>>(),
        LockEntry::rw::<ParkingLot12<true>>(
            "parking_lot_0.12:fair",
            "parking_lot 0.12, every release hands over to a waiter",
        )
        .with_mutex::<Mutex12<true>>(),
    ]
}
