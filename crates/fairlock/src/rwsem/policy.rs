//! Policies: how a lock decides who goes next.

use core::num::NonZeroU8;
use core::time::Duration;

/// Whether readers spin before they sleep, under the [published](Policy::published) discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReaderSpin {
    /// Readers never spin, but steal. This is what proposal 2 chose.
    Off,
    /// At most one reader spins; when it gets in, it wakes all readers that wait. A reader steals
    /// only if nobody spins.
    One,
    /// Every reader may spin while a writer is inside. No reader begins to spin while readers are
    /// inside, as that could keep writers out for ever. A reader steals only if nobody spins.
    On,
    /// Not part of the interface: it reproduces the first column of a published table, Linux before
    /// proposal 2 (5.3 to 5.10). Every reader may spin, even while readers are inside; readers do
    /// not steal otherwise. Readers that keep coming keep everybody else out, as only a release
    /// that leaves nobody inside hands the lock to a waiter. Only a writer that has spun for
    /// readers in vain, and was then handed the lock, makes readers queue for a while.
    #[doc(hidden)]
    Always,
}

/// How a lock decides who goes next: one of two [disciplines](Discipline), with its parameters.
/// Each lock has its own policy; a policy can be a `const`.
///
/// The presets: [`DEFAULT`](Policy::DEFAULT) follows the tenure discipline.
/// [`UNFAIR`](Policy::UNFAIR), [`HANDOFF`](Policy::HANDOFF),
/// [`NO_READER_SPIN`](Policy::NO_READER_SPIN) and [`WRITER_PHASE`](Policy::WRITER_PHASE) follow the
/// kernel proposals.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::{Percent, Policy, RawRwLock, RwLock, RwLockExt, TenurePolicy};
///
/// // The whole queue is served in about a millisecond, if the handoffs for that cost no more than
/// // a fifth of the time.
/// const QUICK: Policy = Policy::tenure(TenurePolicy {
///     aim: Duration::from_millis(1),
///     budget: Percent::new(20).unwrap(),
///     ..TenurePolicy::DEFAULT
/// });
///
/// static NAMES: RwLock<Vec<String>> = RwLock::from_raw(RawRwLock::with_policy(QUICK), Vec::new());
/// let ages = RwLock::with_policy(QUICK, vec![7]);
/// assert_eq!(NAMES.policy(), ages.policy());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy(Discipline);

/// What a lock does while threads wait for it: see [`Policy::discipline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// For a while any running thread may take the lock when it is free, and a release wakes one
    /// waiter at a time. Then the lock is closed, and goes to the queue: first to the other side.
    Tenure(TenurePolicy),
    /// The discipline of the kernel proposals: every release wakes waiters, which race with running
    /// threads; a waiter past its deadline forces one handoff.
    Published(PublishedPolicy),
}

/// The parameters of the [tenure](Policy::tenure) discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TenurePolicy {
    /// The time in which the lock tries to serve the whole queue once, as far as the budget allows.
    /// A tenure lasts for this time divided by the number of threads that want the lock. If it is
    /// zero, only the budget sets the length of tenures.
    pub aim: Duration,
    /// The share of the time that handoffs may cost. A larger share makes waits shorter and the
    /// lock slower.
    pub budget: Percent,
    /// Whether real-time threads go first: see [`Policy::with_priorities`].
    pub priorities: bool,
}

/// The parameters of the [published](Policy::published) discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublishedPolicy {
    /// For how long other threads may pass a waiter before the lock is handed to it. `None`: for
    /// ever (it may starve). Zero: not at all (every acquisition costs a context switch).
    pub handoff_after: Option<Duration>,
    /// Whether writers spin before they sleep.
    pub writer_spin: bool,
    /// Whether readers spin before they sleep.
    pub reader_spin: ReaderSpin,
    /// Readers may not steal while a writer heads the queue.
    pub writer_phase: bool,
    /// Whether real-time threads go first: see [`Policy::with_priorities`].
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

/// How long a waiter waits before a handoff, by default. In ms; compared with how long a waiter has
/// waited, and with the time that tenures take.
pub(crate) const HANDOFF_AFTER: Duration = Duration::from_millis(4);

impl TenurePolicy {
    /// That of [`Policy::DEFAULT`].
    pub const DEFAULT: Self =
        Self { aim: HANDOFF_AFTER, budget: Percent::new(10).unwrap(), priorities: false };

    /// The numbers with which the discipline computes.
    #[inline]
    pub(crate) const fn shape(&self) -> TenureShape {
        TenureShape { aim_ns: at_most(self.aim, CENTURIES), percent: self.budget.get() as u64 }
    }
}

impl PublishedPolicy {
    /// That of [`Policy::UNFAIR`].
    pub const UNFAIR: Self = Self {
        handoff_after: None,
        writer_spin: true,
        reader_spin: ReaderSpin::On,
        writer_phase: false,
        priorities: false,
    };
    /// That of [`Policy::HANDOFF`].
    pub const HANDOFF: Self = Self { handoff_after: Some(HANDOFF_AFTER), ..Self::UNFAIR };
    /// That of [`Policy::NO_READER_SPIN`].
    pub const NO_READER_SPIN: Self = Self { reader_spin: ReaderSpin::Off, ..Self::HANDOFF };
    /// That of [`Policy::WRITER_PHASE`].
    pub const WRITER_PHASE: Self = Self { writer_phase: true, ..Self::NO_READER_SPIN };
}

impl Policy {
    /// No handoff at all: fast, but threads starve. The baseline of proposal 1.
    pub const UNFAIR: Self = Self::published(PublishedPolicy::UNFAIR);
    /// Proposal 1: a waiter past its deadline is handed the lock.
    pub const HANDOFF: Self = Self::published(PublishedPolicy::HANDOFF);
    /// Proposal 2: readers steal instead of spinning.
    pub const NO_READER_SPIN: Self = Self::published(PublishedPolicy::NO_READER_SPIN);
    /// Proposal 5: readers may not steal from a writer at the head of the queue.
    pub const WRITER_PHASE: Self = Self::published(PublishedPolicy::WRITER_PHASE);
    /// Tenure: the whole queue is to be served in 4 milliseconds, and handoffs may cost a tenth of
    /// the time. Waits are bounded, and the throughput is nearly that of an unfair lock.
    pub const DEFAULT: Self = Self::tenure(TenurePolicy::DEFAULT);

    /// Tenure, with these numbers.
    pub const fn tenure(policy: TenurePolicy) -> Self {
        Self(Discipline::Tenure(policy))
    }

    /// The published discipline, with these numbers.
    pub const fn published(policy: PublishedPolicy) -> Self {
        Self(Discipline::Published(policy))
    }

    /// Which discipline it is, and its numbers.
    #[inline(always)]
    pub const fn discipline(&self) -> Discipline {
        self.0
    }

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
    pub const fn with_priorities(mut self) -> Self {
        let (Discipline::Tenure(TenurePolicy { priorities, .. })
        | Discipline::Published(PublishedPolicy { priorities, .. })) = &mut self.0;
        *priorities = true;
        self
    }

    /// Whether real-time threads go first: see [`with_priorities`](Self::with_priorities).
    #[inline]
    pub const fn priorities(&self) -> bool {
        let (Discipline::Tenure(TenurePolicy { priorities, .. })
        | Discipline::Published(PublishedPolicy { priorities, .. })) = self.0;
        priorities
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The longest time, in ns, that can be added to another: half of what the difference of two can be.
pub(crate) const CENTURIES: u64 = i64::MAX as u64 / 2;

/// A duration in nanoseconds, or `most` if it is longer.
pub(crate) const fn at_most(duration: Duration, most: u64) -> u64 {
    let ns = duration.as_nanos();
    if ns > most as u128 { most } else { ns as u64 }
}

/// What the tenure discipline needs of a policy.
#[derive(Clone, Copy)]
pub(crate) struct TenureShape {
    /// Serve the whole queue within this time, if the budget allows.
    pub(crate) aim_ns: u64,
    /// Share of time handoffs may cost, in percent.
    pub(crate) percent: u64,
}
