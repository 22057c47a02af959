//! A mutex whose every release is fair.

use core::time::Duration;
use std::time::Instant;

use crate::inner::by_inner;
use crate::{GuardMarker, RawMutex};

/// The raw lock of [`FairMutex`]: a [`RawMutex`] whose every release is fair.
#[derive(Debug)]
pub struct RawFairMutex(RawMutex);

/// A [`Mutex`](crate::Mutex) whose every release is fair: the waiter whose turn it is acquires the
/// lock before any thread that comes later.
///
/// A [`Mutex`](crate::Mutex) is fair, too: it bounds how long a waiter is overtaken. A `FairMutex`
/// allows no overtaking, so each release costs a context switch while a thread waits. It exists for
/// programs written for `parking_lot`, whose `Mutex` bounds nothing. Elsewhere use `Mutex`, with
/// [`unlock_fair`](lock_api::MutexGuard::unlock_fair) where it matters.
///
/// It blocks and panics as `Mutex` does.
///
/// ```
/// static COUNT: fairlock::FairMutex<u32> = fairlock::FairMutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;
/// Holds a [`FairMutex`]; releases it when dropped.
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;
/// A [`FairMutexGuard`] for a part of the value.
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// [`FairMutex::new`](lock_api::Mutex::new), under the name that it had before it was `const`.
///
/// ```
/// static ONE: fairlock::FairMutex<u32> = fairlock::const_fair_mutex(1);
/// assert_eq!(*ONE.lock(), 1);
/// ```
pub const fn const_fair_mutex<T>(value: T) -> FairMutex<T> {
    FairMutex::new(value)
}

// SAFETY: as for the lock inside: a fair release is a release.
unsafe impl lock_api::RawMutex for RawFairMutex {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self(<RawMutex as lock_api::RawMutex>::INIT);
    type GuardMarker = GuardMarker;

    by_inner!(RawMutex: takes lock, tries try_lock, tries is_locked,);

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawMutexFair::unlock_fair(self) }
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawMutexFair for RawFairMutex {
    by_inner!(RawMutexFair: leaves unlock_fair,);
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawMutexTimed for RawFairMutex {
    type Duration = Duration;
    type Instant = Instant;

    by_inner! { RawMutexTimed:
        tries try_lock_for(timeout: Duration),
        tries try_lock_until(deadline: Instant),
    }
}
