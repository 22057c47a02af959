//! Locks with a name, and statistics of them while the program runs.
//!
//! A lock that is made with a name counts and times its acquisitions, its waits and its holds, says
//! which thread held it longest and where in the code, and counts how often waiters were overtaken.
//! [`snapshot()`] returns the numbers of all named locks of the process.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use fairlock::RwLock;
//! use fairlock::stats::{self, NamedExt};
//!
//! let sessions = RwLock::named("sessions", HashMap::new());
//! sessions.write().insert(7, "ann");
//! assert_eq!(sessions.read()[&7], "ann");
//!
//! let now = stats::snapshot();
//! let sessions = now.get("sessions").unwrap();
//! assert_eq!((sessions.reads.acquisitions, sessions.writes.acquisitions), (1, 1));
//! assert_eq!(sessions.writes.waited.count, 0);
//! println!("{now}"); // a table of all locks
//! ```
//!
//! # When a lock is stuck
//!
//! What has not ended is there, too: a [`Snapshot`] says of each lock which threads [wait](SideStats::waiting) and which
//! [hold it now](SideStats::held_now), where in the code, and for how long; and which threads wait for each other for
//! ever: [`deadlocks`](Snapshot::deadlocks). Any thread may take a snapshot at any time; the threads that are stuck need
//! not do anything.
//!
//! # Locks of one name
//!
//! The numbers of locks with one name are added; what a lock has counted stays when it is dropped. So no count falls as
//! long as the program runs. [`Snapshot::since`] returns the numbers of a period, [`Times::buckets`] those of a
//! histogram. A name may be made while the program runs (`format!("shard {n}")`). A name takes 6 kB for as long as the program
//! runs; of locks that are dropped a thousand names are kept, and all others count as `(others, dropped)`.
//!
//! # Where to send them
//!
//! A [`Snapshot`] is a table as text, an object in [JSON](Snapshot::to_json), and plain structs.
//! The feature `metrics` adds `publish_metrics`, for the crate of that name; the feature `tracing`
//! adds `trace_long_waits`, which puts long waits into the trace of the request that waited. For
//! anything else use [`on_long_wait`]. `examples/stats_json.rs` answers requests over HTTP.
//!
//! On Linux, if the environment variable `FAIRLOCK_PROFILE` is set when the first named lock is used, a
//! [record](https://docs.rs/fairlock-profile) of named locks is written to a file, each second and at the end of the process, by a
//! thread that is started for that: beside that of pthread locks, as `PID.named` in a folder, or with `.named` added to the name
//! of a file. `fairlock run`, `top`, `report` and `compare` read it, with what waits and holds then.
//!
//! # What is exact
//!
//! * Acquisitions and waits are all counted, and all waits are timed. A wait is an acquisition whose
//!   first attempt failed.
//! * How long a lock is held is measured for one acquisition of 64, since a look at the clock costs
//!   more than an acquisition, and for each acquisition after or during a wait. So the longest hold
//!   that anybody waited for is always known; a longer one that nobody waited for may be missed.
//! * A percentile is up to a quarter longer than the true one: see [`Times`].
//! * If a thread that reads a lock acquires it for reading again, both acquisitions count, and are one hold, which lasts
//!   until the thread has released both. With the feature `send_guard`, and of several permits of a semaphore, only the last
//!   hold is timed, and until its end shown as held now.
//! * A hold that was not timed and that nobody waits for is held now for an unknown time.
//! * The place of the longest hold may be that of an earlier one if the guard was sent to another thread,
//!   or if statistics were off when the hold began.
//!
//! # Tasks
//!
//! With the feature `async`, acquisitions and waits of tasks are counted and timed as those of threads. A task is among those that
//! [wait](SideStats::waiting), with the thread that has polled it last. No deadlock through it is found: no thread waits.
//!
//! # What it costs
//!
//! A lock without a name costs nothing: it has 8 bytes and the same code as ever. A lock with a
//! name has 32 bytes, and 6 kB of heap once it was used. An uncontended acquisition and its release
//! take 1 to 3 ns more (`examples/stats_cost.rs` measures that), or one load and a branch while
//! statistics are [off](set_collecting). An acquisition after or during a wait takes two looks at
//! the clock, about 50 ns.
//!
//! Do not name the locks of a global allocator: statistics allocate at the first use of a lock, and
//! when a wait or hold is the longest so far, and when a thread uses its first named lock.
//!
//! # Fork
//!
//! The child of a fork goes on with the numbers of its parent. If other threads ran at the moment
//! of the fork, the following may wait for ever in the child: the first use of a named lock, its
//! drop, a hold that is the longest so far, and [`snapshot()`].

mod collecting;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod export;
#[cfg(all(target_os = "linux", not(miri)))]
mod file;
mod histogram;
mod hold;
mod long_wait;
mod named;
mod ongoing;
mod place;
mod places;
mod range;
mod record;
#[cfg(all(target_os = "linux", not(miri)))]
mod recorded;
mod registry;
mod semaphore;
mod snapshot;
mod sums;
#[cfg(feature = "async")]
mod task;
mod threads;
#[cfg(feature = "async")]
mod waiting;

pub use collecting::set_collecting;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub use export::*;
pub use histogram::Times;
pub use long_wait::{Holder, LongWait, on_long_wait};
pub use named::{Name, Named};
#[doc(hidden)]
pub use place::Want;
pub use place::{Access, Place};
pub use range::{RangeReadGuard, RangeRwLock, RangeWriteGuard};
#[doc(hidden)] // for the crate's C interface
pub use record::Record;
#[doc(hidden)]
pub use registry::Statistics;
pub use registry::snapshot;
pub use semaphore::{Permit, Semaphore};
pub use snapshot::{Claim, Deadlock, LockStats, Longest, Now, SideStats, Snapshot, Stuck};
#[cfg(feature = "async")]
pub use task::PermitFuture;
#[cfg(feature = "deadlock_detection")]
pub(crate) use threads::{name_of, own_place};

use crate::range::RangePolicy;
use crate::{Policy, RawMutex, RawRwLock, RawThreadId};

/// A [`RwLock`](crate::RwLock) with a name. Its methods and guards are those of `lock_api` and of
/// [`RwLockExt`](crate::RwLockExt).
pub type RwLock<T> = lock_api::RwLock<Named<RawRwLock>, T>;
/// Shared access to the value of a [`RwLock`]; releases it when dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, Named<RawRwLock>, T>;
/// Exclusive access to the value of a [`RwLock`]; releases it when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, Named<RawRwLock>, T>;
/// Shared access to the value of a [`RwLock`] that can become exclusive; releases it when dropped.
pub type RwLockUpgradableReadGuard<'a, T> =
    lock_api::RwLockUpgradableReadGuard<'a, Named<RawRwLock>, T>;
/// A [`RwLockReadGuard`] for a part of the value.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, Named<RawRwLock>, T>;
/// A [`RwLockWriteGuard`] for a part of the value.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, Named<RawRwLock>, T>;
/// A [`Mutex`](crate::Mutex) with a name. Its methods and guards are those of `lock_api` and of
/// [`MutexExt`](crate::MutexExt), and [`Condvar`](crate::Condvar) works with it. While its holder
/// waits at a condition variable, the mutex is not held; taking it again afterwards does not count
/// as an acquisition, but as part of that [wait](LockStats::conditions).
pub type Mutex<T> = lock_api::Mutex<Named<RawMutex>, T>;
/// Holds a [`Mutex`]; releases it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Named<RawMutex>, T>;
/// A [`MutexGuard`] for a part of the value.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, Named<RawMutex>, T>;
/// A [`ReentrantMutex`](crate::ReentrantMutex) with a name. Only the first `lock` of its holder counts as an acquisition.
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<Named<RawMutex>, RawThreadId, T>;
/// Holds a [`ReentrantMutex`]; the last one of its thread releases it when dropped.
pub type ReentrantMutexGuard<'a, T> =
    lock_api::ReentrantMutexGuard<'a, Named<RawMutex>, RawThreadId, T>;

/// How a lock gets a name: [`named`](Self::named) in place of `new`.
///
/// Implemented for the reader/writer locks and mutexes at the root of this crate and of this
/// module; either makes a lock of this module. So to make a lock, both `use fairlock::Mutex` and
/// `use fairlock::stats::Mutex` work; the name of its type is the latter. For a `static` see
/// [`Builder`], for raw locks of other crates [`Named::new`].
pub trait NamedExt {
    /// What the lock guards; of a semaphore the number of permits, of a lock on ranges its policy.
    type Value;
    /// The lock with a name.
    type Named;

    /// A free lock with this name: a text of the program, or a `String`, which is kept for ever, once.
    fn named(name: impl Into<Name>, value: Self::Value) -> Self::Named;
}

mod sealed {
    use super::Named;

    /// A raw lock that can have a name.
    pub trait Nameable {
        /// The lock without one.
        type Inner;
    }

    impl Nameable for crate::RawMutex {
        type Inner = Self;
    }

    impl Nameable for crate::RawFairMutex {
        type Inner = Self;
    }

    impl Nameable for crate::RawRwLock {
        type Inner = Self;
    }

    impl Nameable for crate::RawRwLockRecursive {
        type Inner = Self;
    }

    impl<R> Nameable for Named<R> {
        type Inner = R;
    }
}

impl<R, T> NamedExt for lock_api::RwLock<R, T>
where
    R: sealed::Nameable<Inner: lock_api::RawRwLock>,
{
    type Value = T;
    type Named = lock_api::RwLock<Named<R::Inner>, T>;

    fn named(name: impl Into<Name>, value: T) -> Self::Named {
        lock_api::RwLock::from_raw(Named::with_name(name.into(), lock_api::RawRwLock::INIT), value)
    }
}

impl NamedExt for crate::Semaphore {
    type Value = u32;
    type Named = Semaphore;

    fn named(name: impl Into<Name>, permits: u32) -> Semaphore {
        Named::with_name(name.into(), Self::new(permits))
    }
}

impl NamedExt for crate::RangeRwLock {
    type Value = RangePolicy;
    type Named = RangeRwLock;

    fn named(name: impl Into<Name>, policy: RangePolicy) -> RangeRwLock {
        Named::with_name(name.into(), Self::with_policy(policy))
    }
}

impl<R, T> NamedExt for lock_api::ReentrantMutex<R, RawThreadId, T>
where
    R: sealed::Nameable<Inner: lock_api::RawMutex>,
{
    type Value = T;
    type Named = lock_api::ReentrantMutex<Named<R::Inner>, RawThreadId, T>;

    fn named(name: impl Into<Name>, value: T) -> Self::Named {
        let raw = Named::with_name(name.into(), lock_api::RawMutex::INIT);
        lock_api::ReentrantMutex::from_raw(raw, RawThreadId, value)
    }
}

impl<R, T> NamedExt for lock_api::Mutex<R, T>
where
    R: sealed::Nameable<Inner: lock_api::RawMutex>,
{
    type Value = T;
    type Named = lock_api::Mutex<Named<R::Inner>, T>;

    fn named(name: impl Into<Name>, value: T) -> Self::Named {
        lock_api::Mutex::from_raw(Named::with_name(name.into(), lock_api::RawMutex::INIT), value)
    }
}

/// Makes locks with a name: in statics, with a policy, or without statistics.
///
/// ```
/// use fairlock::Policy;
/// use fairlock::stats::{Builder, Mutex, RwLock};
///
/// static HITS: Mutex<u64> = Builder::new("hits").mutex(0);
/// static LOG: RwLock<Vec<u8>> =
///     Builder::new("log").rwlock_with_policy(Policy::DEFAULT.with_priorities(), Vec::new());
///
/// // Of the same type as the others, but without statistics.
/// let quiet: Mutex<u64> = Builder::new("quiet").statistics(false).mutex(0);
/// *HITS.lock() += *quiet.lock();
/// assert!(fairlock::stats::snapshot().get("quiet").is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    name: &'static str,
    statistics: bool,
}

impl Builder {
    /// For locks with this name, and statistics.
    pub const fn new(name: &'static str) -> Self {
        Self { name, statistics: true }
    }

    /// Whether the locks have statistics. Without, a lock still has room for them, and an
    /// acquisition costs one more branch.
    pub const fn statistics(self, statistics: bool) -> Self {
        Self { statistics, ..self }
    }

    /// A free reader/writer lock with the default policy.
    pub const fn rwlock<T>(self, value: T) -> RwLock<T> {
        self.rwlock_with_policy(Policy::DEFAULT, value)
    }

    /// A free reader/writer lock that follows `policy`.
    pub const fn rwlock_with_policy<T>(self, policy: Policy, value: T) -> RwLock<T> {
        lock_api::RwLock::from_raw(self.around(RawRwLock::with_policy(policy)), value)
    }

    /// A semaphore with so many free permits.
    pub const fn semaphore(self, permits: u32) -> Semaphore {
        self.around(crate::Semaphore::new(permits))
    }

    /// A lock on ranges that are all free, and follow `policy`.
    pub const fn range_lock(self, policy: RangePolicy) -> RangeRwLock {
        self.around(crate::RangeRwLock::with_policy(policy))
    }

    /// A free mutex that its holder may lock again.
    pub const fn reentrant_mutex<T>(self, value: T) -> ReentrantMutex<T> {
        let raw = self.around(<RawMutex as lock_api::RawMutex>::INIT);
        lock_api::ReentrantMutex::from_raw(raw, RawThreadId, value)
    }

    /// A free mutex.
    pub const fn mutex<T>(self, value: T) -> Mutex<T> {
        lock_api::Mutex::from_raw(self.around(<RawMutex as lock_api::RawMutex>::INIT), value)
    }

    const fn around<R>(self, raw: R) -> Named<R> {
        if self.statistics { Named::new(self.name, raw) } else { Named::uncounted(self.name, raw) }
    }
}
