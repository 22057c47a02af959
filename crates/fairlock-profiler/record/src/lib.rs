//! The records that `libfairlock_preload.so` writes of a program's locks.
//!
//! One file for each process. The library maps it and writes into it while the program runs, so
//! nothing is lost when the program is killed, calls `exec` or crashes; whoever reads it meanwhile
//! sees counts that do not quite belong together.
//!
//! A program with locks of the crate `fairlock` or of libfairlock that have names writes such a record of them, too, each
//! second as a whole ([`Record::to_bytes`]): `PID.named`. A reader [joins](Record::join) the two.
//!
//! # The file
//!
//! A [`Header`](layout::Header), then chunks one behind the other, each a
//! [`Chunk`](layout::Chunk) header and its entries, which are all of one kind. The file is sparse,
//! and longer than what is in use of it. All numbers are in
//! the order of x86. Times are nanoseconds of `CLOCK_MONOTONIC`. What an entry of each kind is,
//! [`layout`] says. A reader refuses a file of another [`VERSION`](layout::VERSION).
//!
//! Locks have numbers, in the order in which they were first taken. Stacks have, too: their place
//! in the file, divided by eight; zero is no stack.

#[cfg(test)]
use fairlock_testing as _; // the watchdog

pub mod buckets;
mod join;
pub mod layout;
#[cfg(feature = "read")]
mod now;
#[cfg(feature = "read")]
mod read;
mod record;
mod write;

#[cfg(feature = "read")]
pub use now::Held;
#[cfg(feature = "read")]
pub use read::{Error, load, load_file};
pub use record::{Asleep, AtPlace, Contention, Holding, Line, Lock, Module, Record, Thread, Wait};
