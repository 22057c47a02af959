//! The functions that take the place of glibc's.

use core::ffi::c_int;

use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

use crate::process::real;

type Mutex = *mut pthread_mutex_t;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_init(
    mutex: Mutex,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    // SAFETY: the program's promise, here and in all of these functions: what it gives
    // to glibc's, it gives to these.
    unsafe { real::mutex_init(mutex, attributes) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_destroy(mutex: Mutex) -> c_int {
    // SAFETY: see above.
    unsafe { real::mutex_destroy(mutex) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_lock(mutex: Mutex) -> c_int {
    // SAFETY: see above.
    unsafe { real::mutex_lock(mutex) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_trylock(mutex: Mutex) -> c_int {
    // SAFETY: see above.
    unsafe { real::mutex_trylock(mutex) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: Mutex,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe { real::mutex_timedlock(mutex, until) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: Mutex,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe { real::mutex_clocklock(mutex, clock, until) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_unlock(mutex: Mutex) -> c_int {
    // SAFETY: see above.
    unsafe { real::mutex_unlock(mutex) }
}
