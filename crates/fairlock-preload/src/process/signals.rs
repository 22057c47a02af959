//! Signals that wait while the library is busy.
//!
//! A handler may take one of the program's locks. If it interrupts a thread that holds one of the
//! library's own mutexes, it may have to wait for another thread, which has the program's lock and
//! waits for the mutex. Then nothing moves. So a thread has such a mutex with signals blocked.

use core::ffi::{c_int, c_long};
use core::ptr;

/// While this lives, the thread handles no signal that another one sends, or the kernel.
pub(crate) struct Blocked {
    /// What was blocked before; `None` if a sandbox has refused the call.
    before: Option<u64>,
}

/// What the thread itself causes is not blocked: the kernel would end the process.
const CAUSED: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl Blocked {
    pub(crate) fn begin() -> Self {
        let all = CAUSED.iter().fold(u64::MAX, |set, signal| set & !(1 << (signal - 1)));
        let mut before = 0;
        let done = mask(libc::SIG_BLOCK, &all, &mut before) == 0;
        Self { before: done.then_some(before) }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            mask(libc::SIG_SETMASK, &before, ptr::null_mut());
        }
    }
}

/// Not libc's function: that leaves out the signals by which glibc cancels threads, and those are
/// handled, too.
fn mask(how: c_int, set: &u64, before: *mut u64) -> c_long {
    // SAFETY: the kernel's sets are 64 bits; the second one is written, if there is one.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, ptr::from_ref(set), before, size_of::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> u64 {
        let mut now = 0;
        assert_eq!(mask(libc::SIG_BLOCK, &0, &mut now), 0);
        now
    }

    #[test]
    fn signals_are_as_they_were_afterwards() {
        let usual = 1 << (libc::SIGUSR1 - 1);
        assert_eq!(mask(libc::SIG_SETMASK, &usual, ptr::null_mut()), 0);
        {
            let _outer = Blocked::begin();
            drop(Blocked::begin());
            assert!(blocked() & 1 << (libc::SIGTERM - 1) != 0);
            assert!(blocked() & 1 << (libc::SIGSEGV - 1) == 0);
        }
        assert_eq!(blocked(), usual);
    }
}
