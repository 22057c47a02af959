//! What Linux counts of a thread.

use std::mem::MaybeUninit;

use super::Counts;
use crate::schedstat::Schedstat;

/// What counts for the thread that opened it.
pub struct Kernel {
    schedstat: Schedstat,
}

impl Kernel {
    /// `None` if the kernel does not count.
    pub fn of_this_thread() -> Option<Self> {
        Schedstat::of_this_thread().map(|schedstat| Self { schedstat })
    }

    /// What was counted up to now, of the thread that opened it and asks.
    pub fn counts(&self) -> Option<Counts> {
        // Not from `schedstat`, which has it late.
        let ran_ns = ran_ns();
        let runnable_ns = self.schedstat.times()?.runnable_ns;
        let (sleeps, preemptions) = switches();
        Some(Counts { ran_ns, runnable_ns, sleeps, preemptions })
    }
}

/// How long this thread has run.
fn ran_ns() -> u64 {
    let mut time = MaybeUninit::uninit();
    // SAFETY: the call writes the time unless there is no such clock, and each thread has this one.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often this thread gave up its CPU to sleep, and how often it lost it while it was awake: to yield
/// counts for the latter.
fn switches() -> (u64, u64) {
    let mut usage: MaybeUninit<libc::rusage> = MaybeUninit::uninit();
    // SAFETY: the call writes the whole of it unless its first argument is unknown, which this is not.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}
