//! Instructions and system calls, each a sample of the mean of many, in nanoseconds.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::{Native, System};

use super::each;

const INSTRUCTIONS: u32 = 1_000;
const CALLS: u32 = 100;

/// Nobody sleeps here.
static WORD: AtomicU32 = AtomicU32::new(0);

pub fn atomic() -> f64 {
    // Relaxed: nothing is ordered by it, and it costs the same.
    each(INSTRUCTIONS, || _ = black_box(WORD.fetch_add(1, Ordering::Relaxed)))
}

pub fn pause() -> f64 {
    each(INSTRUCTIONS, Native::pause)
}

pub fn clock() -> f64 {
    each(INSTRUCTIONS, || _ = black_box(Native::now()))
}

/// A wait for a word that has changed already.
pub fn wait() -> f64 {
    let other = WORD.load(Ordering::Relaxed).wrapping_add(1);
    each(CALLS, || _ = Native::wait(&WORD, other, None, false))
}

/// A wake-up that finds nobody.
pub fn wake() -> f64 {
    each(CALLS, || Native::wake_one(&WORD))
}

pub fn yields() -> f64 {
    each(CALLS, std::thread::yield_now)
}

/// A barrier in all CPUs that run this program; none if the system has no such call.
pub fn membarrier() -> Option<f64> {
    // SAFETY: no argument is an address.
    let call = |command: i32| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    let is_registered = call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    is_registered.then(|| each(CALLS, || _ = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
}
