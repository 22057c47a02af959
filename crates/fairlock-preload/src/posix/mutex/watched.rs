//! A `pthread_mutex_t` for the profile.

use core::ffi::c_int;

use fairlock_profile::layout::{kind, side};
use libc::{ETIMEDOUT, pthread_mutex_t};

use super::{Mutex, NORMAL, NOT_OURS, attempt, take_at_once};
use crate::process::real;
use crate::profile::{self, Coming, Target};
use crate::thread::{self, AS_GLIBC, State, THIN};

/// Words of glibc's mutex; ours has the same in two of them.
const COUNT: usize = 1;
const KIND: usize = 4;

/// A word that nobody else changes meanwhile.
///
/// # Safety
/// A mutex that is initialised, here and below.
#[inline(always)]
unsafe fn word(mutex: usize, at: usize) -> u32 {
    // SAFETY: a word of the mutex; the mutex may be at any address.
    unsafe { core::ptr::with_exposed_provenance::<u32>(mutex).add(at).read_unaligned() }
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
    profile::acquire(target(mutex), || unsafe { attempt(mutex, take_at_once) }, wait)
}

#[inline(always)]
pub(crate) unsafe fn try_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { attempt(mutex, super::try_lock) };
    if profile::is_on() { profile::counted(target(mutex), result) } else { result }
}

/// Takes the mutex at once, and counts that. For a thread whose mutexes are counted.
#[inline(never)]
pub(super) unsafe fn lock_at_once(mutex: *mut pthread_mutex_t, me: &State) -> bool {
    let coming = Coming::to(mutex.expose_provenance());
    // SAFETY: the caller's promise.
    let taken = unsafe {
        let Some(ours) = Mutex::at(mutex) else { return false };
        if me.mutexes() & AS_GLIBC != 0 && ours.kind() == NORMAL {
            ours.lock_as_glibc(me)
        } else if ours.kind() & NOT_OURS != 0 {
            false
        } else if me.mutexes() & THIN != 0 {
            ours.lock_at_once(me)
        } else {
            real::mutex_trylock(mutex) == 0
        }
    };
    if taken {
        coming.has_come(target(mutex));
    }
    taken
}

/// Releases the mutex, by `in_general` if it has to be. For a thread whose mutexes are counted.
#[inline(never)]
pub(super) unsafe fn unlock(
    mutex: *mut pthread_mutex_t,
    me: &State,
    in_general: unsafe fn(*mut pthread_mutex_t) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let look = unsafe { about_to_unlock(mutex, me) };
    // SAFETY: as above.
    let result = unsafe {
        if me.mutexes() & THIN == 0 {
            let as_glibc = |ours: &Mutex| ours.unlock_as_glibc(me);
            if me.mutexes() & AS_GLIBC != 0 && Mutex::at(mutex).is_some_and(as_glibc) {
                0
            } else {
                real::mutex_unlock(mutex)
            }
        } else if Mutex::at(mutex).is_some_and(|ours| ours.unlock_at_once(me)) {
            0
        } else {
            in_general(mutex)
        }
    };
    profile::released(look);
    result
}

#[inline(always)]
unsafe fn about_to_unlock(mutex: *mut pthread_mutex_t, me: &State) -> Option<profile::Look> {
    let address = mutex.expose_provenance();
    profile::release(
        address,
        || {
            // SAFETY: the caller's promise.
            let ours = unsafe { Mutex::at(mutex) };
            me.mutexes() & AS_GLIBC == 0 || ours.is_none_or(Mutex::is_wanted_as_glibc)
        },
        // SAFETY: as above.
        || unsafe { word(address, KIND) & 3 == 1 && word(address, COUNT) > 1 },
    )
}

/// Waits for something else, with the mutex released meanwhile.
#[inline(always)]
pub(crate) unsafe fn without(mutex: *mut pthread_mutex_t, wait: impl FnOnce() -> c_int) -> c_int {
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: the caller's promise.
    let look = unsafe { about_to_unlock(mutex, thread::state()) };
    profile::released(look);
    let result = wait();
    if result == ETIMEDOUT {
        let _ = profile::counted(target(mutex), 0);
        return result;
    }
    profile::counted(target(mutex), result)
}
