//! What the child of a fork has of the locks.
//!
//! The program's locks are as they were: held by whoever held them, be it a thread that
//! does not exist in the child. The library's own mutexes are held across the fork, so
//! its lists are whole; those that waited for a lock do not wait in the child.

use super::{registry, report};
use crate::thread::{self, RECORDS};

/// Registered early, so that the program's own handlers, which may use locks, run before
/// these ahead of the fork, and after them behind it.
pub(super) fn start() {
    // SAFETY: the functions are there as long as the library is. If it fails there is no
    // memory, and the program will not fork.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    registry::before_fork();
    core::mem::forget(RECORDS.mutex().lock());
}

extern "C" fn in_parent() {
    RECORDS.mutex().unlock();
    registry::after_fork_in_parent();
}

extern "C" fn in_child() {
    RECORDS.mutex().reset();
    registry::after_fork_in_child();
    report::after_fork_in_child();
    thread::enter_child();
}
