//! Results as C functions return them: 0, or one of `<errno.h>`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::num::NonZero;

use fairlock::WaitError;
use fairlock::range::RangeError;
use libc::c_int;

/// Why a call did nothing. `Result<(), Errno>` is the returned number itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(NonZero<c_int>);

macro_rules! errno {
    ($($(#[$doc:meta])* $name:ident = $code:ident,)*) => {
        impl Errno {
            $($(#[$doc])* pub(crate) const $name: Self = Self(NonZero::new(libc::$code).unwrap());)*
        }
    };
}

errno! {
    /// Not a lock, or an invalid argument.
    INVALID = EINVAL,
    /// What is to be released is not held.
    NOT_HELD = EPERM,
    /// In use by others.
    BUSY = EBUSY,
    TIMED_OUT = ETIMEDOUT,
    INTERRUPTED = EINTR,
    CANCELLED = ECANCELED,
    /// No more readers can be counted.
    TOO_MANY_READERS = EAGAIN,
    /// No more permits can be counted.
    TOO_MANY_PERMITS = EOVERFLOW,
    /// Nothing has that name.
    NO_ENTRY = ENOENT,
    /// Not possible with this policy.
    UNSUPPORTED = ENOTSUP,
}

impl From<WaitError> for Errno {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => Self::TIMED_OUT,
            WaitError::Interrupted => Self::INTERRUPTED,
            WaitError::Cancelled => Self::CANCELLED,
            WaitError::TooManyReaders => Self::TOO_MANY_READERS,
        }
    }
}

impl From<RangeError> for Errno {
    fn from(error: RangeError) -> Self {
        match error {
            RangeError::Busy => Self::BUSY,
            RangeError::TimedOut => Self::TIMED_OUT,
            RangeError::Interrupted => Self::INTERRUPTED,
            RangeError::Cancelled => Self::CANCELLED,
            RangeError::TooManyReaders => Self::TOO_MANY_READERS,
            // Empty, inverted, out of bounds.
            _ => Self::INVALID,
        }
    }
}

/// Runs `call`, and leaves the calling thread's `errno` as it was. What waits for a lock or wakes a thread
/// does not set it, so the functions that are called most need not do this.
pub(crate) fn kept<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the number is the calling thread's, for as long as the thread lives.
    let errno = unsafe { &*libc::__errno_location().cast::<Cell<c_int>>() };
    let before = errno.get();
    let result = call();
    errno.set(before);
    result
}

/// The C library's memory. A call that succeeds in a second way sets `errno` to why the first failed.
struct Memory;

// SAFETY: it is the system's.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, here and below.
        kept(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        kept(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        kept(|| unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        kept(|| unsafe { System.dealloc(memory, layout) });
    }
}

#[global_allocator]
static MEMORY: Memory = Memory;

/// The number that the C function returns.
#[inline(always)]
pub(crate) fn status(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Errno(code)) => code.get(),
    }
}

/// 0, or `EBUSY`.
#[inline(always)]
pub(crate) fn busy_unless(taken: bool) -> Result<(), Errno> {
    if taken { Ok(()) } else { Err(Errno::BUSY) }
}

/// 0, or `EPERM`.
#[inline(always)]
pub(crate) fn not_held_unless(held: bool) -> Result<(), Errno> {
    if held { Ok(()) } else { Err(Errno::NOT_HELD) }
}

/// Writes a value to where the C program wants it; to null is a mistake.
///
/// # Safety
/// `room` is null, or there is room.
pub(crate) unsafe fn give<T>(room: *mut T, value: T) -> Result<(), Errno> {
    if room.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise.
    unsafe { room.write(value) };
    Ok(())
}
