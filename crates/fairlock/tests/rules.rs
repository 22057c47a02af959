//! The rules of `docs/rules.md` that can be tried from outside, under load
//! and on both disciplines. Those that need a look inside are in
//! `src/rwsem/tests/rules.rs`, and every interleaving of two or three threads
//! is in `src/rwsem/loom_tests.rs`.

#![cfg(not(fairlock_loom))]

mod common;

use std::time::Duration;

use common::{Complaint, excludes_and_wakes, patience, serves_everybody};
use fairlock::platform::Native;
use fairlock::rwsem::RwSem;
use fairlock::{Percent, Policy, PublishedPolicy, ReaderSpin, TenurePolicy};

type Lock = RwSem<Native>;

const IMMEDIATE: Policy = Policy::published(PublishedPolicy {
    handoff_after: Some(Duration::ZERO),
    ..PublishedPolicy::WRITER_PHASE
});
const ASLEEP: Policy = Policy::published(PublishedPolicy {
    writer_spin: false,
    reader_spin: ReaderSpin::Off,
    ..PublishedPolicy::HANDOFF
});
const SHORT_TENURE: Policy = Policy::tenure(TenurePolicy {
    aim: Duration::ZERO,
    budget: Percent::new(100).unwrap(),
    ..TenurePolicy::DEFAULT
});

const POLICIES: [(&str, Policy); 6] = [
    ("handoff", Policy::HANDOFF),
    ("asleep", ASLEEP),
    ("writer phase", Policy::WRITER_PHASE),
    ("immediate", IMMEDIATE),
    ("tenure", Policy::DEFAULT),
    ("short tenure", SHORT_TENURE),
];

fn each_policy(check: impl Fn(Lock) -> Result<(), Complaint>) {
    for (name, policy) in POLICIES {
        assert_eq!(check(Lock::new(policy)), Ok(()), "{name}");
    }
}

#[test]
fn rule_01_granted_threads_wake_up() {
    each_policy(|lock| excludes_and_wakes(lock, 2, 2, 3_000, patience()));
}

#[test]
fn rule_02_writers_never_come_in_beside_granted_readers() {
    each_policy(|lock| excludes_and_wakes(lock, 6, 2, 2_000, patience()));
}

#[test]
fn rule_03_owner_sees_what_the_last_one_wrote() {
    each_policy(|lock| excludes_and_wakes(lock, 1, 3, 3_000, patience()));
}

#[test]
fn rule_13_three_four_and_five_writers_lose_no_wake_up() {
    for writers in 3..=5 {
        each_policy(|lock| excludes_and_wakes(lock, 0, writers, 3_000, patience()));
    }
}

#[test]
fn nobody_starves_whoever_runs() {
    each_policy(|lock| serves_everybody(lock, 2, 2, 20, patience()));
    each_policy(|lock| serves_everybody(lock, 0, 6, 20, patience()));
}
