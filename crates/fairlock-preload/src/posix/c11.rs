//! C11's mutexes and condition variables, which are POSIX's by other names. `mtx_init` and
//! `cnd_init` stay glibc's: they make the same of the bytes as POSIX's static initialisers, or as
//! that of a recursive mutex.

use core::ffi::c_int;

use libc::{EBUSY, ENOMEM, ETIMEDOUT, pthread_cond_t, pthread_mutex_t, timespec};

use super::cond::symbols::{
    pthread_cond_broadcast, pthread_cond_destroy, pthread_cond_signal, pthread_cond_timedwait,
    pthread_cond_wait,
};
use super::mutex::symbols::{
    pthread_mutex_destroy, pthread_mutex_lock, pthread_mutex_timedlock, pthread_mutex_trylock,
    pthread_mutex_unlock,
};

/// The results named `thrd_*`.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

fn result(errno: c_int) -> c_int {
    match errno {
        0 => SUCCESS,
        EBUSY => BUSY,
        ENOMEM => NO_MEMORY,
        ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// `mtx_t` and `cnd_t`.
type Mutex = *mut pthread_mutex_t;
type Cond = *mut pthread_cond_t;

macro_rules! c11 {
    ($($abi:literal $name:ident($($argument:ident: $type:ty),*) = $posix:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern $abi fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the program's promise: what it gives to glibc's functions, it gives to
                // these.
                result(unsafe { $posix($($argument),*) })
            }
        )*
    };
}

c11! {
    "C-unwind" mtx_lock(mutex: Mutex) = pthread_mutex_lock;
    "C-unwind" mtx_trylock(mutex: Mutex) = pthread_mutex_trylock;
    "C-unwind" mtx_timedlock(mutex: Mutex, until: *const timespec) = pthread_mutex_timedlock;
    "C-unwind" mtx_unlock(mutex: Mutex) = pthread_mutex_unlock;
    "C-unwind" cnd_wait(cond: Cond, mutex: Mutex) = pthread_cond_wait;
    "C-unwind" cnd_timedwait(cond: Cond, mutex: Mutex, until: *const timespec)
        = pthread_cond_timedwait;
    "C" cnd_signal(cond: Cond) = pthread_cond_signal;
    "C" cnd_broadcast(cond: Cond) = pthread_cond_broadcast;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_destroy(mutex: Mutex) {
    // SAFETY: see above.
    unsafe { pthread_mutex_destroy(mutex) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_destroy(cond: Cond) {
    // SAFETY: see above.
    unsafe { pthread_cond_destroy(cond) };
}
