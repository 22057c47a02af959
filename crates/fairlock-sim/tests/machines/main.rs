//! One program for tests that need no process of their own: linking each by itself takes longer than they do.

mod batches;
mod condvar;
mod convoy;
mod idle_range;
mod locks;
mod machine;
mod spinning;
mod tenure;
mod tester;
mod writer_phase;

use fairlock_testing as _; // the watchdog
