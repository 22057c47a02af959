//! Negative controls: locks that are wrong on purpose must be found, and the same
//! locks without the mistake must survive many more schedules.
#![cfg(fairlock_faults)]

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use fairlock::fault::Fault::{self, *};
use fairlock::fault::with_fault;
use fairlock_sim::tester::Kind::{self, *};
use fairlock_sim::tester::{Lock, Tester};

/// A mistake, a lock that makes it, and what may be seen of it.
const FAULTS: &[(Fault, &str, &[Kind])] = &[
    (UsesAnySlot, "rwsem:two-locks", &[Exclusion, Deadlock, Panic, Remains, Word]),
    (DropsAwaited, "rwsem:two-locks", &[Exclusion, Deadlock, Panic, Remains, Word]),
    (ShowsBlindly, "rwsem:visible", &[Deadlock, Exclusion, Word]),
    (HidesBlindly, "rwsem:visible", &[Deadlock, Idle, Remains]),
    (ScansUnraised, "rwsem:visible", &[Deadlock, Idle, Remains]),
    (WakesBeforeGrant, "rwsem:handoff", &[Deadlock]),
    (SleepsBlindly, "rwsem:default", &[Deadlock, Idle]),
    (ReleasesQuietly, "rwsem:default", &[Deadlock, Idle]),
    (ForgetsNext, "rwsem:default", &[Deadlock, Idle]),
    (NapsLong, "rwsem:default", &[Idle]),
    (CountsOneByOne, "rwsem:writer-phase", &[Exclusion, Word]),
    (SubtractsHandoff, "rwsem:default", &[Word, Exclusion]),
    (RefusesInherited, "rwsem:soon", &[Deadlock, Livelock]),
    (LeavesHandoff, "rwsem:soon", &[Word]),
    (ArrivesBlindly, "rwsem:writer-phase", &[Deadlock]),
    (ReaderLeavesQuietly, "rwsem:default", &[Word, Panic, Deadlock, Idle]),
    (SpinsForEver, "rwsem:handoff", &[Conduct]),
    (AllSpin, "rwsem:handoff", &[Conduct, Livelock]),
    (TakesNodeAlong, "rwsem:handoff", &[Livelock, Remains, Deadlock]),
    (TouchesGranted, "rwsem:handoff", &[Conduct]),
    (WriterLeavesQuietly, "rwsem:writer-phase", &[Deadlock]),
    (WriterLeavesQuietly, "rwsem:default", &[Word, Panic, Deadlock, Idle]),
    (TryReadCounts, "rwsem:handoff", &[Deadlock]),
    (AsksReadersFirst, "rwsem:handoff", &[Deadlock]),
    (QueuesWithoutPhase, "rwsem:writer-phase", &[Word]),
    (LeavesWithoutPhase, "rwsem:writer-phase", &[Word]),
    (ForgetsWakeUps, "rwsem:handoff", &[Deadlock]),
    (ForgetsUpgrader, "rwsem:default", &[Deadlock, Idle]),
    (UpgradesInTwoSteps, "rwsem:default", &[Exclusion]),
    (UpgradesBesideReaders, "rwsem:default", &[Exclusion]),
    (IgnoresPriority, "rwsem:priorities", &[Order]),
    (OpensTooEarly, "rwsem:brief-priorities", &[Order]),
    (ParksBlindly, "ticket:2", &[Deadlock]),
    (CollectsTooEarly, "ticket:2", &[Deadlock]),
    (TouchesReleased, "ticket:8", &[Conduct]),
    (EntersBlindly, "ticket:8", &[Exclusion, Word]),
    (OvertakesSolo, "ticket:8", &[Exclusion, Word]),
    (ServesAnyBatch, "ticket:1", &[Order]),
    (GivesUpQuietly, "ticket:2", &[Deadlock, Remains]),
    (GivesUpBlindly, "ticket:2", &[Deadlock, Remains]),
    (KicksGivenUp, "ticket:2", &[Deadlock, Remains]),
    (WithdrawsQuietly, "ticket:8", &[Deadlock]),
    (TakesNotification, "condvar:mutex", &[Remains]),
    (ForgetsFollowers, "condvar:mutex", &[Deadlock]),
    (QueuesTooLate, "condvar:mutex", &[Deadlock]),
    (QueuesUnreported, "condvar:mutex", &[Deadlock]),
    (SleepsBlindly, "condvar:mutex", &[Deadlock]),
    (ReleasesQuietly, "condvar:mutex", &[Deadlock]),
    (DropsAwaited, "condvar:mutex", &[Exclusion, Deadlock, Panic, Remains, Word]),
    (SleepsUnseen, "condvar:mutex", &[Deadlock]),
    (TouchesGranted, "range:fifo", &[Conduct]),
    (ForgetsKind, "range:fifo", &[Panic, Exclusion]),
    (ForgetsGrant, "range:fifo", &[Remains, Deadlock]),
    (ChangesQuietly, "range:fifo", &[Panic, Deadlock]),
    (LeavesUncounted, "range:fifo", &[Panic, Deadlock]),
    (LooksTooEarly, "range:default", &[Exclusion]),
    (LeavesQuietly, "range:fifo", &[Deadlock, Remains]),
    // Who waits does not count those that come later, and so goes in beside them.
    (OvertakesQueued, "range:fifo", &[Order, Exclusion]),
    (LooksOnce, "range:default", &[Exclusion]),
    (WaitsBehind, "range:fifo", &[Deadlock]),
    (RestsBlindly, "range:overtaken", &[Deadlock]),
    (LeavesTreeQuietly, "range:overtaken", &[Deadlock]),
    (RestsBlindly, "range:overtaken-striped", &[Deadlock]),
    (SkipsStripes, "range:striped", &[Word, Exclusion]),
    (IgnoresClosed, "range:striped", &[Exclusion, Order]),
    (LeavesQuietly, "range:striped", &[Deadlock, Remains]),
    (LooksOnceAtStripe, "range:striped", &[Exclusion]),
    (OpensBesideHolder, "range:striped", &[Deadlock, Remains]),
];

/// Schedules in which a mistake must be found.
const MOST: u64 = 1_000_000;
/// So many times as many the lock without it must survive,
const TIMES: u64 = 20;
/// or as if it had been so many.
const LEAST: u64 = 200;
/// and no more than so many, for one that is found by chance only.
const ENOUGH: u64 = 600_000;

/// The locks' own checks panic, again and again while a schedule is made smaller.
fn silently<R>(f: impl FnOnce() -> R) -> R {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = f();
    std::panic::set_hook(hook);
    result
}

#[test]
fn every_mistake_is_found() {
    let mut needed: HashMap<&str, u64> = HashMap::new();
    let mut missed = vec![];
    let mut tester = Tester::new().unwrap();
    for &(fault, name, kinds) in FAULTS {
        let lock = Lock::named(name).unwrap();
        match silently(|| with_fault(Some(fault), || tester.search(lock, 0..MOST))) {
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
    let locks: Vec<(Lock, u64)> = Lock::all()
        .map(|lock| {
            (lock, (TIMES * needed.get(lock.name()).copied().unwrap_or(0).max(LEAST)).min(ENOUGH))
        })
        .collect();
    survive(&locks);
}

/// Each lock, without a mistake, in so many schedules; on all CPUs, the next lock to whoever is
/// ready first.
fn survive(locks: &[(Lock, u64)]) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tester = Tester::new().unwrap();
        while let Some(&(lock, schedules)) = locks.get(next.fetch_add(1, Ordering::Relaxed)) {
            match tester.search(lock, 0..schedules) {
                Ok(summary) => println!("{} without a mistake: {summary:?}", lock.name()),
                Err(failure) => panic!("{failure}"),
            }
        }
    };
    fairlock_testing::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
}
