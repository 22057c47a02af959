//! What every sleeping lock shares: the thread record and its parker, the
//! waiter in the acquiring frame, the FIFO queue of waiters, the list of
//! threads to wake, and the ways a wait can end early.

mod ages;
mod context;
mod looks;
mod meetings;
mod queue;
mod thread;
mod waiter;
mod wakes;

pub use crate::cancel::CancelToken;
pub(crate) use context::{Cancels, WaitContext};
pub use context::{Wait, WaitError};
pub(crate) use looks::{LOOK_NS, LOOKS, WAKE_NS};
pub(crate) use meetings::Meeting;
pub(crate) use queue::Queue;
pub use thread::Thread;
pub(crate) use thread::{Hint, Parker, SpinnerNode, this_cpu};
pub(crate) use waiter::{Access, GRANTED, INVITED, Kind, NEXT, WAITING, Waiter};
pub(crate) use wakes::{FEW_WAKES, MAX_WAKES, WakeList};
