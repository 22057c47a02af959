//! `lock_api`'s raw traits for upgradable reads, on [`RwSem`] and [`ThinRwSem`].

use lock_api::RawRwLock as RawLock;

use crate::GuardMarker;
use crate::deadlock::{self, Mode};
use crate::guard::note_attempt;
use crate::platform::Platform;
#[cfg(any(feature = "std", fairlock_loom))]
use crate::platform::PooledPlatform;
use crate::rwsem::RwSem;
#[cfg(any(feature = "std", fairlock_loom))]
use crate::thin::ThinRwSem;
#[cfg(feature = "std")]
use crate::wait::Wait;

/// Notes whether an attempt at an upgrade has made the upgradable reader the writer, and returns that.
#[inline]
fn upgraded<L>(lock: &L, is_writer: bool) -> bool {
    if is_writer {
        deadlock::changes(lock, Mode::Upgradable, Mode::Exclusive);
    }
    is_writer
}

macro_rules! raw_rwlock_upgrade {
    ($lock:ident on $platform:ident) => {
        // SAFETY: an upgradable reader is a reader, and the only one that may become the writer: its
        // upgrade ends when all others have left, and nobody gets in meanwhile (see `rwsem::upgrade`).
        unsafe impl<P: $platform> lock_api::RawRwLockUpgrade for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            #[inline]
            fn lock_upgradable(&self) {
                let attempt = || self.try_upgradable_read();
                deadlock::acquire(self, Mode::Upgradable, attempt, || self.upgradable_read());
            }

            #[inline]
            fn try_lock_upgradable(&self) -> bool {
                note_attempt(self, Mode::Upgradable, self.try_upgradable_read())
            }

            #[inline]
            unsafe fn unlock_upgradable(&self) {
                deadlock::releases(self, Mode::Upgradable);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::unlock_upgradable(self) }
            }

            #[inline]
            unsafe fn upgrade(&self) {
                // SAFETY: as above.
                let attempt = || unsafe { $lock::try_upgrade(self) };
                // SAFETY: as above.
                deadlock::upgrade(self, attempt, || unsafe { $lock::upgrade(self) });
            }

            #[inline]
            unsafe fn try_upgrade(&self) -> bool {
                // SAFETY: as above.
                upgraded(self, unsafe { $lock::try_upgrade(self) })
            }
        }

        // SAFETY: as above.
        unsafe impl<P: $platform> lock_api::RawRwLockUpgradeFair for $lock<P>
        where
            Self: RawLock<GuardMarker = GuardMarker>,
        {
            unsafe fn unlock_upgradable_fair(&self) {
                deadlock::releases(self, Mode::Upgradable);
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
                deadlock::changes(self, Mode::Upgradable, Mode::Shared);
                // SAFETY: the guard stands for an upgradable acquisition.
                unsafe { $lock::downgrade_upgradable(self) };
            }

            unsafe fn downgrade_to_upgradable(&self) {
                deadlock::changes(self, Mode::Exclusive, Mode::Upgradable);
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
            fn try_lock_upgradable_for(&self, timeout: core::time::Duration) -> bool {
                let taken = self.upgradable_read_with(Wait::within(timeout)).is_ok();
                note_attempt(self, Mode::Upgradable, taken)
            }

            fn try_lock_upgradable_until(&self, deadline: std::time::Instant) -> bool {
                let taken = self.upgradable_read_with(Wait::until(deadline)).is_ok();
                note_attempt(self, Mode::Upgradable, taken)
            }

            unsafe fn try_upgrade_for(&self, timeout: core::time::Duration) -> bool {
                // SAFETY: the guard stands for an upgradable acquisition.
                let is_writer = unsafe { self.upgrade_with(Wait::within(timeout)) }.is_ok();
                upgraded(self, is_writer)
            }

            unsafe fn try_upgrade_until(&self, deadline: std::time::Instant) -> bool {
                // SAFETY: the guard stands for an upgradable acquisition.
                let is_writer = unsafe { self.upgrade_with(Wait::until(deadline)) }.is_ok();
                upgraded(self, is_writer)
            }
        }
    };
}

raw_rwlock_upgrade!(RwSem on Platform);
#[cfg(any(feature = "std", fairlock_loom))]
raw_rwlock_upgrade!(ThinRwSem on PooledPlatform);
