//! A `pthread_rwlock_t` for the profile.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock_profile::layout::{kind, side};
use libc::pthread_rwlock_t;

use super::Lock;
use super::enter::Inflatable;
use super::symbols::{try_read as attempt_to_read, try_write as attempt_to_write};
use crate::process::registry;
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

pub(super) unsafe fn about_to_unlock(lock: *mut pthread_rwlock_t) {
    if profile::is_on() {
        // SAFETY: the caller's promise.
        profile::release(lock.addr(), unsafe { is_wanted(lock) });
    }
}

/// Whether somebody may wait for it. Of glibc's locks that is a guess, and nothing but a figure
/// depends on it.
unsafe fn is_wanted(lock: *mut pthread_rwlock_t) -> bool {
    // SAFETY: the caller's promise.
    let ours = unsafe { Lock::at(lock) };
    if ours.is_ours() {
        let slot = ours.head.slot(ours.address());
        return slot.is_some_and(|slot| registry::here(slot).sem().has_waiters());
    }
    /// glibc's readers and writers sleep on these words while this bit is set.
    const SLEEPS: u32 = 2;
    let word = |at| {
        // SAFETY: words of the lock: `__wrphase_futex` and `__writers_futex`.
        unsafe { &*lock.cast::<AtomicU32>().add(at) }.load(Ordering::Relaxed)
    };
    (word(2) | word(3)) & SLEEPS != 0
}
