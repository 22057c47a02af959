//! The functions that take the place of glibc's. A thread that is cancelled while it waits leaves
//! them by unwinding.

use core::ffi::c_int;

use libc::{clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};

use crate::process::real;

type Cond = *mut pthread_cond_t;
type Mutex = *mut pthread_mutex_t;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_init(
    cond: Cond,
    attributes: *const pthread_condattr_t,
) -> c_int {
    // SAFETY: the program's promise, here and in all of these functions: what it gives
    // to glibc's, it gives to these.
    unsafe { real::cond_init(cond, attributes) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_destroy(cond: Cond) -> c_int {
    // SAFETY: see above.
    unsafe { real::cond_destroy(cond) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_wait(cond: Cond, mutex: Mutex) -> c_int {
    // SAFETY: see above.
    unsafe { real::cond_wait(cond, mutex) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: Cond,
    mutex: Mutex,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe { real::cond_timedwait(cond, mutex, until) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: Cond,
    mutex: Mutex,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe { real::cond_clockwait(cond, mutex, clock, until) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_signal(cond: Cond) -> c_int {
    // SAFETY: see above.
    unsafe { real::cond_signal(cond) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_broadcast(cond: Cond) -> c_int {
    // SAFETY: see above.
    unsafe { real::cond_broadcast(cond) }
}
