//! Condition variables: for [`Mutex`](crate::Mutex).

#[cfg(all(test, fairlock_loom))]
mod condvar_loom;
#[cfg(feature = "std")]
mod hidden;
mod notified;
#[cfg(feature = "async")]
mod task;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod typed;
mod waiters;
mod watch;

#[cfg(feature = "std")]
pub use hidden::{NotifierSnapshot, WaiterSnapshot};
pub(crate) use notified::Notified;
#[cfg(feature = "async")]
pub use task::RawWaitFuture;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) use typed::RawCondvar;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use typed::{Condvar, CondvarExt, WaitTimeoutResult};
pub use waiters::WordCondvar;
pub(crate) use watch::Watch;
