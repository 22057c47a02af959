//! Ranges that are held, in nodes that the C program provides.

use std::ops::RangeInclusive;

use fairlock::range::RangeError;
use fairlock::{RangeRwLock, Wait};
use libc::{c_int, timespec};

use self::node::{Guard, Held, Node, ReadGuard, WriteGuard};
use crate::cancel::fairlock_cancel_t;
use crate::deadline::Deadline;
use crate::errno::{Errno, give, not_held_unless, status};
use crate::home;
use crate::range_lock::fairlock_range_lock_t;

mod node;

pub use self::node::fairlock_range_t;

/// Locks `start..=last` as `take` does.
///
/// # Safety
/// The pointers are null, or point to a lock and a node, as the header asks.
#[inline(always)]
unsafe fn lock_with<G: Guard, E: Into<Errno>>(
    lock: *mut fairlock_range_lock_t,
    node: *mut fairlock_range_t,
    (start, last): (u64, u64),
    take: impl FnOnce(&'static RangeRwLock, RangeInclusive<u64>) -> Result<G, E>,
) -> c_int {
    // SAFETY: the caller's promise; the lock lives longer than the guard in the node.
    let both = unsafe { home::get(lock).and_then(|lock| Ok((lock, Node::new(node)?))) };
    status(both.and_then(|(lock, node)| node.fill(|| take(lock, start..=last).map_err(E::into))))
}

/// The ways to lock that may end in vain, all for the same kind of guard.
struct Ways<G> {
    attempt: fn(&'static RangeRwLock, RangeInclusive<u64>) -> Result<G, RangeError>,
    wait: fn(&'static RangeRwLock, RangeInclusive<u64>, Wait<'_>) -> Result<G, RangeError>,
}

const READ: Ways<ReadGuard> = Ways { attempt: RangeRwLock::try_read, wait: RangeRwLock::read_with };
const READ_RECURSIVE: Ways<ReadGuard> =
    Ways { attempt: RangeRwLock::try_read_recursive, wait: RangeRwLock::read_recursive_with };
const WRITE: Ways<WriteGuard> =
    Ways { attempt: RangeRwLock::try_write, wait: RangeRwLock::write_with };

impl<G: Guard> Ways<G> {
    /// # Safety
    /// As for [`lock_with`].
    #[inline(always)]
    unsafe fn interruptible(
        &self,
        lock: *mut fairlock_range_lock_t,
        node: *mut fairlock_range_t,
        span: (u64, u64),
    ) -> c_int {
        let take = |lock, span| (self.wait)(lock, span, Wait::FOREVER.interruptible());
        // SAFETY: the caller's promise.
        unsafe { lock_with(lock, node, span, take) }
    }

    /// # Safety
    /// As for [`lock_with`]; `token` is null or points to a token.
    #[inline(always)]
    unsafe fn cancellable(
        &self,
        lock: *mut fairlock_range_lock_t,
        node: *mut fairlock_range_t,
        span: (u64, u64),
        token: *mut fairlock_cancel_t,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            lock_with(lock, node, span, |lock, span| {
                let until = Wait::FOREVER.cancellable(home::get(token)?);
                (self.wait)(lock, span, until).map_err(Errno::from)
            })
        }
    }

    /// # Safety
    /// As for [`lock_with`]; `deadline` is null or points to a time.
    #[inline(always)]
    unsafe fn until(
        &self,
        lock: *mut fairlock_range_lock_t,
        node: *mut fairlock_range_t,
        span: (u64, u64),
        (clock, deadline): (c_int, *const timespec),
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            lock_with(lock, node, span, |lock, span| {
                let deadline = Deadline::new(clock, deadline)?;
                match (self.attempt)(lock, span.clone()) {
                    Err(RangeError::Busy) => {
                        deadline.wait(|until| (self.wait)(lock, span.clone(), until))
                    }
                    done => Ok(done?),
                }
            })
        }
    }
}

// ---- read ----

/// Locks all of `start` to `last` for reading; blocks until it has it.
///
/// * 0: `range` holds it.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_read(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { lock_with(lock, range, (start, last), RangeRwLock::read) }
}

/// Locks all of `start` to `last` for reading if that needs no waiting. May also fail when
/// another thread is interrupted while it is just taking or leaving a range.
///
/// * 0: `range` holds it.
/// * EBUSY: it is written, or waited for by one that must not be overtaken.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_try_read(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { lock_with(lock, range, (start, last), RangeRwLock::try_read) }
}

/// Locks all of `start` to `last` for reading; gives up at `deadline`, a time on `clock`.
///
/// * 0: `range` holds it.
/// * ETIMEDOUT: the deadline has passed, and somebody was in the way.
/// * EINVAL: not a lock; an unknown clock, or no valid time; `last` is before `start`;
///   `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_read_until(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: the caller provides a lock, a node and a time.
    unsafe { READ.until(lock, range, (start, last), (clock, deadline)) }
}

/// Locks all of `start` to `last` for reading; gives up when a signal handler has run in
/// this thread while it slept, with or without SA_RESTART.
///
/// * 0: `range` holds it.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_read_interruptible(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { READ.interruptible(lock, range, (start, last)) }
}

/// Locks all of `start` to `last` for reading; gives up when `token` is cancelled. A range
/// that is free is taken without a look at the token.
///
/// * 0: `range` holds it.
/// * ECANCELED: the token was cancelled, and somebody was in the way.
/// * EINVAL: not a lock, or not a token; `last` is before `start`; `range` is not a node, or
///   is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_read_cancellable(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
    token: *mut fairlock_cancel_t,
) -> c_int {
    // SAFETY: the caller provides a lock, a node and a token.
    unsafe { READ.cancellable(lock, range, (start, last), token) }
}

/// Locks all of `start` to `last` for reading, past those that wait for it if no writer
/// holds a part of it: for a thread that may hold a part of it for reading itself. Readers
/// that never let go at the same time can starve a writer this way.
///
/// * 0: `range` holds it.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_read_recursive(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { lock_with(lock, range, (start, last), RangeRwLock::read_recursive) }
}

/// As fairlock_range_read_recursive, without waiting.
///
/// * 0: `range` holds it.
/// * EBUSY: a writer holds a part of it.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_try_read_recursive(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { lock_with(lock, range, (start, last), RangeRwLock::try_read_recursive) }
}

/// As fairlock_range_read_recursive; gives up at `deadline`, a time on `clock`.
///
/// * 0: `range` holds it.
/// * ETIMEDOUT: the deadline has passed, and a writer was in the way.
/// * EINVAL: not a lock; an unknown clock, or no valid time; `last` is before `start`;
///   `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_read_recursive_until(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: the caller provides a lock, a node and a time.
    unsafe { READ_RECURSIVE.until(lock, range, (start, last), (clock, deadline)) }
}

/// As fairlock_range_read_recursive; gives up when a signal handler has run in this thread
/// while it slept, with or without SA_RESTART.
///
/// * 0: `range` holds it.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_read_recursive_interruptible(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { READ_RECURSIVE.interruptible(lock, range, (start, last)) }
}

/// As fairlock_range_read_recursive; gives up when `token` is cancelled. A range that is
/// free is taken without a look at the token.
///
/// * 0: `range` holds it.
/// * ECANCELED: the token was cancelled, and a writer was in the way.
/// * EINVAL: not a lock, or not a token; `last` is before `start`; `range` is not a node, or
///   is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_read_recursive_cancellable(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
    token: *mut fairlock_cancel_t,
) -> c_int {
    // SAFETY: the caller provides a lock, a node and a token.
    unsafe { READ_RECURSIVE.cancellable(lock, range, (start, last), token) }
}

// ---- write ----

/// Locks all of `start` to `last` for writing; blocks until it has it.
///
/// * 0: `range` holds it.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_write(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { lock_with(lock, range, (start, last), RangeRwLock::write) }
}

/// Locks all of `start` to `last` for writing if that needs no waiting. May also fail when
/// another thread is interrupted while it is just taking or leaving a range.
///
/// * 0: `range` holds it.
/// * EBUSY: a part of it is held, or waited for by one that must not be overtaken.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_try_write(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { lock_with(lock, range, (start, last), RangeRwLock::try_write) }
}

/// Locks all of `start` to `last` for writing; gives up at `deadline`, a time on `clock`.
///
/// * 0: `range` holds it.
/// * ETIMEDOUT: the deadline has passed, and somebody was in the way.
/// * EINVAL: not a lock; an unknown clock, or no valid time; `last` is before `start`;
///   `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_write_until(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
    clock: c_int,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: the caller provides a lock, a node and a time.
    unsafe { WRITE.until(lock, range, (start, last), (clock, deadline)) }
}

/// Locks all of `start` to `last` for writing; gives up when a signal handler has run in
/// this thread while it slept, with or without SA_RESTART.
///
/// * 0: `range` holds it.
/// * EINTR: a signal handler ran.
/// * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_write_interruptible(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a lock and a node.
    unsafe { WRITE.interruptible(lock, range, (start, last)) }
}

/// Locks all of `start` to `last` for writing; gives up when `token` is cancelled. A range
/// that is free is taken without a look at the token.
///
/// * 0: `range` holds it.
/// * ECANCELED: the token was cancelled, and somebody was in the way.
/// * EINVAL: not a lock, or not a token; `last` is before `start`; `range` is not a node, or
///   is in use.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn fairlock_range_write_cancellable(
    lock: *mut fairlock_range_lock_t,
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
    token: *mut fairlock_cancel_t,
) -> c_int {
    // SAFETY: the caller provides a lock, a node and a token.
    unsafe { WRITE.cancellable(lock, range, (start, last), token) }
}

// ---- what is held ----

/// Unlocks the range. The node can be used again.
///
/// * 0: it is unlocked.
/// * EPERM: the node holds nothing.
/// * EINVAL: not a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_unlock(range: *mut fairlock_range_t) -> c_int {
    // SAFETY: the caller provides a node.
    status(unsafe { Node::new(range) }.and_then(|mut node| node.release()))
}

/// Turns a range that is held for writing into one that is held for reading, with no gap in
/// which another writer could get in, and lets in the readers that waited for it alone.
/// Waits for nobody.
///
/// * 0: it is held for reading.
/// * EPERM: the node holds nothing, or holds it for reading.
/// * EINVAL: not a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_downgrade(range: *mut fairlock_range_t) -> c_int {
    // SAFETY: the caller provides a node.
    status(unsafe { Node::new(range) }.and_then(|mut node| {
        not_held_unless(matches!(node.held()?, Held::Write(_)))?;
        // SAFETY: the guard is of this kind, as was just seen.
        let guard: WriteGuard = unsafe { node.empty() };
        node.fill(|| Ok(guard.downgrade()))
    }))
}

/// Gives up all of the range but `start` to `last`, and lets in those who waited for no more
/// than that. Waits for nobody.
///
/// * 0: the node holds `start` to `last`.
/// * EPERM: the node holds nothing.
/// * EINVAL: not a node; `last` is before `start`; or not all of that is held. Nothing has
///   changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_shrink(
    range: *mut fairlock_range_t,
    start: u64,
    last: u64,
) -> c_int {
    // SAFETY: the caller provides a node.
    status(unsafe { Node::new(range) }.and_then(|mut node| match node.held()? {
        Held::Read(guard) => Ok(guard.shrink(start..=last)?),
        Held::Write(guard) => Ok(guard.shrink(start..=last)?),
    }))
}

/// Splits the range in two, before `mid`: `range` keeps what is below, and `upper`, a free
/// node, gets the rest. Waits for nobody, and nobody gets in between.
///
/// * 0: both nodes hold their parts.
/// * EPERM: `range` holds nothing.
/// * EINVAL: not a node, or `upper` is in use; or one of the parts would be empty. Nothing
///   has changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_split(
    range: *mut fairlock_range_t,
    mid: u64,
    upper: *mut fairlock_range_t,
) -> c_int {
    // SAFETY: the caller provides two nodes.
    let nodes = unsafe { Node::new(range).and_then(|lower| Ok((lower, Node::new(upper)?))) };
    status(nodes.and_then(|(mut lower, upper)| {
        let writes = matches!(lower.held()?, Held::Write(_));
        upper.is_free()?;
        // SAFETY: of the kind that was seen.
        unsafe {
            if writes {
                split(lower.empty::<WriteGuard>().split_at(mid), &lower, &upper)
            } else {
                split(lower.empty::<ReadGuard>().split_at(mid), &lower, &upper)
            }
        }
    }))
}

/// Puts both parts of a guard into their nodes, or the guard that could not be split back into its
/// own.
fn split<G: Guard>(
    parts: Result<(G, G), G>,
    lower: &Node<'_>,
    upper: &Node<'_>,
) -> Result<(), Errno> {
    match parts {
        Ok((low, high)) => {
            lower.fill(|| Ok(low))?;
            upper.fill(|| Ok(high))
        }
        Err(whole) => {
            lower.fill(|| Ok(whole))?;
            Err(Errno::INVALID)
        }
    }
}

/// Writes down which range a node holds, and whether for writing; each pointer may be null.
///
/// * 0: written.
/// * EPERM: the node holds nothing.
/// * EINVAL: not a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_get(
    range: *const fairlock_range_t,
    start: *mut u64,
    last: *mut u64,
    writes: *mut bool,
) -> c_int {
    // SAFETY: the caller provides a node; it is not changed.
    status(unsafe { Node::new(range.cast_mut()) }.and_then(|mut node| {
        let (span, kind) = match node.held()? {
            Held::Read(guard) => (guard.span(), false),
            Held::Write(guard) => (guard.span(), true),
        };
        // SAFETY: the caller provides room, or null: what is not asked for is not said.
        unsafe {
            _ = give(start, span.start());
            _ = give(last, span.last());
            _ = give(writes, kind);
        }
        Ok(())
    }))
}
