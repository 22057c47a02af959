//! The locks as they are, under some schedules. More of them:
//! `fairlock torture --schedules 1000000`.

use fairlock_sim::tester::{Lock, search};
use fairlock_testing as _; // the watchdog

/// For a test build without optimisation a matter of seconds.
const SCHEDULES: u64 = 800;

#[test]
fn locks_survive_schedules() {
    for lock in Lock::all() {
        match search(lock, 0..SCHEDULES) {
            Ok(summary) => println!("{}: {summary:?}", lock.name()),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn same_seed_same_steps() {
    for lock in Lock::all() {
        let steps = || search(lock, 7..37).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(steps(), steps(), "{}", lock.name());
    }
}
