//! Condition variables: of [`Mutex`](crate::Mutex), and of ticket locks on any platform.

#[cfg(all(test, fairlock_loom))]
mod condvar_loom;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod typed;
mod waiters;

#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use typed::*;
pub use waiters::TicketCondvar;
