//! The reader/writer lock that a thread may read again while it reads.

use core::time::Duration;
use std::time::Instant;

use lock_api::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use super::RawRwLock;
use super::ext::RawRwLockExt;
use crate::GuardMarker;
use crate::deadlock::{self, Mode};
use crate::wait::Wait;

/// The raw lock of [`RecursiveRwLock`]: a [`RawRwLock`] whose every read is a recursive one.
#[derive(Debug)]
pub struct RawRwLockRecursive(RawRwLock);

/// A [`RwLock`](crate::RwLock) that a thread may read again while it reads.
///
/// `read` and its timed forms are [`read_recursive`](crate::RwLockExt::read_recursive): if readers
/// hold the lock already, they go past all waiters. So readers that never all let go at once starve a
/// writer. Everything else is as at a `RwLock` with the default policy.
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
/// [`RwLockUpgradableReadGuard`](crate::RwLockUpgradableReadGuard). An upgrade waits for as long as
/// readers come that never all let go at once.
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
    type SharedGuard = GuardMarker;
    type ExclusiveGuard = GuardMarker;

    #[inline]
    fn lock_shared(&self) -> GuardMarker {
        let attempt = || self.0.try_read_recursive();
        deadlock::acquire(&self.0, Mode::Recursive, attempt, || self.0.read_recursive());
        GuardMarker::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardMarker> {
        RawRwLockExt::try_read_recursive(&self.0).then(GuardMarker::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, guard: GuardMarker) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock_shared(guard) }
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardMarker {
        self.0.lock_exclusive()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardMarker> {
        self.0.try_lock_exclusive()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, guard: GuardMarker) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock_exclusive(guard) }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockFair for RawRwLockRecursive {
    unsafe fn unlock_shared_fair(&self, guard: GuardMarker) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock_shared_fair(guard) }
    }

    unsafe fn unlock_exclusive_fair(&self, guard: GuardMarker) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock_exclusive_fair(guard) }
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLockRecursive {
    unsafe fn downgrade(&self, guard: GuardMarker) -> GuardMarker {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockDowngrade::downgrade(&self.0, guard) }
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl lock_api::RawRwLockTimed for RawRwLockRecursive {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardMarker> {
        RawRwLockExt::read_recursive_with(&self.0, Wait::within(timeout))
            .is_ok()
            .then(GuardMarker::new)
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> Option<GuardMarker> {
        RawRwLockExt::read_recursive_with(&self.0, Wait::until(deadline))
            .is_ok()
            .then(GuardMarker::new)
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardMarker> {
        self.0.try_lock_exclusive_for(timeout)
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> Option<GuardMarker> {
        self.0.try_lock_exclusive_until(deadline)
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLockRecursive {
    type UpgradableGuard = GuardMarker;

    #[inline]
    fn lock_upgradable(&self) -> GuardMarker {
        self.0.lock_upgradable()
    }

    #[inline]
    fn try_lock_upgradable(&self) -> Option<GuardMarker> {
        self.0.try_lock_upgradable()
    }

    #[inline]
    unsafe fn unlock_upgradable(&self, guard: GuardMarker) {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgrade::unlock_upgradable(&self.0, guard) }
    }

    #[inline]
    unsafe fn upgrade(&self, guard: GuardMarker) -> GuardMarker {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgrade::upgrade(&self.0, guard) }
    }

    #[inline]
    unsafe fn try_upgrade(&self, guard: GuardMarker) -> Result<GuardMarker, GuardMarker> {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgrade::try_upgrade(&self.0, guard) }
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLockRecursive {
    unsafe fn unlock_upgradable_fair(&self, guard: GuardMarker) {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgradeFair::unlock_upgradable_fair(&self.0, guard) }
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLockRecursive {
    unsafe fn downgrade_upgradable(&self, guard: GuardMarker) -> GuardMarker {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgradeDowngrade::downgrade_upgradable(&self.0, guard) }
    }

    unsafe fn downgrade_to_upgradable(&self, guard: GuardMarker) -> GuardMarker {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgradeDowngrade::downgrade_to_upgradable(&self.0, guard) }
    }
}

// SAFETY: as for the lock inside.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLockRecursive {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<GuardMarker> {
        self.0.try_lock_upgradable_for(timeout)
    }

    fn try_lock_upgradable_until(&self, deadline: Instant) -> Option<GuardMarker> {
        self.0.try_lock_upgradable_until(deadline)
    }

    unsafe fn try_upgrade_for(
        &self,
        guard: GuardMarker,
        timeout: Duration,
    ) -> Result<GuardMarker, GuardMarker> {
        // SAFETY: the caller's promise.
        unsafe { self.0.try_upgrade_for(guard, timeout) }
    }

    unsafe fn try_upgrade_until(
        &self,
        guard: GuardMarker,
        deadline: Instant,
    ) -> Result<GuardMarker, GuardMarker> {
        // SAFETY: the caller's promise.
        unsafe { self.0.try_upgrade_until(guard, deadline) }
    }
}
