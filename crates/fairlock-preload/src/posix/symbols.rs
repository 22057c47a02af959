//! The functions that take the place of glibc's. `pthread_rwlockattr_*` stay glibc's own.
//!
//! Each tries the uncontended case first; then, if the lock is glibc's, calls glibc.

use core::ffi::c_int;

use libc::{CLOCK_REALTIME, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use super::Lock;
use super::until::Until;
use crate::process::real;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    // glibc's initialised lock is a free thin one.
    // SAFETY: the program's promise, here and in all of these functions: what it gives
    // to glibc's, it gives to these.
    unsafe { real::init(lock, attributes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::destroy(lock) };
    }
    ours.destroy();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if ours.read_at_once() {
        return 0;
    }
    // SAFETY: see above.
    unsafe { rdlock(lock) }
}

/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe extern "C" fn rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::rdlock(lock) };
    }
    ours.read(&Until::Forever)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if ours.read_at_once() {
        return 0;
    }
    // SAFETY: see above.
    unsafe { tryrdlock(lock) }
}

/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe extern "C" fn tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::tryrdlock(lock) };
    }
    ours.try_read()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedrdlock(
    lock: *mut pthread_rwlock_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::timedrdlock(lock, until) };
    }
    // SAFETY: see above.
    read_until(ours, unsafe { Until::new(CLOCK_REALTIME, until) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_clockrdlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::clockrdlock(lock, clock, until) };
    }
    // SAFETY: see above.
    read_until(ours, unsafe { Until::new(clock, until) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if ours.write_at_once() {
        return 0;
    }
    // SAFETY: see above.
    unsafe { wrlock(lock) }
}

/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe extern "C" fn wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::wrlock(lock) };
    }
    ours.write(&Until::Forever)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if ours.write_at_once() {
        return 0;
    }
    // SAFETY: see above.
    unsafe { trywrlock(lock) }
}

/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe extern "C" fn trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::trywrlock(lock) };
    }
    ours.try_write()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedwrlock(
    lock: *mut pthread_rwlock_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::timedwrlock(lock, until) };
    }
    // SAFETY: see above.
    write_until(ours, unsafe { Until::new(CLOCK_REALTIME, until) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_clockwrlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::clockwrlock(lock, clock, until) };
    }
    // SAFETY: see above.
    write_until(ours, unsafe { Until::new(clock, until) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if ours.unlock_at_once() {
        return 0;
    }
    // SAFETY: see above.
    unsafe { unlock(lock) }
}

/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe extern "C" fn unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    let ours = unsafe { Lock::at(lock) };
    if !ours.is_ours() {
        // SAFETY: see above.
        return unsafe { real::unlock(lock) };
    }
    ours.unlock();
    0
}

/// As glibc does: a time that is none is refused before anything else.
fn read_until(lock: &Lock, until: Result<Until, c_int>) -> c_int {
    until.map_or_else(|errno| errno, |until| lock.read(&until))
}

fn write_until(lock: &Lock, until: Result<Until, c_int>) -> c_int {
    until.map_or_else(|errno| errno, |until| lock.write(&until))
}

/// The names by which programs that were linked against an old glibc call the same.
macro_rules! old_names {
    ($($old:ident = $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $old($($argument: $type),*) -> c_int {
                // SAFETY: the same function.
                unsafe { $name($($argument),*) }
            }
        )*
    };
}

old_names! {
    __pthread_rwlock_init = pthread_rwlock_init(
        lock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t
    );
    __pthread_rwlock_destroy = pthread_rwlock_destroy(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_rdlock = pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_wrlock = pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_trywrlock = pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_unlock = pthread_rwlock_unlock(lock: *mut pthread_rwlock_t);
}
