//! Deadlocks: which threads wait for each other, and where (feature `deadlock_detection`).
//!
//! With the feature on, each thread notes which locks it holds, and, when it has to wait for one
//! without an end, which one that is and from where it waits. `check_deadlock` looks for circles
//! in that. It is for builds that look for a fault: each acquisition and release takes a lock of
//! the thread's own, each wait captures a backtrace, and each lock has 8 more bytes, which identify it
//! wherever it moves. With the feature off nothing is noted.
//!
//! The interface is `parking_lot`'s, and more: a `DeadlockedThread` has a name, says which locks the thread holds and where it
//! took them, and for which one it waits. Locks that have a [name](crate::stats) are called by it.
//!
//! Deadlocks of locks that all have a name are also found without the feature, at no cost: see
//! [`Snapshot::deadlocks`](crate::stats::Snapshot::deadlocks).
//!
//! # What is found
//!
//! Circles of threads each of which waits, for as long as it takes, for a lock that the next
//! one holds: [`Mutex`](crate::Mutex), [`FairMutex`](crate::FairMutex),
//! [`ReentrantMutex`](crate::ReentrantMutex), [`RwLock`](crate::RwLock) and
//! [`RecursiveRwLock`](crate::RecursiveRwLock), upgrades, and a thread that waits for what it
//! holds itself. A thread that waits for a [`Condvar`](crate::Condvar) waits for the mutex that
//! it let go, notified or not: it cannot go on without.
//!
//! A thread that reads or upgradably reads a lock waits for writers that came before it, too, while
//! these wait for readers: so a thread that reads a [`RwLock`](crate::RwLock) again while it reads
//! is found. Such a circle is reported if it was there at the call before, too: for a moment, a reader
//! that is just being let in seems to wait.
//!
//! What is reported is a deadlock: none of its threads can go on, unless somebody releases a
//! lock for them by force.
//!
//! # What is not found
//!
//! * A notification of a [`Condvar`](crate::Condvar) that never comes, a [`Once`](crate::Once), a
//!   thread that is joined, a channel, or a lock that is not this crate's.
//! * Waits that can end, by a deadline, a signal or a token: they do. While such a thread waits,
//!   nobody is told that it keeps others waiting for ever.
//! * Range locks, and locks used by their raw methods (`RawRwLock::read`, ticket locks).
//!
//! In the child of a fork, the capture of a backtrace may wait for ever: for a mutex of the
//! standard library, if another thread of the parent held it.
//!
//! A guard may be dropped by another thread than took it (feature `send_guard`). Its lock is then
//! taken off some thread that holds it in that mode: with several readers that may be the wrong
//! one.

#[cfg(all(feature = "std", not(fairlock_loom)))]
mod circles;
#[cfg(all(feature = "deadlock_detection", not(fairlock_loom)))]
mod notes;
/// Without the feature nothing is noted, and this costs nothing.
#[cfg(not(all(feature = "deadlock_detection", not(fairlock_loom))))]
mod notes {
    use super::HeldAs;

    #[derive(Debug)]
    pub(crate) struct Id;

    impl Id {
        pub(crate) const fn new() -> Self {
            Self
        }
    }

    /// As the other module's; nothing here.
    #[derive(Clone, Copy)]
    pub(crate) struct Call;

    #[cfg(feature = "std")]
    impl Call {
        pub(super) fn new(_name: Option<&'static str>) -> Self {
            Self
        }
    }

    #[inline(always)]
    #[cfg(feature = "std")]
    pub(crate) fn called<R>(_call: Call, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    pub(super) fn note_wait(_lock: &Id, _mode: HeldAs, _upgrades: bool) {}

    #[inline(always)]
    pub(crate) fn acquired(_lock: &Id, _mode: HeldAs) {}

    #[inline(always)]
    pub(crate) fn changes(_lock: &Id, _from: HeldAs, _to: HeldAs) {}

    #[inline(always)]
    pub(crate) fn releases(_lock: &Id, _mode: HeldAs) -> Option<Call> {
        None
    }
}

#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) use circles::circles;
use notes::note_wait;
#[cfg(all(feature = "std", not(fairlock_loom)))]
use notes::{Call, called};
#[cfg(all(feature = "deadlock_detection", not(fairlock_loom)))]
pub use notes::{DeadlockedThread, check_deadlock};
pub(crate) use notes::{Id, acquired, changes, releases};

/// A lock that is noted.
pub(crate) trait Noted {
    fn id(&self) -> &Id;
}

/// Whether locks are noted.
const NOTES: bool = cfg!(all(feature = "deadlock_detection", not(fairlock_loom)));

/// How a lock is held, or wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldAs {
    Shared,
    /// Wanted only: shared, by one that may hold it so already, and waits behind nobody.
    Recursive,
    Upgradable,
    Exclusive,
}

impl HeldAs {
    /// How a lock that is wanted in this mode is held then.
    fn held(self) -> Self {
        if self == Self::Recursive { Self::Shared } else { self }
    }
}

/// Takes a lock: by `attempt` if that succeeds, else by `wait`, which does not end without it.
#[inline(always)]
#[cfg_attr(feature = "deadlock_detection", track_caller)]
pub(crate) fn acquire(
    lock: &Id,
    mode: HeldAs,
    attempt: impl FnOnce() -> bool,
    wait: impl FnOnce(),
) {
    if !NOTES || !attempt() {
        waits(lock, mode);
        wait();
    }
    acquired(lock, mode.held());
}

/// Takes a lock by `take`, which may end without it if `can_end`.
#[inline(always)]
#[cfg_attr(feature = "deadlock_detection", track_caller)]
pub(crate) fn acquire_with<E>(
    lock: &Id,
    mode: HeldAs,
    can_end: bool,
    take: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    if !can_end {
        waits(lock, mode);
    }
    take().inspect(|()| acquired(lock, mode.held()))
}

/// As [`acquire`], for the upgradable reader of a lock, which wants it alone.
#[inline(always)]
#[cfg_attr(feature = "deadlock_detection", track_caller)]
pub(crate) fn upgrade(lock: &Id, attempt: impl FnOnce() -> bool, wait: impl FnOnce()) {
    if !NOTES || !attempt() {
        note_wait(lock, HeldAs::Exclusive, true);
        wait();
    }
    changes(lock, HeldAs::Upgradable, HeldAs::Exclusive);
}

/// For the only holder of a lock: lets it go, and has it again when `wait` returns.
#[inline(always)]
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) fn acquire_again<R>(lock: &Id, wait: impl FnOnce() -> R) -> R {
    let again = || {
        waits(lock, HeldAs::Exclusive);
        let result = wait();
        acquired(lock, HeldAs::Exclusive);
        result
    };
    match releases(lock, HeldAs::Exclusive) {
        // It is held as before then.
        Some(call) => called(call, again),
        None => again(),
    }
}

/// Runs `f`, which takes or releases a lock with this name: of the caller's caller.
#[inline(always)]
#[cfg(all(feature = "std", not(fairlock_loom)))]
#[cfg_attr(feature = "deadlock_detection", track_caller)]
pub(crate) fn named<R>(name: &'static str, f: impl FnOnce() -> R) -> R {
    if NOTES { called(Call::new(Some(name)), f) } else { f() }
}

/// The lock is waited for until it is [`acquired`].
#[inline(always)]
#[cfg_attr(feature = "deadlock_detection", track_caller)]
fn waits(lock: &Id, mode: HeldAs) {
    note_wait(lock, mode, false);
}
