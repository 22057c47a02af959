//! The functions that take the place of glibc's. A thread that is cancelled while it waits leaves
//! them by unwinding.

use core::ffi::c_int;

use libc::{
    EINVAL, clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, pthread_t, timespec,
};

use super::{Cond, asleep, shared};
use crate::posix::mutex::{self, watched};
use crate::posix::until::{Until, is_known};
use crate::process::config::{self, Kind};
use crate::process::real;
use crate::thread::cancel;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_init(
    cond: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
) -> c_int {
    // SAFETY: the program's promise, here and in all of these functions: what it gives to glibc's
    // functions, it gives to these.
    unsafe { real::cond_init(cond, attributes) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: see above.
    unsafe {
        match Cond::ours(cond) {
            Some(ours) => ours.destroy(),
            None => return real::cond_destroy(cond),
        }
    }
    0
}

/// Who makes a wait.
enum Served<'a> {
    Here(&'a Cond),
    /// Here, although the condition variable is glibc's.
    InNoQueue,
    ByGlibc,
}

/// # Safety
/// See above.
unsafe fn served<'a>(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> Served<'a> {
    // SAFETY: see above.
    unsafe {
        match Cond::ours(cond) {
            Some(ours) => Served::Here(ours),
            None if mutex::is_ours(mutex) => Served::InNoQueue,
            None => Served::ByGlibc,
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        match served(cond, mutex) {
            Served::Here(ours) => ours.wait(mutex, &Until::Forever),
            Served::InNoQueue => shared::wait(cond, mutex, &Until::Forever),
            Served::ByGlibc => {
                watched::without(mutex, || asleep(cond, || real::cond_wait(cond, mutex)))
            }
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        match served(cond, mutex) {
            Served::Here(ours) => match Until::new(Cond::clock(cond), until) {
                Ok(until) => ours.wait(mutex, &until),
                Err(errno) => errno,
            },
            Served::InNoQueue => match Until::new(Cond::clock(cond), until) {
                Ok(until) => shared::wait(cond, mutex, &until),
                Err(errno) => errno,
            },
            Served::ByGlibc => {
                let wait = || real::cond_timedwait(cond, mutex, until);
                watched::without(mutex, || asleep(cond, wait))
            }
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        match served(cond, mutex) {
            _ if !is_known(clock) => EINVAL,
            Served::Here(ours) => match Until::new(clock, until) {
                Ok(until) => ours.wait(mutex, &until),
                Err(errno) => errno,
            },
            Served::InNoQueue => match Until::new(clock, until) {
                Ok(until) => shared::wait(cond, mutex, &until),
                Err(errno) => errno,
            },
            Served::ByGlibc => {
                let wait = || real::cond_clockwait(cond, mutex, clock, until);
                watched::without(mutex, || asleep(cond, wait))
            }
        }
    }
}

macro_rules! notifications {
    ($($name:ident = $ours:ident, or $real:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(cond: *mut pthread_cond_t) -> c_int {
                // SAFETY: see above.
                unsafe {
                    match Cond::ours(cond) {
                        Some(ours) => {
                            ours.$ours();
                            0
                        }
                        None => {
                            shared::notify(cond);
                            real::$real(cond)
                        }
                    }
                }
            }
        )*
    };
}

notifications! {
    pthread_cond_signal = signal, or cond_signal;
    pthread_cond_broadcast = broadcast, or cond_broadcast;
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: see above.
    unsafe {
        match config::serves(Kind::Mutex) {
            true => cancel::cancel(thread, || real::cancel(thread)),
            false => real::cancel(thread),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_setcanceltype(new: c_int, before: *mut c_int) -> c_int {
    cancel::note_type(new);
    // SAFETY: see above.
    unsafe { real::setcanceltype(new, before) }
}
