//! A mutex for the library's own lists. Waiting for it takes no thread record. In the child of a
//! fork it is free, whoever held it.
//!
//! While a thread has it, signals wait, unless it was taken quickly. A handler may take one of the
//! program's locks. If it interrupts a thread that holds one of the library's own mutexes, it may
//! have to wait for another thread, which has the program's lock and waits for the mutex. Then
//! nothing moves.

use core::ffi::{c_int, c_long};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::linux::Linux;
use fairlock::platform::{System, WaitOutcome};

use super::fork;
use super::quietly;
use super::word::Holding;

pub(crate) struct Mutex {
    /// A [`Holding`].
    word: AtomicU32,
}

/// Holds a [`Mutex`].
pub(crate) struct Guard<'a> {
    mutex: &'a Mutex,
    /// Ends after the mutex is free. `None` if the mutex was taken quickly.
    blocked: Option<Blocked>,
}

impl Mutex {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(Holding::FREE.0) }
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        let blocked = Blocked::begin();
        let mut guard = self.lock_quickly();
        guard.blocked = Some(blocked);
        guard
    }

    /// For sections of some instructions that are frequent: signals are not blocked, which would
    /// take longer. A handler that comes in the midst of one must not need the mutex.
    pub(crate) fn lock_quickly(&self) -> Guard<'_> {
        let taken = self.take(None);
        debug_assert!(taken, "a wait for ever has ended");
        Guard { mutex: self, blocked: None }
    }

    /// As [`lock_quickly`](Self::lock_quickly). `None` if the mutex is not free for so long: a handler
    /// may have come in the midst, and wait for this thread.
    pub(crate) fn lock_quickly_within(&self, most_ns: u64) -> Option<Guard<'_>> {
        self.take(Some(most_ns)).then_some(Guard { mutex: self, blocked: None })
    }

    fn take(&self, most_ns: Option<u64>) -> bool {
        let mut deadline = None;
        let process = fork::number();
        let wanted = Holding::wanted(process);
        let mut next = Holding::held(process);
        loop {
            let word = Holding(self.word.load(Ordering::Relaxed));
            if word.is_free_in(process) {
                // Acquire: what the last holder did is seen.
                if self.exchange(word, next, Ordering::Acquire) {
                    return true;
                }
            } else if word == wanted || self.exchange(word, wanted, Ordering::Relaxed) {
                if let (Some(most_ns), None) = (most_ns, deadline) {
                    deadline = Some(Linux::now() + most_ns);
                }
                let outcome = Linux::wait(&self.word, wanted.0, deadline, false);
                if outcome == WaitOutcome::TimedOut {
                    return false;
                }
                // Others may still sleep.
                next = wanted;
            }
        }
    }

    fn exchange(&self, word: Holding, next: Holding, success: Ordering) -> bool {
        self.word.compare_exchange(word.0, next.0, success, Ordering::Relaxed).is_ok()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        if Holding(self.mutex.word.swap(Holding::FREE.0, Ordering::Release)).is_wanted() {
            Linux::wake_one(&self.mutex.word);
        }
    }
}

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

    /// What [`resume`](Self::resume) takes: the thread handles none meanwhile.
    pub(crate) fn suspend(self) -> Option<u64> {
        core::mem::ManuallyDrop::new(self).before
    }

    pub(crate) fn resume(before: Option<u64>) -> Self {
        Self { before }
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
    quietly(|| unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, ptr::from_ref(set), before, size_of::<u64>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn one_at_a_time() {
        struct Shared(Mutex, Cell<u32>);
        // SAFETY: the cell is used under the mutex.
        unsafe impl Sync for Shared {}
        let shared = Shared(Mutex::new(), Cell::new(0));
        fairlock_testing::scope(|s| {
            for _ in 0..4 {
                let shared = &shared;
                s.spawn(move || {
                    for _ in 0..10_000 {
                        let _guard = shared.0.lock();
                        shared.1.set(shared.1.get() + 1);
                    }
                });
            }
        });
        assert_eq!(shared.1.get(), 40_000);
    }

    #[test]
    fn a_wait_has_an_end() {
        let mutex = Mutex::new();
        let guard = mutex.lock();
        assert!(mutex.lock_quickly_within(1_000_000).is_none());
        drop(guard);
        assert!(mutex.lock_quickly_within(0).is_some());
    }

    /// A handler in the midst may wait for a thread that waits for the mutex.
    #[test]
    fn signals_wait_while_it_is_held() {
        fairlock_testing::alone(|| {
            static HANDLED: AtomicU32 = AtomicU32::new(0);
            extern "C" fn handler(_: i32) {
                HANDLED.fetch_add(1, Ordering::Relaxed);
            }
            let mutex = Mutex::new();
            // SAFETY: the handler only counts.
            unsafe { libc::signal(libc::SIGUSR1, handler as extern "C" fn(i32) as usize) };
            let handled = || {
                // SAFETY: has no conditions.
                unsafe { libc::raise(libc::SIGUSR1) };
                HANDLED.load(Ordering::Relaxed)
            };
            let guard = mutex.lock();
            assert_eq!(handled(), 0);
            drop(guard);
            assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
            let _guard = mutex.lock_quickly();
            assert_eq!(handled(), 2);
        });
    }

    #[test]
    fn what_another_process_holds_is_free() {
        let mutex = Mutex::new();
        let parent = fork::number().wrapping_sub(1);
        for word in [Holding::held(parent), Holding::wanted(parent)] {
            mutex.word.store(word.0, Ordering::Relaxed);
            drop(mutex.lock());
            assert_eq!(mutex.word.load(Ordering::Relaxed), Holding::FREE.0);
        }
    }
}

#[cfg(test)]
mod signal_tests {
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
