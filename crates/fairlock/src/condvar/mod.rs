//! Condition variables: for [`Mutex`](crate::Mutex), and for ticket locks on any platform.

#[cfg(all(test, fairlock_loom))]
mod condvar_loom;
#[cfg(feature = "std")]
mod hidden;
mod mutex;
mod notified;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod typed;
mod waiters;
mod watch;

#[cfg(feature = "std")]
pub use hidden::{NotifierSnapshot, WaiterSnapshot};
use mutex::Mutex;
pub(crate) use notified::Notified;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) use typed::RawCondvar;
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use typed::{Condvar, CondvarExt, WaitTimeoutResult};
pub use waiters::WordCondvar;
pub use waiters::{LockCondvar, TicketCondvar};
pub(crate) use watch::Watch;
