//! Threads that are cancelled in a wait that is a cancellation point.
//!
//! glibc ends such a wait by unwinding from wherever the thread is, which must not be in the middle
//! of a lock's queue. So during the wait cancellation is off. `pthread_cancel`, which is this
//! library's, wakes the thread: it gives the wait up, takes the mutex back, and only then lets
//! glibc unwind it.
//!
//! Neither misses the other: the canceller marks the thread, then looks for its record in order to
//! wake it; the waiter has its record, then looks for the mark before each sleep. All of this is
//! SeqCst, so at least one sees the other. A waiter that finds the mark before glibc knows of the
//! cancellation returns for no reason, as waits may; and so again, until glibc knows.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering;

use libc::pthread_t;

use super::{State, record, state};

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;

/// Calls `cancel`, which has glibc cancel the thread, and makes the thread notice.
///
/// # Safety
/// `thread` is a thread, and stays one at least until it is cancelled.
pub(crate) unsafe fn cancel(thread: pthread_t, cancel: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { state_of(thread) };
    state.cancelled.store(true, Ordering::SeqCst);
    let record = state.record.load(Ordering::SeqCst);
    let result = cancel();
    // The thread may be gone now, but its record is not.
    // SAFETY: null, or from the pool.
    if let Some(record) = unsafe { record.as_ref() } {
        record.thread.unpark();
    }
    result
}

/// Another thread's variables. They are as far from its thread pointer, by which glibc names it, as
/// the caller's are from the caller's.
///
/// # Safety
/// `thread` is a thread, and stays one.
unsafe fn state_of<'a>(thread: pthread_t) -> &'a State {
    // SAFETY: no arguments.
    let here = unsafe { libc::pthread_self() } as usize;
    let offset = ptr::from_ref(state()).addr().wrapping_sub(here);
    // SAFETY: the static TLS block of a thread is there while the thread is. Only what others may
    // use is used.
    unsafe { &*ptr::with_exposed_provenance((thread as usize).wrapping_add(offset)) }
}

/// Cancellation is off, for the time of a wait.
pub(crate) struct Deferred {
    state: &'static State,
    before: c_int,
}

impl Deferred {
    /// Before that, acts on a cancellation that was asked for earlier, by unwinding, if
    /// cancellation is on.
    pub(crate) fn begin() -> Self {
        record();
        let mut before = DISABLE;
        // SAFETY: `before` is written. Nothing is in the caller's frames that must not be left.
        unsafe {
            pthread_testcancel();
            pthread_setcancelstate(DISABLE, &mut before);
        }
        Self { state: state(), before }
    }

    /// Whether the wait is to end because of a cancellation.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.before == ENABLE && self.state.cancelled.load(Ordering::SeqCst)
    }

    /// The thread has its mutex again. If it `gave_up` because of a cancellation it is cancelled
    /// now, by unwinding.
    pub(crate) fn end(self, gave_up: bool) {
        // SAFETY: as above.
        unsafe {
            pthread_setcancelstate(self.before, ptr::null_mut());
            if gave_up {
                pthread_testcancel();
            }
        }
    }
}
