//! A condition variable that is glibc's, as it is shared or misaligned, with a mutex that is not.
//!
//! glibc would unlock the mutex as one of its own. So glibc is given another mutex in its place,
//! found by the address of the condition variable. A thread that notifies holds that mutex
//! meanwhile, so no waiter is then between its own mutex and glibc's queue. A thread that notifies
//! from another process cannot hold it, but has no part in the program's mutex either. Such a wait
//! is no cancellation point.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use super::super::mutex;
use super::asleep;
use crate::process::real;
use crate::process::table::spread_over;
use crate::thread::cancel::Deferred;

struct Stand(UnsafeCell<pthread_mutex_t>);

// SAFETY: it is a mutex, for use by any thread.
unsafe impl Sync for Stand {}

static STANDS: [Stand; 16] =
    [const { Stand(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)) }; 16];

fn stand(cond: *mut pthread_cond_t) -> *mut pthread_mutex_t {
    STANDS[spread_over(cond as usize, STANDS.len())].0.get()
}

/// # Safety
/// `cond` is glibc's and `mutex` ours, and the caller holds the mutex; the time is valid, if there
/// is one.
pub(super) unsafe fn wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
    clock: Option<clockid_t>,
) -> c_int {
    let stand = stand(cond);
    let cancels = Deferred::begin();
    // SAFETY: the caller's promise; the stand is only ever glibc's.
    let result = unsafe {
        real::mutex_lock(stand);
        let errno = mutex::unlock_to_wait(mutex);
        let wait = || match clock {
            _ if until.is_null() => real::cond_wait(cond, stand),
            None => real::cond_timedwait(cond, stand, until),
            Some(clock) => real::cond_clockwait(cond, stand, clock, until),
        };
        let result = if errno == 0 { asleep(cond, wait) } else { errno };
        real::mutex_unlock(stand);
        if errno == 0 {
            mutex::lock_again_after_wait(mutex);
        }
        result
    };
    cancels.end(false);
    result
}

/// Calls `notify` while no waiter is on the way to the queue.
///
/// # Safety
/// A condition variable of glibc's.
pub(super) unsafe fn notify(cond: *mut pthread_cond_t, notify: impl FnOnce() -> c_int) -> c_int {
    let stand = stand(cond);
    // SAFETY: as above.
    unsafe {
        real::mutex_lock(stand);
        let result = notify();
        real::mutex_unlock(stand);
        result
    }
}
