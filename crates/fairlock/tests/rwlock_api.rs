//! The public face of `RwLock`.
#![cfg(all(feature = "std", not(fairlock_loom)))]

#[path = "common/rwlock_api.rs"]
mod api;

use std::time::Duration;

use fairlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, Percent, Policy, RawRwLock, RwLock,
    RwLockReadGuard, RwLockWriteGuard,
};

/// The first is that of a lock that was made without one.
const POLICIES: [Policy; 3] = [
    Policy::DEFAULT,
    Policy { aim: Duration::ZERO, budget: Percent::new(100).unwrap(), ..Policy::DEFAULT },
    Policy::DEFAULT.with_priorities(),
];
