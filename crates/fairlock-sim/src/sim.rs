//! The name of the platform, which the engine needs to know, too.

/// The simulated machine as a platform for locks: `RwSem<Sim>`,
/// `RangeRwLock<Sim>`, `BatchedTicketLock<Sim, N>`.
///
/// Which machine, and which thread of it, follows from the
/// [`Simulation`](crate::Simulation) that runs. Outside of one, locks can be
/// made, looked at, and taken when they are free; one that would have to wait
/// panics.
#[derive(Clone, Copy, Debug)]
pub struct Sim;
