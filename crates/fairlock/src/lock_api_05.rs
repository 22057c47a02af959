//! The locks as types of `lock_api` 0.5: in place of `parking_lot` 0.13.
//!
//! `use fairlock::lock_api_05 as parking_lot;` is all that has to be changed in a program
//! written for that version: names and methods are the same, and so are the raw locks, for
//! crates that are generic over `lock_api` 0.5. The locks are those of the
//! [crate]: what they promise, when they block and when they panic is said there.
//!
//! The crate's extension traits (`RwLockExt`, `MutexExt`, `CondvarExt`) are for the types at its root
//! only. These here have none, so no waits that are cancelled or say why they ended, and no events of
//! one lock. A policy is set with `RwLock::from_raw`, and so is a name, under which there are
//! [statistics](crate::stats); a mutex with a name is for no `Condvar`.
//!
//! ```
//! use fairlock::lock_api_05 as parking_lot;
//! use parking_lot::lock_api::RawMutex as _;
//! use parking_lot::{Mutex, RawMutex};
//!
//! static COUNT: Mutex<u32> = Mutex::from_raw(RawMutex::INIT, 1);
//! *COUNT.lock() += 1;
//!
//! use fairlock::stats::{self, Named};
//! use parking_lot::lock_api;
//! static HITS: lock_api::Mutex<Named<RawMutex>, u32> =
//!     lock_api::Mutex::from_raw(Named::new("hits", RawMutex::INIT), 1);
//! *HITS.lock() += 1;
//! let hits = stats::snapshot().get("hits").unwrap().writes.clone();
//! assert_eq!(hits.acquisitions, 1);
//! println!("held longest: {}", hits.longest_hold.unwrap());
//!
//! // New in `lock_api` 0.5: what a raw lock gives is given back.
//! let raw = RawMutex::INIT;
//! let guard = raw.lock();
//! // SAFETY: `guard` is of this lock.
//! unsafe { raw.unlock(guard) };
//! ```

use core::time::Duration;
use std::time::Instant;

pub use lock_api_v05 as lock_api;
pub use lock_api_v05::WaitTimeoutResult;
#[cfg(feature = "arc_lock")]
pub use lock_api_v05::{
    ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard,
    ArcRwLockWriteGuard,
};

use crate::Wait;
#[cfg(feature = "deadlock_detection")]
pub use crate::deadlock;
use crate::stats::Named;
pub use crate::{
    Condvar as RawCondvar, Once, OnceState, RawFairMutex, RawMutex, RawRwLock, RawRwLockRecursive,
    RawThreadId,
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

/// As [`fairlock::RecursiveRwLock`](crate::RecursiveRwLock).
pub type RecursiveRwLock<T> = lock_api::RwLock<RawRwLockRecursive, T>;
/// Shared access to the value of a [`RecursiveRwLock`]; releases it when dropped.
pub type RecursiveRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLockRecursive, T>;
/// Exclusive access to the value of a [`RecursiveRwLock`]; releases it when dropped.
pub type RecursiveRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLockRecursive, T>;
/// As [`fairlock::RecursiveRwLockUpgradableReadGuard`](crate::RecursiveRwLockUpgradableReadGuard).
pub type RecursiveRwLockUpgradableReadGuard<'a, T> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockReadGuard`] for a part of the value.
pub type MappedRecursiveRwLockReadGuard<'a, T> =
    lock_api::MappedRwLockReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockWriteGuard`] for a part of the value.
pub type MappedRecursiveRwLockWriteGuard<'a, T> =
    lock_api::MappedRwLockWriteGuard<'a, RawRwLockRecursive, T>;
/// As [`fairlock::Condvar`](crate::Condvar).
///
/// ```
/// use fairlock::lock_api_05::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| changed.wait_while(&mut ready.lock(), |ready| !*ready));
///     *ready.lock() = true;
///     changed.notify_one();
/// });
/// ```
pub type Condvar = lock_api::Condvar<RawCondvar>;

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

/// As [`fairlock::GuardMarker`](crate::GuardMarker).
#[cfg(not(feature = "send_guard"))]
pub type GuardMarker = lock_api::GuardNoSend;
/// As [`fairlock::GuardMarker`](crate::GuardMarker).
#[cfg(feature = "send_guard")]
pub type GuardMarker = lock_api::GuardSend;

/// Methods of this version by those of the same names of `lock_api` 0.4, which have no guards.
macro_rules! methods {
    ($trait:ident: $($kind:ident $method:ident $(($limit:ident: $type:ty))?,)*) => {
        $(methods!(@$kind $trait::$method $(($limit: $type))?);)*
    };
    (@takes $trait:ident::$method:ident) => {
        #[inline]
        #[track_caller]
        fn $method(&self) -> GuardMarker {
            ::lock_api::$trait::$method(self);
            GuardMarker::new()
        }
    };
    (@tries $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        #[track_caller]
        fn $method(&self $(, $limit: $type)?) -> Option<GuardMarker> {
            ::lock_api::$trait::$method(self $(, $limit)?).then(GuardMarker::new)
        }
    };
    (@asks $trait:ident::$method:ident) => {
        #[inline]
        fn $method(&self) -> bool {
            ::lock_api::$trait::$method(self)
        }
    };
    (@releases $trait:ident::$method:ident) => {
        #[inline]
        unsafe fn $method(&self, _guard: GuardMarker) {
            // SAFETY: the guard stands for an acquisition.
            unsafe { ::lock_api::$trait::$method(self) };
        }
    };
    (@changes $trait:ident::$method:ident) => {
        #[inline]
        unsafe fn $method(&self, guard: GuardMarker) -> GuardMarker {
            // SAFETY: the guard stands for an acquisition.
            unsafe { ::lock_api::$trait::$method(self) };
            guard
        }
    };
    (@upgrades $trait:ident::$method:ident $(($limit:ident: $type:ty))?) => {
        #[inline]
        unsafe fn $method(
            &self,
            guard: GuardMarker
            $(, $limit: $type)?
        ) -> Result<GuardMarker, GuardMarker> {
            // SAFETY: the guard stands for an upgradable acquisition.
            let is_writer = unsafe { ::lock_api::$trait::$method(self $(, $limit)?) };
            if is_writer { Ok(guard) } else { Err(guard) }
        }
    };
}

/// Implements the traits of this version for a mutex, by those of `lock_api` 0.4.
macro_rules! raw_mutex {
    ($raw:ident) => {
        // SAFETY: as for `lock_api` 0.4.
        unsafe impl lock_api::RawMutex for $raw {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
            const INIT: Self = <Self as ::lock_api::RawMutex>::INIT;
            type Guard = GuardMarker;

            methods!(RawMutex: takes lock, tries try_lock, releases unlock, asks is_locked,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawMutexFair for $raw {
            methods!(RawMutexFair: releases unlock_fair,);
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

type NamedMutex = Named<RawMutex>;
type NamedFairMutex = Named<RawFairMutex>;
raw_mutex!(RawMutex);
raw_mutex!(RawFairMutex);
raw_mutex!(NamedMutex);
raw_mutex!(NamedFairMutex);

// SAFETY: as for `lock_api` 0.4.
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
        // SAFETY: as for `lock_api` 0.4.
        unsafe impl lock_api::RawRwLock for $raw {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
            const INIT: Self = <Self as ::lock_api::RawRwLock>::INIT;
            type SharedGuard = GuardMarker;
            type ExclusiveGuard = GuardMarker;

            methods! { RawRwLock:
                takes lock_shared,
                tries try_lock_shared,
                releases unlock_shared,
                takes lock_exclusive,
                tries try_lock_exclusive,
                releases unlock_exclusive,
                asks is_locked,
                asks is_locked_exclusive,
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockFair for $raw {
            methods!(RawRwLockFair: releases unlock_shared_fair, releases unlock_exclusive_fair,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockDowngrade for $raw {
            methods!(RawRwLockDowngrade: changes downgrade,);
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
            type UpgradableGuard = GuardMarker;

            methods! { RawRwLockUpgrade:
                takes lock_upgradable,
                tries try_lock_upgradable,
                releases unlock_upgradable,
                changes upgrade,
                upgrades try_upgrade,
            }
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeFair for $raw {
            methods!(RawRwLockUpgradeFair: releases unlock_upgradable_fair,);
        }

        // SAFETY: as above.
        unsafe impl lock_api::RawRwLockUpgradeDowngrade for $raw {
            methods! { RawRwLockUpgradeDowngrade:
                changes downgrade_upgradable,
                changes downgrade_to_upgradable,
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

type NamedRwLock = Named<RawRwLock>;
type NamedRwLockRecursive = Named<RawRwLockRecursive>;
raw_rwlock!(RawRwLock);
raw_rwlock!(RawRwLockRecursive);
raw_rwlock!(NamedRwLock);
raw_rwlock!(NamedRwLockRecursive);

// SAFETY: a waiter is queued before the mutex is let go (`condvar::waiters`), and holds
// it again when the wait returns; a `GuardMarker` holds no state.
unsafe impl lock_api::RawCondvar for RawCondvar {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self::new();
    type RawMutex = RawMutex;

    unsafe fn wait(&self, mutex: &RawMutex, _guard: &mut GuardMarker) {
        // SAFETY: the guard stands for an acquisition of the mutex.
        unsafe { self.0.wait(mutex) }
    }

    fn notify_one(&self) -> bool {
        Self::notify_one(self)
    }

    fn notify_all(&self) -> usize {
        Self::notify_all(self)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawCondvarTimed for RawCondvar {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Instant::now().checked_add(*timeout)
    }

    unsafe fn wait_until(
        &self,
        mutex: &RawMutex,
        _guard: &mut GuardMarker,
        deadline: &Instant,
    ) -> bool {
        // SAFETY: the guard stands for an acquisition of the mutex.
        unsafe { self.0.wait_with(mutex, Wait::until(*deadline)) }.is_err()
    }

    unsafe fn wait_for(
        &self,
        mutex: &RawMutex,
        _guard: &mut GuardMarker,
        timeout: &Duration,
    ) -> bool {
        // SAFETY: the guard stands for an acquisition of the mutex.
        unsafe { self.0.wait_with(mutex, Wait::within(*timeout)) }.is_err()
    }
}
