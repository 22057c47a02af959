//! Tokens that end waits from outside.

use fairlock::CancelToken;
use libc::c_int;

use crate::errno::status;
use crate::home::{self, Home};

/// Ends waits from outside: every wait that was given this token, now or later, returns
/// ECANCELED once fairlock_cancel was called. Any number of threads, waits and locks may
/// share one.
#[repr(C)]
pub struct fairlock_cancel_t {
    mark: u32,
    preset: u32,
    memory: [u64; 15],
}

// SAFETY: as the trait asks.
unsafe impl Home for fairlock_cancel_t {
    type Value = CancelToken;

    // Zero bytes are a token that is not cancelled, as the type's documentation says.
    const ZERO_IS_VALUE: bool = true;

    fn preset(preset: u32) -> Option<CancelToken> {
        (preset == 0).then(CancelToken::new_const)
    }
}

/// Makes `*token` a token that is not cancelled. Not needed for one that was initialised
/// statically, or is zero; and the only way to use one again. It owns nothing outside of
/// itself, so there is nothing to destroy.
///
/// * 0: `*token` is a token, whatever it was before. No wait may be under way with it.
/// * EINVAL: `token` is null or misaligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cancel_init(token: *mut fairlock_cancel_t) -> c_int {
    // SAFETY: the caller provides a token that nobody uses.
    status(unsafe { home::init(token, CancelToken::new_const()) })
}

/// Ends every wait with this token, now and later. May be called from a signal handler,
/// whatever its thread was doing, also if that is the first use of the token.
///
/// * 0: the token is cancelled.
/// * EINVAL: not a token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cancel(token: *mut fairlock_cancel_t) -> c_int {
    // SAFETY: the caller provides a token.
    status(unsafe { home::get(token) }.map(CancelToken::cancel))
}

/// Whether the token was cancelled; false if it is not a token. May be called from a signal
/// handler, as fairlock_cancel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_is_cancelled(token: *const fairlock_cancel_t) -> bool {
    // SAFETY: the caller provides a token.
    unsafe { home::get(token) }.is_ok_and(CancelToken::is_cancelled)
}
