//! Linux as `fairlock` has it, with thread records and a count of CPUs that need neither
//! the program's allocator nor the standard library, and with libc's clock, which works
//! under valgrind.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use fairlock::platform::linux::Linux;
use fairlock::platform::{System, WaitOutcome};
use fairlock::wait::Thread;

use super::{record, record_hint, state};

pub(crate) struct Preload;

// SAFETY: a thread has its record until it ends, when it goes back to a pool that is
// never freed; all else is Linux's.
unsafe impl System for Preload {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    #[inline(always)]
    fn pause() {
        Linux::pause();
    }

    fn yield_now() {
        // SAFETY: no arguments. A sandbox may refuse the call.
        unsafe { libc::sched_yield() };
    }

    #[inline]
    fn now() -> u64 {
        clock(libc::CLOCK_MONOTONIC)
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        interruptible: bool,
    ) -> WaitOutcome {
        Linux::wait(word, expected, deadline, interruptible)
    }

    fn wake_one(word: &AtomicU32) {
        Linux::wake_one(word);
    }

    #[inline]
    fn thread() -> &'static Thread<Self> {
        record()
    }

    #[inline(always)]
    fn thread_hint() -> usize {
        record_hint()
    }

    #[inline]
    fn cpu() -> Option<u32> {
        Linux::cpu()
    }

    fn priority() -> u8 {
        Linux::priority().saturating_add(state().more_priority.get())
    }

    fn cpus() -> usize {
        static CPUS: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: a cached number that any thread may compute again.
        match CPUS.load(Ordering::Relaxed) {
            0 => {
                let n = count_cpus();
                CPUS.store(n, Ordering::Relaxed);
                n
            }
            n => n,
        }
    }
}

/// The time of a clock that is always there, in nanoseconds.
pub(crate) fn clock(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of CPUs that this thread may run on.
fn count_cpus() -> usize {
    // SAFETY: a set of CPUs is plain bits; the kernel writes no more than it is told.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 {
            return 1; // more than the set has room for
        }
        (libc::CPU_COUNT(&set) as usize).max(1)
    }
}
