//! `lock_api`'s raw traits, on [`RwSem`].

use lock_api::{GuardSend, RawRwLock as RawLock};

#[cfg(feature = "std")]
use super::ext::{read_for, time_until, write_for};
use crate::platform::{ConstZero, Platform};
use crate::rwsem::{Policy, RwSem};

// SAFETY: `RwSem` excludes writers from everybody and readers from writers;
// acquisitions are Acquire and releases Release (see `rwsem::word`). A guard
// that is forgotten leaves the lock held. A lock that is held and has no
// waiters is not pointed to by anybody, so its owner may move or drop it.
unsafe impl<P: Platform> RawLock for RwSem<P>
where
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
    P::AtomicU64: ConstZero,
{
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self::with_policy(Policy::DEFAULT);
    type SharedGuard = GuardSend;
    type ExclusiveGuard = GuardSend;

    #[inline]
    fn lock_shared(&self) -> GuardSend {
        self.read();
        GuardSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardSend> {
        self.try_read().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a read acquisition.
        unsafe { self.unlock_read() }
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardSend {
        self.write();
        GuardSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardSend> {
        self.try_write().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a write acquisition.
        unsafe { self.unlock_write() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        RwSem::is_locked(self)
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.is_write_locked()
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl<P: Platform> lock_api::RawRwLockFair for RwSem<P>
where
    Self: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    unsafe fn unlock_shared_fair(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a read acquisition.
        unsafe { self.unlock_read_fair() }
    }

    unsafe fn unlock_exclusive_fair(&self, _guard: GuardSend) {
        // SAFETY: the guard stands for a write acquisition.
        unsafe { self.unlock_write_fair() }
    }
}

// SAFETY: as for `RawRwLock`; the downgrade is one step in the word, so no
// writer gets in between, and it releases what was written.
unsafe impl<P: Platform> lock_api::RawRwLockDowngrade for RwSem<P>
where
    Self: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    unsafe fn downgrade(&self, guard: GuardSend) -> GuardSend {
        // SAFETY: the guard stands for a write acquisition.
        unsafe { RwSem::downgrade(self) };
        guard
    }
}

// SAFETY: as for `RawRwLock`.
#[cfg(feature = "std")]
unsafe impl<P: Platform> lock_api::RawRwLockTimed for RwSem<P>
where
    Self: RawLock<SharedGuard = GuardSend, ExclusiveGuard = GuardSend>,
{
    type Duration = core::time::Duration;
    type Instant = std::time::Instant;

    fn try_lock_shared_for(&self, timeout: core::time::Duration) -> Option<GuardSend> {
        read_for(self, timeout).is_ok().then(GuardSend::new)
    }

    fn try_lock_shared_until(&self, deadline: std::time::Instant) -> Option<GuardSend> {
        self.try_lock_shared_for(time_until(deadline))
    }

    fn try_lock_exclusive_for(&self, timeout: core::time::Duration) -> Option<GuardSend> {
        write_for(self, timeout).is_ok().then(GuardSend::new)
    }

    fn try_lock_exclusive_until(&self, deadline: std::time::Instant) -> Option<GuardSend> {
        self.try_lock_exclusive_for(time_until(deadline))
    }
}
