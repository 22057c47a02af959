//! The condition variable.

use fairlock::Wait;
use fairlock::condvar::WordCondvar;
use fairlock::lock::RawMutex;
use fairlock::platform::Native;
use fairlock::wait::WaitError;
use libc::{c_int, timespec};

use crate::cancel::fairlock_cancel_t;
use crate::deadline::Deadline;
use crate::errno::{Errno, busy_unless, not_held_unless, status};
use crate::home::{self, Home};
use crate::mutex::fairlock_mutex_t;

/// A condition variable: threads that hold a mutex wait for others to say that what it
/// guards has changed.
///
/// First come, first notified. A thread that is notified has the mutex again when its wait
/// returns. It is woken, and takes the mutex like any thread that comes then; or it queues there
/// asleep, if the mutex is held and was waited for lately. Waits
/// do not return for no reason, and one that ends by itself or from outside has not used a
/// notification up. Several mutexes may be waited for with the same condition variable, of
/// FAIRLOCK_BATCH_NONE.
#[repr(C)]
pub struct fairlock_cond_t {
    mark: u32,
    preset: u32,
    memory: [u64; 4],
}

type Condvar = WordCondvar<Native>;

// SAFETY: as the trait asks.
unsafe impl Home for fairlock_cond_t {
    type Value = Condvar;

    fn preset(preset: u32) -> Option<Condvar> {
        (preset == 0).then(Condvar::new_const)
    }
}

/// Makes `*cond` a condition variable that nobody waits for. Not needed for one that was
/// initialised statically, or is zero.
///
/// * 0: `*cond` is a condition variable, whatever it was before.
/// * EINVAL: `cond` is null or misaligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_init(cond: *mut fairlock_cond_t) -> c_int {
    // SAFETY: the caller provides a condition variable that nobody uses.
    status(unsafe { home::init(cond, Condvar::new_const()) })
}

/// Ends the use of a condition variable. Every later call with it returns EINVAL, until it is
/// initialised again. One that is just forgotten keeps what it has of the library's: 384 bytes,
/// if threads have met at it lately. Otherwise nothing.
///
/// * 0: it is not a condition variable any more.
/// * EBUSY: somebody waits for it; it is as it was.
/// * EINVAL: not a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_destroy(cond: *mut fairlock_cond_t) -> c_int {
    // SAFETY: the caller provides a condition variable.
    status(unsafe { home::destroy(cond, |cond| !cond.has_waiters()) })
}

/// Gives back what the condition variable has of the library's because threads have met at it:
/// 384 bytes. It stays what it is; others may use it meanwhile.
///
/// * 0: it has nothing of the library's.
/// * EBUSY: somebody is just using it.
/// * EINVAL: not a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_trim(cond: *mut fairlock_cond_t) -> c_int {
    let trim = |cond: &Condvar| busy_unless(cond.queue_lock().trim());
    // SAFETY: the caller provides a condition variable.
    status(unsafe { home::unless_zero(cond, trim) })
}

/// Gives up the mutex, which the caller holds, waits for a notification, and takes the mutex
/// again.
///
/// * 0: the caller was notified, and holds the mutex.
/// * EPERM: nobody holds the mutex. It is not noticed if another thread does.
/// * ENOTSUP: the mutex has batches of a fixed size.
/// * EINVAL: not a condition variable, or not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_wait(
    cond: *mut fairlock_cond_t,
    mutex: *mut fairlock_mutex_t,
) -> c_int {
    // SAFETY: the caller provides both.
    unsafe {
        with(cond, mutex, |cond, mutex| {
            cond.wait(mutex);
            Ok(())
        })
    }
}

/// As fairlock_cond_wait; gives up at `deadline`, a time on `clock`. If CLOCK_REALTIME was set
/// back meanwhile, the wait may return 0 without a notification.
///
/// * 0: the caller was notified, and holds the mutex.
/// * ETIMEDOUT: it was not, and the deadline has passed; it holds the mutex.
/// * EPERM: nobody holds the mutex. It is not noticed if another thread does.
/// * ENOTSUP: the mutex has batches of a fixed size.
/// * EINVAL: not a condition variable, not a mutex, an unknown clock, or no valid time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_wait_until(
    cond: *mut fairlock_cond_t,
    mutex: *mut fairlock_mutex_t,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: the caller provides all of them.
    unsafe {
        with(cond, mutex, |cond, mutex| {
            until(Deadline::new(clock, deadline)?, |until| cond.wait_with(mutex, until))
        })
    }
}

/// As fairlock_cond_wait; gives up when a signal handler has run in this thread while it
/// slept, with or without SA_RESTART.
///
/// * 0: the caller was notified, and holds the mutex.
/// * EINTR: it was not, and a signal handler ran; it holds the mutex.
/// * EPERM: nobody holds the mutex. It is not noticed if another thread does.
/// * ENOTSUP: the mutex has batches of a fixed size.
/// * EINVAL: not a condition variable, or not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_wait_interruptible(
    cond: *mut fairlock_cond_t,
    mutex: *mut fairlock_mutex_t,
) -> c_int {
    // SAFETY: the caller provides both.
    unsafe {
        with(cond, mutex, |cond, mutex| Ok(cond.wait_with(mutex, Wait::FOREVER.interruptible())?))
    }
}

/// As fairlock_cond_wait; gives up when `token` is cancelled.
///
/// * 0: the caller was notified, and holds the mutex.
/// * ECANCELED: it was not, and the token was cancelled; it holds the mutex.
/// * EPERM: nobody holds the mutex. It is not noticed if another thread does.
/// * ENOTSUP: the mutex has batches of a fixed size.
/// * EINVAL: not a condition variable, not a mutex, or not a token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_wait_cancellable(
    cond: *mut fairlock_cond_t,
    mutex: *mut fairlock_mutex_t,
    token: *mut fairlock_cancel_t,
) -> c_int {
    // SAFETY: the caller provides all of them.
    unsafe {
        with(cond, mutex, |cond, mutex| {
            Ok(cond.wait_with(mutex, Wait::FOREVER.cancellable(home::get(token)?))?)
        })
    }
}

/// As fairlock_cond_wait_until; gives up when `token` is cancelled, too.
///
/// * 0: the caller was notified, and holds the mutex.
/// * ECANCELED: it was not, and the token was cancelled; it holds the mutex.
/// * ETIMEDOUT: it was not, and the deadline has passed; it holds the mutex.
/// * EPERM: nobody holds the mutex. It is not noticed if another thread does.
/// * ENOTSUP: the mutex has batches of a fixed size.
/// * EINVAL: not a condition variable, not a mutex, not a token, an unknown clock, or no
///   valid time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_wait_cancellable_until(
    cond: *mut fairlock_cond_t,
    mutex: *mut fairlock_mutex_t,
    token: *mut fairlock_cancel_t,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: the caller provides all of them.
    unsafe {
        with(cond, mutex, |cond, mutex| {
            let token = home::get(token)?;
            let wait = |until: Wait<'static>| cond.wait_with(mutex, until.cancellable(token));
            until(Deadline::new(clock, deadline)?, wait)
        })
    }
}

/// Notifies the thread that waits longest, if there is one. The caller need not hold the
/// mutex.
///
/// * 0: done.
/// * EINVAL: not a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_signal(cond: *mut fairlock_cond_t) -> c_int {
    let signal = |cond: &Condvar| {
        cond.notify_one();
    };
    // SAFETY: the caller provides a condition variable.
    status(unsafe { home::get(cond) }.map(signal))
}

/// Notifies all threads that wait. The caller need not hold the mutex.
///
/// * 0: done.
/// * EINVAL: not a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_cond_broadcast(cond: *mut fairlock_cond_t) -> c_int {
    let broadcast = |cond: &Condvar| {
        cond.notify_all();
    };
    // SAFETY: the caller provides a condition variable.
    status(unsafe { home::get(cond) }.map(broadcast))
}

/// Runs `wait` on the condition variable and the lock of the mutex.
///
/// # Safety
/// As for [`home::get`].
unsafe fn with(
    cond: *mut fairlock_cond_t,
    mutex: *mut fairlock_mutex_t,
    wait: impl FnOnce(&Condvar, &RawMutex<Native>) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: the caller's promise.
    let both = unsafe { home::get(cond).and_then(|cond| Ok((cond, home::get(mutex)?))) };
    status(both.and_then(|(cond, mutex)| {
        let lock = mutex.as_default().ok_or(Errno::UNSUPPORTED)?;
        not_held_unless(lock.is_locked())?;
        mutex.pause(|_| wait(cond, lock))
    }))
}

/// Waits until `deadline`, once: if the wait ends too soon by the caller's clock it returns all the
/// same. While the mutex was not held, what the caller waits for may have come about.
fn until(
    deadline: Deadline,
    wait: impl FnOnce(Wait<'static>) -> Result<(), WaitError>,
) -> Result<(), Errno> {
    match wait(Wait::within(deadline.left())) {
        Err(WaitError::TimedOut) if !deadline.left().is_zero() => Ok(()),
        result => Ok(result?),
    }
}
