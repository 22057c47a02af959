//! The systems that locks run on: those of this target, and the model checker's.

#[cfg(all(feature = "std", target_os = "linux", not(fairlock_loom)))]
pub mod linux;
#[cfg(fairlock_loom)]
pub mod loom;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub mod portable;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod threads;

/// The platform of this target: Linux futexes where there are any, but not under Miri.
#[cfg(all(feature = "std", target_os = "linux", not(any(miri, fairlock_loom))))]
pub type Native = linux::Linux;
/// The platform of this target: the standard library.
#[cfg(all(feature = "std", any(not(target_os = "linux"), miri), not(fairlock_loom)))]
pub type Native = portable::Portable;
/// The platform of a model check.
#[cfg(fairlock_loom)]
pub type Native = loom::Loom;

/// Gives the platform type `$platform`, whose atomics can be constants, its pools.
#[cfg(all(feature = "std", not(fairlock_loom)))]
macro_rules! pools {
    ($platform:ty $({ $($more:item)* })?) => {
        const _: () = assert!($crate::rwsem::RwSem::<$platform>::IS_IN_LINES);

        // SAFETY: each function returns one static pool; the platform has thread records.
        unsafe impl $crate::thin::PooledPlatform for $platform {
            #[inline(always)]
            fn rwsem_slots() -> &'static $crate::thin::Slots<Self, $crate::rwsem::RwSem<Self>> {
                static SLOTS: $crate::thin::Slots<$platform, $crate::rwsem::RwSem<$platform>> =
                    $crate::thin::Slots::new_const();
                &SLOTS
            }

            #[inline(always)]
            fn mutex_slots() -> &'static $crate::thin::Slots<Self, $crate::thin::FullMutex<Self>> {
                static SLOTS: $crate::thin::Slots<$platform, $crate::thin::FullMutex<$platform>> =
                    $crate::thin::Slots::new_const();
                &SLOTS
            }

            $($($more)*)?
        }
    };
}
#[cfg(all(feature = "std", not(fairlock_loom)))]
use pools;
