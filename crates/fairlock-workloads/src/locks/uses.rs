//! What few locks have beside reading and writing: upgradable reads, and a mutex that its
//! holder may lock again.

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

/// The locks of libraries with parking_lot's interface.
macro_rules! like_parking_lot {
    ($library:ident) => {
        impl BenchUpgradable for $library::RwLock<()> {
            fn create() -> Self {
                Self::new(())
            }

            #[inline(always)]
            fn read(&self) {
                drop(self.upgradable_read());
            }

            #[inline(always)]
            fn upgrade(&self) {
                use $library::{RwLockUpgradableReadGuard, RwLockWriteGuard};
                let writer = RwLockUpgradableReadGuard::upgrade(self.upgradable_read());
                drop(RwLockWriteGuard::downgrade_to_upgradable(writer));
            }
        }

        impl BenchReentrant for $library::ReentrantMutex<()> {
            fn create() -> Self {
                Self::new(())
            }

            #[inline(always)]
            fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
                let _guard = self.lock();
                section()
            }
        }
    };
}

like_parking_lot!(fairlock);
like_parking_lot!(parking_lot);
like_parking_lot!(parking_lot_012);
