//! The policy of a lock that was not used yet, in its word, so that the lock can be a constant.
//!
//! | bits | meaning |
//! |---|---|
//! | 0-3 | [`NASCENT`]; the rest are 0 |
//! | 4-12 | under tenure the budget in percent, else 511 |
//! | 13-15 | `reader_spin` |
//! | 16 | `writer_spin` |
//! | 17 | `writer_phase` |
//! | 18 | `priorities` |
//! | 19-63 | the aim or `handoff_after` in nanoseconds, or all ones for `None` |
//!
//! Bits 13 to 17 are zero under tenure.

use core::time::Duration;

use super::word::{NASCENT, RwWord};
use crate::rwsem::{Discipline, Percent, Policy, PublishedPolicy, ReaderSpin, TenurePolicy};

const BUDGET_SHIFT: u32 = 4;
const NO_BUDGET: u64 = (1 << 9) - 1;
const SPIN_SHIFT: u32 = 13;
const SPIN_MASK: u64 = (1 << 3) - 1;
const SPIN: [ReaderSpin; 5] =
    [ReaderSpin::Off, ReaderSpin::One, ReaderSpin::On, ReaderSpin::Always, ReaderSpin::Adaptive];
const WRITER_SPIN: u64 = 1 << 16;
const WRITER_PHASE: u64 = 1 << 17;
const PRIORITIES: u64 = 1 << 18;
const AFTER_SHIFT: u32 = 19;
const NEVER: u64 = u64::MAX >> AFTER_SHIFT;

/// The word of a new lock that follows `policy`: zero for the default one.
pub(super) const fn word(policy: Policy) -> RwWord {
    let word = encode(policy);
    RwWord(if word == encode(Policy::DEFAULT) { 0 } else { word })
}

const fn encode(policy: Policy) -> u64 {
    let numbers = match policy.discipline() {
        Discipline::Tenure(TenurePolicy { aim, budget, priorities: _ }) => {
            (budget.get() as u64) << BUDGET_SHIFT | ns(aim) << AFTER_SHIFT
        }
        Discipline::Published(policy) => {
            let after = match policy.handoff_after {
                Some(after) => ns(after),
                None => NEVER,
            };
            NO_BUDGET << BUDGET_SHIFT
                | (policy.reader_spin as u64) << SPIN_SHIFT
                | if policy.writer_spin { WRITER_SPIN } else { 0 }
                | if policy.writer_phase { WRITER_PHASE } else { 0 }
                | after << AFTER_SHIFT
        }
    };
    NASCENT | numbers | if policy.priorities() { PRIORITIES } else { 0 }
}

/// A time as far as it fits.
const fn ns(time: Duration) -> u64 {
    if time.as_nanos() < NEVER as u128 { time.as_nanos() as u64 } else { NEVER - 1 }
}

/// The policy in the word of a nascent lock.
pub(super) fn policy(RwWord(word): RwWord) -> Policy {
    let priorities = word & PRIORITIES != 0;
    let after = match word >> AFTER_SHIFT {
        NEVER => None,
        ns => Some(Duration::from_nanos(ns)),
    };
    // 511 says that there is no budget.
    let budget = u8::try_from((word >> BUDGET_SHIFT) & NO_BUDGET).ok().and_then(Percent::new);
    if let (Some(budget), Some(aim)) = (budget, after) {
        return Policy::tenure(TenurePolicy { aim, budget, priorities });
    }
    Policy::published(PublishedPolicy {
        handoff_after: after,
        writer_spin: word & WRITER_SPIN != 0,
        reader_spin: SPIN[((word >> SPIN_SHIFT) & SPIN_MASK) as usize],
        writer_phase: word & WRITER_PHASE != 0,
        priorities,
    })
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_policy_comes_back_as_it_was(
            after in proptest::option::of(0..NEVER - 1),
            budget in proptest::option::of(1..=100_u8),
            spin in 0..5_usize,
            flags: [bool; 3],
        ) {
            let [writer_spin, writer_phase, priorities] = flags;
            let handoff_after = after.map(Duration::from_nanos);
            let made = match (handoff_after, budget.and_then(Percent::new)) {
                (Some(aim), Some(budget)) => {
                    Policy::tenure(TenurePolicy { aim, budget, priorities })
                }
                _ => Policy::published(PublishedPolicy {
                    handoff_after,
                    writer_spin,
                    reader_spin: SPIN[spin],
                    writer_phase,
                    priorities,
                }),
            };
            prop_assert_eq!(policy(RwWord(encode(made))), made);
            prop_assert_eq!(word(made) == RwWord::FREE, made == Policy::DEFAULT);
        }
    }

    #[test]
    fn a_very_long_wait_is_shortened_and_stays_one() {
        let long = Some(Duration::MAX);
        let made = PublishedPolicy { handoff_after: long, ..PublishedPolicy::HANDOFF };
        let Discipline::Published(kept) = policy(word(Policy::published(made))).discipline() else {
            panic!()
        };
        assert!(kept.handoff_after.unwrap() > Duration::from_secs(9 * 3_600));
    }
}
