//! Negative controls: locks that are wrong on purpose must be found, and the same
//! locks without the mistake must survive many more schedules.
#![cfg(fairlock_faults)]

use std::collections::HashMap;

use fairlock::fault::Fault::{self, *};
use fairlock::fault::with_fault;
use fairlock_sim::tester::Kind::{self, *};
use fairlock_sim::tester::{Lock, search};

/// A mistake, a lock that makes it, and what may be seen of it.
const FAULTS: &[(Fault, &str, &[Kind])] = &[
    (WakesBeforeGrant, "rwsem:handoff", &[Deadlock]),
    (WakesBeforeGrant, "rwsem:default", &[Deadlock]),
    (CountsOneByOne, "rwsem:writer-phase", &[Exclusion, Word]),
    (SubtractsHandoff, "rwsem:default", &[Word, Exclusion]),
    (RefusesInherited, "rwsem:soon", &[Deadlock, Livelock]),
    (LeavesHandoff, "rwsem:soon", &[Word]),
    (ArrivesBlindly, "rwsem:writer-phase", &[Deadlock]),
    (ReaderLeavesQuietly, "rwsem:default", &[Word, Panic, Deadlock]),
    (SpinsForEver, "rwsem:handoff", &[Conduct]),
    (AllSpin, "rwsem:handoff", &[Conduct]),
    (TakesNodeAlong, "rwsem:handoff", &[Livelock, Remains, Deadlock]),
    (TouchesGranted, "rwsem:handoff", &[Conduct]),
    (WriterLeavesQuietly, "rwsem:writer-phase", &[Deadlock]),
    (WriterLeavesQuietly, "rwsem:default", &[Word, Panic, Deadlock]),
    (TryReadCounts, "rwsem:handoff", &[Deadlock]),
];

/// Schedules in which a mistake must be found.
const MOST: u64 = 20_000;
/// So many times as many the lock without it must survive.
const TIMES: u64 = 20;

#[test]
fn every_mistake_is_found() {
    let mut needed: HashMap<&str, u64> = HashMap::new();
    let mut missed = vec![];
    for &(fault, name, kinds) in FAULTS {
        let lock = Lock::named(name).unwrap();
        match with_fault(Some(fault), || search(lock, 0..MOST)) {
            Ok(_) => missed.push(format!("{fault:?} in {name}: not found")),
            Err(failure) => {
                let schedules = failure.seed + 1;
                println!(
                    "{fault:?} in {name}: {schedules} schedules, {:?}: {}",
                    failure.kind, failure.what
                );
                if !kinds.contains(&failure.kind) {
                    missed.push(format!("{fault:?}: found as something else: {failure}"));
                }
                let most = needed.entry(name).or_default();
                *most = schedules.max(*most);
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    for (name, schedules) in needed {
        let lock = Lock::named(name).unwrap();
        match search(lock, 0..TIMES * schedules) {
            Ok(summary) => println!("{name} without a mistake: {summary:?}"),
            Err(failure) => panic!("{failure}"),
        }
    }
}
