//! `std::sync::RwLock` and `Mutex`.

use std::sync::{Mutex, PoisonError, RwLock};

use crate::locks::entry::LockEntry;
use crate::locks::{BenchLock, condvar};

impl BenchLock for RwLock<()> {
    fn create() -> Self {
        RwLock::new(())
    }

    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.read().unwrap_or_else(PoisonError::into_inner);
        section()
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.write().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}

impl BenchLock for Mutex<()> {
    fn create() -> Self {
        Mutex::new(())
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::rw::<RwLock<()>>("std")
            .with_mutex::<Mutex<()>>()
            .around_everything::<RwLock<()>>()
            .with_condvar::<condvar::Std>(),
    ]
}
