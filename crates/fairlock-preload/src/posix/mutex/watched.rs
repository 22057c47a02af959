//! A `pthread_mutex_t` for the profile.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock_profile::layout::{kind, side};
use libc::{ETIMEDOUT, pthread_mutex_t};

use super::{Inflatable, attempt, ours};
use crate::process::registry;
use crate::profile::{self, Target};

/// Words of glibc's mutex.
const LOCK: usize = 0;
const COUNT: usize = 1;
const KIND: usize = 4;

/// Someone sleeps on the word, in most kinds,
const WANTED: u32 = 2;
/// and in those whose word is the holder's number.
const ROBUST_WANTED: u32 = 1 << 31;

/// # Safety
/// A mutex that is initialised, here and below.
#[inline(always)]
unsafe fn word(mutex: usize, at: usize) -> u32 {
    // SAFETY: a word of the mutex.
    unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(mutex).add(at) }
        .load(Ordering::Relaxed)
}

fn target(mutex: *mut pthread_mutex_t) -> Target {
    Target { address: mutex.expose_provenance(), side: side::WRITE, kind: kind_at }
}

fn kind_at(mutex: usize) -> u32 {
    // SAFETY: called while the mutex is being taken.
    match unsafe { word(mutex, KIND) } & 3 {
        1 => kind::RECURSIVE,
        2 => kind::ERRORCHECK,
        3 => kind::ADAPTIVE,
        _ => kind::MUTEX,
    }
}

#[inline(always)]
pub(crate) unsafe fn lock(mutex: *mut pthread_mutex_t, wait: impl FnOnce() -> c_int) -> c_int {
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: the caller's promise.
    profile::acquire(target(mutex), || unsafe { attempt(mutex) }, wait)
}

#[inline(always)]
pub(crate) unsafe fn try_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { attempt(mutex) };
    if profile::is_on() { profile::counted(target(mutex), result) } else { result }
}

#[inline(always)]
pub(crate) unsafe fn about_to_unlock(mutex: *mut pthread_mutex_t) {
    if profile::is_on() {
        let address = mutex.expose_provenance();
        // SAFETY: the caller's promise.
        let (lock, kind) = unsafe { (word(address, LOCK), word(address, KIND)) };
        // SAFETY: as above. Not the last of a recursive one's holds.
        if kind & 3 == 1 && unsafe { word(address, COUNT) } > 1 {
            return;
        }
        // SAFETY: as above.
        let wanted = match unsafe { ours(mutex) } {
            None => lock == WANTED || lock & ROBUST_WANTED != 0,
            Some(ours) => {
                let slot = ours.head().slot(address);
                slot.is_some_and(|slot| registry::here(slot).sem().has_waiters())
            }
        };
        profile::release(address, wanted);
    }
}

/// Waits for something else, without the mutex meanwhile.
#[inline(always)]
pub(crate) unsafe fn without(mutex: *mut pthread_mutex_t, wait: impl FnOnce() -> c_int) -> c_int {
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: the caller's promise.
    unsafe { about_to_unlock(mutex) };
    let result = wait();
    if result == ETIMEDOUT {
        profile::counted(target(mutex), 0);
        return result;
    }
    profile::counted(target(mutex), result)
}
