//! Locks for programs that have more threads than CPUs and cannot afford a
//! starved one.
//!
//! A fast lock lets whoever runs take it, and then some threads never get it.
//! A fair lock hands itself to the longest waiter, and then every acquisition
//! costs a context switch. These locks do both: whose turn it is may take the
//! lock again and again, but the turn ends after a bounded time, and then the
//! lock goes to those that wait.
//!
//! | lock | what it is | choose it when |
//! |---|---|---|
//! | [`RwLock<T>`](RwLock) | readers together or one writer alone; blocked threads sleep; waits are bounded on both sides; deadlines, cancellation, downgrade | many read and some write, or waits must be bounded or ended |
//! | [`Mutex<T>`](Mutex) | one holder; waits are bounded in the same way | everybody writes |
//! | [`Condvar`] | the condition variable of `Mutex`; first come, first notified | threads wait for what others do |
//! | [`ReentrantMutex<T>`](ReentrantMutex) | one thread, which may lock it again; gives shared access | functions that lock call each other |
//! | [`Once`] | a function is called once; whoever asks meanwhile waits | something is set up on first use |
//! | [`Semaphore`] | permits, taken one or many at a time; first come, first served; waits can be ended | so many at a time, and no more |
//! | [`RangeRwLock`](range::RangeRwLock) | readers together or one writer alone, *at each position* of a range of numbers; waits as above | bytes of a file, pages, blocks: most users want different parts |
//! | [`RangeSlice<T>`](range::RangeSlice) | the same with data: hands out `&[T]` and `&mut [T]` for ranges of a slice | threads work on parts of an array |
//! | [`RwSem<P>`](rwsem::RwSem) | the reader/writer lock without data, on any [`Platform`](platform::Platform) | you build your own lock, or have no standard library |
//! | [`BatchedTicketLock<P>`](ticket::BatchedTicketLock), [`AdaptiveTicketLock<P>`](ticket::AdaptiveTicketLock) | the ticket locks without data | the same |
//!
//! # In place of another lock
//!
//! [`RwLock`], [`RecursiveRwLock`] and [`Mutex`] are `lock_api`'s types (0.5): code generic
//! over `lock_api` takes [`RawRwLock`], [`RawRwLockRecursive`] and [`RawMutex`]; [`Condvar`]
//! is `lock_api`'s, too. Code written
//! for `std` loses its `unwrap()`s, since there is no poisoning.
//!
//! Code written for `parking_lot` needs another `use` line for these four, [`FairMutex`],
//! [`ReentrantMutex`], [`Once`] and their guards, and nothing else; the names are those of its
//! version 0.13. The feature `deadlock_detection` brings `deadlock::check_deadlock`, which finds
//! threads that wait for each other; without it nothing is noted for that.
//!
//! The guards that hold an `Arc` (`lock_arc`, `read_arc`, …), `serde` and `owning_ref` are features
//! of the same names. Guards stay on their thread, unless the feature `send_guard` is on: so one that
//! is held across an `.await` does not compile where tasks may change threads.
//!
//! For `parking_lot` 0.12, which has `lock_api` 0.4, there is the feature `lock_api_04`: the line is
//! `use fairlock::lock_api_04 as parking_lot`, and the raw locks have that version's traits, too.
//! Of the types named here there is less:
//!
//! * `read_recursive` and `try_read_recursive` take `use fairlock::RwLockExt`, and the timed
//!   forms are called [`read_recursive_for`](RwLockExt::read_recursive_for) and
//!   [`read_recursive_until`](RwLockExt::read_recursive_until); or the lock is a
//!   [`RecursiveRwLock`], as in 0.13.
//!
//! Whether it is worth while:
//!
//! * `std` and `parking_lot` cost about the same where there is no contention,
//!   and are the simpler choice for a lock that is rarely waited for. Under
//!   contention `std` promises no order at all, and `parking_lot` (0.13) none
//!   between a sleeping thread and a running one.
//! * Releasing every guard with `unlock_fair` bounds waits too, at a context
//!   switch per acquisition; it works here as well, for the one release that
//!   needs it.
//! * These locks keep beside their word what they know of turns and queue. An `RwLock` and a
//!   `Mutex` do so only while threads wait, in 640 and 768 bytes that come from a pool and go
//!   back to it.
//!
//! | on 64-bit targets | bytes |
//! |---|---|
//! | `RwLock<u64>` | 16 |
//! | `Mutex<u64>` | 16 |
//! | `RangeRwLock` | 1,408 |
//!
//! The first two are 8 without what they guard.
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
//! A lock whose every wait can be cancelled from outside (on Linux by a signal handler,
//! too), and one that follows another policy:
//!
//! ```
//! use fairlock::{CancelToken, Policy, RwLock, RwLockExt, WaitError};
//!
//! static SHUTDOWN: CancelToken = CancelToken::new_const();
//!
//! fn balance(account: &RwLock<i64>) -> Result<i64, WaitError> {
//!     Ok(*account.read_cancellable(&SHUTDOWN)?)
//! }
//!
//! let account = RwLock::with_policy(Policy::WRITER_PHASE, 100);
//! assert_eq!(balance(&account), Ok(100));
//! ```
//!
//! # Platforms and features
//!
//! A lock is written once, against the trait [`Platform`](platform::Platform).
//! Feature `std` (default) brings the platforms for Linux (futexes) and for
//! everything else that has a standard library; the types above named without
//! a `<P>` use the one for the target. Without it the crate is `no_std`; the
//! platform is yours to supply, as in `examples/custom_platform.rs`. Only the
//! range lock allocates: feature `alloc`, which `std` brings.
//!
//! # Statistics
//!
//! See [`events`]: off at first, and then nearly free.
#![cfg_attr(not(any(test, fairlock_loom)), no_std)]
#![cfg_attr(fairlock_loom, allow(dead_code, reason = "model checks are about parts of it"))]
#![warn(missing_docs)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod condvar;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod const_new;
#[cfg(all(feature = "deadlock_detection", not(fairlock_loom)))]
pub mod deadlock;
#[cfg(not(all(feature = "deadlock_detection", not(fairlock_loom))))]
#[path = "deadlock/off.rs"]
mod deadlock;
pub mod events;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod fair_mutex;
#[cfg(any(fairlock_faults, test))]
pub mod fault;
#[cfg(not(any(fairlock_faults, test)))]
mod fault;
mod guard;
mod inspect;
#[cfg(all(feature = "lock_api_04", not(fairlock_loom)))]
pub mod lock_api_04;
mod may_dangle;
#[cfg(all(test, fairlock_loom))]
mod models;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod mutex;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod once;
pub mod platform;
#[cfg(feature = "alloc")]
pub mod range;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod reentrant;
mod rwlock;
pub mod rwsem;
#[cfg(any(feature = "std", fairlock_loom))]
mod semaphore;
#[cfg(any(feature = "std", fairlock_loom))]
pub mod thin;
pub mod ticket;
pub mod wait;

#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use condvar::{Condvar, CondvarExt, RawCondvar, WaitTimeoutResult};
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use const_new::*;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use fair_mutex::*;
pub use guard::GuardMarker;
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
pub use rwsem::{Discipline, Percent, Policy, PublishedPolicy, ReaderSpin, TenurePolicy};
#[cfg(any(feature = "std", fairlock_loom))]
pub use semaphore::{Semaphore, SemaphorePermit};
pub use wait::WaitError;

/// An attempt whose result nobody looks at may hold the lock for ever.
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
/// assert!(
///     fairlock::ticket::AdaptiveTicketLock::<fairlock::platform::Native>::new().try_lock()
/// );
/// ```
#[cfg(doctest)]
struct AttemptsMustBeUsed;
