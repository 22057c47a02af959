//! The systems that locks run on: those of this target, and the model checker's.

#[cfg(all(feature = "std", not(fairlock_loom)))]
mod cpus;
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

/// Gives the platform type `$platform`, whose atomics can be constants, its pool.
#[cfg(all(feature = "std", not(fairlock_loom)))]
macro_rules! pools {
    ($platform:ty $({ $($own:item)* })?) => {
        // SAFETY: it returns one static pool; the platform has thread records.
        unsafe impl $crate::lock::PooledPlatform for $platform {
            type Memory = $crate::pool::FromSystem;

            #[inline(always)]
            fn slots() -> &'static $crate::lock::Slots<Self> {
                static SLOTS: $crate::lock::Slots<$platform> = $crate::lock::Slots::new_const();
                &SLOTS
            }

            #[cfg(feature = "async")]
            fn start_timer() -> bool {
                // Miri waits for all threads.
                let timer = std::thread::Builder::new().name("fairlock-timer".into());
                !cfg!(miri) && timer.spawn(|| Self::slots().keep_time()).is_ok()
            }

            $($($own)*)?
        }
    };
}
#[cfg(all(feature = "std", not(fairlock_loom)))]
use pools;
