//! The functions that take the place of glibc's. Those of the attributes, and those of robust
//! and protecting mutexes, stay glibc's.

use core::ffi::c_int;

use libc::{CLOCK_REALTIME, clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

use super::{ours, watched};
use crate::posix::until::{Until, is_known};
use crate::process::real;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    // glibc's initialised mutex is a free thin lock.
    // SAFETY: the program's promise, here and in all of these functions: what it gives to glibc's
    // functions, it gives to these.
    unsafe { real::mutex_init(mutex, attributes) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    match unsafe { ours(mutex) } {
        Some(mutex) => mutex.destroy(),
        // SAFETY: see above.
        None => unsafe { real::mutex_destroy(mutex) },
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    unsafe { super::lock(mutex) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    unsafe { super::attempt_at_once(mutex) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        watched::lock(mutex, || match ours(mutex) {
            Some(mutex) => mutex.lock_until(Some(|| Until::new(CLOCK_REALTIME, until))),
            None => real::mutex_timedlock(mutex, until),
        })
    }
}

/// As in glibc: an unknown clock is refused before anything else, an invalid time only if the
/// caller has to wait.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        match ours(mutex) {
            _ if !is_known(clock) => libc::EINVAL,
            Some(ours) => {
                watched::lock(mutex, || ours.lock_until(Some(|| Until::new(clock, until))))
            }
            None => watched::lock(mutex, || real::mutex_clocklock(mutex, clock, until)),
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    unsafe { super::unlock(mutex) }
}

old_names! {
    __pthread_mutex_init = pthread_mutex_init(
        mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t
    );
    __pthread_mutex_destroy = pthread_mutex_destroy(mutex: *mut pthread_mutex_t);
    __pthread_mutex_lock = pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    __pthread_mutex_trylock = pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    __pthread_mutex_unlock = pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
}
