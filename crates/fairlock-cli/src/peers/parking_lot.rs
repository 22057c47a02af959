//! parking_lot, the newest release and the one before it: 0.13 dropped the
//! eventual fairness (a fair unlock every half millisecond or so) of 0.12.

use crate::locks::{LockEntry, RwBench, rw_entry};

/// parking_lot 0.13; `FAIR` releases with `unlock_fair`.
struct ParkingLot13<const FAIR: bool>(parking_lot::RawRwLock);
/// parking_lot 0.12; `FAIR` releases with `unlock_fair`.
struct ParkingLot12<const FAIR: bool>(parking_lot_012::RawRwLock);

macro_rules! rw_bench {
    ($type:ident, $crate_:ident) => {
        impl<const FAIR: bool> RwBench for $type<FAIR> {
            fn new() -> Self {
                Self(<$crate_::RawRwLock as $crate_::lock_api::RawRwLock>::INIT)
            }

            #[inline(always)]
            fn read_lock(&self) {
                $crate_::lock_api::RawRwLock::lock_shared(&self.0);
            }

            #[inline(always)]
            unsafe fn read_unlock(&self) {
                // SAFETY: the caller holds the lock for reading.
                unsafe {
                    if FAIR {
                        $crate_::lock_api::RawRwLockFair::unlock_shared_fair(&self.0);
                    } else {
                        $crate_::lock_api::RawRwLock::unlock_shared(&self.0);
                    }
                }
            }

            #[inline(always)]
            fn write_lock(&self) {
                $crate_::lock_api::RawRwLock::lock_exclusive(&self.0);
            }

            #[inline(always)]
            unsafe fn write_unlock(&self) {
                // SAFETY: the caller holds the lock for writing.
                unsafe {
                    if FAIR {
                        $crate_::lock_api::RawRwLockFair::unlock_exclusive_fair(&self.0);
                    } else {
                        $crate_::lock_api::RawRwLock::unlock_exclusive(&self.0);
                    }
                }
            }
        }
    };
}

rw_bench!(ParkingLot13, parking_lot);
rw_bench!(ParkingLot12, parking_lot_012);

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        rw_entry::<ParkingLot13<false>>("parking_lot", "parking_lot 0.13"),
        rw_entry::<ParkingLot13<true>>(
            "parking_lot:fair",
            "parking_lot 0.13, every release hands over to a waiter",
        ),
        rw_entry::<ParkingLot12<false>>(
            "parking_lot_0.12",
            "parking_lot 0.12, with its eventual fairness",
        ),
        rw_entry::<ParkingLot12<true>>(
            "parking_lot_0.12:fair",
            "parking_lot 0.12, every release hands over to a waiter",
        ),
    ]
}
