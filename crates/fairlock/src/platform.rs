//! The machine beneath the locks.
//!
//! Every lock of this crate is written once, against [`Platform`], and runs on Linux, on a
//! simulated machine of 96 CPUs, or under a model checker. A lock never asks which platform it is
//! on.
//!
//! * `Linux`: futexes, the monotonic clock, the restartable-sequence area for
//!   the CPU hint.
//! * `Portable`: the standard library only, for systems without futexes.
//! * `Loom`: the model checker (`--cfg fairlock_loom`).

pub use crate::lock::{PooledPlatform, Slots};
#[cfg(any(feature = "std", fairlock_loom))]
pub use crate::native::Native;
#[cfg(all(feature = "std", target_os = "linux", not(fairlock_loom)))]
pub use crate::native::linux;
#[cfg(fairlock_loom)]
pub use crate::native::loom;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use crate::native::portable;
pub use crate::pool::{Heap, Memory};
pub use crate::system::{Atomic, ConstZero, System, WaitOutcome};
pub use crate::thread::{Platform, Thread};
