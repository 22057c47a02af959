//! The locks of libraries whose types are `lock_api`'s: ours, and parking_lot's, whose versions
//! are for two versions of `lock_api`.

use super::BenchLock;
use fairlock::lock_api;
use parking_lot::lock_api as lock_api_05;

/// A reader/writer lock with upgradable reads.
pub trait BenchUpgradable: Send + Sync + 'static {
    /// A new, free lock. It may be moved until its first use.
    fn create() -> Self;
    /// Takes the lock for reading upgradably, and releases it.
    fn read(&self);
    /// As `read`, with the lock held as the writer in between.
    fn upgrade(&self);
}

/// A mutex that its holder may lock again.
pub trait BenchReentrant: Send + Sync + 'static {
    /// A new, free mutex. It may be moved until its first use.
    fn create() -> Self;
    /// Runs `section` while holding the mutex, once more if the thread held it already.
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R;
}

/// A reader/writer lock or mutex; `FAIR` releases with `unlock_fair`.
pub struct Typed<L, const FAIR: bool = false>(pub(super) L);

macro_rules! typed_locks_of {
    ($version:ident) => {
        const _: () = {
            use $version::*;

            impl<R, const FAIR: bool> BenchLock for Typed<RwLock<R, ()>, FAIR>
            where
                R: RawRwLockFair + Send + Sync + 'static,
            {
                fn create() -> Self {
                    Self(RwLock::new(()))
                }

                #[inline(always)]
                fn read<T>(&self, section: impl FnOnce() -> T) -> T {
                    let guard = self.0.read();
                    let result = section();
                    if FAIR {
                        RwLockReadGuard::unlock_fair(guard);
                    }
                    result
                }

                #[inline(always)]
                fn write<T>(&self, section: impl FnOnce() -> T) -> T {
                    let guard = self.0.write();
                    let result = section();
                    if FAIR {
                        RwLockWriteGuard::unlock_fair(guard);
                    }
                    result
                }
            }

            impl<R, const FAIR: bool> BenchLock for Typed<Mutex<R, ()>, FAIR>
            where
                R: RawMutexFair + Send + Sync + 'static,
            {
                fn create() -> Self {
                    Self(Mutex::new(()))
                }

                #[inline(always)]
                fn write<T>(&self, section: impl FnOnce() -> T) -> T {
                    let guard = self.0.lock();
                    let result = section();
                    if FAIR {
                        MutexGuard::unlock_fair(guard);
                    }
                    result
                }
            }

            impl<R> BenchUpgradable for RwLock<R, ()>
            where
                R: RawRwLockUpgradeDowngrade + Send + Sync + 'static,
            {
                fn create() -> Self {
                    Self::new(())
                }

                #[inline(always)]
                fn read(&self) {
                    drop(self.upgradable_read());
                }

                #[inline(always)]
                fn upgrade(&self) {
                    let writer = RwLockUpgradableReadGuard::upgrade(self.upgradable_read());
                    drop(RwLockWriteGuard::downgrade_to_upgradable(writer));
                }
            }

            impl<R, G> BenchReentrant for ReentrantMutex<R, G, ()>
            where
                R: RawMutex + Send + Sync + 'static,
                G: GetThreadId + Send + Sync + 'static,
            {
                fn create() -> Self {
                    Self::new(())
                }

                #[inline(always)]
                fn hold<T>(&self, section: impl FnOnce() -> T) -> T {
                    let _guard = self.lock();
                    section()
                }
            }
        };
    };
}

typed_locks_of!(lock_api);
typed_locks_of!(lock_api_05);
