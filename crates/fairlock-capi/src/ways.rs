//! The ways to take a lock and to give it up: what is the same for all of them, and for each way to wait.
//!
//! What a lock's name adds to the functions that are called most is in functions of its own, with a second
//! call of the lock: else that would not be inlined.

use fairlock::stats::Want;
use fairlock::{Wait, WaitError};
use libc::{c_int, timespec};

use crate::caller::Caller;
use crate::cancel::fairlock_cancel_t;
use crate::counted::Counted;
use crate::deadline::Deadline;
use crate::errno::{Errno, not_held_unless, status};
use crate::home::{self, Home};

/// A way to take a lock. What is called most is to be inlined.
pub(crate) trait Way {
    type Home: Home<Value = Counted<Self::Lock>>;
    type Lock: Sync;
    const WANT: Want;

    /// Takes the lock if that needs no waiting.
    fn attempt(lock: &Self::Lock) -> bool;

    /// Takes the lock, or gives up as `wait` says.
    fn wait(lock: &Self::Lock, wait: Wait<'_>) -> Result<(), WaitError>;

    /// Takes the lock; blocks until it has it.
    #[inline(always)]
    fn take(lock: &Self::Lock) -> Result<(), WaitError> {
        Self::wait(lock, Wait::FOREVER)
    }

    /// Why an attempt has failed.
    fn obstacle(_lock: &Self::Lock) -> Errno {
        Errno::BUSY
    }
}

/// A way to hold a lock, which can be given up.
pub(crate) trait Hold: Way {
    fn is_held(lock: &Self::Lock) -> bool;

    /// # Safety
    /// The lock is held in this way: by the caller, or else as the caller's mistake.
    unsafe fn release(lock: &Self::Lock);

    /// If anyone waits, nobody gets in before the waiter whose turn it is.
    ///
    /// # Safety
    /// As for [`release`](Self::release).
    unsafe fn release_fair(lock: &Self::Lock);
}

// ---- functions of the header, with the caller; see `with_caller` ----

/// # Safety
/// `lock` is null, or points to a lock, as for [`home::get`]: here and below.
pub(crate) unsafe extern "C" fn take<W: Way>(lock: *const W::Home, at: Caller) -> c_int {
    // SAFETY: the caller provides a lock.
    unsafe { home::with(lock, at, take_made::<W>) }
}

/// # Safety
/// As for [`take`].
pub(crate) unsafe extern "C" fn attempt<W: Way>(lock: *const W::Home, at: Caller) -> c_int {
    let attempt = |lock: &Counted<W::Lock>| match lock.attempt(W::WANT, at, W::attempt) {
        true => Ok(()),
        false => Err(W::obstacle(lock)),
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(attempt))
}

/// Waits until a time of the caller's. A lock that is free is taken without a look at the clock,
/// but the time is checked first.
///
/// # Safety
/// As for [`take`] and [`Deadline::new`].
pub(crate) unsafe extern "C" fn until<W: Way>(
    lock: *const W::Home,
    clock: c_int,
    deadline: *const timespec,
    at: Caller,
) -> c_int {
    let take = |lock: &Counted<W::Lock>| {
        // SAFETY: the caller provides a time.
        let deadline = unsafe { Deadline::new(clock, deadline)? };
        if lock.attempt(W::WANT, at, W::attempt) {
            return Ok(());
        }
        deadline.wait(|until| wait::<W>(lock, until, at))
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(take))
}

/// # Safety
/// As for [`take`].
pub(crate) unsafe extern "C" fn interruptible<W: Way>(lock: *const W::Home, at: Caller) -> c_int {
    let take = |lock: &_| Ok(wait::<W>(lock, Wait::FOREVER.interruptible(), at)?);
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(take))
}

/// # Safety
/// As for [`take`]; `token` is null or points to a token.
pub(crate) unsafe extern "C" fn cancellable<W: Way>(
    lock: *const W::Home,
    token: *mut fairlock_cancel_t,
    at: Caller,
) -> c_int {
    let take = |lock: &_| {
        // SAFETY: the caller provides a token.
        let until = Wait::FOREVER.cancellable(unsafe { home::get(token)? });
        Ok(wait::<W>(lock, until, at)?)
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(take))
}

// ---- without ----

/// # Safety
/// As for [`take`].
#[inline(always)]
pub(crate) unsafe fn unlock<W: Hold>(lock: *const W::Home) -> c_int {
    // SAFETY: the caller provides a lock.
    unsafe { home::with(lock, (), release_made::<W>) }
}

/// # Safety
/// As for [`take`].
pub(crate) unsafe fn unlock_fair<W: Hold>(lock: *const W::Home) -> c_int {
    let release = |lock: &Counted<W::Lock>| {
        not_held_unless(W::is_held(lock))?;
        // SAFETY: held, as was just seen.
        lock.leave(W::WANT.access(), |lock| unsafe { W::release_fair(lock) });
        Ok(())
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(release))
}

#[inline(always)]
fn take_made<W: Way>(lock: &Counted<W::Lock>, at: Caller) -> Result<(), Errno> {
    if lock.has_name() { take_counted::<W>(lock, at) } else { Ok(W::take(lock)?) }
}

#[cold]
#[inline(never)]
fn take_counted<W: Way>(lock: &Counted<W::Lock>, at: Caller) -> Result<(), Errno> {
    Ok(wait::<W>(lock, Wait::FOREVER, at)?)
}

fn wait<W: Way>(lock: &Counted<W::Lock>, wait: Wait<'_>, at: Caller) -> Result<(), WaitError> {
    lock.take(W::WANT, wait.can_end(), at, W::attempt, |lock| W::wait(lock, wait))
}

#[inline(always)]
fn release_made<W: Hold>(lock: &Counted<W::Lock>, (): ()) -> Result<(), Errno> {
    not_held_unless(W::is_held(lock))?;
    // SAFETY: held, as was just seen.
    unsafe { if lock.has_name() { release_counted::<W>(lock) } else { W::release(lock) } }
    Ok(())
}

/// # Safety
/// As for [`Hold::release`].
#[cold]
#[inline(never)]
unsafe fn release_counted<W: Hold>(lock: &Counted<W::Lock>) {
    // SAFETY: the caller's promise.
    lock.leave(W::WANT.access(), |lock| unsafe { W::release(lock) });
}
