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

/// Methods of this version by those of the same names of `lock_api` 0.5, whose guards hold nothing.
macro_rules! methods {
    ($trait:ident: $($kind:ident $method:ident $(($limit:ident: $type:ty))?,)*) => {
        $(methods!(@$kind $trait::$method $(($limit: $type))?);)*
    };
    (@takes $trait:ident::$method:ident) => {
        #[inline]
        fn $method(&self) {
            ::lock_api::$trait::$method(self);
        }
    };
    (@tries $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        fn $method(&self $(, $limit: $type)?) -> bool {
            ::lock_api::$trait::$method(self $(, $limit)?).is_some()
        }
    };
    (@asks $trait:ident::$method:ident) => {
        #[inline]
        fn $method(&self) -> bool {
            ::lock_api::$trait::$method(self)
        }
    };
    // Releases the lock, or changes how it is held.
    (@leaves $trait:ident::$method:ident) => {
        #[inline]
        unsafe fn $method(&self) {
            // SAFETY: the caller's promise.
            unsafe { ::lock_api::$trait::$method(self, GuardMarker::new()) };
        }
    };
    (@upgrades $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        unsafe fn $method(&self $(, $limit: $type)?) -> bool {
            let guard = GuardMarker::new();
            // SAFETY: the caller's promise.
            unsafe { ::lock_api::$trait::$method(self, guard $(, $limit)?) }.is_ok()
        }
    };
}

/// Implements the traits of this version for a mutex, by those of `lock_api` 0.5.
macro_rules! raw_mutex {
    ($raw:ident) => {
        // SAFETY: as for `lock_api` 0.5.
        unsafe impl lock_api::RawMutex for $raw {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
            const INIT: Self = <Self as ::lock_api::RawMutex>::INIT;
            type GuardMarker = Marker;

            methods!(RawMutex: takes lock, tries try_lock, leaves unlock, asks is_locked,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawMutexFair for $raw {
            methods!(RawMutexFair: leaves unlock_fair,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawMutexTimed for $raw {
            type Duration = Duration;
            type Instant = Instant;

            methods! { RawMutexTimed:
                tries try_lock_for(timeout: Duration),
                tries try_lock_until(deadline: Instant),
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

            methods! { RawRwLock:
                takes lock_shared,
                tries try_lock_shared,
                leaves unlock_shared,
                takes lock_exclusive,
                tries try_lock_exclusive,
                leaves unlock_exclusive,
                asks is_locked,
                asks is_locked_exclusive,
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockFair for $raw {
            methods!(RawRwLockFair: leaves unlock_shared_fair, leaves unlock_exclusive_fair,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockDowngrade for $raw {
            methods!(RawRwLockDowngrade: leaves downgrade,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockTimed for $raw {
            type Duration = Duration;
            type Instant = Instant;

            methods! { RawRwLockTimed:
                tries try_lock_shared_for(timeout: Duration),
                tries try_lock_shared_until(deadline: Instant),
                tries try_lock_exclusive_for(timeout: Duration),
                tries try_lock_exclusive_until(deadline: Instant),
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgrade for $raw {
            methods! { RawRwLockUpgrade:
                takes lock_upgradable,
                tries try_lock_upgradable,
                leaves unlock_upgradable,
                leaves upgrade,
                upgrades try_upgrade,
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeFair for $raw {
            methods!(RawRwLockUpgradeFair: leaves unlock_upgradable_fair,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeDowngrade for $raw {
            methods! { RawRwLockUpgradeDowngrade:
                leaves downgrade_upgradable,
                leaves downgrade_to_upgradable,
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeTimed for $raw {
            methods! { RawRwLockUpgradeTimed:
                tries try_lock_upgradable_for(timeout: Duration),
                tries try_lock_upgradable_until(deadline: Instant),
                upgrades try_upgrade_for(timeout: Duration),
                upgrades try_upgrade_until(deadline: Instant),
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
