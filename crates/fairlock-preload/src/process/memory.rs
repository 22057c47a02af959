//! Memory from the system: the program's allocator may use locks itself.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

/// Maps `bytes` of zeros, if the system has them.
pub(crate) fn map(bytes: usize) -> Option<NonNull<c_void>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED { None } else { NonNull::new(memory) }
}

/// Gives memory back.
///
/// # Safety
/// It is from [`map`], and not used any more.
pub(crate) unsafe fn unmap(memory: *mut c_void, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(memory, bytes) };
}
