//! Negative controls: locks that are wrong on purpose must be found, and the same
//! locks without the mistake must survive many more schedules.
#![cfg(fairlock_faults)]

use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use fairlock::fault::Fault::{self, *};
use fairlock::fault::with_fault;
use fairlock_sim::tester::FailureKind::{self, *};
use fairlock_sim::tester::{Lock, Summary, Tester};

/// A mistake, a lock that makes it, and what may be seen of it.
const FAULTS: &[(Fault, &str, &[FailureKind])] = &[
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
/// or as if the mistake had needed so many.
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

/// How many schedules of a lock are one piece of work.
const PIECE: u64 = 20_000;

#[test]
fn every_mistake_is_found() {
    let needed: Mutex<HashMap<&str, u64>> = Mutex::default();
    let missed = Mutex::new(vec![]);
    silently(|| {
        on_all_cpus(FAULTS, |tester, &(fault, name, kinds)| {
            let lock = Lock::named(name).unwrap();
            let Err(failure) = with_fault(Some(fault), || tester.search(lock, 0..MOST)) else {
                return missed.lock().unwrap().push(format!("{fault:?} in {name}: not found"));
            };
            let schedules = failure.seed + 1;
            println!(
                "{fault:?} in {name}: {schedules} schedules, {:?}: {}",
                failure.kind, failure.what
            );
            if !kinds.contains(&failure.kind) {
                let other = format!("{fault:?}: found as something else: {failure}");
                missed.lock().unwrap().push(other);
            }
            let mut needed = needed.lock().unwrap();
            let most = needed.entry(name).or_default();
            *most = schedules.max(*most);
        });
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let needed = needed.into_inner().unwrap();
    let locks: Vec<(Lock, u64)> = Lock::all()
        .map(|lock| {
            (lock, (TIMES * needed.get(lock.name()).copied().unwrap_or(0).max(LEAST)).min(ENOUGH))
        })
        .collect();
    survive(&locks);
}

/// Each lock, without a mistake, in so many schedules.
fn survive(locks: &[(Lock, u64)]) {
    let pieces: Vec<(Lock, Range<u64>)> = locks
        .iter()
        .flat_map(|&(lock, schedules)| {
            let from = (0..schedules).step_by(PIECE as usize);
            from.map(move |from| (lock, from..schedules.min(from + PIECE)))
        })
        .collect();
    let tried: Mutex<BTreeMap<&str, Summary>> = Mutex::default();
    on_all_cpus(&pieces, |tester, (lock, seeds)| {
        let one = tester.search(*lock, seeds.clone()).unwrap_or_else(|failure| panic!("{failure}"));
        let mut tried = tried.lock().unwrap();
        let all = tried.entry(lock.name()).or_default();
        all.schedules += one.schedules;
        all.steps += one.steps;
    });
    for (name, summary) in tried.into_inner().unwrap() {
        println!("{name} without a mistake: {summary:?}");
    }
}

/// Calls `f` with each item, on all CPUs, the next one on whichever is ready first.
fn on_all_cpus<T: Sync>(items: &[T], f: impl Fn(&mut Tester, &T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tester = Tester::new().unwrap();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            f(&mut tester, item);
        }
    };
    fairlock_testing::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
}
