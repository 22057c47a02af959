//! The C library's `errno`: calls of libfairlock leave it as it was.

/// Runs `call`, which may make system calls by the C library. What is done by the kernel's own interface, as
/// sleeping is, sets no `errno`.
#[inline]
pub(crate) fn kept<R>(call: impl FnOnce() -> R) -> R {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        unsafe extern "C" {
            fn __errno_location() -> *mut core::ffi::c_int;
        }
        // SAFETY: takes nothing; the number is the calling thread's.
        let errno = unsafe { __errno_location() };
        // SAFETY: as above; only this thread uses it.
        let before = unsafe { errno.read() };
        let result = call();
        // SAFETY: as above.
        unsafe { errno.write(before) };
        result
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    call()
}
