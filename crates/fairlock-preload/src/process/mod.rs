//! What there is once in the process. All else is built on this.

pub(crate) mod config;
pub(crate) mod fork;
pub(crate) mod glibc;
pub(crate) mod index;
pub(crate) mod memory;
pub(crate) mod mutex;
pub(crate) mod real;
pub(crate) mod text;
pub(crate) mod tls;
pub(crate) mod unwinder;
pub(crate) mod word;

use core::cell::Cell;
use core::ffi::{CStr, c_int};

/// The calling thread's `errno`.
#[inline]
pub(crate) fn errno() -> &'static Cell<c_int> {
    // SAFETY: the thread's own, and what is returned stays in the thread.
    unsafe { &*libc::__errno_location().cast() }
}

/// Makes a system call that may fail, and leaves `errno` as it was, as glibc's locks do.
pub(crate) fn quietly<R>(call: impl FnOnce() -> R) -> R {
    let before = errno().get();
    let result = call();
    errno().set(before);
    result
}

/// Opens a file; not by a function at which the thread could be cancelled.
pub(crate) fn open(path: &CStr, flags: c_int) -> Option<c_int> {
    // SAFETY: a C string.
    let file =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o644) };
    c_int::try_from(file).ok().filter(|&file| file >= 0)
}

/// Closes what [`open`] has opened, likewise.
pub(crate) fn close(file: c_int) {
    // SAFETY: a number; the caller does not use the file any more.
    unsafe { libc::syscall(libc::SYS_close, file) };
}

/// Says something on the standard error stream.
pub(crate) fn say(text: &str) {
    // Not libc's `write`, which is a cancellation point, as locking is not.
    // SAFETY: bytes to read. If it fails there is nobody to tell.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, text.as_ptr(), text.len()) };
}

/// The time of a clock that is always there, in nanoseconds.
pub(crate) fn clock(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
