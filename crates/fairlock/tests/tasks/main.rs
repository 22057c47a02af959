//! Tasks that wait for locks, beside threads.

mod executor;
mod futurelock;
mod futures;
mod granting;
mod leaks;
mod offers;
mod storm;
mod wakers;

use fairlock_testing as _; // the watchdog
