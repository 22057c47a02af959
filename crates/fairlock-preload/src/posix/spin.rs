//! `pthread_spin_lock` and its like, for the profile. They stay glibc's: a thread that waits for a
//! spin lock never sleeps, and may be a signal handler's or another process's; and four bytes have
//! no room for more.

use core::ffi::c_int;

use fairlock_profile::layout::{kind, side};
use libc::pthread_spinlock_t;

use crate::process::real;
use crate::profile::{self, Target};

fn target(lock: *mut pthread_spinlock_t) -> Target {
    Target { address: lock.addr(), side: side::WRITE, kind: |_| kind::SPIN }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the program's promise, here and in all of these functions: what it gives to glibc's
    // functions, it gives to these.
    let wait = || unsafe { real::spin_lock(lock) };
    if !profile::is_on() {
        return wait();
    }
    // SAFETY: see above.
    profile::acquire(target(lock), || unsafe { real::spin_trylock(lock) }, wait)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    let result = unsafe { real::spin_trylock(lock) };
    if profile::is_on() { profile::counted(target(lock), result) } else { result }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    profile::releasing(lock.addr(), || unsafe { real::spin_unlock(lock) })
}
