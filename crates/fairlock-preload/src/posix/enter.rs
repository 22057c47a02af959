//! What rwlocks and mutexes share.

use core::ffi::c_int;
use core::ptr;

use fairlock::wait::{Wait, WaitError};

use super::if_aligned;
use super::until::Until;
use crate::thread::Preload;
use crate::thread::cancel::{self, as_outside};

/// A lock of the program's.
pub(crate) trait Ours: Sized {
    /// glibc's type.
    type Program;

    /// Whether it is this library's, not glibc's.
    fn is_ours(&self) -> bool;

    /// None if it is misaligned, and so glibc's.
    ///
    /// # Safety
    /// A lock that is initialised, and stays so until the caller is done with it: here and below.
    #[inline(always)]
    unsafe fn at<'a>(lock: *mut Self::Program) -> Option<&'a Self> {
        const { assert!(size_of::<Self>() == size_of::<Self::Program>()) };
        const { assert!(align_of::<Self>() <= align_of::<Self::Program>()) };
        // SAFETY: the caller's promise, and the layout.
        unsafe { if_aligned(lock.cast()) }
    }

    /// What is done by `ours` to a lock of ours, or to one of glibc's by `or_glibc_s`.
    #[inline(always)]
    unsafe fn served(
        lock: *mut Self::Program,
        ours: impl FnOnce(&Self) -> Result<(), c_int>,
        or_glibc_s: impl FnOnce() -> c_int + Copy,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let lock = unsafe { Self::at(lock) }.filter(|lock| lock.is_ours());
        // Not `map_or_else`, which is not always inlined: of a read and its release in a program that is observed that was 28
        // instructions of 390.
        match lock {
            None => as_outside(or_glibc_s),
            Some(lock) => ours(lock).err().unwrap_or(0),
        }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }
}

/// Takes a lock by `take`, waiting until a time.
pub(super) fn wait_by(
    until: &Until,
    take: impl Fn(Wait<'static, Preload>) -> Result<(), WaitError>,
) -> Result<(), c_int> {
    match until {
        Until::Forever => take(cancel::ending(Wait::FOREVER)).map_err(super::until::errno),
        until => until.wait(|deadline| take(wait_until(deadline))),
    }
}

/// The calling thread's wait until a time.
pub(super) fn wait_until(deadline: u64) -> Wait<'static, Preload> {
    cancel::ending(Wait::until_nanos(deadline))
}
