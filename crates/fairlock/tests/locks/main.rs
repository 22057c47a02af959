//! One program for tests that need no process of their own: linking each by itself takes longer than they do.

mod condvar;
mod fair_mutex;
mod mutex_waits;
mod once;
mod range_slice;
mod reentrant;
mod semaphore;
mod sizes;
mod ticket;
mod upgrade;

use fairlock_testing as _; // the watchdog
