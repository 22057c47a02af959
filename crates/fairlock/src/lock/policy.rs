//! Policies: how a lock decides which thread goes next.

use core::num::NonZeroU8;
use core::time::Duration;

#[cfg(feature = "async")]
use crate::wait::SOON_NS;

/// How a lock decides which thread goes next. For a while any running thread may take the lock when it is free, and a
/// release wakes one waiter at a time: a *tenure*. Then the lock is closed, and goes to the queue: first to the
/// other side. Each lock has its own policy; a policy can be a `const`.
///
/// (The policies of the kernel proposals are those of another lock: [`published::Policy`](crate::published::Policy).)
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::{Percent, Policy, RawRwLock, RwLock, RwLockExt};
///
/// // The whole queue is served in about a millisecond, if the handoffs for that cost no more than
/// // a fifth of the time.
/// const QUICK: Policy =
///     Policy { aim: Duration::from_millis(1), budget: Percent::new(20).unwrap(), ..Policy::DEFAULT };
///
/// static NAMES: RwLock<Vec<String>> = RwLock::from_raw(RawRwLock::with_policy(QUICK), Vec::new());
/// let ages = RwLock::with_policy(QUICK, vec![7]);
/// assert_eq!(NAMES.policy(), ages.policy());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The time in which the lock tries to serve the whole queue once, as far as the budget allows.
    /// A tenure lasts for this time divided by the number of threads that want the lock. If it is
    /// zero, only the budget sets the length of tenures.
    pub aim: Duration,
    /// The share of the time that handoffs may cost. A larger share makes waits shorter and the
    /// lock slower.
    pub budget: Percent,
    /// Whether real-time threads go first: see [`with_priorities`](Self::with_priorities).
    pub priorities: bool,
}

/// A share in percent: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(NonZeroU8);

impl Percent {
    /// So many percent; `None` for 0 and for more than 100.
    pub const fn new(percent: u8) -> Option<Self> {
        match NonZeroU8::new(percent) {
            Some(percent) if percent.get() <= 100 => Some(Self(percent)),
            _ => None,
        }
    }

    /// How many percent: 1 to 100.
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

/// The aim of the default. In ms; compared with how long a waiter has waited, and with the time that tenures take.
pub(crate) const HANDOFF_AFTER: Duration = Duration::from_millis(4);

impl Policy {
    /// The whole queue is to be served in 4 milliseconds, and handoffs may cost a tenth of
    /// the time. Waits are bounded, and the throughput is nearly that of an unfair lock.
    pub const DEFAULT: Self =
        Self { aim: HANDOFF_AFTER, budget: Percent::new(10).unwrap(), priorities: false };

    /// The same, but real-time threads go first, as POSIX wants it of `pthread_rwlock_*` ("Thread
    /// Execution Scheduling"). These are, on Linux, the threads of `SCHED_FIFO`, `SCHED_RR` and,
    /// above both, `SCHED_DEADLINE`.
    ///
    /// Such a thread goes before all waiters of a lower priority. Within a priority, writers go
    /// before readers. A reader passes waiting writers of a lower priority. While a real-time
    /// thread waits, nobody steals.
    ///
    /// Waits of lower priorities are then not bounded: threads of a higher priority that keep coming
    /// starve them. A waiter keeps the priority that it had when it began to wait. There is no
    /// inheritance: a holder keeps its own priority. Each wait costs a system call.
    #[must_use]
    pub const fn with_priorities(self) -> Self {
        Self { priorities: true, ..self }
    }

    /// The numbers with which the lock computes.
    #[inline]
    pub(crate) const fn shape(&self) -> TenureShape {
        TenureShape {
            aim_ns: at_most(self.aim, CENTURIES),
            percent: self.budget.get() as u64,
            most_ns: u64::MAX,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The longest time, in ns, that can be added to another: half of what the difference of two can be.
const CENTURIES: u64 = i64::MAX as u64 / 2;

/// A duration in nanoseconds, or `most` if it is longer.
pub(crate) const fn at_most(duration: Duration, most: u64) -> u64 {
    let ns = duration.as_nanos();
    if ns > most as u128 { most } else { ns as u64 }
}

/// The numbers of a policy, as the lock computes with them.
#[derive(Clone, Copy)]
pub(crate) struct TenureShape {
    /// Serve the whole queue within this time, if the budget allows.
    pub(crate) aim_ns: u64,
    /// Share of time handoffs may cost, in percent.
    pub(crate) percent: u64,
    /// No tenure is longer than that for the budget's sake.
    pub(crate) most_ns: u64,
}

/// The aim is this many times as long for threads as for tasks, to which a handoff costs no switch of threads. (With the
/// whole aim, ten tasks wait up to 12 ms for sections of 0.1 ms.) In times; compared with nothing: it divides the aim.
#[cfg(feature = "async")]
const SHORTER: u64 = 4;

impl TenureShape {
    /// Where only tasks wait.
    #[cfg(feature = "async")]
    pub(crate) const fn of_tasks(self) -> Self {
        Self { aim_ns: self.aim_ns / SHORTER, most_ns: 2 * SOON_NS, ..self }
    }
}
