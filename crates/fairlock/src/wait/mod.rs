//! What every sleeping lock shares: where a thread sleeps, the
//! waiter in the acquiring frame, the FIFO queue of waiters, the list of
//! threads to wake, and the ways a wait can end early.

mod context;
mod ladder;
mod meetings;
mod queue;
mod sleeper;
mod waiter;
mod wakes;

pub use crate::cancel::CancelToken;
pub use crate::thread::Thread;
pub(crate) use context::{Cancels, WaitContext};
pub use context::{Wait, WaitError};
pub(crate) use ladder::{LOOK_NS, LOOKS, Naps, SOON_NS, StealClock, WAKE_NS, give_way};
pub(crate) use meetings::{Meeting, Meetings};
pub(crate) use queue::Queue;
pub use sleeper::Sleeper;
pub(crate) use sleeper::{Hint, Parker};
pub(crate) use waiter::{Access, GRANTED, INVITED, Kind, NEXT, WAITING, Waiter};
pub(crate) use wakes::{FEW_WAKES, MAX_WAKES, WakeList};
