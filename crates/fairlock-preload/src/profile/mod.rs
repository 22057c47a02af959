//! What `FAIRLOCK_PROFILE` asks for: a record of every lock, in a file that is written while the
//! program runs. `fairlock-profile` says what is in it.
//!
//! Every acquisition is tried first. One that succeeds is counted where only this thread counts
//! (`thread`): no clock is read, and nothing that other threads write. One that fails is a wait:
//! it is timed, and known are who waited, who released the lock, and how often others took
//! it meanwhile (`wait`). What the lock is, glibc's or ours, makes no difference here.
//!
//! The time that is lost is charged twice: to the places where threads waited, and to those where
//! the lock was released that was held meanwhile. For the latter each release is charged with
//! what all have waited since the one before, which takes no more than to know how many wait and
//! since when, in one word. As releases may be many, not each of them is looked at ([`wait`]).
//!
//! How long locks are held is measured where it says something: from the end of a wait, of each
//! 64th other acquisition of a lock that was waited for; and, at least, from when the
//! first came who had to wait.
//!
//! A signal handler that comes in the middle of this finds the thread busy: what it does is
//! not counted but as lost.

mod file;
mod index;
mod locks;
mod modules;
mod records;
mod stack;
mod thread;
mod wait;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairlock::platform::Platform;
use libc::{EBUSY, EOWNERDEAD};

pub(crate) use self::thread::{Mine, thread_ends};
use crate::process::config;
use crate::process::fork;
use crate::process::mutex::Mutex;
use crate::thread::platform::Preload;

/// A wait this long is kept by itself, if the environment does not say otherwise.
const THRESHOLD_NS: u64 = 100_000;
static THRESHOLD: AtomicU64 = AtomicU64::new(THRESHOLD_NS);

fn threshold() -> u64 {
    THRESHOLD.load(Ordering::Relaxed)
}

/// Whether locks are to be recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    config::profiles()
}

/// When the library is loaded.
pub(crate) fn start() {
    stack::start();
    let asked = config::variable(c"FAIRLOCK_PROFILE_THRESHOLD");
    if let Some(ns) = asked.and_then(|text| text.to_str().ok()?.parse().ok()) {
        THRESHOLD.store(ns, Ordering::Relaxed);
    }
}

/// When the process exits.
pub(crate) fn end() {
    if let Some(header) = file::header() {
        header.ended_ns.store(Preload::now(), Ordering::Relaxed);
    }
}

/// The process whose record there is, or none could be made: see [`fork::number`].
static PROCESS: AtomicU32 = AtomicU32::new(0);
static OPENING: Mutex = Mutex::new();

/// Whether this process has a record.
fn enter_process() -> bool {
    let here = fork::number();
    // Acquire: and everything is as it was left.
    if PROCESS.load(Ordering::Acquire) != here {
        let _guard = OPENING.lock();
        if PROCESS.load(Ordering::Acquire) != here {
            let parent = file::header().map_or(0, |header| header.pid);
            let opened = file::open(parent);
            locks::forget();
            wait::forget();
            thread::forget();
            stack::forget();
            modules::forget();
            if opened {
                modules::read();
            }
            // Release: see above.
            PROCESS.store(here, Ordering::Release);
        }
    }
    file::header().is_some()
}

/// A lock, and what for.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) address: usize,
    /// See [`fairlock_profile::layout::side`].
    pub(crate) side: u32,
    /// What kind of lock is at an address.
    pub(crate) kind: fn(usize) -> u32,
}

/// Takes a lock: `attempt` fails with EBUSY where `wait` would wait.
#[inline(always)]
pub(crate) fn acquire(
    target: Target,
    attempt: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    match attempt() {
        EBUSY => wait::wait(target, wait),
        result => counted(target, result),
    }
}

/// An attempt to take a lock that came to this.
#[inline(always)]
pub(crate) fn counted(target: Target, result: c_int) -> c_int {
    if result == 0 || result == EOWNERDEAD {
        thread::count(target);
    }
    result
}

/// The calling thread is about to release a lock; `stays_held`: it has it more than once.
#[inline(always)]
pub(crate) fn release(address: usize, stays_held: impl FnOnce() -> bool) {
    if thread::looks_at_releases() {
        wait::release(address, stays_held);
    }
}

/// The calling thread has released a lock.
#[inline(always)]
pub(crate) fn released() {
    if thread::is_unsettled() {
        wait::released();
    }
}
