//! The semaphore.

use std::mem::forget;

use fairlock::{Semaphore, Wait};
use libc::{c_int, timespec};

use crate::cancel::fairlock_cancel_t;
use crate::deadline::Deadline;
use crate::errno::{Errno, busy_unless, status};
use crate::home::{self, Home, get};

/// A semaphore: a number of permits, which threads take, wait for if they are not there, and
/// give back.
///
/// First come, first served, whatever each wants: one that waits for many permits is not passed
/// by those that want few. Permits may be given by a thread that has none, so it is also an
/// event that is not lost. A wait for more than there ever are blocks for ever.
#[repr(C)]
pub struct fairlock_sem_t {
    mark: u32,
    preset: u32,
    memory: [u64; 3],
}

// SAFETY: as the trait asks.
unsafe impl Home for fairlock_sem_t {
    type Value = Semaphore;

    const ZERO_IS_VALUE: bool = true;

    /// Makes a semaphore with this many permits.
    fn preset(permits: u32) -> Option<Semaphore> {
        Some(Semaphore::new(permits))
    }
}

/// Makes `*sem` a semaphore with so many permits. Not needed for one that was initialised
/// statically, or is zero: that has none.
///
/// * 0: `*sem` is a semaphore, whatever it was before.
/// * EINVAL: `sem` is null or misaligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_sem_init(sem: *mut fairlock_sem_t, permits: u32) -> c_int {
    // SAFETY: the caller provides a semaphore that nobody uses.
    status(unsafe { home::init(sem, Semaphore::new(permits)) })
}

/// Ends the use of a semaphore, however many permits it has. Every later call with it returns
/// EINVAL, until it is initialised again. One that is just forgotten keeps nothing.
///
/// * 0: it is not a semaphore any more.
/// * EBUSY: somebody waits for it; it is as it was.
/// * EINVAL: not a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_sem_destroy(sem: *mut fairlock_sem_t) -> c_int {
    // SAFETY: the caller provides a semaphore.
    status(unsafe { home::destroy(sem, |sem| !sem.has_waiters()) })
}

/// Takes `count` permits together; blocks until it has them.
///
/// * 0: the caller has the permits.
/// * EINVAL: not a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_sem_wait(sem: *mut fairlock_sem_t, count: u32) -> c_int {
    let wait = |sem: &Semaphore| forget(sem.acquire_many(count));
    // SAFETY: the caller provides a semaphore.
    status(unsafe { get(sem) }.map(wait))
}

/// Takes `count` permits if there are so many and nobody waits.
///
/// * 0: the caller has the permits.
/// * EBUSY: there are fewer, or somebody waits.
/// * EINVAL: not a semaphore.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_sem_try_wait(sem: *mut fairlock_sem_t, count: u32) -> c_int {
    let attempt = |sem: &Semaphore| busy_unless(sem.try_acquire_many(count).map(forget).is_some());
    // SAFETY: the caller provides a semaphore.
    status(unsafe { get(sem) }.and_then(attempt))
}

/// Takes `count` permits; gives up at `deadline`, a time on `clock`.
///
/// * 0: the caller has the permits.
/// * ETIMEDOUT: the deadline has passed, and they were not there.
/// * EINVAL: not a semaphore, an unknown clock, or no valid time.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_sem_wait_until(
    sem: *mut fairlock_sem_t,
    count: u32,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    let wait = |sem: &Semaphore| {
        // SAFETY: the caller provides a time.
        let deadline = unsafe { Deadline::new(clock, deadline)? };
        deadline.wait(|until| sem.acquire_many_with(count, until)).map(forget)
    };
    // SAFETY: the caller provides a semaphore.
    status(unsafe { get(sem) }.and_then(wait))
}

/// Takes `count` permits; gives up when a signal handler has run in this thread while it slept,
/// with or without SA_RESTART. A handler that ran just before is not noticed.
///
/// * 0: the caller has the permits.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a semaphore.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_sem_wait_interruptible(
    sem: *mut fairlock_sem_t,
    count: u32,
) -> c_int {
    let until = Wait::FOREVER.interruptible();
    let wait = |sem: &Semaphore| Ok(sem.acquire_many_with(count, until).map(forget)?);
    // SAFETY: the caller provides a semaphore.
    status(unsafe { get(sem) }.and_then(wait))
}

/// Takes `count` permits; gives up when `token` is cancelled. Permits that are there are taken
/// without a look at the token.
///
/// * 0: the caller has the permits.
/// * ECANCELED: the token was cancelled, and they were not there.
/// * EINVAL: not a semaphore, or not a token.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_sem_wait_cancellable(
    sem: *mut fairlock_sem_t,
    count: u32,
    token: *mut fairlock_cancel_t,
) -> c_int {
    let wait = |sem: &Semaphore| {
        // SAFETY: the caller provides a token.
        let until = Wait::FOREVER.cancellable(unsafe { home::get(token)? });
        Ok(sem.acquire_many_with(count, until).map(forget)?)
    };
    // SAFETY: the caller provides a semaphore.
    status(unsafe { get(sem) }.and_then(wait))
}

/// Gives `count` permits, taken before or new ones. Never blocks.
///
/// * 0: they are there.
/// * EOVERFLOW: there would be more than 2^32 - 1 free ones; there are as many as before.
/// * EINVAL: not a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_sem_post(sem: *mut fairlock_sem_t, count: u32) -> c_int {
    let post =
        |sem: &Semaphore| sem.try_release(count).then_some(()).ok_or(Errno::TOO_MANY_PERMITS);
    // SAFETY: the caller provides a semaphore.
    status(unsafe { get(sem) }.and_then(post))
}

/// How many permits are free at this instant; 0 if it is not a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_sem_value(sem: *const fairlock_sem_t) -> u32 {
    // SAFETY: the caller provides a semaphore.
    unsafe { get(sem) }.map_or(0, |sem| sem.available_permits())
}

/// Whether anyone waits for permits at this instant; false if it is not a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_sem_is_contended(sem: *const fairlock_sem_t) -> bool {
    // SAFETY: the caller provides a semaphore.
    unsafe { get(sem) }.is_ok_and(|sem| sem.has_waiters())
}
