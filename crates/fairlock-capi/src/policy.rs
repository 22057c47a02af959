//! How a lock decides which thread goes next.

use std::time::Duration;

use fairlock::Percent;
use fairlock::published::{self, ReaderSpin};
use libc::c_int;

use crate::errno::{Errno, give, status};

/// Preset: bounded waits at nearly the throughput of an unfair lock.
pub const FAIRLOCK_DEFAULT: u32 = 0;
/// Preset: fast, and it starves.
pub const FAIRLOCK_UNFAIR: u32 = 1;
/// Preset: a waiter past its deadline is handed the lock.
pub const FAIRLOCK_HANDOFF: u32 = 2;
/// Preset: as FAIRLOCK_HANDOFF, and readers do not spin.
pub const FAIRLOCK_NO_READER_SPIN: u32 = 3;
/// Preset: as FAIRLOCK_NO_READER_SPIN, and readers do not overtake a writer that is
/// first in the queue.
pub const FAIRLOCK_WRITER_PHASE: u32 = 4;

/// `handoff_after_ns`: never.
pub const FAIRLOCK_NEVER: i64 = -1;
/// `handoff_budget`: none; the lock follows a kernel proposal, as published.
pub const FAIRLOCK_NO_BUDGET: i32 = -1;

/// `reader_spin`: readers do not spin.
pub const FAIRLOCK_READER_SPIN_OFF: u32 = 0;
/// `reader_spin`: one reader at a time may spin.
pub const FAIRLOCK_READER_SPIN_ONE: u32 = 1;
/// `reader_spin`: every reader may spin.
pub const FAIRLOCK_READER_SPIN_ON: u32 = 2;
/// `reader_spin`: every reader may spin, for readers too, which may starve all others.
pub const FAIRLOCK_READER_SPIN_ALWAYS: u32 = 3;

/// A policy, and with it which lock it is: the default one, or that of the kernel proposals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Policy {
    Default(fairlock::Policy),
    Published(published::Policy),
}

impl Policy {
    pub(crate) const DEFAULT: Self = Self::Default(fairlock::Policy::DEFAULT);
}

/// How a lock decides which thread goes next, in full. Start from a preset
/// (fairlock_policy_preset) and change what is to be different.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct fairlock_policy_t {
    /// How long a waiter is passed over before the lock is handed to it, in nanoseconds:
    /// FAIRLOCK_NEVER (it starves), 0 (a context switch for each acquisition), or more, up to
    /// nine hours; what is longer is taken for that.
    pub handoff_after_ns: i64,
    /// The share of time that handoffs may cost, 1 to 100 percent, or FAIRLOCK_NO_BUDGET.
    /// With both a time and a budget the lock is held by turns, and the next three fields
    /// do not matter.
    pub handoff_budget: i32,
    /// Whether readers spin before they sleep: one of FAIRLOCK_READER_SPIN_*.
    pub reader_spin: u32,
    /// Whether writers spin before they sleep: 0 or 1.
    pub writer_spin: u32,
    /// Whether readers may not overtake a writer that is first in the queue: 0 or 1.
    pub writer_phase: u32,
    /// Whether real-time threads (SCHED_DEADLINE, SCHED_FIFO, SCHED_RR) go before all
    /// others that wait, by priority, which may starve those: 0 or 1. Only with a time and a
    /// budget; otherwise 0.
    pub priorities: u32,
    /// For later versions: zero.
    pub reserved: [u32; 9],
}

const SPINS: [(u32, ReaderSpin); 4] = [
    (FAIRLOCK_READER_SPIN_OFF, ReaderSpin::Off),
    (FAIRLOCK_READER_SPIN_ONE, ReaderSpin::One),
    (FAIRLOCK_READER_SPIN_ON, ReaderSpin::On),
    (FAIRLOCK_READER_SPIN_ALWAYS, ReaderSpin::Always),
];

impl fairlock_policy_t {
    pub(crate) fn new(policy: &Policy) -> Self {
        let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        // What does not matter to the default lock is written with these values.
        let idle = published::Policy::HANDOFF;
        let (after, budget, priorities, published) = match *policy {
            Policy::Default(own) => (Some(own.aim), Some(own.budget), own.priorities, idle),
            Policy::Published(published) => (published.handoff_after, None, false, published),
        };
        let spin = SPINS.iter().find(|(_, spin)| *spin == published.reader_spin);
        Self {
            handoff_after_ns: after.map_or(FAIRLOCK_NEVER, ns),
            handoff_budget: budget.map_or(FAIRLOCK_NO_BUDGET, |budget| budget.get().into()),
            reader_spin: spin.map_or(FAIRLOCK_READER_SPIN_ON, |(code, _)| *code),
            writer_spin: published.writer_spin.into(),
            writer_phase: published.writer_phase.into(),
            priorities: priorities.into(),
            reserved: [0; 9],
        }
    }

    pub(crate) fn policy(&self) -> Result<Policy, Errno> {
        if self.reserved != [0; 9] {
            return Err(Errno::INVALID);
        }
        let spin = SPINS.iter().find(|(code, _)| *code == self.reader_spin);
        let budget = match self.handoff_budget {
            FAIRLOCK_NO_BUDGET => None,
            percent => {
                let percent = u8::try_from(percent).ok().and_then(Percent::new);
                Some(percent.ok_or(Errno::INVALID)?)
            }
        };
        let priorities = flag(self.priorities)?;
        let published = published::Policy {
            handoff_after: match self.handoff_after_ns {
                FAIRLOCK_NEVER => None,
                ns => Some(Duration::from_nanos(ns.try_into().map_err(|_| Errno::INVALID)?)),
            },
            writer_spin: flag(self.writer_spin)?,
            reader_spin: spin.ok_or(Errno::INVALID)?.1,
            writer_phase: flag(self.writer_phase)?,
        };
        match (published.handoff_after, budget) {
            (Some(aim), Some(budget)) => {
                Ok(Policy::Default(fairlock::Policy { aim, budget, priorities }))
            }
            _ if priorities => Err(Errno::INVALID),
            _ => Ok(Policy::Published(published)),
        }
    }
}

fn flag(value: u32) -> Result<bool, Errno> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Errno::INVALID),
    }
}

/// The policy that a preset stands for.
pub(crate) fn preset(code: u32) -> Option<Policy> {
    Some(match code {
        FAIRLOCK_DEFAULT => Policy::DEFAULT,
        FAIRLOCK_UNFAIR => Policy::Published(published::Policy::UNFAIR),
        FAIRLOCK_HANDOFF => Policy::Published(published::Policy::HANDOFF),
        FAIRLOCK_NO_READER_SPIN => Policy::Published(published::Policy::NO_READER_SPIN),
        FAIRLOCK_WRITER_PHASE => Policy::Published(published::Policy::WRITER_PHASE),
        _ => return None,
    })
}

/// Writes down what a preset (FAIRLOCK_DEFAULT …) stands for.
///
/// * 0: `*policy` was written.
/// * EINVAL: unknown preset, or `policy` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_policy_preset(
    preset: u32,
    policy: *mut fairlock_policy_t,
) -> c_int {
    let known = self::preset(preset).ok_or(Errno::INVALID);
    // SAFETY: the caller provides room for a policy.
    status(known.and_then(|known| unsafe { give(policy, fairlock_policy_t::new(&known)) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_the_way_to_c_and_back() {
        for code in 0..5 {
            let policy = preset(code).unwrap();
            assert_eq!(fairlock_policy_t::new(&policy).policy(), Ok(policy));
        }
        assert_eq!(preset(5), None);
        let own = Policy::Published(published::Policy {
            handoff_after: Some(Duration::ZERO),
            ..published::Policy::UNFAIR
        });
        assert_eq!(fairlock_policy_t::new(&own).policy(), Ok(own));
    }

    #[test]
    fn only_the_default_lock_knows_priorities() {
        let ranked = fairlock::Policy::DEFAULT.with_priorities();
        let made = fairlock_policy_t::new(&Policy::Default(ranked));
        assert_eq!((made.priorities, made.policy()), (1, Ok(Policy::Default(ranked))));
        let published = fairlock_policy_t { handoff_budget: FAIRLOCK_NO_BUDGET, ..made };
        assert_eq!(published.policy(), Err(Errno::INVALID));
    }
}
