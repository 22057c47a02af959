//! A `pthread_mutex_t` for the profile.

use core::ffi::c_int;
use core::mem::offset_of;

use fairlock_profile::layout::{kind, side};
use libc::{ETIMEDOUT, pthread_mutex_t};

use super::{Mutex, attempt, take_at_once};
use crate::process::real;
use crate::process::word::{MutexKind, MutexType};
use crate::profile::{self, Coming, Target};
use crate::thread::{self, Mutexes, State};

/// A word that nobody else changes meanwhile, and that glibc's mutex has, too.
///
/// # Safety
/// A mutex that is initialised, here and below.
#[inline(always)]
unsafe fn word(mutex: usize, offset: usize) -> u32 {
    // SAFETY: a word of the mutex; the mutex may be at any address.
    unsafe { core::ptr::with_exposed_provenance::<u32>(mutex).byte_add(offset).read_unaligned() }
}

unsafe fn kind_of(mutex: usize) -> MutexKind {
    // SAFETY: the caller's promise.
    MutexKind(unsafe { word(mutex, offset_of!(Mutex, words.kind)) } as c_int)
}

fn target(mutex: *mut pthread_mutex_t) -> Target {
    Target { address: mutex.expose_provenance(), side: side::WRITE, kind: kind_at }
}

fn kind_at(mutex: usize) -> u32 {
    // SAFETY: called while the mutex is being taken.
    match unsafe { kind_of(mutex) }.of_type() {
        MutexType::Normal => kind::MUTEX,
        MutexType::Recursive => kind::RECURSIVE,
        MutexType::ErrorChecking => kind::ERRORCHECK,
        MutexType::Adaptive => kind::ADAPTIVE,
    }
}

#[inline(always)]
pub(crate) unsafe fn lock(mutex: *mut pthread_mutex_t, wait: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    profile::acquire(target(mutex), || unsafe { attempt(mutex, take_at_once) }, wait)
}

#[inline(always)]
pub(crate) unsafe fn try_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's promise.
    profile::attempt(target(mutex), || unsafe { attempt(mutex, super::try_lock) })
}

/// Takes the mutex at once, and counts that. For a thread whose mutexes are counted.
#[inline(never)]
pub(super) unsafe fn lock_at_once(mutex: *mut pthread_mutex_t, me: &State) -> bool {
    let coming = Coming::to(mutex.expose_provenance());
    // SAFETY: the caller's promise.
    let taken = unsafe {
        let Some(ours) = Mutex::at(mutex) else { return false };
        match me.mutexes() {
            Mutexes::AsGlibcCounted if ours.kind() == MutexKind::NORMAL => {
                ours.words.lock_as_glibc(me.tid())
            }
            _ if !ours.kind().may_be_ours() => false,
            Mutexes::ThinCounted => ours.lock_at_once(me),
            _ => real::mutex_trylock(mutex) == 0,
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
        let ours = Mutex::at(mutex);
        match me.mutexes() {
            Mutexes::ThinCounted if ours.is_some_and(|ours| ours.unlock_at_once(me)) => 0,
            Mutexes::ThinCounted => in_general(mutex),
            Mutexes::AsGlibcCounted
                if ours.is_some_and(|ours| ours.words.unlock_as_glibc(me.tid())) =>
            {
                0
            }
            _ => real::mutex_unlock(mutex),
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
            me.mutexes() != Mutexes::AsGlibcCounted
                || ours.is_none_or(|ours| ours.words.is_wanted_as_glibc())
        },
        // SAFETY: as above.
        || unsafe {
            kind_of(address).is_recursive() && word(address, offset_of!(Mutex, words.count)) > 1
        },
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
