//! How a lock decides between throughput and turns.

use core::time::Duration;

use crate::platform::Platform;

/// Whether readers spin before they sleep (published discipline only; see
/// [`Policy::handoff_budget`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReaderSpin {
    /// Readers steal, but never spin: proposal 2's choice.
    Off,
    /// At most one reader spins; when it gets in it wakes all waiting readers.
    One,
    /// Every reader may spin, for a writer: none begins to while readers are inside,
    /// which would keep writers out for ever. Here and under [`One`](Self::One) a
    /// reader steals only if nobody spins.
    On,
    /// Every reader may spin, for readers too, and none steals otherwise: what Linux did
    /// before proposal 2 (5.3 to 5.10), to compare with. Readers that keep coming
    /// keep everybody else out, since it takes a release that leaves nobody inside for
    /// a waiter to be handed the lock. Only a writer that has spun for readers in vain, and
    /// then been handed the lock, has them queue for a while.
    Always,
    /// Picks from what the turns of readers and of writers yielded lately, in
    /// acquisitions for time. While somebody is queued, the side that yields less does
    /// not spin, nor steal: it waits for its handoff. The other side does, and if it
    /// is the readers they also join readers inside past the queue, until a writer in it
    /// is past its deadline.
    ///
    /// This is for throughput: one side may have nearly all of it, and each thread of
    /// the other one acquisition in about `handoff_after`, or in five times as long as
    /// these take one by one ([`Policy::DEFAULT`] shares the time). Without handoffs
    /// (`handoff_after: None`) it is `On`.
    Adaptive,
}

/// How a lock decides who goes next. Per lock, `const`-constructible.
///
/// Two disciplines:
///
/// * **Published** (`handoff_budget: None`): waiters are woken at every
///   release and race with whoever runs; a waiter past its deadline
///   (`handoff_after`) forces one handoff. This is what the kernel proposals
///   describe, and what the presets [`UNFAIR`](Policy::UNFAIR),
///   [`HANDOFF`](Policy::HANDOFF), [`NO_READER_SPIN`](Policy::NO_READER_SPIN)
///   and [`WRITER_PHASE`](Policy::WRITER_PHASE) run.
/// * **Tenure** (`handoff_after` and `handoff_budget` both set): for a while whoever runs
///   may take the lock when it is free, and a release wakes one waiter at a time; then the
///   lock is closed and goes to the queue, the other side first. See [`Policy::DEFAULT`].
///   The fields below that are for the published discipline only do not matter then.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::{Policy, RawRwLock, RwLock, RwLockExt};
///
/// // Waits of a whole queue of about a millisecond, if a fifth of the time is enough for the
/// // handoffs that this takes.
/// const QUICK: Policy = Policy {
///     handoff_after: Some(Duration::from_millis(1)),
///     handoff_budget: Some(20),
///     ..Policy::DEFAULT
/// };
///
/// static NAMES: RwLock<Vec<String>> = RwLock::from_raw(RawRwLock::with_policy(QUICK), Vec::new());
/// let ages = RwLock::with_policy(QUICK, vec![7]);
/// assert_eq!(NAMES.policy(), ages.policy());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How long a waiter is passed over before the lock is handed to it.
    /// `None`: for ever (it starves). Zero: not at all (a context switch per
    /// acquisition). Under tenure this is the wait the lock aims at for the
    /// whole queue, as far as the budget allows.
    pub handoff_after: Option<Duration>,
    /// The share of time, in percent, that handoffs may cost (0 counts as 1). `None`
    /// is the published behaviour, without a limit.
    pub handoff_budget: Option<u8>,
    /// Whether writers spin before they sleep (published discipline only).
    pub writer_spin: bool,
    /// Whether readers spin before they sleep (published discipline only).
    pub reader_spin: ReaderSpin,
    /// Readers may not steal while a writer heads the queue (published
    /// discipline only: under tenure the phases alternate anyway).
    pub writer_phase: bool,
    /// Real-time threads (`SCHED_FIFO`, `SCHED_RR` and, above those, `SCHED_DEADLINE`,
    /// on Linux) go before all others that wait, by priority, writers before readers of
    /// the same; a reader
    /// passes writers that wait with a lower priority; and while such a thread
    /// waits nobody steals. As POSIX wants it of `pthread_rwlock_*` ("Thread
    /// Execution Scheduling").
    ///
    /// Then lower priorities have no bound on their waits: threads of a higher one
    /// that keep coming starve them, which is what was asked for. A waiter's
    /// priority is the one it had when it began to wait. There is no inheritance:
    /// whoever is inside keeps its own. Costs a system call for each wait.
    pub priorities: bool,
}

/// The waiter deadline unless told otherwise.
pub(crate) const HANDOFF_AFTER: Duration = Duration::from_millis(4);

impl Policy {
    /// No handoff at all: fast, and it starves. The baseline of proposal 1.
    pub const UNFAIR: Self = Self {
        handoff_after: None,
        handoff_budget: None,
        writer_spin: true,
        reader_spin: ReaderSpin::On,
        writer_phase: false,
        priorities: false,
    };
    /// Proposal 1: a waiter past its deadline is handed the lock.
    pub const HANDOFF: Self = Self { handoff_after: Some(HANDOFF_AFTER), ..Self::UNFAIR };
    /// Proposal 2: readers steal instead of spinning.
    pub const NO_READER_SPIN: Self = Self { reader_spin: ReaderSpin::Off, ..Self::HANDOFF };
    /// Proposal 5: readers may not steal from a writer at the head of the queue.
    pub const WRITER_PHASE: Self = Self { writer_phase: true, ..Self::NO_READER_SPIN };
    /// Tenure, with an aim of 4 milliseconds for the whole queue, and at most a tenth of the time
    /// for handoffs: bounded waits at nearly the throughput of an unfair lock.
    pub const DEFAULT: Self =
        Self { handoff_budget: Some(10), reader_spin: ReaderSpin::Adaptive, ..Self::HANDOFF };

    /// Whether this policy runs the tenure discipline.
    #[inline]
    pub(crate) const fn has_tenure(&self) -> bool {
        self.handoff_after.is_some() && self.handoff_budget.is_some()
    }

    /// The priority with which the calling thread waits.
    pub(crate) fn priority<P: Platform>(&self) -> u8 {
        if self.priorities { P::priority() } else { 0 }
    }

    /// The tenure discipline's numbers, if this policy runs it.
    pub(crate) const fn tenure(&self) -> Option<TenureShape> {
        match (self.handoff_after, self.handoff_budget) {
            (Some(after), Some(percent)) => Some(TenureShape {
                aim_ns: at_most(after, LONGEST_AIM_NS),
                percent: if percent == 0 { 1 } else { percent as u64 },
            }),
            _ => None,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The longest time that can be added to another: centuries.
const LONGEST_AIM_NS: u64 = i64::MAX as u64 / 2;

/// A duration in nanoseconds, or `most` if it is longer.
pub(super) const fn at_most(duration: Duration, most: u64) -> u64 {
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
