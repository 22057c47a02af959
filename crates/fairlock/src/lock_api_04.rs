//! The locks as types of `lock_api` 0.4: in place of `parking_lot` 0.12.
//!
//! `use fairlock::lock_api_04 as parking_lot;` is all that has to be changed in a program
//! written for that version: names and methods are the same, and so are the raw locks, for
//! crates that are generic over `lock_api` 0.4. The locks are those of the
//! [crate]: what they promise, when they block and when they panic is said there.
//!
//! ```
//! use fairlock::lock_api_04 as parking_lot;
//! use parking_lot::{Mutex, RwLock};
//!
//! static PAIR: RwLock<(u32, u32)> = RwLock::new((1, 2));
//!
//! let first = PAIR.read();
//! // Gone in `lock_api` 0.5:
//! let second = PAIR.read_recursive();
//! assert_eq!(first.0 + second.1, 3);
//!
//! let lock = Mutex::new(1);
//! std::mem::forget(lock.lock());
//! // SAFETY: the guard is forgotten.
//! unsafe { lock.force_unlock() };
//! ```

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use ::lock_api::{RawCondvar as _, RawCondvarTimed as _};
pub use lock_api_v04 as lock_api;
#[cfg(feature = "arc_lock")]
pub use lock_api_v04::{
    ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard,
    ArcRwLockWriteGuard,
};

#[cfg(feature = "deadlock_detection")]
pub use crate::deadlock;
use crate::deadlock::Mode;
use crate::wait::Wait;
use crate::{GuardMarker, RawCondvar, RawRwLockExt};
pub use crate::{
    Once, OnceState, RawFairMutex, RawMutex, RawRwLock, RawRwLockRecursive, RawThreadId,
};

/// As [`fairlock::Mutex`](crate::Mutex).
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`]; releases it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A [`MutexGuard`] for a part of the value.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
/// As [`fairlock::FairMutex`](crate::FairMutex).
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;
/// Holds a [`FairMutex`]; releases it when dropped.
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;
/// A [`FairMutexGuard`] for a part of the value.
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;
/// As [`fairlock::ReentrantMutex`](crate::ReentrantMutex).
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;
/// Holds a [`ReentrantMutex`]; releases it when it is the last of its thread to be dropped.
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
/// A [`ReentrantMutexGuard`] for a part of the value.
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
/// As [`fairlock::RwLock`](crate::RwLock).
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// Shared access to the value of a [`RwLock`]; releases it when dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// Exclusive access to the value of a [`RwLock`]; releases it when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// As [`fairlock::RwLockUpgradableReadGuard`](crate::RwLockUpgradableReadGuard).
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// A [`RwLockReadGuard`] for a part of the value.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// A [`RwLockWriteGuard`] for a part of the value.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// As `Mutex::new`.
pub const fn const_mutex<T>(value: T) -> Mutex<T> {
    Mutex::new(value)
}

/// As `FairMutex::new`.
pub const fn const_fair_mutex<T>(value: T) -> FairMutex<T> {
    FairMutex::new(value)
}

/// As `ReentrantMutex::new`.
pub const fn const_reentrant_mutex<T>(value: T) -> ReentrantMutex<T> {
    ReentrantMutex::new(value)
}

/// As `RwLock::new`.
pub const fn const_rwlock<T>(value: T) -> RwLock<T> {
    RwLock::new(value)
}

#[cfg(not(feature = "send_guard"))]
type Marker = lock_api::GuardNoSend;
#[cfg(feature = "send_guard")]
type Marker = lock_api::GuardSend;

/// Implements the traits of this version for a mutex, by those of `lock_api` 0.5, whose guards hold
/// nothing.
macro_rules! raw_mutex {
    ($raw:ident) => {
        // SAFETY: as for `lock_api` 0.5.
        unsafe impl lock_api::RawMutex for $raw {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
            const INIT: Self = <Self as ::lock_api::RawMutex>::INIT;
            type GuardMarker = Marker;

            #[inline]
            fn lock(&self) {
                ::lock_api::RawMutex::lock(self);
            }

            #[inline]
            fn try_lock(&self) -> bool {
                ::lock_api::RawMutex::try_lock(self).is_some()
            }

            #[inline]
            unsafe fn unlock(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawMutex::unlock(self, GuardMarker::new()) }
            }

            #[inline]
            fn is_locked(&self) -> bool {
                ::lock_api::RawMutex::is_locked(self)
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawMutexFair for $raw {
            #[inline]
            unsafe fn unlock_fair(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawMutexFair::unlock_fair(self, GuardMarker::new()) }
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawMutexTimed for $raw {
            type Duration = Duration;
            type Instant = Instant;

            fn try_lock_for(&self, timeout: Duration) -> bool {
                ::lock_api::RawMutexTimed::try_lock_for(self, timeout).is_some()
            }

            fn try_lock_until(&self, deadline: Instant) -> bool {
                ::lock_api::RawMutexTimed::try_lock_until(self, deadline).is_some()
            }
        }
    };
}

raw_mutex!(RawMutex);
raw_mutex!(RawFairMutex);

// SAFETY: as for `lock_api` 0.5.
unsafe impl lock_api::GetThreadId for RawThreadId {
    const INIT: Self = Self;

    #[inline]
    fn nonzero_thread_id(&self) -> core::num::NonZeroUsize {
        ::lock_api::GetThreadId::nonzero_thread_id(self)
    }
}

/// As `raw_mutex`, for a reader/writer lock.
macro_rules! raw_rwlock {
    ($raw:ident) => {
        // SAFETY: as for `lock_api` 0.5.
        unsafe impl lock_api::RawRwLock for $raw {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
            const INIT: Self = <Self as ::lock_api::RawRwLock>::INIT;
            type GuardMarker = Marker;

            #[inline]
            fn lock_shared(&self) {
                ::lock_api::RawRwLock::lock_shared(self);
            }

            #[inline]
            fn try_lock_shared(&self) -> bool {
                ::lock_api::RawRwLock::try_lock_shared(self).is_some()
            }

            #[inline]
            unsafe fn unlock_shared(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLock::unlock_shared(self, GuardMarker::new()) }
            }

            #[inline]
            fn lock_exclusive(&self) {
                ::lock_api::RawRwLock::lock_exclusive(self);
            }

            #[inline]
            fn try_lock_exclusive(&self) -> bool {
                ::lock_api::RawRwLock::try_lock_exclusive(self).is_some()
            }

            #[inline]
            unsafe fn unlock_exclusive(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLock::unlock_exclusive(self, GuardMarker::new()) }
            }

            #[inline]
            fn is_locked(&self) -> bool {
                ::lock_api::RawRwLock::is_locked(self)
            }

            #[inline]
            fn is_locked_exclusive(&self) -> bool {
                ::lock_api::RawRwLock::is_locked_exclusive(self)
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockFair for $raw {
            unsafe fn unlock_shared_fair(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockFair::unlock_shared_fair(self, GuardMarker::new()) }
            }

            unsafe fn unlock_exclusive_fair(&self) {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockFair::unlock_exclusive_fair(self, guard) }
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockDowngrade for $raw {
            unsafe fn downgrade(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockDowngrade::downgrade(self, GuardMarker::new()) };
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockTimed for $raw {
            type Duration = Duration;
            type Instant = Instant;

            fn try_lock_shared_for(&self, timeout: Duration) -> bool {
                ::lock_api::RawRwLockTimed::try_lock_shared_for(self, timeout).is_some()
            }

            fn try_lock_shared_until(&self, deadline: Instant) -> bool {
                ::lock_api::RawRwLockTimed::try_lock_shared_until(self, deadline).is_some()
            }

            fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
                ::lock_api::RawRwLockTimed::try_lock_exclusive_for(self, timeout).is_some()
            }

            fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
                ::lock_api::RawRwLockTimed::try_lock_exclusive_until(self, deadline).is_some()
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgrade for $raw {
            #[inline]
            fn lock_upgradable(&self) {
                ::lock_api::RawRwLockUpgrade::lock_upgradable(self);
            }

            #[inline]
            fn try_lock_upgradable(&self) -> bool {
                ::lock_api::RawRwLockUpgrade::try_lock_upgradable(self).is_some()
            }

            #[inline]
            unsafe fn unlock_upgradable(&self) {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockUpgrade::unlock_upgradable(self, guard) }
            }

            #[inline]
            unsafe fn upgrade(&self) {
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockUpgrade::upgrade(self, GuardMarker::new()) };
            }

            #[inline]
            unsafe fn try_upgrade(&self) -> bool {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockUpgrade::try_upgrade(self, guard) }.is_ok()
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeFair for $raw {
            unsafe fn unlock_upgradable_fair(&self) {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockUpgradeFair::unlock_upgradable_fair(self, guard) }
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeDowngrade for $raw {
            unsafe fn downgrade_upgradable(&self) {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockUpgradeDowngrade::downgrade_upgradable(self, guard) };
            }

            unsafe fn downgrade_to_upgradable(&self) {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe {
                    ::lock_api::RawRwLockUpgradeDowngrade::downgrade_to_upgradable(self, guard)
                };
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeTimed for $raw {
            fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
                ::lock_api::RawRwLockUpgradeTimed::try_lock_upgradable_for(self, timeout).is_some()
            }

            fn try_lock_upgradable_until(&self, deadline: Instant) -> bool {
                let locked =
                    ::lock_api::RawRwLockUpgradeTimed::try_lock_upgradable_until(self, deadline);
                locked.is_some()
            }

            unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe { ::lock_api::RawRwLockUpgradeTimed::try_upgrade_for(self, guard, timeout) }
                    .is_ok()
            }

            unsafe fn try_upgrade_until(&self, deadline: Instant) -> bool {
                let guard = GuardMarker::new();
                // SAFETY: the caller's promise.
                unsafe {
                    ::lock_api::RawRwLockUpgradeTimed::try_upgrade_until(self, guard, deadline)
                }
                .is_ok()
            }
        }
    };
}

raw_rwlock!(RawRwLock);
raw_rwlock!(RawRwLockRecursive);

// SAFETY: a recursive read excludes writers as any read does.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        let attempt = || self.try_read_recursive();
        crate::deadlock::acquire(self, Mode::Recursive, attempt, || self.read_recursive());
    }

    fn try_lock_shared_recursive(&self) -> bool {
        RawRwLockExt::try_read_recursive(self)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        RawRwLockExt::read_recursive_with(self, Wait::within(timeout)).is_ok()
    }

    fn try_lock_shared_recursive_until(&self, deadline: Instant) -> bool {
        RawRwLockExt::read_recursive_with(self, Wait::until(deadline)).is_ok()
    }
}

/// Whether a timed wait ended by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait timed out.
    #[inline]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// As [`fairlock::Condvar`](crate::Condvar).
///
/// ```
/// use fairlock::lock_api_04::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| changed.wait_while(&mut ready.lock(), |ready| !*ready));
///     *ready.lock() = true;
///     changed.notify_one();
/// });
/// ```
pub struct Condvar(RawCondvar);

impl Condvar {
    /// A condition variable that nobody waits for.
    #[inline]
    pub const fn new() -> Self {
        Self(RawCondvar::INIT)
    }

    /// Notifies the thread that has waited longest. Returns whether there was one.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    /// Notifies all threads that wait. Returns how many there were.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.0.notify_all()
    }

    /// Waits for a notification, without the mutex meanwhile.
    #[inline]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        // SAFETY: the guard, which nobody else uses meanwhile, holds the mutex.
        unsafe { self.0.wait(MutexGuard::mutex(guard).raw(), &mut GuardMarker::new()) }
    }

    /// As [`wait`](Self::wait), until `deadline` at most.
    #[inline]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let mutex = MutexGuard::mutex(guard);
        // SAFETY: as in `wait`.
        let late = unsafe { self.0.wait_until(mutex.raw(), &mut GuardMarker::new(), &deadline) };
        WaitTimeoutResult(late)
    }

    /// As [`wait`](Self::wait), for `timeout` at most.
    #[inline]
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        let mutex = MutexGuard::mutex(guard);
        // SAFETY: as in `wait`.
        let late = unsafe { self.0.wait_for(mutex.raw(), &mut GuardMarker::new(), &timeout) };
        WaitTimeoutResult(late)
    }

    /// Waits again and again, while `condition` holds.
    #[inline]
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// As [`wait_while`](Self::wait_while), until `deadline` at most. It has timed out if the
    /// condition still holds.
    #[inline]
    pub fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while condition(&mut **guard) {
            if result.timed_out() {
                return result;
            }
            result = self.wait_until(guard, deadline);
        }
        WaitTimeoutResult(false)
    }

    /// As [`wait_while_until`](Self::wait_while_until), for `timeout` at most.
    #[inline]
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.wait_while_until(guard, condition, deadline),
            // The deadline is beyond the clock's range: wait for ever.
            None => {
                self.wait_while(guard, condition);
                WaitTimeoutResult(false)
            }
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Condvar { .. }")
    }
}
