//! The locks as they are, under some schedules.

use fairlock_sim::tester::{Lock, search};

#[test]
fn locks_survive_schedules() {
    for lock in Lock::all() {
        match search(lock, 0..300) {
            Ok(summary) => println!("{}: {summary:?}", lock.name()),
            Err(failure) => panic!("{failure}"),
        }
    }
}
