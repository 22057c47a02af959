//! `new`, by the names of the time when it was not `const`.

use crate::{Mutex, RwLock};

/// [`Mutex::new`](lock_api::Mutex::new), under the name that it had before it was `const`.
///
/// ```
/// static ONE: fairlock::Mutex<u32> = fairlock::const_mutex(1);
/// assert_eq!(*ONE.lock(), 1);
/// ```
pub const fn const_mutex<T>(value: T) -> Mutex<T> {
    Mutex::new(value)
}

/// [`RwLock::new`](lock_api::RwLock::new), under the name that it had before it was `const`.
///
/// ```
/// static ONE: fairlock::RwLock<u32> = fairlock::const_rwlock(1);
/// assert_eq!(*ONE.read(), 1);
/// ```
pub const fn const_rwlock<T>(value: T) -> RwLock<T> {
    RwLock::new(value)
}
