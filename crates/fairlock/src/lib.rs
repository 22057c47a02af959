//! Locks that bound every wait, also in programs with more threads than CPUs.
//!
//! A fast lock can be taken by any thread that happens to run; but then some threads may never get
//! it. A fair lock is handed to the thread that has waited longest; but then every acquisition
//! costs a context switch. These locks do both. For a while one thread, or one side of a
//! reader/writer lock, may take the lock again and again. That turn ends after a bounded time, and
//! then the lock goes to the waiters.
//!
//! | lock | what it is | choose it when |
//! |---|---|---|
//! | [`RwLock<T>`](RwLock) | many readers or one writer; blocked threads sleep; waits are bounded on both sides; deadlines, cancellation, downgrade | most threads read and some write, or waits must be bounded or ended |
//! | [`Mutex<T>`](Mutex) | one holder; waits are bounded in the same way | every thread writes |
//! | [`Condvar`] | the condition variable of `Mutex`; first come, first notified | threads wait for what other threads do |
//! | [`ReentrantMutex<T>`](ReentrantMutex) | a mutex that its holder may lock again; gives shared access | functions that lock it call each other |
//! | [`Once`] | calls a function once; other callers wait until it has returned | something is set up on first use |
//! | [`Semaphore`] | permits, taken one or many at a time; first come, first served; waits can be ended | the number of threads that do something at a time is limited |
//! | [`RangeRwLock`](range::RangeRwLock) | many readers or one writer *for each position* of a range of numbers; waits as above | bytes of a file, pages, blocks: most threads want different parts |
//! | [`RangeSlice<T>`](range::RangeSlice) | the same with data: hands out `&[T]` and `&mut [T]` for ranges of a slice | threads work on parts of an array |
//! | [`published::RwLock<T>`](published::RwLock) | the reader/writer lock of the kernel proposals, which may starve threads | you compare with them |
//! | [`RawRwLock<P>`](lock::RawRwLock) | the reader/writer lock without data, on any [`Platform`](platform::Platform) | you build a lock of your own, or have no standard library |
//! | [`BatchedTicketLock<P>`](ticket::BatchedTicketLock), [`AdaptiveTicketLock<P>`](ticket::AdaptiveTicketLock) | the ticket locks without data | you build a lock of your own, or have no standard library |
//!
//! # In place of another lock
//!
//! [`RwLock`], [`RecursiveRwLock`] and [`Mutex`] are the types of `lock_api` 0.4. For
//! code that is generic over `lock_api`, the raw locks are [`RawRwLock`], [`RawRwLockRecursive`]
//! and [`RawMutex`].
//!
//! **From `std`**: remove the `unwrap()`s, since locks are never poisoned.
//!
//! **From `parking_lot` 0.12**: change the `use` lines, and nothing else; or write `use fairlock as
//! parking_lot`. All types have the same names as there. The feature `deadlock_detection` adds
//! `deadlock::check_deadlock`, which finds threads that wait for each other; without the feature
//! nothing is recorded for it.
//!
//! **From `parking_lot` 0.13**, which has `lock_api` 0.5: turn on the feature `lock_api_05`, and
//! write `use fairlock::lock_api_05 as parking_lot`. The raw locks then have the traits of that
//! version, too.
//!
//! The features `arc_lock` (guards that hold an `Arc`: `lock_arc`, `read_arc`, …), `serde` and
//! `owning_ref` do the same as in `parking_lot`. A guard is not `Send` unless the feature
//! `send_guard` is on. So a task that may change threads cannot hold a guard across an `.await`: it
//! does not compile.
//!
//! With the feature `async`, tasks wait for an `RwLock`, a `Mutex` or a `Semaphore` beside threads: module `future`.
//!
//! Is it worth the change?
//!
//! * Without contention `std` and `parking_lot` cost about the same, and are the simpler choice for
//!   a lock that threads rarely wait for. Under contention `std` promises no order at all, and
//!   `parking_lot` (0.13) promises none between a sleeping thread and a running one.
//! * Releasing every guard with `unlock_fair` bounds waits too, but costs a context switch per
//!   acquisition. It works here as well, for the one release that needs it.
//! * These locks need memory beside their word, for turns and the queue. An `RwLock` or a `Mutex`
//!   has it only while threads wait: 640 bytes, from a pool.
//!
//! | on 64-bit targets | bytes |
//! |---|---|
//! | `RwLock<u64>` | 16 |
//! | `Mutex<u64>` | 16 |
//! | `RangeRwLock` | 896 |
//!
//! The first two are 8 bytes without the value that they guard.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use fairlock::{RwLock, RwLockExt, RwLockWriteGuard, WaitError};
//!
//! let lock = RwLock::new(vec![1, 2, 3]);
//!
//! // Like any other reader/writer lock.
//! assert_eq!(lock.read().len(), 3);
//! lock.write().push(4);
//!
//! // From writer to reader, with no other writer in between.
//! let mut guard = lock.write();
//! guard.push(5);
//! let guard = RwLockWriteGuard::downgrade(guard);
//! assert_eq!(guard.len(), 5);
//!
//! // A wait that ends.
//! let second = lock.write_for(Duration::from_millis(1));
//! assert_eq!(second.err(), Some(WaitError::TimedOut));
//! ```
//!
//! Waits that another thread can cancel (on Linux a signal handler, too), and a lock that follows
//! another policy:
//!
//! ```
//! use std::time::Duration;
//!
//! use fairlock::{CancelToken, Policy, RwLock, RwLockExt, WaitError};
//!
//! static SHUTDOWN: CancelToken = CancelToken::new_const();
//!
//! fn balance(account: &RwLock<i64>) -> Result<i64, WaitError> {
//!     Ok(*account.read_cancellable(&SHUTDOWN)?)
//! }
//!
//! let quick = Policy { aim: Duration::from_millis(1), ..Policy::DEFAULT };
//! let account = RwLock::with_policy(quick, 100);
//! assert_eq!(balance(&account), Ok(100));
//! ```
//!
//! # Platforms and features
//!
//! A lock is written once, against the trait [`Platform`](platform::Platform).
//! The feature `std` (on by default) adds two platforms: one for Linux (futexes), and one for
//! everything else that has a standard library. The types above that have no `<P>` use the one
//! for the target. Without `std` the crate is `no_std`, with an allocator, and you supply the platform, as in
//! `examples/custom_platform.rs`.
//!
//! # Rust version
//!
//! The crate needs Rust 1.85, which Debian stable has; with the feature `lock_api_05`, 1.95, as
//! that version of `lock_api` does. Only a minor version raises that, and never beyond the Rust of
//! Debian stable.
//!
//! # Statistics
//!
//! A lock with a name counts and times its acquisitions, waits and holds: [`stats`]. [`events`]
//! count what the slow paths of all locks do; they are off by default, and then cost next to
//! nothing.
#![cfg_attr(not(any(test, fairlock_loom)), no_std)]
#![cfg_attr(fairlock_loom, allow(dead_code, reason = "model checks are about parts of it"))]
// docs.rs says of each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(fairlock_loom))))]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod cancel;
#[cfg(all(test, fairlock_loom))]
mod cancel_loom;
pub mod condvar;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod const_new;
#[cfg(all(feature = "deadlock_detection", not(fairlock_loom)))]
pub mod deadlock;
#[cfg(not(all(feature = "deadlock_detection", not(fairlock_loom))))]
mod deadlock;
pub mod events;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod fair_mutex;
#[cfg(any(fairlock_faults, test))]
pub mod fault;
#[cfg(not(any(fairlock_faults, test)))]
mod fault;
#[cfg(feature = "async")]
pub mod future;
mod guard;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod inner;
mod inspect;
#[cfg_attr(
    not(any(feature = "std", fairlock_loom)),
    allow(dead_code, unused_imports, reason = "a semaphore, which some of it is for, needs std")
)]
pub mod lock;
#[cfg(all(feature = "lock_api_05", not(fairlock_loom)))]
pub mod lock_api_05;
mod may_dangle;
#[cfg(all(test, fairlock_loom))]
mod models;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod mutex;
#[cfg(any(feature = "std", fairlock_loom))]
mod native;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod once;
pub mod platform;
#[doc(hidden)]
pub mod pool;
pub mod published;
pub mod range;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod reentrant;
mod rwlock;
#[cfg(any(feature = "std", fairlock_loom))]
mod semaphore;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub mod stats;
mod system;
mod thread;
pub mod ticket;
#[cfg_attr(
    not(any(feature = "std", fairlock_loom)),
    allow(dead_code, unused_imports, reason = "a semaphore, which some of it is for, needs std")
)]
pub mod wait;

#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use condvar::{Condvar, CondvarExt, WaitTimeoutResult};
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use const_new::*;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use fair_mutex::*;
#[cfg(all(feature = "async", feature = "std", not(fairlock_loom)))]
pub use future::MutexAsyncExt;
#[cfg(feature = "async")]
pub use future::RwLockAsyncExt;
pub use guard::GuardMarker;
pub use lock::{Percent, Policy};
pub use lock_api;
#[cfg(feature = "arc_lock")]
pub use lock_api::{
    ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard,
    ArcRwLockWriteGuard,
};
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use mutex::*;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use once::*;
#[cfg(any(feature = "std", fairlock_loom))]
pub use range::native::*;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use reentrant::*;
pub use rwlock::*;
#[cfg(any(feature = "std", fairlock_loom))]
pub use semaphore::{Semaphore, SemaphorePermit};
pub use wait::WaitError;

/// An attempt whose result is ignored may hold the lock for ever, so ignoring it warns.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).try_read();
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).try_write();
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).try_read_recursive();
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fairlock::ticket::AdaptiveTicketLock::<fairlock::platform::Native>::new().try_lock();
/// ```
///
/// That is all that is wrong with them:
///
/// ```
/// #![deny(unused_must_use)]
/// assert!(fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).try_read());
/// assert!(fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).try_write());
/// assert!(fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).try_read_recursive());
/// assert!(fairlock::ticket::AdaptiveTicketLock::<fairlock::platform::Native>::new().try_lock());
/// ```
#[cfg(doctest)]
struct AttemptsMustBeUsed;

/// What other crates of ours use of the locks, and is not documented, is as safe as the rest: safe
/// code can neither write what belongs to another thread, nor say which thread holds a lock.
///
/// ```compile_fail
/// use fairlock::platform::{Native, System};
/// let word = std::sync::atomic::AtomicU32::new(1);
/// Native::thread().stay_awake(&word, 1, None, false);
/// ```
///
/// ```compile_fail
/// fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).adopt_readers(1);
/// ```
///
/// ```compile_fail
/// type RwSem = fairlock::lock::RawRwLock<fairlock::platform::Native>;
/// RwSem::new(fairlock::Policy::DEFAULT).adopt_readers(1);
/// ```
///
/// ```compile_fail,E0133
/// type RwSem = fairlock::lock::RawRwLock<fairlock::platform::Native>;
/// RwSem::new(fairlock::Policy::DEFAULT).unlock_shown();
/// ```
///
/// ```compile_fail,E0133
/// type RwSem = fairlock::lock::RawRwLock<fairlock::platform::Native>;
/// RwSem::new(fairlock::Policy::DEFAULT).forget();
/// ```
///
/// ```compile_fail,E0133
/// type RwSem = fairlock::lock::RawRwLock<fairlock::platform::Native>;
/// RwSem::new(fairlock::Policy::DEFAULT).try_unlock_read();
/// ```
///
/// ```compile_fail,E0133
/// fn get<T, M: fairlock::pool::Memory>(pool: fairlock::pool::Pool<u64, T, M>) {
///     pool.get(16);
/// }
/// ```
///
/// ```compile_fail,E0133
/// fn give<T: fairlock::pool::Pooled, M: fairlock::pool::Memory>(
///     pool: fairlock::pool::Pool<std::sync::atomic::AtomicU64, T, M>,
///     item: &T,
/// ) {
///     pool.give(item);
/// }
/// ```
///
/// ```compile_fail,E0133
/// fn make<M: fairlock::pool::Memory>() -> fairlock::pool::Pool<u64, u64, M> {
///     fairlock::pool::Pool::new(7)
/// }
/// ```
///
/// ```compile_fail,E0599
/// use fairlock::platform::{Native, System};
/// Native::thread().park();
/// ```
///
/// ```compile_fail,E0599
/// use fairlock::platform::{Native, System};
/// Native::thread().park_until(0);
/// ```
///
/// That is all that is wrong with them:
///
/// ```
/// use fairlock::platform::Native;
/// use fairlock::pool::{Memory, Pool, Pooled};
///
/// let word = std::sync::atomic::AtomicU32::new(1);
/// fairlock::wait::Thread::<fairlock::platform::Native>::stay_awake(&word, 1, None, false);
/// type RwSem = fairlock::lock::RawRwLock<fairlock::platform::Native>;
/// // SAFETY: each lock is new, and nobody else uses it.
/// unsafe {
///     fairlock::RawRwLock::new(fairlock::Policy::DEFAULT).adopt_readers(1);
///     RwSem::new(fairlock::Policy::DEFAULT).adopt_readers(1);
///     RwSem::new(fairlock::Policy::DEFAULT).unlock_shown();
///     RwSem::new(fairlock::Policy::DEFAULT).forget();
///     RwSem::new(fairlock::Policy::DEFAULT).try_unlock_read();
/// }
/// fairlock::wait::Thread::<Native>::park_until(0);
///
/// fn use_pool<T: Pooled, M: Memory>(pool: Pool<std::sync::atomic::AtomicU64, T, M>, item: &T) {
///     // SAFETY: never called.
///     unsafe {
///         pool.get(16);
///         pool.give(item);
///         Pool::<u64, T, M>::new(7);
///     }
/// }
/// ```
#[cfg(doctest)]
struct HiddenIsSafeToo;
