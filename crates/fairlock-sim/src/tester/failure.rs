//! What the tester found.

use std::fmt;

/// What went wrong, in general.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Two threads were inside that exclude each other.
    Exclusion,
    /// The lock is not what its word says.
    Word,
    /// A waiter was overtaken more often than is promised.
    Order,
    /// Nobody can go on, and not everybody has ended: a lost wake-up, if the lock
    /// is free.
    Deadlock,
    /// The lock was free, threads waited for it, and nobody was on the way, though all had CPUs.
    Idle,
    /// Threads go on and on, and do not end.
    Livelock,
    /// A thread waits awake without a bound, or touches memory that is gone.
    Conduct,
    /// Something is left in a lock that nobody uses.
    Remains,
    /// A check of the lock's own panicked.
    Panic,
}

/// A schedule that a lock failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The lock.
    pub lock: &'static str,
    /// The schedule: the same seed fails the same way.
    pub seed: u64,
    /// What went wrong, in general.
    pub kind: FailureKind,
    /// What went wrong.
    pub what: String,
    /// The smallest script and schedule found that fail like that, step by step.
    pub timeline: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, seed, kind, what, timeline } = self;
        writeln!(f, "{lock}, seed {seed}: {kind:?}: {what}")?;
        f.write_str(timeline)
    }
}

impl std::error::Error for Failure {}
