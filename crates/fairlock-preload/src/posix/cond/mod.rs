//! A `pthread_cond_t`, and what POSIX and glibc say about it.
//!
//! The program's bytes say only how many wait; the waiters are found by the address ([`table`]). So
//! bytes that are copied, moved or overwritten lead nowhere. Shared condition variables are
//! glibc's.

pub(super) mod shared;
#[cfg(not(test))] // a test's own are libc's
pub(super) mod symbols;
mod table;

use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr;

use fairlock::platform::Platform;
use fairlock::wait::WaitError;
use libc::{ETIMEDOUT, pthread_cond_t, pthread_mutex_t};

use super::count::Count;
use super::mutex;
use super::until::Until;
use crate::process::config::{self, Kind};
use crate::thread::cancel::Deferred;
use crate::thread::platform::Preload;
use crate::waiters::Waiter;

/// The program's condition variable.
#[repr(C)]
pub(super) struct Cond {
    /// How many wait. (`__wseq`)
    waiting: Count,
    _rest: [u32; 7],
    /// Which clock, and whether it is shared. (`__wrefs`)
    flags: u32,
    _signals: [u32; 2],
}

const _: () = {
    assert!(size_of::<Cond>() == size_of::<pthread_cond_t>());
    assert!(align_of::<Cond>() <= align_of::<pthread_cond_t>());
    assert!(offset_of!(Cond, flags) == 36);
};

const SHARED: u32 = 1 << 0;
const MONOTONIC: u32 = 1 << 1;

impl Cond {
    /// # Safety
    /// A condition variable that is initialised, and stays so until the caller is done with it.
    unsafe fn at<'a>(cond: *mut pthread_cond_t) -> &'a Self {
        // SAFETY: the caller's promise; the layout is checked above.
        unsafe { &*cond.cast() }
    }

    /// Whether it is this library's, not glibc's.
    fn is_ours(&self) -> bool {
        !self.is_shared() && config::serves(Kind::Mutex)
    }

    fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }

    /// The clock of timed waits.
    fn clock(&self) -> libc::clockid_t {
        if self.flags & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Lets the mutex go, whether it is ours or glibc's, and takes it again once notified, or when
    /// the time is over. A thread that is cancelled takes it again, and then leaves by unwinding.
    ///
    /// # Safety
    /// The caller holds the mutex.
    unsafe fn wait(&self, mutex: *mut pthread_mutex_t, until: &Until) -> c_int {
        let cancels = Deferred::begin();
        // SAFETY: the caller's promise.
        let (result, gave_up) = unsafe { self.wait_here(mutex, until, &cancels) };
        cancels.end(gave_up);
        result
    }

    /// Returns the result, and whether the wait ended because the thread is cancelled.
    ///
    /// # Safety
    /// The caller holds the mutex.
    unsafe fn wait_here(
        &self,
        mutex: *mut pthread_mutex_t,
        until: &Until,
        cancels: &Deferred,
    ) -> (c_int, bool) {
        let waiter = Waiter::new(self.address(), mutex as usize, Preload::priority());
        // SAFETY: this frame is not left before the waiter was notified or has given up.
        unsafe { table::push(&waiter, &self.waiting) };
        // SAFETY: the caller's promise.
        let errno = unsafe { mutex::unlock(mutex) };
        if errno != 0 {
            if !self.gives_up(&waiter) {
                waiter.pass_on();
                self.signal(); // somebody else's, then
            }
            return (errno, false);
        }
        let cancelled = || cancels.is_cancelled();
        let slept = match until {
            Until::Forever => waiter.sleep(None, cancelled),
            _ => until.wait_for(|deadline| waiter.sleep(Some(deadline), cancelled)),
        };
        let ended = slept.err().filter(|_| self.gives_up(&waiter));
        // SAFETY: the caller had it, and let it go above.
        let errno = unsafe { mutex::lock(mutex) };
        waiter.pass_on();
        match ended {
            _ if errno != 0 => (errno, false),
            None => (0, false),
            Some(WaitError::Cancelled) => (0, true),
            Some(_) => (ETIMEDOUT, false),
        }
    }

    /// The wait has ended: false if the waiter was notified all the same, and woken.
    fn gives_up(&self, waiter: &Waiter<Preload>) -> bool {
        if table::give_up(waiter, &self.waiting) {
            return true;
        }
        let woken = waiter.sleep(None, || false);
        debug_assert!(woken.is_ok(), "a wait for ever has ended");
        false
    }

    /// Wakes the waiter that has waited longest. Mostly nobody waits.
    #[inline(always)]
    fn signal(&self) {
        if self.waiting.any() {
            table::notify_one(self.address(), &self.waiting);
        }
    }

    #[inline(always)]
    fn broadcast(&self) {
        if self.waiting.any() {
            table::notify_all(self.address(), &self.waiting);
        }
    }
}
