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
fn same_seed_same_steps() {
    let mut tester = Tester::new().unwrap();
    for lock in Lock::all() {
        let mut steps = || tester.search(lock, 7..37).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(steps(), steps(), "{}", lock.name());
    }
}
