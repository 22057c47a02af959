//! The mutex: bounded like the reader/writer lock, or a ticket lock whose tickets come in batches.

use fairlock::lock::RawMutex;
use fairlock::platform::Native;
use fairlock::stats::Want;
use fairlock::ticket::BatchedTicketLock;
use fairlock::{Wait, WaitError};
use libc::{c_int, timespec};

use crate::caller::with_caller;
use crate::cancel::fairlock_cancel_t;
use crate::counted::Counted;
use crate::errno::{Errno, busy_unless, status};
use crate::home::{self, Home};
use crate::ways::{
    Hold, Way, attempt, cancellable, interruptible, take, unlock, unlock_fair, until,
};

/// No batches, but turns.
pub const FAIRLOCK_BATCH_NONE: u32 = 0;

/// A mutex: one holder.
///
/// By default waits are bounded as those for a fairlock_rwlock_t that is only written: any running
/// thread may take the free mutex for a while, then it goes to the queue. Otherwise tickets come
/// in batches of 1 (a ticket lock), 4 or 8: batches are served in order, and within the batch
/// whose turn it is, a running waiter goes first. So a waiter is overtaken by at most as many
/// later ones as a batch has, and a thread that does not run delays no other. A thread that gives
/// up waiting is skipped, and still has its turn if it comes again before that.
///
/// A mutex may be released by another thread than took it. Locking a mutex that the thread holds
/// blocks for ever.
#[repr(C)]
pub struct fairlock_mutex_t {
    mark: u32,
    preset: u32,
    memory: [u64; 3],
}

pub(crate) type Mutex = Counted<AnyMutex>;

pub(crate) enum AnyMutex {
    Default(RawMutex<Native>),
    /// A ticket lock, on the heap, as the struct has no room for it.
    Fixed(Box<Fixed>),
}

/// The fixed batch sizes that there are.
pub(crate) enum Fixed {
    One(BatchedTicketLock<Native, 1>),
    Four(BatchedTicketLock<Native, 4>),
    Eight(BatchedTicketLock<Native, 8>),
}

// SAFETY: as the trait asks.
unsafe impl Home for fairlock_mutex_t {
    type Value = Mutex;

    /// Makes a mutex of this batch size.
    fn preset(batch: u32) -> Option<Mutex> {
        let fixed = |lock| AnyMutex::Fixed(Box::new(lock));
        Some(Mutex::new(match batch {
            FAIRLOCK_BATCH_NONE => AnyMutex::Default(RawMutex::new_const()),
            1 => fixed(Fixed::One(BatchedTicketLock::new_const())),
            4 => fixed(Fixed::Four(BatchedTicketLock::new_const())),
            8 => fixed(Fixed::Eight(BatchedTicketLock::new_const())),
            _ => return None,
        }))
    }
}

/// Evaluates an expression on the lock inside, whatever its batch size.
macro_rules! each {
    ($fixed:expr, $lock:ident => $do:expr) => {
        match $fixed {
            Fixed::One($lock) => $do,
            Fixed::Four($lock) => $do,
            Fixed::Eight($lock) => $do,
        }
    };
}

/// Evaluates an expression on the lock inside, of any kind.
macro_rules! any {
    ($mutex:expr, $lock:ident => $do:expr) => {
        match $mutex {
            AnyMutex::Default($lock) => $do,
            AnyMutex::Fixed(fixed) => each!(&**fixed, $lock => $do),
        }
    };
}

impl AnyMutex {
    fn is_contended(&self) -> bool {
        any!(self, lock => lock.is_contended())
    }

    /// The lock that a condition variable can wait with.
    pub(crate) fn as_default(&self) -> Option<&RawMutex<Native>> {
        match self {
            Self::Default(lock) => Some(lock),
            Self::Fixed(_) => None,
        }
    }
}

/// There is one way to have a mutex.
impl Way for AnyMutex {
    type Home = fairlock_mutex_t;
    type Lock = Self;
    const WANT: Want = Want::Write;

    fn attempt(mutex: &Self) -> bool {
        any!(mutex, lock => lock.try_lock())
    }

    fn wait(mutex: &Self, wait: Wait<'_>) -> Result<(), WaitError> {
        any!(mutex, lock => lock.lock_with(wait))
    }

    #[inline(always)]
    fn take(mutex: &Self) -> Result<(), WaitError> {
        match mutex {
            Self::Default(lock) => lock.lock(),
            Self::Fixed(fixed) => fixed.lock(),
        }
        Ok(())
    }
}

impl Hold for AnyMutex {
    #[inline(always)]
    fn is_held(mutex: &Self) -> bool {
        match mutex {
            Self::Default(lock) => lock.is_locked(),
            Self::Fixed(fixed) => fixed.is_locked(),
        }
    }

    #[inline(always)]
    unsafe fn release(mutex: &Self) {
        match mutex {
            // SAFETY: the caller's promise.
            Self::Default(lock) => unsafe { lock.unlock() },
            // SAFETY: the same.
            Self::Fixed(fixed) => unsafe { fixed.unlock() },
        }
    }

    unsafe fn release_fair(mutex: &Self) {
        // SAFETY: the caller's promise.
        any!(mutex, lock => unsafe { lock.unlock_fair() });
    }
}

/// These are not inlined into the functions of the default: that would cost more than its lock
/// does.
impl Fixed {
    #[cold]
    #[inline(never)]
    fn lock(&self) {
        each!(self, lock => lock.lock());
    }

    #[cold]
    #[inline(never)]
    fn is_locked(&self) -> bool {
        each!(self, lock => lock.is_locked())
    }

    /// # Safety
    /// As for [`Hold::release`].
    #[cold]
    #[inline(never)]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        each!(self, lock => unsafe { lock.unlock() });
    }
}

/// Makes `*mutex` a free mutex with batches of this size: FAIRLOCK_BATCH_NONE, 1, 4 or
/// 8. Not needed for one that was initialised statically, or is zero.
///
/// * 0: `*mutex` is a mutex, whatever it was before.
/// * EINVAL: `mutex` is null or misaligned, or no lock has this batch size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_init(mutex: *mut fairlock_mutex_t, batch: u32) -> c_int {
    let made = fairlock_mutex_t::preset(batch).ok_or(Errno::INVALID);
    // SAFETY: the caller provides a mutex that nobody uses.
    status(made.and_then(|made| unsafe { home::init(mutex, made) }))
}

/// Ends the use of a mutex. Every later call with it returns EINVAL, until it is
/// initialised again. One that is just forgotten keeps what it has of the library's: 384 bytes,
/// if threads have waited for it lately, or if it was used and has batches of a fixed size.
/// Otherwise nothing.
///
/// * 0: it is not a mutex any more.
/// * EBUSY: somebody holds it or waits for it; it is as it was.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_destroy(mutex: *mut fairlock_mutex_t) -> c_int {
    // SAFETY: the caller provides a mutex.
    status(unsafe {
        home::destroy(mutex, |mutex| !AnyMutex::is_held(mutex) && !mutex.is_contended())
    })
}

/// Gives back what the mutex has of the library's because threads have waited for it: 384 bytes,
/// which it gives back by itself after some use that nobody waits for. The mutex stays what it
/// is; others may use it meanwhile.
///
/// * 0: it has nothing of the library's.
/// * EBUSY: somebody holds it or waits for it.
/// * ENOTSUP: it has batches of a fixed size. Only destroying it gives back what it has.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_trim(mutex: *mut fairlock_mutex_t) -> c_int {
    let trim = |mutex: &Mutex| busy_unless(mutex.as_default().ok_or(Errno::UNSUPPORTED)?.trim());
    // SAFETY: the caller provides a mutex.
    status(unsafe { home::unless_zero(mutex, trim) })
}

/// Takes the mutex; blocks until it has it.
///
/// * 0: the caller holds the mutex.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_mutex_lock(mutex: *mut fairlock_mutex_t) -> c_int {
    with_caller!(take::<AnyMutex>(mutex))
}

/// Takes the mutex if that needs no waiting, and overtakes nobody whose turn it is. May
/// fail when another thread is just doing the same.
///
/// * 0: the caller holds the mutex.
/// * EBUSY: somebody holds it, or waits for it.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_mutex_try_lock(mutex: *mut fairlock_mutex_t) -> c_int {
    with_caller!(attempt::<AnyMutex>(mutex))
}

/// Takes the mutex; gives up at `deadline`, a time on `clock`.
///
/// * 0: the caller holds the mutex.
/// * ETIMEDOUT: the deadline has passed, and somebody was in the way.
/// * EINVAL: not a mutex, an unknown clock, or no valid time.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_mutex_lock_until(
    mutex: *mut fairlock_mutex_t,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    with_caller!(until::<AnyMutex>(mutex, clock, deadline))
}

/// Takes the mutex; gives up when a signal handler has run in this thread while it slept,
/// with or without SA_RESTART. A handler that ran just before is not noticed.
///
/// * 0: the caller holds the mutex.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_mutex_lock_interruptible(mutex: *mut fairlock_mutex_t) -> c_int {
    with_caller!(interruptible::<AnyMutex>(mutex))
}

/// Takes the mutex; gives up when `token` is cancelled. A mutex that is free is taken without
/// a look at the token.
///
/// * 0: the caller holds the mutex.
/// * ECANCELED: the token was cancelled, and somebody was in the way.
/// * EINVAL: not a mutex, or not a token.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_mutex_lock_cancellable(
    mutex: *mut fairlock_mutex_t,
    token: *mut fairlock_cancel_t,
) -> c_int {
    with_caller!(cancellable::<AnyMutex>(mutex, token))
}

/// Gives up the mutex.
///
/// * 0: the caller has given it up.
/// * EPERM: nobody holds it. It is not noticed if another thread does.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_unlock(mutex: *mut fairlock_mutex_t) -> c_int {
    // SAFETY: the caller provides a mutex.
    unsafe { unlock::<AnyMutex>(mutex) }
}

/// Gives up the mutex; if others wait for it now, the one whose turn it is, or those of their
/// batch, have it before anyone who comes later, the caller included.
///
/// * 0: the caller has given it up.
/// * EPERM: nobody holds it. It is not noticed if another thread does.
/// * EINVAL: not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_unlock_fair(mutex: *mut fairlock_mutex_t) -> c_int {
    // SAFETY: the caller provides a mutex.
    unsafe { unlock_fair::<AnyMutex>(mutex) }
}

/// Whether anyone holds the mutex at this instant; false if it is not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_is_locked(mutex: *const fairlock_mutex_t) -> bool {
    // SAFETY: the caller provides a mutex.
    unsafe { home::get(mutex) }.is_ok_and(|mutex| AnyMutex::is_held(mutex))
}

/// Whether anyone waits for the mutex at this instant; false if it is not a mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_is_contended(mutex: *const fairlock_mutex_t) -> bool {
    // SAFETY: the caller provides a mutex.
    unsafe { home::get(mutex) }.is_ok_and(|mutex| mutex.is_contended())
}

#[cfg(test)]
mod tests {
    use fairlock::platform::PooledPlatform;
    use libc::{CLOCK_MONOTONIC, ETIMEDOUT};

    use super::*;

    #[test]
    fn what_threads_that_waited_leave_behind_is_used_again() {
        let made = || Native::slots().made();
        for round in 0..200 {
            let mut mutex = fairlock_mutex_t { mark: 0, preset: 0, memory: [0; 3] };
            let mutex = &raw mut mutex;
            // SAFETY: a mutex of this test alone.
            unsafe {
                assert_eq!(fairlock_mutex_lock(mutex), 0);
                let mut soon = timespec { tv_sec: 0, tv_nsec: 0 };
                libc::clock_gettime(CLOCK_MONOTONIC, &mut soon);
                soon.tv_sec += (soon.tv_nsec + 100_000) / 1_000_000_000;
                soon.tv_nsec = (soon.tv_nsec + 100_000) % 1_000_000_000;
                assert_eq!(fairlock_mutex_lock_until(mutex, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
                assert_eq!(fairlock_mutex_unlock(mutex), 0);
                match round % 2 {
                    0 => assert_eq!(fairlock_mutex_destroy(mutex), 0),
                    _ => assert_eq!(fairlock_mutex_trim(mutex), 0),
                }
            }
        }
        // Other tests have some slots at the same time.
        assert!(made() < 100, "{} slots for one at a time", made());
    }
}
