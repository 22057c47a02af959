//! `lock_api`'s raw traits for upgradable reads, on [`RwSem`] and [`ThinRwSem`].

use lock_api::RawRwLock as RawLock;

use crate::GuardMarker;
use crate::deadlock::{self, Mode};
use crate::guard::if_taken;
use crate::platform::Platform;
#[cfg(any(feature = "std", fairlock_loom))]
use crate::platform::PooledPlatform;
use crate::rwsem::RwSem;
#[cfg(any(feature = "std", fairlock_loom))]
use crate::thin::ThinRwSem;
#[cfg(feature = "std")]
use crate::wait::Wait;

/// What becomes of the guard of an upgradable reader by an attempt at an upgrade.
#[inline]
fn upgraded<L>(lock: &L, guard: GuardMarker, is_writer: bool) -> Result<GuardMarker, GuardMarker> {
    if is_writer {
        deadlock::changes(lock, Mode::Upgradable, Mode::Exclusive);
        Ok(guard)
    } else {
        Err(guard)
    }
}

macro_rules! raw_rwlock_upgrade {
    ($lock:ident on $platform:ident) => {
        // SAFETY: an upgradable reader is a reader, and the only one that may become the writer: its
        // upgrade ends when all others have left, and nobody gets in meanwhile (see `rwsem::upgrade`).
        unsafe impl<P: $platform> lock_api::RawRwLockUpgrade for $lock<P>
        where
            Self: RawLock<SharedGuard = GuardMarker, ExclusiveGuard = GuardMarker>,
        {
            type UpgradableGuard = GuardMarker;

            #[inline]
            fn lock_upgradable(&self) -> GuardMarker {
                let attempt = || self.try_upgradable_read();
                deadlock::acquire(self, Mode::Upgradable, attempt, || self.upgradable_read());
                GuardMarker::new()
            }

            #[inline]
            fn try_lock_upgradable(&self) -> Option<GuardMarker> {
                if_taken(self, Mode::Upgradable, self.try_upgradable_read())
            }

            #[inline]
            unsafe fn unlock_upgradable(&self, _guard: GuardMarker) {
                deadlock::releases(self, Mode::Upgradable);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::unlock_upgradable(self) }
            }

            #[inline]
            unsafe fn upgrade(&self, guard: GuardMarker) -> GuardMarker {
                // SAFETY: as above.
                let attempt = || unsafe { $lock::try_upgrade(self) };
                // SAFETY: as above.
                deadlock::upgrade(self, attempt, || unsafe { $lock::upgrade(self) });
                guard
            }

            #[inline]
            unsafe fn try_upgrade(&self, guard: GuardMarker) -> Result<GuardMarker, GuardMarker> {
                // SAFETY: as above.
                upgraded(self, guard, unsafe { $lock::try_upgrade(self) })
            }
        }

        // SAFETY: as above.
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeFair for $lock<P>
        where
            Self: RawLock<SharedGuard = GuardMarker, ExclusiveGuard = GuardMarker>,
        {
            unsafe fn unlock_upgradable_fair(&self, _guard: GuardMarker) {
                deadlock::releases(self, Mode::Upgradable);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::unlock_upgradable_fair(self) }
            }
        }

        // SAFETY: as above; each is one step in the word.
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeDowngrade for $lock<P>
        where
            Self: RawLock<SharedGuard = GuardMarker, ExclusiveGuard = GuardMarker>,
        {
            unsafe fn downgrade_upgradable(&self, guard: GuardMarker) -> GuardMarker {
                deadlock::changes(self, Mode::Upgradable, Mode::Shared);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::downgrade_upgradable(self) };
                guard
            }

            unsafe fn downgrade_to_upgradable(&self, guard: GuardMarker) -> GuardMarker {
                deadlock::changes(self, Mode::Exclusive, Mode::Upgradable);
                // SAFETY: the guard stands for a write acquisition.
                unsafe { $lock::downgrade_to_upgradable(self) };
                guard
            }
        }

        // SAFETY: as above.
        #[cfg(feature = "std")]
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeTimed for $lock<P>
        where
            Self: RawLock<SharedGuard = GuardMarker, ExclusiveGuard = GuardMarker>,
        {
            fn try_lock_upgradable_for(
                &self,
                timeout: core::time::Duration,
            ) -> Option<GuardMarker> {
                let taken = self.upgradable_read_with(Wait::within(timeout)).is_ok();
                if_taken(self, Mode::Upgradable, taken)
            }

            fn try_lock_upgradable_until(
                &self,
                deadline: std::time::Instant,
            ) -> Option<GuardMarker> {
                let taken = self.upgradable_read_with(Wait::until(deadline)).is_ok();
                if_taken(self, Mode::Upgradable, taken)
            }

            unsafe fn try_upgrade_for(
                &self,
                guard: GuardMarker,
                timeout: core::time::Duration,
            ) -> Result<GuardMarker, GuardMarker> {
                // SAFETY: the guard stands for an upgradable acquisition.
                let is_writer = unsafe { self.upgrade_with(Wait::within(timeout)) }.is_ok();
                upgraded(self, guard, is_writer)
            }

            unsafe fn try_upgrade_until(
                &self,
                guard: GuardMarker,
                deadline: std::time::Instant,
            ) -> Result<GuardMarker, GuardMarker> {
                // SAFETY: the guard stands for an upgradable acquisition.
                let is_writer = unsafe { self.upgrade_with(Wait::until(deadline)) }.is_ok();
                upgraded(self, guard, is_writer)
            }
        }
    };
}

raw_rwlock_upgrade!(RwSem on Platform);
#[cfg(any(feature = "std", fairlock_loom))]
raw_rwlock_upgrade!(ThinRwSem on PooledPlatform);
