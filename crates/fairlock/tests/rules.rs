//! The rules of `docs/rules.md` that can be tried from outside, under load
//! and on both reader/writer locks. Those that need a look inside are in
//! `src/published/tests/rules.rs`, and every interleaving of two or three threads
//! is in `src/lock/rwlock_loom.rs` and `src/published/published_loom.rs`.

#![cfg(not(fairlock_loom))]

mod common;

use std::time::Duration;

use common::{Complaint, excludes_and_wakes, patience, serves_everybody};
use fairlock::lock::RawRwLock;
use fairlock::platform::Native;
use fairlock::published::{self, ReaderSpin};
use fairlock::{Percent, Policy};

type Published = published::RwSem<Native>;

const PUBLISHED: [(&str, published::Policy); 4] = {
    use published::Policy;
    let immediate = Policy { handoff_after: Some(Duration::ZERO), ..Policy::WRITER_PHASE };
    let asleep = Policy { writer_spin: false, reader_spin: ReaderSpin::Off, ..Policy::HANDOFF };
    [
        ("handoff", Policy::HANDOFF),
        ("asleep", asleep),
        ("writer phase", Policy::WRITER_PHASE),
        ("immediate", immediate),
    ]
};

const TENURES: [(&str, Policy); 2] = [
    ("tenure", Policy::DEFAULT),
    (
        "short tenure",
        Policy { aim: Duration::ZERO, budget: Percent::new(100).unwrap(), ..Policy::DEFAULT },
    ),
];

/// `check!(lock => result)`: the result is `Ok` for each lock under each of its policies.
macro_rules! check {
    ($lock:ident => $check:expr) => {
        for (name, policy) in PUBLISHED {
            let $lock = Published::new(policy);
            assert_eq!($check, Ok::<(), Complaint>(()), "{name}");
        }
        for (name, policy) in TENURES {
            let $lock = RawRwLock::<Native>::new(policy);
            assert_eq!($check, Ok(()), "{name}");
        }
    };
}

#[test]
fn rule_01_granted_threads_wake_up() {
    check!(lock => excludes_and_wakes(lock, 2, 2, 3_000, patience()));
}

#[test]
fn rule_02_writers_never_come_in_beside_granted_readers() {
    check!(lock => excludes_and_wakes(lock, 6, 2, 2_000, patience()));
}

#[test]
fn rule_03_owner_sees_what_the_last_one_wrote() {
    check!(lock => excludes_and_wakes(lock, 1, 3, 3_000, patience()));
}

#[test]
fn rule_13_three_four_and_five_writers_lose_no_wake_up() {
    for writers in 3..=5 {
        check!(lock => excludes_and_wakes(lock, 0, writers, 3_000, patience()));
    }
}

#[test]
fn nobody_starves_whoever_runs() {
    check!(lock => serves_everybody(lock, 2, 2, 20, patience()));
    check!(lock => serves_everybody(lock, 0, 6, 20, patience()));
}
