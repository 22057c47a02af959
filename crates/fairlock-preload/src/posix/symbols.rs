//! The functions that take the place of glibc's. Those of the attributes
//! stay glibc's own, but for the kind.
//!
//! Each tries the uncontended case first; then, if the lock is glibc's, calls glibc.

use core::ffi::c_int;

use fairlock_profile::layout::{self, side};
use libc::{CLOCK_REALTIME, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use super::until::Until;
use super::{Lock, kind};
use crate::process::config;
use crate::process::real;
use crate::profile::{self, Target};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    // glibc's initialised lock is a free thin one.
    // SAFETY: the program's promise, here and in all of these functions: what it gives to glibc's
    // functions, it gives to these.
    unsafe {
        let result = real::init(lock, attributes);
        if result == 0 {
            Lock::forget_wish(lock);
        }
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlockattr_setkind_np(
    attributes: *mut pthread_rwlockattr_t,
    wanted: c_int,
) -> c_int {
    // SAFETY: see above.
    let result = unsafe { real::setkind(attributes, wanted) };
    if result == 0 && wanted == kind::PREFER_READER && config::serves(config::Kind::Rwlock) {
        // SAFETY: as above. glibc's attributes begin with the kind.
        unsafe { attributes.cast::<c_int>().write(kind::ASKED_FOR_READER) };
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlockattr_getkind_np(
    attributes: *const pthread_rwlockattr_t,
    found: *mut c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let result = real::getkind(attributes, found);
        if result == 0 && *found == kind::ASKED_FOR_READER {
            *found = kind::PREFER_READER;
        }
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    match unsafe { ours(lock) } {
        Some(lock) => {
            lock.destroy();
            0
        }
        // SAFETY: see above.
        None => unsafe { real::destroy(lock) },
    }
}

/// The lock, unless it is left to glibc.
///
/// # Safety
/// See above.
unsafe fn ours<'a>(lock: *mut pthread_rwlock_t) -> Option<&'a Lock> {
    // SAFETY: see above.
    unsafe { Lock::at(lock) }.filter(|lock| lock.is_ours())
}

/// Functions that are short where nobody is in the way: `$at_once` first, and all else out of line.
macro_rules! uncontended_first {
    ($($name:ident = $at_once:ident, else $in_general:path;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(lock: *mut pthread_rwlock_t) -> c_int {
                /// # Safety
                /// See above.
                #[cold]
                #[inline(never)]
                unsafe extern "C-unwind" fn in_general(lock: *mut pthread_rwlock_t) -> c_int {
                    // SAFETY: see above.
                    unsafe { $in_general(lock) }
                }
                // SAFETY: see above.
                if unsafe { Lock::at(lock) }.is_some_and(Lock::$at_once) {
                    return 0;
                }
                // SAFETY: see above.
                unsafe { in_general(lock) }
            }
        )*
    };
}

uncontended_first! {
    pthread_rwlock_rdlock = read_at_once, else read;
    pthread_rwlock_tryrdlock = read_at_once, else try_read;
    pthread_rwlock_wrlock = write_at_once, else write;
    pthread_rwlock_trywrlock = write_at_once, else try_write;
    pthread_rwlock_unlock = unlock_at_once, else unlock;
}

/// # Safety
/// See above, here and below.
unsafe fn read(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { read_until(lock, Ok(Until::Forever), || real::rdlock(lock)) }
}

unsafe fn write(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { write_until(lock, Ok(Until::Forever), || real::wrlock(lock)) }
}

unsafe fn attempt_to_read(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { ours(lock).map_or_else(|| real::tryrdlock(lock), Lock::try_read) }
}

unsafe fn attempt_to_write(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    unsafe { ours(lock).map_or_else(|| real::trywrlock(lock), Lock::try_write) }
}

unsafe fn try_read(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    profile::attempt(target(lock, side::READ), || unsafe { attempt_to_read(lock) })
}

unsafe fn try_write(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: see above.
    profile::attempt(target(lock, side::WRITE), || unsafe { attempt_to_write(lock) })
}

unsafe fn unlock(lock: *mut pthread_rwlock_t) -> c_int {
    profile::releasing(lock.addr(), || {
        // SAFETY: see above.
        match unsafe { ours(lock) } {
            Some(lock) => {
                lock.unlock();
                0
            }
            // SAFETY: see above.
            None => unsafe { real::unlock(lock) },
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlock_timedrdlock(
    lock: *mut pthread_rwlock_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let or_glibc_s = || real::timedrdlock(lock, until);
        read_until(lock, Until::new(CLOCK_REALTIME, until), or_glibc_s)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlock_clockrdlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let or_glibc_s = || real::clockrdlock(lock, clock, until);
        read_until(lock, Until::new(clock, until), or_glibc_s)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlock_timedwrlock(
    lock: *mut pthread_rwlock_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let or_glibc_s = || real::timedwrlock(lock, until);
        write_until(lock, Until::new(CLOCK_REALTIME, until), or_glibc_s)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_rwlock_clockwrlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let or_glibc_s = || real::clockwrlock(lock, clock, until);
        write_until(lock, Until::new(clock, until), or_glibc_s)
    }
}

fn target(lock: *mut pthread_rwlock_t, side: u32) -> Target {
    Target { address: lock.addr(), side, kind: |_| layout::kind::RWLOCK }
}

/// As in glibc: an invalid time is refused before anything else.
unsafe fn read_until(
    lock: *mut pthread_rwlock_t,
    until: Result<Until, c_int>,
    or_glibc_s: impl FnOnce() -> c_int,
) -> c_int {
    let until = match until {
        Ok(until) => until,
        Err(errno) => return errno,
    };
    // SAFETY: see above.
    let attempt = || unsafe { attempt_to_read(lock) };
    profile::acquire(target(lock, side::READ), attempt, || {
        // SAFETY: see above.
        unsafe { ours(lock) }.map_or_else(or_glibc_s, |ours| ours.read(&until))
    })
}

unsafe fn write_until(
    lock: *mut pthread_rwlock_t,
    until: Result<Until, c_int>,
    or_glibc_s: impl FnOnce() -> c_int,
) -> c_int {
    let until = match until {
        Ok(until) => until,
        Err(errno) => return errno,
    };
    // SAFETY: see above.
    let attempt = || unsafe { attempt_to_write(lock) };
    profile::acquire(target(lock, side::WRITE), attempt, || {
        // SAFETY: see above.
        unsafe { ours(lock) }.map_or_else(or_glibc_s, |ours| ours.write(&until))
    })
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
