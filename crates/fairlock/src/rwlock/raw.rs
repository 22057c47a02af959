//! `lock_api`'s raw traits, on [`RawRwLock`] and [`published::RwSem`].

use lock_api::RawRwLock as RawLock;

#[cfg(feature = "std")]
use super::ext::RawRwLockExt;
use crate::GuardMarker;
use crate::deadlock::{self, HeldAs, Id, Noted};
use crate::guard::note_attempt;
use crate::lock::RawRwLock;
use crate::platform::PooledPlatform;
use crate::platform::{ConstZero, Platform};
use crate::published::{self, RwSem as Published};
#[cfg(feature = "std")]
use crate::wait::Wait;

/// Notes whether an attempt at an upgrade has made the upgradable reader the writer, and returns that.
#[inline]
fn upgraded(lock: &Id, is_writer: bool) -> bool {
    if is_writer {
        deadlock::changes(lock, HeldAs::Upgradable, HeldAs::Exclusive);
    }
    is_writer
}

/// Implements the traits for `$lock`, whose free value is `$init`, on platforms that are a
/// `$platform` and have `$atomic`s that can be constants.
macro_rules! raw_rwlock {
    ($lock:ident on $platform:ident with [$($atomic:ident),*]: $init:expr) => {
        // SAFETY: the lock excludes writers from everybody and readers from writers;
        // acquisitions are Acquire and releases Release (see `lock::word` and `published::word`). A
        // guard that is forgotten leaves the lock held. A lock that is held and has no
        // waiters is not pointed to by anybody, so its owner may move or drop it.
        unsafe impl<P: $platform> RawLock for $lock<P>
        where
            $(P::$atomic: ConstZero,)*
        {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
            const INIT: Self = $init;
            type GuardMarker = GuardMarker;

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn lock_shared(&self) {
                deadlock::acquire(self.id(), HeldAs::Shared, || self.try_read(), || self.read());
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_shared(&self) -> bool {
                note_attempt(self.id(), HeldAs::Shared, self.try_read())
            }

            #[inline]
            unsafe fn unlock_shared(&self) {
                deadlock::releases(self.id(), HeldAs::Shared);
                // SAFETY: the guard stands for a read acquisition.
                unsafe { self.unlock_read() }
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn lock_exclusive(&self) {
                deadlock::acquire(self.id(), HeldAs::Exclusive, || self.try_write(), || self.write());
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_exclusive(&self) -> bool {
                note_attempt(self.id(), HeldAs::Exclusive, self.try_write())
            }

            #[inline]
            unsafe fn unlock_exclusive(&self) {
                deadlock::releases(self.id(), HeldAs::Exclusive);
                // SAFETY: the guard stands for a write acquisition.
                unsafe { self.unlock_write() }
            }

            #[inline]
            fn is_locked(&self) -> bool {
                $lock::is_locked(self)
            }

            #[inline]
            fn is_locked_exclusive(&self) -> bool {
                self.is_write_locked()
            }
        }

        // SAFETY: as for `RawRwLock`.
        unsafe impl<P: $platform> lock_api::RawRwLockFair for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            unsafe fn unlock_shared_fair(&self) {
                deadlock::releases(self.id(), HeldAs::Shared);
                // SAFETY: the guard stands for a read acquisition.
                unsafe { self.unlock_read_fair() }
            }

            unsafe fn unlock_exclusive_fair(&self) {
                deadlock::releases(self.id(), HeldAs::Exclusive);
                // SAFETY: the guard stands for a write acquisition.
                unsafe { self.unlock_write_fair() }
            }
        }

        // SAFETY: as for `RawRwLock`; the downgrade is one step in the word, so no
        // writer gets in between, and it releases what was written.
        unsafe impl<P: $platform> lock_api::RawRwLockDowngrade for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            unsafe fn downgrade(&self) {
                deadlock::changes(self.id(), HeldAs::Exclusive, HeldAs::Shared);
                // SAFETY: the guard stands for a write acquisition.
                unsafe { $lock::downgrade(self) };
            }
        }

        // SAFETY: as for `RawRwLock`: a recursive read excludes writers as any read does.
        unsafe impl<P: $platform> lock_api::RawRwLockRecursive for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn lock_shared_recursive(&self) {
                let attempt = || $lock::try_read_recursive(self);
                deadlock::acquire(self.id(), HeldAs::Recursive, attempt, || $lock::read_recursive(self));
            }

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_shared_recursive(&self) -> bool {
                note_attempt(self.id(), HeldAs::Shared, $lock::try_read_recursive(self))
            }
        }

        // SAFETY: as above.
        #[cfg(feature = "std")]
        unsafe impl<P: $platform> lock_api::RawRwLockRecursiveTimed for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_shared_recursive_for(&self, timeout: core::time::Duration) -> bool {
                RawRwLockExt::read_recursive_with(self, Wait::within(timeout)).is_ok()
            }

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_shared_recursive_until(&self, deadline: std::time::Instant) -> bool {
                RawRwLockExt::read_recursive_with(self, Wait::until(deadline)).is_ok()
            }
        }

        // SAFETY: as for `RawRwLock`.
        #[cfg(feature = "std")]
        unsafe impl<P: $platform> lock_api::RawRwLockTimed for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            type Duration = core::time::Duration;
            type Instant = std::time::Instant;

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_shared_for(&self, timeout: core::time::Duration) -> bool {
                RawRwLockExt::read_with(self, Wait::within(timeout)).is_ok()
            }

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_shared_until(&self, deadline: std::time::Instant) -> bool {
                RawRwLockExt::read_with(self, Wait::until(deadline)).is_ok()
            }

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_exclusive_for(&self, timeout: core::time::Duration) -> bool {
                RawRwLockExt::write_with(self, Wait::within(timeout)).is_ok()
            }

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_exclusive_until(&self, deadline: std::time::Instant) -> bool {
                RawRwLockExt::write_with(self, Wait::until(deadline)).is_ok()
            }
        }
    };
}

/// Implements the traits of upgradable reads for `$lock`.
macro_rules! raw_upgrades {
    ($lock:ident on $platform:ident) => {
        // SAFETY: an upgradable reader is a reader, and the only one that may become the writer: its
        // upgrade ends when all others have left, and nobody gets in meanwhile (see `lock::upgrade`).
        unsafe impl<P: $platform> lock_api::RawRwLockUpgrade for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn lock_upgradable(&self) {
                let attempt = || self.try_upgradable_read();
                deadlock::acquire(self.id(), HeldAs::Upgradable, attempt, || {
                    self.upgradable_read()
                });
            }

            #[inline]
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_upgradable(&self) -> bool {
                note_attempt(self.id(), HeldAs::Upgradable, self.try_upgradable_read())
            }

            #[inline]
            unsafe fn unlock_upgradable(&self) {
                deadlock::releases(self.id(), HeldAs::Upgradable);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::unlock_upgradable(self) }
            }

            #[inline]
            unsafe fn upgrade(&self) {
                // SAFETY: as above.
                let attempt = || unsafe { $lock::try_upgrade(self) };
                // SAFETY: as above.
                deadlock::upgrade(self.id(), attempt, || unsafe { $lock::upgrade(self) });
            }

            #[inline]
            unsafe fn try_upgrade(&self) -> bool {
                // SAFETY: as above.
                upgraded(self.id(), unsafe { $lock::try_upgrade(self) })
            }
        }

        // SAFETY: as above.
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeFair for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            unsafe fn unlock_upgradable_fair(&self) {
                deadlock::releases(self.id(), HeldAs::Upgradable);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::unlock_upgradable_fair(self) }
            }
        }

        // SAFETY: as above; each is one step in the word.
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeDowngrade for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            unsafe fn downgrade_upgradable(&self) {
                deadlock::changes(self.id(), HeldAs::Upgradable, HeldAs::Shared);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::downgrade_upgradable(self) };
            }

            unsafe fn downgrade_to_upgradable(&self) {
                deadlock::changes(self.id(), HeldAs::Exclusive, HeldAs::Upgradable);
                // SAFETY: the guard stands for a write acquisition.
                unsafe { $lock::downgrade_to_upgradable(self) };
            }
        }

        // SAFETY: as above.
        #[cfg(feature = "std")]
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeTimed for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_upgradable_for(&self, timeout: core::time::Duration) -> bool {
                let taken = self.upgradable_read_with(Wait::within(timeout)).is_ok();
                note_attempt(self.id(), HeldAs::Upgradable, taken)
            }

            #[cfg_attr(feature = "deadlock_detection", track_caller)]
            fn try_lock_upgradable_until(&self, deadline: std::time::Instant) -> bool {
                let taken = self.upgradable_read_with(Wait::until(deadline)).is_ok();
                note_attempt(self.id(), HeldAs::Upgradable, taken)
            }

            unsafe fn try_upgrade_for(&self, timeout: core::time::Duration) -> bool {
                // SAFETY: the guard stands for an upgradable acquisition.
                let is_writer = unsafe { self.upgrade_with(Wait::within(timeout)) }.is_ok();
                upgraded(self.id(), is_writer)
            }

            unsafe fn try_upgrade_until(&self, deadline: std::time::Instant) -> bool {
                // SAFETY: the guard stands for an upgradable acquisition.
                let is_writer = unsafe { self.upgrade_with(Wait::until(deadline)) }.is_ok();
                upgraded(self.id(), is_writer)
            }
        }
    };
}

raw_rwlock!(Published on Platform with [AtomicUsize, AtomicU32, AtomicU64]:
    Self::with_policy(published::Policy::WRITER_PHASE));
raw_rwlock!(RawRwLock on PooledPlatform with [AtomicU64]: Self::new_const());
raw_upgrades!(RawRwLock on PooledPlatform);
