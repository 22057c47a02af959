//! `pthread_spin_lock` and its like, for the profile. They stay glibc's: a thread that waits for a
//! spin lock never sleeps, and may be a signal handler's or another process's; and four bytes have
//! no room for more.
//!
//! Where no record is made, what is one step in glibc is that step here: a call that was passed on
//! would take half as long again. [`start`] looks whether glibc still does it in this way.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use fairlock_profile::layout::{kind, side};

use super::if_aligned;
use crate::process::real::{self, Spin};
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
        let made =
            real::pthread_spin_init(lock, libc::PTHREAD_PROCESS_PRIVATE) == 0 && *lock == FREE;
        let taken = real::pthread_spin_lock(lock) == 0 && *lock == HELD;
        made && taken && real::pthread_spin_unlock(lock) == 0 && *lock == FREE
    };
    // Relaxed, here and below: no other memory is read on the strength of it.
    AS_GLIBC.store(known && !profile::is_on(), Ordering::Relaxed);
}

/// The lock, if it is used here; misaligned ones are not.
///
/// # Safety
/// A lock that is initialised, and stays so until the caller is done with it: here and below.
#[inline(always)]
unsafe fn as_glibc<'a>(lock: Spin) -> Option<&'a AtomicI32> {
    // SAFETY: the caller's promise.
    AS_GLIBC.load(Ordering::Relaxed).then(|| unsafe { if_aligned(lock.cast()) })?
}

#[inline(always)]
pub(super) unsafe fn take_as_glibc(lock: Spin) -> bool {
    // Acquire: what the last holder did is seen.
    let order = (Ordering::Acquire, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { as_glibc(lock) }
        .is_some_and(|lock| lock.compare_exchange(FREE, HELD, order.0, order.1).is_ok())
}

#[inline(always)]
pub(super) unsafe fn release_as_glibc(lock: Spin) -> bool {
    // SAFETY: the caller's promise.
    let ours = unsafe { as_glibc(lock) };
    // Release: see `take_as_glibc`.
    ours.inspect(|lock| lock.store(FREE, Ordering::Release)).is_some()
}

fn target(lock: Spin) -> Target {
    Target { address: lock.addr(), side: side::WRITE, kind: |_| kind::SPIN }
}

#[cold]
#[inline(never)]
pub(super) unsafe extern "C-unwind" fn lock(lock: Spin) -> c_int {
    // SAFETY: the caller's promise.
    let attempt = || unsafe { real::pthread_spin_trylock(lock) };
    // SAFETY: as above.
    profile::acquire(target(lock), attempt, || unsafe { real::pthread_spin_lock(lock) })
}

#[cold]
#[inline(never)]
pub(super) unsafe extern "C-unwind" fn try_lock(lock: Spin) -> c_int {
    // SAFETY: the caller's promise.
    profile::attempt(target(lock), || unsafe { real::pthread_spin_trylock(lock) })
}

#[cold]
#[inline(never)]
pub(super) unsafe extern "C-unwind" fn unlock(lock: Spin) -> c_int {
    // SAFETY: the caller's promise.
    profile::releasing(lock.addr(), || unsafe { real::pthread_spin_unlock(lock) })
}
