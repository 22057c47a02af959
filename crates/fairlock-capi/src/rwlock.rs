//! The reader/writer lock.

use fairlock::stats::{Access, Want};
use fairlock::{Wait, WaitError};
use libc::{c_int, timespec};

use crate::caller::with_caller;
use crate::cancel::fairlock_cancel_t;
use crate::chosen::Chosen as Sem;
use crate::counted::Counted;
use crate::errno::{Errno, busy_unless, give, not_held_unless, status};
use crate::events::{self, fairlock_events_t};
use crate::home::{self, Home};
use crate::policy::{self, Policy, fairlock_policy_t};
use crate::ways::{
    Hold, Way, attempt, cancellable, interruptible, take, unlock, unlock_fair, until,
};

/// A reader/writer lock: any number of readers together, or one writer alone.
///
/// Blocked threads sleep. Waits are bounded on both sides: the sides take turns while both
/// wait, and within a side a waiter is served in order of arrival, but for exceptions that
/// are bounded too; the preset FAIRLOCK_UNFAIR promises nothing. A lock may be released by
/// another thread than took it. A thread that holds the lock and asks for it again waits
/// for itself, for ever with `write`, and with `read` as soon as somebody waits: see
/// fairlock_rwlock_read_recursive.
#[repr(C)]
pub struct fairlock_rwlock_t {
    mark: u32,
    preset: u32,
    memory: [u64; 3],
}

pub(crate) type Lock = Counted<Sem>;

// SAFETY: as the trait asks.
unsafe impl Home for fairlock_rwlock_t {
    type Value = Lock;

    fn preset(preset: u32) -> Option<Lock> {
        policy::preset(preset).map(|policy| Lock::new(Sem::new(policy)))
    }
}

struct Read;

impl Way for Read {
    type Home = fairlock_rwlock_t;
    type Lock = Sem;
    const WANT: Want = Want::Read;

    fn attempt(lock: &Sem) -> bool {
        lock.try_read()
    }

    #[inline(always)]
    fn wait(lock: &Sem, wait: Wait<'_>) -> Result<(), WaitError> {
        lock.read_with(wait)
    }

    fn obstacle(lock: &Sem) -> Errno {
        if lock.is_saturated() { Errno::TOO_MANY_READERS } else { Errno::BUSY }
    }
}

impl Hold for Read {
    #[inline(always)]
    fn is_held(lock: &Sem) -> bool {
        lock.is_locked() && !lock.is_write_locked()
    }

    #[inline(always)]
    unsafe fn release(lock: &Sem) {
        // SAFETY: the caller's promise.
        unsafe { lock.unlock_read() }
    }

    unsafe fn release_fair(lock: &Sem) {
        // SAFETY: the caller's promise.
        unsafe { lock.unlock_read_fair() }
    }
}

/// Past all waiters, if readers hold the lock.
struct Recursive;

impl Way for Recursive {
    type Home = fairlock_rwlock_t;
    type Lock = Sem;
    const WANT: Want = Want::Recursive;

    fn attempt(lock: &Sem) -> bool {
        lock.try_read_recursive()
    }

    fn wait(lock: &Sem, wait: Wait<'_>) -> Result<(), WaitError> {
        lock.read_recursive_with(wait)
    }

    fn obstacle(lock: &Sem) -> Errno {
        Read::obstacle(lock)
    }
}

struct Write;

impl Way for Write {
    type Home = fairlock_rwlock_t;
    type Lock = Sem;
    const WANT: Want = Want::Write;

    fn attempt(lock: &Sem) -> bool {
        lock.try_write()
    }

    fn wait(lock: &Sem, wait: Wait<'_>) -> Result<(), WaitError> {
        lock.write_with(wait)
    }

    #[inline(always)]
    fn take(lock: &Sem) -> Result<(), WaitError> {
        lock.write();
        Ok(())
    }
}

impl Hold for Write {
    #[inline(always)]
    fn is_held(lock: &Sem) -> bool {
        lock.is_write_locked()
    }

    #[inline(always)]
    unsafe fn release(lock: &Sem) {
        // SAFETY: the caller's promise.
        unsafe { lock.unlock_write() }
    }

    unsafe fn release_fair(lock: &Sem) {
        // SAFETY: the caller's promise.
        unsafe { lock.unlock_write_fair() }
    }
}

/// Runs `f` on the lock.
///
/// # Safety
/// As for [`home::get`].
#[inline(always)]
unsafe fn with(
    lock: *const fairlock_rwlock_t,
    f: impl FnOnce(&Lock) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { home::get(lock) }.and_then(f))
}

/// Makes `*lock` a free lock that follows `policy`; if that is null, the default.
/// Not needed for a lock that was initialised statically, or is zero.
///
/// * 0: `*lock` is a lock, whatever it was before.
/// * EINVAL: `lock` is null or misaligned, or `policy` has a value that it cannot have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_init(
    lock: *mut fairlock_rwlock_t,
    policy: *const fairlock_policy_t,
) -> c_int {
    // SAFETY: null, or the caller's policy.
    let policy = unsafe { policy.as_ref() };
    let policy = policy.map_or(Ok(Policy::DEFAULT), fairlock_policy_t::policy);
    // SAFETY: the caller provides a lock that nobody uses.
    status(policy.and_then(|policy| unsafe { home::init(lock, Lock::new(Sem::new(policy))) }))
}

/// Ends the use of a lock. Every later call with it returns EINVAL, until it is
/// initialised again. One that is just forgotten keeps what it has of the library's: 384 bytes,
/// if threads have waited for it lately, or if it was used and its policy is not the default
/// one or it has events of its own; 320, if it follows a proposal. Otherwise nothing.
///
/// * 0: it is not a lock any more.
/// * EBUSY: somebody holds it or waits for it; it is as it was.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_destroy(lock: *mut fairlock_rwlock_t) -> c_int {
    // SAFETY: the caller provides a lock.
    status(unsafe { home::destroy(lock, |sem| !sem.is_locked() && !sem.has_waiters()) })
}

/// Gives back what the lock has of the library's because threads have waited for it: 384 bytes,
/// which it gives back by itself after some use that nobody waits for. The lock stays what it
/// is; others may use it meanwhile.
///
/// * 0: it has nothing of the library's.
/// * EBUSY: somebody holds it or waits for it.
/// * ENOTSUP: its policy is not the default one, or it has events of its own. Only destroying
///   it gives back what it has.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_trim(lock: *mut fairlock_rwlock_t) -> c_int {
    let trim = |sem: &Lock| {
        let lock = sem.as_default().filter(|lock| !lock.keeps_slot()).ok_or(Errno::UNSUPPORTED)?;
        busy_unless(lock.trim())
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::unless_zero(lock, trim) })
}

// ---- read ----

/// Takes the lock for reading; blocks until it has it.
///
/// * 0: the caller holds the lock for reading.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(take::<Read>(lock))
}

/// Takes the lock for reading if that needs no waiting.
///
/// * 0: the caller holds the lock for reading.
/// * EBUSY: a writer holds it, or somebody waits for it.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_try_read(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(attempt::<Read>(lock))
}

/// Takes the lock for reading; gives up at `deadline`, a time on `clock`.
///
/// * 0: the caller holds the lock for reading.
/// * ETIMEDOUT: the deadline has passed, and somebody was in the way.
/// * EINVAL: not a lock, an unknown clock, or no valid time.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_until(
    lock: *mut fairlock_rwlock_t,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    with_caller!(until::<Read>(lock, clock, deadline))
}

/// Takes the lock for reading; gives up when a signal handler has run in this thread while
/// it slept, with or without SA_RESTART. A handler that ran just before is not noticed.
///
/// * 0: the caller holds the lock for reading.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_interruptible(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(interruptible::<Read>(lock))
}

/// Takes the lock for reading; gives up when `token` is cancelled. A lock that is free is
/// taken without a look at the token.
///
/// * 0: the caller holds the lock for reading.
/// * ECANCELED: the token was cancelled, and somebody was in the way.
/// * EINVAL: not a lock, or not a token.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_cancellable(
    lock: *mut fairlock_rwlock_t,
    token: *mut fairlock_cancel_t,
) -> c_int {
    with_caller!(cancellable::<Read>(lock, token))
}

/// Takes the lock for reading, past all waiters if readers hold it already: for a thread
/// that may hold it for reading itself. Readers that never let go at the same time can
/// starve a writer this way. A thread that holds it for writing waits for itself.
///
/// * 0: the caller holds the lock for reading, once more.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_recursive(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(take::<Recursive>(lock))
}

/// As fairlock_rwlock_read_recursive, without waiting.
///
/// * 0: the caller holds the lock for reading, once more.
/// * EBUSY: a writer holds it, or it is free and somebody waits for it.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_try_read_recursive(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(attempt::<Recursive>(lock))
}

/// As fairlock_rwlock_read_recursive; gives up at `deadline`, a time on `clock`.
///
/// * 0: the caller holds the lock for reading, once more.
/// * ETIMEDOUT: the deadline has passed, and somebody was in the way.
/// * EINVAL: not a lock, an unknown clock, or no valid time.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_recursive_until(
    lock: *mut fairlock_rwlock_t,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    with_caller!(until::<Recursive>(lock, clock, deadline))
}

/// As fairlock_rwlock_read_recursive; gives up when a signal handler has run in this thread
/// while it slept.
///
/// * 0: the caller holds the lock for reading, once more.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_recursive_interruptible(
    lock: *mut fairlock_rwlock_t,
) -> c_int {
    with_caller!(interruptible::<Recursive>(lock))
}

/// As fairlock_rwlock_read_recursive; gives up when `token` is cancelled.
///
/// * 0: the caller holds the lock for reading, once more.
/// * ECANCELED: the token was cancelled, and somebody was in the way.
/// * EINVAL: not a lock, or not a token.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_read_recursive_cancellable(
    lock: *mut fairlock_rwlock_t,
    token: *mut fairlock_cancel_t,
) -> c_int {
    with_caller!(cancellable::<Recursive>(lock, token))
}

/// Gives up the lock held for reading.
///
/// * 0: the caller has given it up.
/// * EPERM: nobody holds it for reading. It is not noticed if another thread does.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_unlock_read(lock: *mut fairlock_rwlock_t) -> c_int {
    // SAFETY: the caller provides a lock.
    unsafe { unlock::<Read>(lock) }
}

/// Gives up the lock held for reading; if anyone waits, nobody gets in before the waiter
/// whose turn it is.
///
/// * 0: the caller has given it up.
/// * EPERM: nobody holds it for reading. It is not noticed if another thread does.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_unlock_read_fair(lock: *mut fairlock_rwlock_t) -> c_int {
    // SAFETY: the caller provides a lock.
    unsafe { unlock_fair::<Read>(lock) }
}

// ---- write ----

/// Takes the lock for writing; blocks until it has it.
///
/// * 0: the caller holds the lock for writing.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_write(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(take::<Write>(lock))
}

/// Takes the lock for writing if that needs no waiting.
///
/// * 0: the caller holds the lock for writing.
/// * EBUSY: somebody holds it, or waits for it.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_try_write(lock: *mut fairlock_rwlock_t) -> c_int {
    with_caller!(attempt::<Write>(lock))
}

/// Takes the lock for writing; gives up at `deadline`, a time on `clock`.
///
/// * 0: the caller holds the lock for writing.
/// * ETIMEDOUT: the deadline has passed, and somebody was in the way.
/// * EINVAL: not a lock, an unknown clock, or no valid time.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_write_until(
    lock: *mut fairlock_rwlock_t,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    with_caller!(until::<Write>(lock, clock, deadline))
}

/// Takes the lock for writing; gives up when a signal handler has run in this thread while
/// it slept, as fairlock_rwlock_read_interruptible.
///
/// * 0: the caller holds the lock for writing.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_write_interruptible(
    lock: *mut fairlock_rwlock_t,
) -> c_int {
    with_caller!(interruptible::<Write>(lock))
}

/// Takes the lock for writing; gives up when `token` is cancelled. A lock that is free is
/// taken without a look at the token.
///
/// * 0: the caller holds the lock for writing.
/// * ECANCELED: the token was cancelled, and somebody was in the way.
/// * EINVAL: not a lock, or not a token.
#[unsafe(no_mangle)]
#[must_use]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub unsafe extern "C" fn fairlock_rwlock_write_cancellable(
    lock: *mut fairlock_rwlock_t,
    token: *mut fairlock_cancel_t,
) -> c_int {
    with_caller!(cancellable::<Write>(lock, token))
}

/// Gives up the lock held for writing.
///
/// * 0: the caller has given it up.
/// * EPERM: nobody holds it for writing. It is not noticed if another thread does.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_unlock_write(lock: *mut fairlock_rwlock_t) -> c_int {
    // SAFETY: the caller provides a lock.
    unsafe { unlock::<Write>(lock) }
}

/// Gives up the lock held for writing; if anyone waits, nobody gets in before the waiter
/// whose turn it is.
///
/// * 0: the caller has given it up.
/// * EPERM: nobody holds it for writing. It is not noticed if another thread does.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_unlock_write_fair(lock: *mut fairlock_rwlock_t) -> c_int {
    // SAFETY: the caller provides a lock.
    unsafe { unlock_fair::<Write>(lock) }
}

/// Turns the lock held for writing into one held for reading, with no gap in which another
/// writer could get in, and lets in readers that wait. Never blocks.
///
/// * 0: the caller holds the lock for reading.
/// * EPERM: nobody holds it for writing. It is not noticed if another thread does.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_downgrade(lock: *mut fairlock_rwlock_t) -> c_int {
    let downgrade = |lock: &Lock| {
        not_held_unless(lock.is_write_locked())?;
        // SAFETY: held, as was just seen.
        lock.change(Access::Write, Access::Read, |sem| unsafe { sem.downgrade() });
        Ok(())
    };
    // SAFETY: the caller provides a lock.
    unsafe { with(lock, downgrade) }
}

// ---- looking ----

/// Whether anyone holds the lock at this instant; false if it is not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_is_locked(lock: *const fairlock_rwlock_t) -> bool {
    // SAFETY: the caller provides a lock.
    unsafe { home::get(lock) }.is_ok_and(|sem| sem.is_locked())
}

/// Whether a writer holds the lock at this instant; false if it is not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_is_write_locked(lock: *const fairlock_rwlock_t) -> bool {
    // SAFETY: the caller provides a lock.
    unsafe { home::get(lock) }.is_ok_and(|sem| sem.is_write_locked())
}

/// Whether a thread is queued for the lock at this instant; false if it is not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_has_waiters(lock: *const fairlock_rwlock_t) -> bool {
    // SAFETY: the caller provides a lock.
    unsafe { home::get(lock) }.is_ok_and(|sem| sem.has_waiters())
}

/// Writes down the policy that the lock follows.
///
/// * 0: `*policy` was written.
/// * EINVAL: not a lock, or `policy` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_policy(
    lock: *const fairlock_rwlock_t,
    policy: *mut fairlock_policy_t,
) -> c_int {
    // SAFETY: the caller provides a lock, and room for a policy.
    unsafe { with(lock, |sem| give(policy, fairlock_policy_t::new(&sem.policy()))) }
}

/// Writes down how long a waiter with `grants_ahead` grants before its own waits at most, in
/// nanoseconds, as planned now: from what handoffs have cost, if nobody stays inside for
/// longer than its turn. Time for which threads do not run although they could comes on top.
///
/// * 0: `*wait_ns` was written.
/// * EINVAL: not a lock, or `wait_ns` is null.
/// * ENOTSUP: the lock's policy plans nothing; of the presets only FAIRLOCK_DEFAULT does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_planned_wait_ns(
    lock: *const fairlock_rwlock_t,
    grants_ahead: usize,
    wait_ns: *mut u64,
) -> c_int {
    let look = |sem: &Lock| {
        if wait_ns.is_null() {
            return Err(Errno::INVALID);
        }
        let planned = sem.as_default().map(|lock| lock.planned_wait_ns(grants_ahead));
        // SAFETY: the caller provides room for a number.
        unsafe { give(wait_ns, planned.ok_or(Errno::UNSUPPORTED)?) }
    };
    // SAFETY: the caller provides a lock.
    unsafe { with(lock, look) }
}

/// Counts the lock's events in `events` too; if that is null, no longer. Several locks may
/// share them. They stay where they are for as long as the lock is used.
///
/// * 0: done.
/// * EINVAL: not a lock, or `events` is misaligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_set_events(
    lock: *mut fairlock_rwlock_t,
    events: *mut fairlock_events_t,
) -> c_int {
    // SAFETY: the caller provides a lock, and events that outlive it.
    unsafe {
        with(lock, |sem| {
            sem.set_events(events::sink(events)?);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use libc::{EAGAIN, EBUSY};

    use super::*;
    use crate::cancel::fairlock_cancel_init;

    #[test]
    fn where_no_more_readers_can_be_counted_every_way_to_read_says_so() {
        let mut lock = fairlock_rwlock_t { mark: 0, preset: 0, memory: [0; 3] };
        let lock = &raw mut lock;
        // SAFETY: a token, as anything is that `init` made one.
        let mut token = unsafe { std::mem::zeroed() };
        let (token, time) = (&raw mut token, &timespec { tv_sec: 0, tv_nsec: 0 });
        let clock = libc::CLOCK_MONOTONIC;
        // SAFETY: a lock, a token and a time, of this test alone.
        let read = unsafe {
            assert_eq!(fairlock_cancel_init(token), 0);
            home::get(lock).unwrap().as_default().unwrap().adopt_readers(usize::MAX); // nobody else holds it
            [
                fairlock_rwlock_read(lock),
                fairlock_rwlock_try_read(lock),
                fairlock_rwlock_read_until(lock, clock, time),
                fairlock_rwlock_read_interruptible(lock),
                fairlock_rwlock_read_cancellable(lock, token),
                fairlock_rwlock_read_recursive(lock),
                fairlock_rwlock_try_read_recursive(lock),
                fairlock_rwlock_read_recursive_until(lock, clock, time),
                fairlock_rwlock_read_recursive_interruptible(lock),
                fairlock_rwlock_read_recursive_cancellable(lock, token),
            ]
        };
        assert_eq!(read, [EAGAIN; 10]);
        // SAFETY: as above.
        unsafe {
            assert_eq!(fairlock_rwlock_try_write(lock), EBUSY);
            assert_eq!(fairlock_rwlock_unlock_read(lock), 0);
            assert_eq!(fairlock_rwlock_read(lock), 0);
        }
    }
}
