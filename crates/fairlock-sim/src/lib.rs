//! A simulated machine with many CPUs, for locks written against fairlock's
//! [`Platform`](fairlock::platform::Platform).
//!
//! The locks run unchanged, with [`Sim`] in the place of Linux. Every atomic,
//! pause, look at the clock, wait and wake-up takes the time that a [`Machine`]
//! says; cache lines move, threads get and lose CPUs, and the clock is a number.
//! So 96 CPUs can be seen on one, twice the same, to the byte.
//!
//! [`Simulation`] has an example. Your own lock: write it against `Platform`, as
//! in `examples/reader_spin.rs`. Your own machine: copy one of `machines/*.toml`
//! ([`Machine::builtin_file`]).
//!
//! # What is simulated, and what is not
//!
//! * Cache lines have an owner or sharers. Requests to own a line queue at it; what a request costs
//!   depends on the distance. A preempted thread's caches stay warm.
//! * Words share a line if they do in this process: align what is to have lines of its own, or results depend on
//!   what the allocator has free.
//! * Stores take as long as atomics that miss: there is no store buffer.
//! * All memory is as strongly ordered as possible. Orderings are a matter for the model checker.
//! * Hardware threads of a core share its caches, and do not slow each other.
//! * Only atomics of `Sim` cost anything, and plain memory that is said to be [`fill`]ed.
//! * Run queues per CPU, slices, wake-up placement and preemption, pulling by idle
//!   CPUs; virtual CPUs on a host; a host that takes CPUs away now and then. Wake-ups and
//!   context switches vary by chance. No priorities, no frequency scaling.
//!
//! # How far to trust it
//!
//! * *Trust order and direction, not levels.* On the machine of the published reader-spinning table
//!   the order of its cells comes out: rank correlation 0.83 to 0.96 by column and seed. So do the
//!   levels with sections of 20 and 100 pauses, most of them within 1.5 times. Those with one pause
//!   do not: there, what a lock does within 200 ns depends on which of its words share a line, and
//!   on rules of the published locks that fairlock's policies do not have (docs/simulator.md).
//! * *Where threads are matters*: two threads with sections of one pause do 2.7 times as
//!   much in one socket as in two.
//! * *Latencies vary* around what the machine file says ([`machine::Scheduler::spread`]). Constant
//!   ones let threads that alternate fall into step: a writer that was woken at each release of one
//!   reader found the lock taken at the same point of its section again and again. How many threads
//!   starve under an unfair lock still depends on it; nobody starves under a fair policy either
//!   way.

#![warn(missing_docs)]

mod cpu_set;
mod engine;
mod error;
mod events;
mod fiber;
mod inside;
mod line;
pub mod machine;
mod memory;
mod observe;
mod platform;
mod queue;
mod report;
mod sim;
mod simulation;
mod stuck;
pub mod tester;
mod timers;
mod world;

pub use error::SimulationError;
pub use inside::{
    busy, device, fill, mark, now, pause, random, sleep, socket, stopped, thread, yield_now,
};
pub use machine::{Machine, MachineError};
pub use observe::{Mark, Observer, ThreadState};
pub use platform::{SimU32, SimU64, SimUsize, begin_locks};
pub use report::{Operations, Report, ThreadReport};
pub use sim::Sim;
pub use simulation::{JoinHandle, Simulation};
pub use stuck::{Stuck, StuckKind, StuckThread};

#[cfg(test)]
use fairlock_testing as _; // the watchdog
