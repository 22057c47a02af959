//! What every sleeping lock shares: where a thread sleeps, the
//! waiter in the acquiring frame, the FIFO queue of waiters, the list of
//! threads to wake, and the ways a wait can end early.

mod collisions;
mod ladder;
#[cfg(all(test, fairlock_loom))]
mod ladder_loom;
mod queue;
#[cfg_attr(not(feature = "async"), path = "task_off.rs")]
mod task;

pub use crate::cancel::CancelToken;
pub use crate::thread::Thread;
#[doc(hidden)]
pub use crate::wait::ladder::{Ends, nap};
pub(crate) use collisions::{Collision, Collisions};
#[cfg(feature = "async")]
pub(crate) use ladder::{Bell, bit_of};
pub(crate) use ladder::{
    Cancels, FEW_LOOKS, Habit, Hint, LOOK_NS, Look, MISSED_NS, MOST_DOUBLINGS, Naps, Parker,
    SOON_NS, StealClock, WAKE_NS, WATCH_NS, WaitContext, give_way,
};
pub use ladder::{Sleeper, Wait, WaitError};
pub(crate) use queue::{
    Access, Duty, FEW_WAKES, GRANTED, INVITED, Kind, Linked, Links, List, MAX_WAKES, NEXT, Queue,
    WAITING, Waiter, WakeList,
};
pub(crate) use task::Task;
#[cfg(feature = "async")]
pub(crate) use task::survive;
