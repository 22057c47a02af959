//! The reader/writer lock that a reading thread may acquire again for reading.

use core::time::Duration;
use std::time::Instant;

use lock_api::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use super::RawRwLock;
use super::ext::RawRwLockExt;
use crate::GuardMarker;
use crate::inner::by_inner;
use crate::wait::Wait;

/// The raw lock of [`RecursiveRwLock`]: a [`RawRwLock`] whose every read is a recursive one.
#[derive(Debug)]
pub struct RawRwLockRecursive(RawRwLock);

/// A [`RwLock`](crate::RwLock) that a reading thread may acquire again for reading.
///
/// `read` and its timed forms do what [`read_recursive`](lock_api::RwLock::read_recursive) does: if
/// readers already hold the lock, they go past all waiters. So readers that overlap without a gap
/// starve a writer. Everything else is as for an `RwLock` with the default policy.
///
/// ```
/// use fairlock::RecursiveRwLock;
///
/// let lock = RecursiveRwLock::new(7);
/// let first = lock.read();
/// std::thread::scope(|s| {
///     s.spawn(|| *lock.write() += 1);
///     // Whether or not the writer waits by now.
///     let second = lock.read();
///     assert_eq!(*first, *second);
///     drop((first, second));
/// });
/// assert_eq!(*lock.read(), 8);
/// ```
pub type RecursiveRwLock<T> = RwLock<RawRwLockRecursive, T>;
/// Shared access to the value of a [`RecursiveRwLock`]; releases it when dropped.
pub type RecursiveRwLockReadGuard<'a, T> = RwLockReadGuard<'a, RawRwLockRecursive, T>;
/// Exclusive access to the value of a [`RecursiveRwLock`]; releases it when dropped.
pub type RecursiveRwLockWriteGuard<'a, T> = RwLockWriteGuard<'a, RawRwLockRecursive, T>;
/// Shared access to the value of a [`RecursiveRwLock`], which may become exclusive; see
/// [`RwLockUpgradableReadGuard`](crate::RwLockUpgradableReadGuard). An upgrade waits while readers
/// overlap without a gap.
pub type RecursiveRwLockUpgradableReadGuard<'a, T> =
    RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockReadGuard`] for a part of the value.
pub type MappedRecursiveRwLockReadGuard<'a, T> =
    lock_api::MappedRwLockReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockWriteGuard`] for a part of the value.
pub type MappedRecursiveRwLockWriteGuard<'a, T> =
    lock_api::MappedRwLockWriteGuard<'a, RawRwLockRecursive, T>;

// SAFETY: as for the lock inside: a recursive read excludes writers as any read does.
unsafe impl lock_api::RawRwLock for RawRwLockRecursive {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self(RawRwLock::INIT);
    type GuardMarker = GuardMarker;

    #[inline]
    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn lock_shared(&self) {
        lock_api::RawRwLockRecursive::lock_shared_recursive(&self.0);
    }

    #[inline]
    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn try_lock_shared(&self) -> bool {
        lock_api::RawRwLockRecursive::try_lock_shared_recursive(&self.0)
    }

    by_inner! { RawRwLock:
        leaves unlock_shared,
        takes lock_exclusive,
        tries try_lock_exclusive,
        leaves unlock_exclusive,
        tries is_locked,
        tries is_locked_exclusive,
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockFair for RawRwLockRecursive {
    by_inner!(RawRwLockFair: leaves unlock_shared_fair, leaves unlock_exclusive_fair,);
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLockRecursive {
    by_inner!(RawRwLockDowngrade: leaves downgrade,);
}

// SAFETY: as for `RawRwLock`.
unsafe impl lock_api::RawRwLockTimed for RawRwLockRecursive {
    type Duration = Duration;
    type Instant = Instant;

    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        RawRwLockExt::read_recursive_with(&self.0, Wait::within(timeout)).is_ok()
    }

    #[cfg_attr(feature = "deadlock_detection", track_caller)]
    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        RawRwLockExt::read_recursive_with(&self.0, Wait::until(deadline)).is_ok()
    }

    by_inner! { RawRwLockTimed:
        tries try_lock_exclusive_for(timeout: Duration),
        tries try_lock_exclusive_until(deadline: Instant),
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLockRecursive {
    by_inner! { RawRwLockUpgrade:
        takes lock_upgradable,
        tries try_lock_upgradable,
        leaves unlock_upgradable,
        leaves upgrade,
        upgrades try_upgrade,
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLockRecursive {
    by_inner!(RawRwLockUpgradeFair: leaves unlock_upgradable_fair,);
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLockRecursive {
    by_inner! { RawRwLockUpgradeDowngrade:
        leaves downgrade_upgradable,
        leaves downgrade_to_upgradable,
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLockRecursive {
    by_inner! { RawRwLockUpgradeTimed:
        tries try_lock_upgradable_for(timeout: Duration),
        tries try_lock_upgradable_until(deadline: Instant),
        upgrades try_upgrade_for(timeout: Duration),
        upgrades try_upgrade_until(deadline: Instant),
    }
}
