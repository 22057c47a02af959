//! Whether the process has one thread only.

use core::sync::atomic::{AtomicPtr, Ordering};

/// glibc's answer, from version 2.32 on; before that version, and before the library has started:
/// no.
static ANSWER: AtomicPtr<u8> = AtomicPtr::new((&raw const NO).cast_mut());
static NO: u8 = 0;

/// Whether the process has one thread, as glibc says until it makes a second one.
#[inline(always)]
pub(crate) fn is_alone() -> bool {
    // Relaxed: the address of a byte that was there before.
    let answer = ANSWER.load(Ordering::Relaxed);
    // SAFETY: a byte that is always there. Volatile: glibc may change it in any call.
    unsafe { answer.read_volatile() != 0 }
}

pub(crate) fn start() {
    // SAFETY: a C string.
    let answer = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !answer.is_null() {
        ANSWER.store(answer.cast(), Ordering::Relaxed);
    }
}
