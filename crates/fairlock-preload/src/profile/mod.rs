//! What `FAIRLOCK_PROFILE` asks for: a record of every lock, in a file that is written while the
//! program runs. The crate `fairlock-profile` says what is in it.
//!
//! Every acquisition is tried first. One that succeeds is counted where only this thread counts
//! (`thread`): no clock is read, and nothing that other threads write. One that fails is tried again for
//! a moment, and if it fails then, too, it is a wait: it is timed, and it is recorded who waited, who
//! released the lock, and how often others took it meanwhile (`wait`). Whether the lock is glibc's or ours
//! makes no difference here.
//!
//! What a thread does while it has a lock, others wait for: a line of memory that another CPU has
//! written lately takes longer to come than many a section lasts. So what is known of others' waits is
//! looked at before a lock is taken, and a hold that is measured after the lock was released.
//!
//! The time that is lost, but for waits that ended at once, is charged twice: to the places where
//! threads waited, and to the places that released the lock after holding it meanwhile. For the latter
//! each release is charged with what all have waited since the release before. For that it is enough to know how many wait and
//! since when, in one word. As releases may be many, not each of them is looked at ([`wait`]).
//!
//! How long locks are held is measured where it says something: from the end of a long wait, and of
//! one in sixteen short ones; for every 64th other acquisition of a lock that was waited for; and
//! otherwise at least from when the first waiter came.
//!
//! At a condition nobody is waited for who holds something: such waits are counted like those for a lock, but
//! charged to no holder, and not kept one by one; where other threads ended them is counted. A thread that has nothing to do may wait there
//! for ever.
//!
//! What goes on is in the record, too: where each thread waits now, since when, and which thread held the lock
//! then; and which of the locks that were waited for each thread has. So a program that stands still, or is
//! killed, has said why.
//!
//! What is counted of short waits and of releases is noted first, where only this thread writes
//! (`note`).
//!
//! A signal handler that comes in the middle of this finds the thread busy: what it does is counted
//! only as lost. While the thread holds a mutex of the record for long, no handler comes, as it could
//! wait there for a thread that waits for the mutex.

mod file;
mod locks;
mod modules;
mod stack;
mod thread;
mod wait;
mod word;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairlock::platform::System;
use fairlock_profile::layout::side;
use libc::{EBUSY, EOWNERDEAD};

pub(crate) use self::thread::{Coming, thread_ends};
use crate::process::config;
use crate::process::fork;
use crate::process::mutex::Mutex;
use crate::thread::Preload;

/// A wait this long is kept by itself, if the environment does not say otherwise. In ns; compared
/// with how long a wait took.
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

/// Called when the library is loaded. Makes the record: once the program has changed its root or is in a
/// sandbox, it could not.
pub(crate) fn start() {
    stack::start();
    let asked = config::variable(c"FAIRLOCK_PROFILE_THRESHOLD");
    if let Some(ns) = asked.and_then(|text| text.to_str().ok()?.parse().ok()) {
        THRESHOLD.store(ns, Ordering::Relaxed);
    }
    enter_process();
}

/// Called when the process exits.
pub(crate) fn end() {
    // A child that took no lock still has its parent's file.
    if PROCESS.load(Ordering::Acquire) == fork::number()
        && let Some(header) = file::header()
    {
        modules::read_what_is_missed();
        header.ended_ns.store(Preload::now(), Ordering::Relaxed);
        if locks::are_none() && header.lost.load(Ordering::Relaxed) == 0 {
            file::put_aside(header);
        }
    }
}

/// Calls `unload`, which may unload code of the program.
pub(crate) fn unloading(unload: impl FnOnce() -> c_int) -> c_int {
    if !is_on() || PROCESS.load(Ordering::Acquire) != fork::number() {
        return unload();
    }
    modules::read_what_is_missed();
    let mut loaded = modules::Loaded::now();
    let result = unload();
    if let Some(gone) = loaded.as_mut().map(modules::Loaded::unloaded).filter(|it| !it.is_empty())
        && modules::note_unload()
    {
        let is_gone = |address| gone.iter().any(|&[begin, end]| (begin..end).contains(&address));
        locks::end(is_gone);
        thread::end(is_gone);
    }
    result
}

/// The process for which a record was made, or could not be made: see [`fork::number`].
static PROCESS: AtomicU32 = AtomicU32::new(0);
static OPENING: Mutex = Mutex::new();

/// Whether this process has a record.
fn enter_process() -> bool {
    let here = fork::number();
    // Acquire: everything that the opening thread did is seen.
    if PROCESS.load(Ordering::Acquire) != here {
        if stack::is_on_signal_stack() {
            return false; // later, by a thread that has room
        }
        open(here);
    }
    file::header().is_some()
}

/// Makes the record of this process, unless another thread does.
#[cold]
#[inline(never)] // its frame is large
fn open(here: u32) {
    let _guard = OPENING.lock();
    if PROCESS.load(Ordering::Acquire) == here {
        return;
    }
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
    // Release: see the Acquire in `enter_process`.
    PROCESS.store(here, Ordering::Release);
}

/// A lock, and what it is taken for.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) address: usize,
    /// See [`fairlock_profile::layout::side`].
    pub(crate) side: u32,
    /// One word: each acquisition has a target.
    pub(crate) of: &'static Of,
}

impl Target {
    /// The wait for it may end without a release.
    #[inline(always)]
    pub(crate) fn ending(self) -> Self {
        Self { side: self.side | side::CAN_END, ..self }
    }
}

/// What can be asked of locks of a type.
pub(crate) struct Of {
    /// Returns what kind of lock is at an address.
    pub(crate) kind: fn(usize) -> u32,
    /// Returns which thread holds the lock at an address alone; zero if none does, or that is not known.
    pub(crate) owner: fn(usize) -> u32,
}

impl Of {
    /// Of what nobody holds, as far as is known.
    pub(crate) const fn nobody(kind: fn(usize) -> u32) -> Self {
        Self { kind, owner: |_| 0 }
    }
}

/// Takes a lock: `attempt` fails with EBUSY where `wait` would wait, and so does `again`, which is the same: a closure
/// that is called at two places is not inlined.
#[inline(always)]
pub(crate) fn acquire(
    target: Target,
    attempt: impl FnOnce() -> c_int,
    again: impl FnMut() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    if !is_on() {
        return wait();
    }
    let coming = Coming::to(target.address);
    match attempt() {
        EBUSY => wait::wait(target, again, wait),
        result => {
            if is_success(result) {
                coming.has_come(target);
            }
            result
        }
    }
}

fn is_success(result: c_int) -> bool {
    result == 0 || result == EOWNERDEAD
}

/// Waits by `wait` for what nobody holds. What that returns has the error number `errno`, or zero:
/// ETIMEDOUT if the time was over, and any other if the thread did not wait.
#[inline(always)]
pub(crate) fn asleep<R>(
    address: usize,
    of: &'static Of,
    wait: impl FnOnce() -> R,
    errno: impl FnOnce(&R) -> c_int,
) -> R {
    if is_on() {
        wait::asleep(Target { address, side: side::WRITE, of }, wait, errno)
    } else {
        wait()
    }
}

/// The calling thread is about to end waits of others for what nobody holds at an address: see [`asleep`].
#[inline(always)]
pub(crate) fn wakes(address: usize) {
    // Relaxed: a thread that begins to wait meanwhile is woken by another call.
    if is_on() && locks::asleep_at(address).load(Ordering::Relaxed) != 0 {
        wait::ends_sleep(address);
    }
}

/// Makes an attempt to take a lock, which is counted.
#[inline(always)]
pub(crate) fn attempt(target: Target, attempt: impl FnOnce() -> c_int) -> c_int {
    let result = attempt();
    if is_on() { counted(target, result) } else { result }
}

/// Counts an attempt to take a lock, whose result this is.
#[inline(always)]
pub(crate) fn counted(target: Target, result: c_int) -> c_int {
    if is_success(result) {
        Coming::to(target.address).has_come(target);
    }
    result
}

/// A release that is to be looked at when it has been done: it wakes nobody, but it is measured for how
/// long the lock was held: its address, and when it was.
pub(crate) struct Look(usize, u64);

/// The calling thread is about to release a lock. `wakes` says whether that may wake somebody, and
/// `stays_held` whether the thread has the lock more than once. Returns what [`released`] is to be told.
///
/// A thread that wakes another may lose its CPU to it, so what others waited for it is charged before.
#[inline(always)]
pub(crate) fn release(
    address: usize,
    wakes: impl FnOnce() -> bool,
    stays_held: impl Fn() -> bool,
) -> Option<Look> {
    if !thread::looks_at_releases() {
        return None;
    }
    if thread::has_taken(address) && !stays_held() {
        thread::gives_back();
    }
    let wakes = wakes();
    if !(wakes || thread::looks_at_this_release()) || stays_held() {
        return None;
    }
    if wakes {
        wait::release(address, None);
        return None;
    }
    Some(Look(address, Preload::now()))
}

/// The calling thread has released a lock. `look` is what [`release`] has returned.
#[inline(always)]
pub(crate) fn released(look: Option<Look>) {
    if let Some(Look(address, at)) = look {
        wait::release(address, Some(at));
    }
    if thread::has_many_notes() {
        wait::released();
    }
}

/// Releases a lock by `unlock`, which may wake somebody.
#[inline(always)]
pub(crate) fn releasing(address: usize, unlock: impl FnOnce() -> c_int) -> c_int {
    let is_on = is_on();
    let look = if is_on { release(address, || true, || false) } else { None };
    // Once, as in `acquire`.
    let result = unlock();
    if is_on {
        released(look);
    }
    result
}
