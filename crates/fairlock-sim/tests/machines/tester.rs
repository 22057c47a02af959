//! The locks as they are, under some schedules. More of them:
//! `fairlock torture --schedules 1000000`.

use fairlock_sim::tester::{Lock, Tester};
use fairlock_testing as _; // the watchdog

/// For a test build without optimisation a matter of seconds.
const SCHEDULES: u64 = 800;

#[test]
fn locks_survive_schedules() {
    let mut tester = Tester::new().unwrap();
    for lock in Lock::all() {
        match tester.search(lock, 0..SCHEDULES) {
            Ok(summary) => println!("{}: {summary:?}", lock.name()),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn traces_tell_of_all_kinds_of_events_and_end_with_a_free_lock() {
    let mut tester = Tester::new().unwrap();
    let lock = Lock::named("rwsem:default").unwrap();
    let traces: Vec<String> = (0..200).map(|seed| tester.trace(lock, seed)).collect();
    for trace in &traces {
        assert!(
            trace.lines().last().is_none_or(|last| last.ends_with(" 0 0 0 0 0 0 -")),
            "{trace}"
        );
    }
    for kind in ["C q", "C -", "S t", "S -", "P w", "P t", "U 0", "L -"] {
        let tells =
            traces.iter().flat_map(|trace| trace.lines()).any(|line| line[2..].starts_with(kind));
        assert!(tells, "{kind}");
    }
}

#[test]
fn same_seed_same_steps() {
    let mut tester = Tester::new().unwrap();
    for lock in Lock::all() {
        let mut steps = || tester.search(lock, 7..37).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(steps(), steps(), "{}", lock.name());
    }
}

/// Where a lock is decides in which place of a record its readers are shown, and so when a scan comes to it. (The same seed had
/// other steps now and then, when other tests ran at the same time.)
#[test]
fn where_a_lock_is_in_memory_makes_no_difference() {
    let mut tester = Tester::new().unwrap();
    let lock = Lock::named("rwsem:visible").unwrap();
    let mut steps = || tester.search(lock, 0..200).unwrap_or_else(|failure| panic!("{failure}"));
    let first = steps();
    for _ in 0..8 {
        // What is free in the heap is used up, so that the next locks are elsewhere.
        let used: Vec<Box<[u8]>> =
            (1..64).flat_map(|units| [(); 16].map(|()| vec![1; 16 * units].into())).collect();
        assert_eq!(steps(), first);
        drop(used);
    }
}
