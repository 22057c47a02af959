//! `pthread_spin_lock` and its like, for the profile. They stay glibc's: a thread that waits for a
//! spin lock never sleeps, and may be a signal handler's or another process's; and four bytes have
//! no room for more.
//!
//! Where no record is made, what is one step in glibc is that step here: a call that was passed on
//! would take half as long again. [`start`] looks whether glibc still does it in this way.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use fairlock_profile::layout::{kind, side};
use libc::pthread_spinlock_t;

use super::if_aligned;
use crate::process::real;
use crate::profile::{self, Target};

const FREE: c_int = 1;
const HELD: c_int = 0;

/// Whether free locks are taken, and released, as glibc does it.
static AS_GLIBC: AtomicBool = AtomicBool::new(false);

/// Called when the library is loaded.
pub(crate) fn start() {
    let mut lock = FREE + 1;
    let lock = &raw mut lock;
    // SAFETY: a lock that nobody else knows.
    let known = unsafe {
        let made = real::spin_init(lock, libc::PTHREAD_PROCESS_PRIVATE) == 0 && *lock == FREE;
        let taken = real::spin_lock(lock) == 0 && *lock == HELD;
        made && taken && real::spin_unlock(lock) == 0 && *lock == FREE
    };
    // Relaxed, here and below: no other memory is read on the strength of it.
    AS_GLIBC.store(known && !profile::is_on(), Ordering::Relaxed);
}

/// The lock, if it is used here; misaligned ones are not.
///
/// # Safety
/// A lock that is initialised, and stays so until the caller is done with it: here and below.
#[inline(always)]
unsafe fn as_glibc<'a>(lock: *mut pthread_spinlock_t) -> Option<&'a AtomicI32> {
    // SAFETY: the caller's promise.
    AS_GLIBC.load(Ordering::Relaxed).then(|| unsafe { if_aligned(lock.cast()) })?
}

#[inline(always)]
unsafe fn take_as_glibc(lock: *mut pthread_spinlock_t) -> bool {
    // Acquire: what the last holder did is seen.
    let order = (Ordering::Acquire, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { as_glibc(lock) }
        .is_some_and(|lock| lock.compare_exchange(FREE, HELD, order.0, order.1).is_ok())
}

fn target(lock: *mut pthread_spinlock_t) -> Target {
    Target { address: lock.addr(), side: side::WRITE, kind: |_| kind::SPIN }
}

// As glibc's, these may be left by unwinding: a thread may have itself cancelled anywhere.

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    #[cold]
    #[inline(never)]
    unsafe fn in_general(lock: *mut pthread_spinlock_t) -> c_int {
        // SAFETY: see below.
        let (attempt, wait) =
            (|| unsafe { real::spin_trylock(lock) }, || unsafe { real::spin_lock(lock) });
        profile::acquire(target(lock), attempt, wait)
    }
    // SAFETY: the program's promise, here and in all of these functions: what it gives to glibc's
    // functions, it gives to these.
    unsafe { if take_as_glibc(lock) { 0 } else { in_general(lock) } }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int {
    #[cold]
    #[inline(never)]
    unsafe fn in_general(lock: *mut pthread_spinlock_t) -> c_int {
        // SAFETY: see above.
        profile::attempt(target(lock), || unsafe { real::spin_trylock(lock) })
    }
    // SAFETY: see above.
    unsafe { if take_as_glibc(lock) { 0 } else { in_general(lock) } }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int {
    #[cold]
    #[inline(never)]
    unsafe fn in_general(lock: *mut pthread_spinlock_t) -> c_int {
        // SAFETY: see above.
        profile::releasing(lock.addr(), || unsafe { real::spin_unlock(lock) })
    }
    // SAFETY: see above.
    match unsafe { as_glibc(lock) } {
        Some(lock) => {
            // Release: see `take_as_glibc`.
            lock.store(FREE, Ordering::Release);
            0
        }
        // SAFETY: see above.
        None => unsafe { in_general(lock) },
    }
}
