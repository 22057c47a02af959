//! Upgradable reads of a thin lock, and the way from reader to writer.

use core::sync::atomic::Ordering;

use super::{RwWord, ThinRwSem};
use crate::platform::PooledPlatform;
use crate::thin::inflate::{Codec, Inflates};
use crate::thin::marks;
use crate::wait::{Access, Wait, WaitError};

impl<P: PooledPlatform> ThinRwSem<P> {
    /// As [`RwSem::upgradable_read`](crate::rwsem::RwSem::upgradable_read).
    #[inline]
    pub fn upgradable_read(&self) {
        if !self.at_once(Access::Upgradable) && !self.full_at_once(Access::Upgradable) {
            self.enter_for_ever(Access::Upgradable, false);
        }
    }

    /// As [`RwSem::try_upgradable_read`](crate::rwsem::RwSem::try_upgradable_read). It may fail while another thread begins to wait.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_upgradable_read(&self) -> bool {
        self.at_once(Access::Upgradable) || self.try_enter(Access::Upgradable, false)
    }

    /// As [`RwSem::upgradable_read_with`](crate::rwsem::RwSem::upgradable_read_with).
    pub fn upgradable_read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.enter_with(Access::Upgradable, false, wait)
    }

    /// As [`RwSem::unlock_upgradable`](crate::rwsem::RwSem::unlock_upgradable).
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    #[inline]
    pub unsafe fn unlock_upgradable(&self) {
        // Release: what was read under the lock stays before the next writer.
        let left = || self.word.exchange(RwWord::UPGRADABLE, RwWord::FREE, Ordering::Release);
        if marks::find::<P, _>(self).is_some() || left().is_err() {
            self.leave(Access::Upgradable, false);
        }
    }

    /// As [`RwSem::unlock_upgradable_fair`](crate::rwsem::RwSem::unlock_upgradable_fair).
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    pub unsafe fn unlock_upgradable_fair(&self) {
        self.leave(Access::Upgradable, true);
    }

    /// As [`RwSem::downgrade_upgradable`](crate::rwsem::RwSem::downgrade_upgradable).
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for reading.
    pub unsafe fn downgrade_upgradable(&self) {
        let mut word = self.settled(self.load());
        while !word.is_inflated() {
            // Release: the next upgradable reader may write what this one has read.
            match self.word.exchange(word, word.without_upgradable(), Ordering::Release) {
                Ok(()) => return,
                Err(now) => word = self.settled(now),
            }
        }
        // SAFETY: the caller's promise; a holder's slot stays.
        unsafe { self.slot(word).full.downgrade_upgradable() }
    }

    /// As [`RwSem::downgrade_to_upgradable`](crate::rwsem::RwSem::downgrade_to_upgradable).
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, upgradably.
    pub unsafe fn downgrade_to_upgradable(&self) {
        // Release: the readers let in see what was written.
        if let Err(word) =
            self.word.exchange(RwWord::WRITTEN, RwWord::UPGRADABLE, Ordering::Release)
        {
            // SAFETY: the caller's promise; a holder's slot stays.
            unsafe { self.slot(word).full.downgrade_to_upgradable() }
        }
    }

    /// As [`RwSem::upgrade`](crate::rwsem::RwSem::upgrade).
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing.
    #[inline]
    pub unsafe fn upgrade(&self) {
        // SAFETY: the caller's promise. Waiting for ever ends with the lock only.
        let _ = unsafe { self.upgrade_with(Wait::FOREVER) };
    }

    /// As [`RwSem::try_upgrade`](crate::rwsem::RwSem::try_upgrade).
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing where it is true.
    #[inline]
    #[must_use = "it says in which way the caller holds the lock"]
    pub unsafe fn try_upgrade(&self) -> bool {
        // Acquire: owns what readers have left (rule 3).
        match self.word.exchange(RwWord::UPGRADABLE, RwWord::WRITTEN, Ordering::Acquire) {
            Ok(()) => true,
            Err(word) if self.full_of(word).is_some() => {
                // With a pin, as the slot may still be sealed. SAFETY: the caller's promise.
                self.on_full(|sem| unsafe { sem.try_upgrade() })
            }
            Err(_) => false,
        }
    }

    /// As [`RwSem::upgrade_with`](crate::rwsem::RwSem::upgrade_with).
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing if it succeeded.
    #[inline]
    pub unsafe fn upgrade_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.try_upgrade() {
                return Ok(());
            }
            // Other readers are inside. If the lock is thin, the full one adopts them.
            self.on_full(|sem| sem.upgrade_with(wait))
        }
    }
}
