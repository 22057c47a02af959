//! A policy in the word of a lock that was not used yet, so that it can be a constant.
//!
//! | bits | meaning |
//! |---|---|
//! | 0-3 | [`NASCENT`]; the rest are 0 |
//! | 4-12 | `handoff_budget`, or 511 for `None` |
//! | 13-15 | `reader_spin` |
//! | 16 | `writer_spin` |
//! | 17 | `writer_phase` |
//! | 18 | `priorities` |
//! | 19-63 | `handoff_after` in nanoseconds, or all ones for `None` |

use core::time::Duration;

use super::rwsem::NASCENT;
use crate::rwsem::{Policy, ReaderSpin};

const BUDGET_SHIFT: u32 = 4;
const NO_BUDGET: u64 = (1 << 9) - 1;
const SPIN_SHIFT: u32 = 13;
const SPINS: u64 = (1 << 3) - 1;
const WRITER_SPIN: u64 = 1 << 16;
const WRITER_PHASE: u64 = 1 << 17;
const PRIORITIES: u64 = 1 << 18;
const AFTER_SHIFT: u32 = 19;
const NEVER: u64 = u64::MAX >> AFTER_SHIFT;

/// The word of a new lock that follows `policy`: zero for the default one.
pub(super) const fn word(policy: Policy) -> u64 {
    let word = encode(policy);
    if word == encode(Policy::DEFAULT) { 0 } else { word }
}

const fn encode(policy: Policy) -> u64 {
    let budget = match policy.handoff_budget {
        Some(percent) => percent as u64,
        None => NO_BUDGET,
    };
    let after = match policy.handoff_after {
        Some(after) if after.as_nanos() < NEVER as u128 => after.as_nanos() as u64,
        Some(_) => NEVER - 1,
        None => NEVER,
    };
    NASCENT
        | budget << BUDGET_SHIFT
        | (policy.reader_spin as u64) << SPIN_SHIFT
        | if policy.writer_spin { WRITER_SPIN } else { 0 }
        | if policy.writer_phase { WRITER_PHASE } else { 0 }
        | if policy.priorities { PRIORITIES } else { 0 }
        | after << AFTER_SHIFT
}

/// The policy that the word of a nascent lock has.
pub(super) fn policy(word: u64) -> Policy {
    const SPIN: [ReaderSpin; 5] = [
        ReaderSpin::Off,
        ReaderSpin::One,
        ReaderSpin::On,
        ReaderSpin::Always,
        ReaderSpin::Adaptive,
    ];
    let spin = (word >> SPIN_SHIFT) & SPINS;
    Policy {
        handoff_after: match word >> AFTER_SHIFT {
            NEVER => None,
            ns => Some(Duration::from_nanos(ns)),
        },
        // 511 is none.
        handoff_budget: u8::try_from((word >> BUDGET_SHIFT) & NO_BUDGET).ok(),
        writer_spin: word & WRITER_SPIN != 0,
        reader_spin: SPIN[spin as usize],
        writer_phase: word & WRITER_PHASE != 0,
        priorities: word & PRIORITIES != 0,
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_policy_comes_back_as_it_was(
            after in proptest::option::of(0..NEVER - 1),
            budget: Option<u8>,
            spin in 0..5_u64,
            flags: [bool; 3],
        ) {
            let [writer_spin, writer_phase, priorities] = flags;
            let made = Policy {
                handoff_after: after.map(Duration::from_nanos),
                handoff_budget: budget,
                writer_spin,
                reader_spin: policy(spin << SPIN_SHIFT).reader_spin,
                writer_phase,
                priorities,
            };
            prop_assert_eq!(policy(encode(made)), made);
            prop_assert_eq!(word(made) == 0, made == Policy::DEFAULT);
        }
    }

    #[test]
    fn a_very_long_wait_is_shortened_and_stays_one() {
        let made = Policy { handoff_after: Some(Duration::MAX), ..Policy::DEFAULT };
        assert!(policy(word(made)).handoff_after.unwrap() > Duration::from_secs(9 * 3_600));
    }
}
