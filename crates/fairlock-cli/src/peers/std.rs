//! `std::sync::RwLock`.

use std::sync::{PoisonError, RwLock};

use crate::locks::{BenchLock, LockEntry, rw_entry};

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

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![rw_entry::<RwLock<()>>("std", "std::sync::RwLock, of the Rust standard library")]
}
