//! A `pthread_rwlock_t` for the profile.

use core::ffi::c_int;

use fairlock_profile::layout::{kind, side};
use libc::pthread_rwlock_t;

use super::symbols::{try_read as attempt_to_read, try_write as attempt_to_write};
use crate::profile::{self, Target};

fn target(lock: *mut pthread_rwlock_t, side: u32) -> Target {
    Target { address: lock.addr(), side, kind: |_| kind::RWLOCK }
}

/// # Safety
/// A lock that is initialised, here and below.
pub(super) unsafe fn read(lock: *mut pthread_rwlock_t, wait: impl FnOnce() -> c_int) -> c_int {
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: the caller's promise.
    profile::acquire(target(lock, side::READ), || unsafe { attempt_to_read(lock) }, wait)
}

pub(super) unsafe fn write(lock: *mut pthread_rwlock_t, wait: impl FnOnce() -> c_int) -> c_int {
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: the caller's promise.
    profile::acquire(target(lock, side::WRITE), || unsafe { attempt_to_write(lock) }, wait)
}

pub(super) unsafe fn try_read(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { attempt_to_read(lock) };
    if profile::is_on() { profile::counted(target(lock, side::READ), result) } else { result }
}

pub(super) unsafe fn try_write(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { attempt_to_write(lock) };
    if profile::is_on() { profile::counted(target(lock, side::WRITE), result) } else { result }
}

/// Releases the lock by `unlock`.
#[inline(always)]
pub(super) fn unlock(lock: *mut pthread_rwlock_t, unlock: impl FnOnce() -> c_int) -> c_int {
    profile::releasing(lock.addr(), unlock)
}
