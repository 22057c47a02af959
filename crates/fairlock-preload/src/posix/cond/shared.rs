//! A condition variable that is glibc's, as it is shared or misaligned, with a mutex that is not.
//!
//! glibc would unlock the mutex as one of its own, so such a wait is not in glibc's queue. It ends with
//! the next notification, by this process, of any condition variable that shares its place in `PLACES`.
//! After a while it ends for no reason, as POSIX allows: the notification of another process, which
//! has no part in the mutex, is found in that way, and so is a cancellation. No lock is taken: a
//! thread that a signal stops anywhere is in nobody's way.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::System;
use libc::{pthread_cond_t, pthread_mutex_t};

use super::away_from;
use crate::posix::grace::GRACE_NS;
use crate::posix::until::Until;
use crate::process::table::spread_over;
use crate::process::word::Count;
use crate::thread::Preload;
use crate::thread::cancel::Deferred;

struct Place {
    waiting: Count,
    /// Counts the notifications while threads wait, which sleep on it.
    notified: AtomicU32,
}

static PLACES: [Place; 16] =
    [const { Place { waiting: Count::new(), notified: AtomicU32::new(0) } }; 16];

fn place(cond: *mut pthread_cond_t) -> &'static Place {
    &PLACES[spread_over(cond as usize, PLACES.len())]
}

/// # Safety
/// The caller holds the mutex.
pub(super) unsafe fn wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: &Until,
) -> c_int {
    let place = place(cond);
    let cancels = Deferred::begin();
    // Relaxed throughout: who notifies after a change that was made under the mutex has taken it since.
    place.waiting.add();
    let seen = place.notified.load(Ordering::Relaxed);
    let sleep = || {
        let longest = Preload::now() + GRACE_NS;
        let _ = until.wait_for(|deadline| {
            Preload::wait(&place.notified, seen, Some(deadline.min(longest)), false);
            Ok(())
        });
    };
    // SAFETY: the caller's promise.
    let result = unsafe { away_from(cond, mutex, until, sleep) };
    place.waiting.remove();
    cancels.end(true);
    result
}

/// A condition variable of glibc's is notified: wakes those that do not wait in glibc's queue.
#[cold]
pub(super) fn notify(cond: *mut pthread_cond_t) {
    let place = place(cond);
    if place.waiting.any() {
        place.notified.fetch_add(1, Ordering::Relaxed);
        for _ in 0..place.waiting.get() {
            Preload::wake_one(&place.notified);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each notification in the child would make a system call for each of them, for ever.
    #[test]
    fn nobody_waits_in_a_child_who_waits_in_its_parent() {
        let mut cond = libc::PTHREAD_COND_INITIALIZER;
        let place = place(&mut cond);
        place.waiting.add();
        let before = place.notified.load(Ordering::Relaxed);
        // SAFETY: the child makes system calls only.
        unsafe {
            match libc::syscall(libc::SYS_fork) {
                0 => {
                    notify(&mut cond);
                    libc::_exit((place.notified.load(Ordering::Relaxed) != before).into());
                }
                child => {
                    let mut status = -1;
                    assert_eq!(libc::waitpid(child as _, &mut status, 0) as i64, child);
                    assert_eq!(status, 0);
                }
            }
        }
        notify(&mut cond);
        assert_ne!(place.notified.load(Ordering::Relaxed), before, "here somebody waits");
        place.waiting.remove();
    }
}
