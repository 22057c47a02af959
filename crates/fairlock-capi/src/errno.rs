//! Results as C functions return them: 0, or one of `<errno.h>`.

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
