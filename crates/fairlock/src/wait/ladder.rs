//! The ladder that a thread climbs while it waits, at every lock.
//!
//! | rung | what the thread does | until |
//! |---|---|---|
//! | [`spin`](WaitContext::spin) | looks at a word | the word is as wanted, or its time is over |
//! | [`stand_back`](WaitContext::stand_back) | looks at nothing, and leaves the lock's line to others | its time is over |
//! | [`give_way`] | yields its CPU | it has a CPU again |
//! | [`sleep`](WaitContext::sleep) | sleeps at its parker | it is woken, or its time is over |
//!
//! A lock says what its threads look at, and how long they stay on each rung. A time ends at the
//! deadline of the wait, too. The numbers here are those that mean the same at every lock.

use core::cell::Cell;

use super::{Parker, WaitContext, WaitError};
use crate::system::{Atomic, System, WaitOutcome};

/// How often a thread that finds a lock taken looks again, awake, before it gives way to others, or
/// queues. In looks; compared with those of this wait.
pub(crate) const LOOKS: u32 = 3;
/// The first pause between two such looks; each is twice as long as the one before. In ns; compared
/// with the time since the last look.
pub(crate) const LOOK_NS: u64 = 200;
/// More than a thread that runs needs to leave a lock, or to come back to it. In ns; compared with the
/// time since the thread came, or since the last look; elsewhere it is the length of a pause.
pub(crate) const SOON_NS: u64 = 2_000;
/// About what it takes to be woken, where there is a CPU: whoever can expect its turn sooner stays
/// awake. In ns; compared with the time since the thread came, or since its turn was to begin;
/// elsewhere it is the length of a sleep.
pub(crate) const WAKE_NS: u64 = 50_000;

impl<P: System> WaitContext<'_, P> {
    /// So long, but not beyond the deadline. The clock is read only if there is one.
    fn at_most(&self, bound_ns: u64) -> u64 {
        if self.deadline.is_some() { bound_ns.min(self.left(P::now())) } else { bound_ns }
    }

    /// Spins until `done` accepts the word's value; tells whether it did.
    #[inline]
    pub(crate) fn spin<T, A: Atomic<T>>(
        &self,
        word: &A,
        bound_ns: u64,
        done: impl Fn(T) -> bool,
    ) -> bool {
        P::spin_until(word, self.at_most(bound_ns), done)
    }

    /// Stays away from the lock.
    pub(crate) fn stand_back(&self, ns: u64) {
        self.spin(&P::AtomicU32::new(0), ns, |_: u32| false);
    }

    /// Sleeps until woken, or until `timer`. Returns why the wait has ended, if it has: to be acted
    /// on after another look, as the lock may have come free meanwhile.
    pub(crate) fn sleep(&self, parker: &Parker<P>, timer: Option<u64>) -> Option<WaitError> {
        let wake = timer.into_iter().chain(self.deadline).min();
        match parker.park(wake, self.interruptible) {
            WaitOutcome::Interrupted => Some(WaitError::Interrupted),
            _ => self.expired(P::now),
        }
    }
}

/// How long a thread sleeps that nobody may wake: each time for twice as long. A thread that waits for a
/// long section wakes up in vain, for some microseconds, 600 times a second.
pub(crate) struct Naps(u64);

impl Naps {
    /// In ns; compared with twice the last sleep.
    pub(crate) const LONGEST_NS: u64 = 1_600_000;

    pub(crate) fn new(first_ns: u64) -> Self {
        Self(first_ns)
    }

    /// The length of the next one.
    pub(crate) fn next(&mut self) -> u64 {
        let this = self.0;
        self.0 = (2 * this).min(Self::LONGEST_NS);
        this
    }
}

/// Yields the CPU; returns how long others had it.
pub(crate) fn give_way<P: System>() -> u64 {
    let before = P::now();
    P::yield_now();
    P::now().saturating_sub(before)
}

/// Tells a thread that takes locks past their queues when to look at the clock: about once
/// in [`INTERVAL_NS`](Self::INTERVAL_NS), however long its sections are, so that the clock
/// costs next to nothing beside sections of a few nanoseconds.
pub(crate) struct StealClock {
    /// Steals until the next look.
    left: Cell<u32>,
    /// Steals between the last two looks.
    stride: Cell<u32>,
    /// When the last look was.
    looked: Cell<u64>,
}

/// What a thread sees when it looks at the clock.
pub(crate) struct Look {
    pub(crate) now: u64,
    /// Nanoseconds since its last look.
    since: u64,
    /// Steals since then.
    pub(crate) steals: u32,
}

impl Look {
    /// Whether a multiple of `period` nanoseconds, a power of two, lies between
    /// the last look and this one.
    pub(crate) fn passed_multiple_of(&self, period: u64) -> bool {
        (self.now ^ self.now.wrapping_sub(self.since)) >= period
    }
}

impl StealClock {
    /// The time between two looks at the clock. In ns; compared with the time since the last look,
    /// for a number of steals.
    const INTERVAL_NS: u64 = 2_000;
    /// The most steals between two looks. In steals; compared with those that fit the interval.
    const MAX_STRIDE: u32 = 32;

    pub(crate) const fn new() -> Self {
        Self { left: Cell::new(1), stride: Cell::new(1), looked: Cell::new(0) }
    }

    /// Counts one steal of the calling thread; a look at the clock, if it is due.
    #[inline(always)]
    pub(crate) fn tick<P: System>(&self) -> Option<Look> {
        if self.count() { self.look::<P>() } else { None }
    }

    /// Counts one steal of the calling thread: whether a [`look`](Self::look) at the clock is due.
    #[inline(always)]
    pub(crate) fn count(&self) -> bool {
        let left = self.left.get().saturating_sub(1);
        self.left.set(left);
        left == 0
    }

    /// A look at the clock, if one is due.
    #[cold]
    pub(crate) fn look<P: System>(&self) -> Option<Look> {
        if self.left.get() > 0 {
            return None;
        }
        let now = P::now();
        let before = self.stride.get();
        let since = now.wrapping_sub(self.looked.replace(now)).max(1);
        // As many steals as fit into the interval at the recent rate. The stride at most doubles: after
        // one short section the clock must still be read soon.
        let fit = (u64::from(before) * Self::INTERVAL_NS / since).min(u64::from(before) * 2);
        let stride = (fit as u32).clamp(1, Self::MAX_STRIDE);
        self.stride.set(stride);
        self.left.set(stride);
        Some(Look { now, since, steals: before })
    }
}
