//! Tasks that wait for locks, beside threads.

mod condvar;
mod executor;
mod futurelock;
mod futures;
mod granting;
mod leaks;
mod limits;
mod named;
mod offers;
mod storm;
mod wakers;

use fairlock_testing as _; // the watchdog
