//! The public face of `published::RwLock`.
#![cfg(all(feature = "std", not(fairlock_loom)))]

#[path = "common/rwlock_api.rs"]
mod api;

use fairlock::published::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, Policy, RawRwLock, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};

/// The first is that of a lock that was made without one.
const POLICIES: [Policy; 4] =
    [Policy::WRITER_PHASE, Policy::UNFAIR, Policy::HANDOFF, Policy::NO_READER_SPIN];
