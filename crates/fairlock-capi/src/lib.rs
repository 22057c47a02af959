//! libfairlock: the locks of `fairlock` for C and C++.
//!
//! Rust programs use the crate `fairlock`. This one is its C interface: the functions and types of
//! `include/fairlock.h`, which is generated from here and says how to use them. `home` is how a
//! lock lives in a struct of the C program; `ways` is how locks are taken and given up; `errno` and
//! `deadline` translate results and times; each of the other modules has one kind of lock or tool.
//!
//! No function panics on what a caller can pass, and a panic would end the process rather
//! than unwind through C.
//!
//! It is for Linux; elsewhere the crate is empty.
#![cfg(target_os = "linux")]
// The names are C's.
#![allow(non_camel_case_types)]
// The contract of all functions is the same, and is stated once, in the header: a pointer is null,
// or points to an object of its type that lives as long as it is used.
#![allow(clippy::missing_safety_doc)]

mod caller;
mod cancel;
mod chosen;
mod cond;
mod counted;
mod deadline;
mod errno;
mod events;
mod home;
mod mutex;
mod policy;
mod range;
mod range_lock;
mod rwlock;
mod sem;
mod stats;
mod version;
mod ways;

pub use cancel::*;
pub use cond::*;
pub use events::*;
pub use mutex::*;
pub use policy::*;
pub use range::*;
pub use range_lock::*;
pub use rwlock::*;
pub use sem::*;
pub use stats::*;
pub use version::*;

#[cfg(test)]
use fairlock_testing as _; // the watchdog

#[cfg(not(target_pointer_width = "64"))]
compile_error!("libfairlock's structs are laid out for 64-bit targets only");
