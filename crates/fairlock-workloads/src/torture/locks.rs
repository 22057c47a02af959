//! The locks, what threads can do with each, and what must hold while they do.

mod broken;
mod condvar;
mod mutex;
mod range;
mod rwlock;

use std::sync::atomic::{AtomicU64, Ordering};

use super::seat::{Seat, Subject};
use super::visit::Section;

/// A lock that can be tortured.
#[derive(Clone, Copy)]
pub struct Lock {
    pub name: &'static str,
    pub(super) make: fn() -> Box<dyn Subject>,
}

/// All locks; those that are broken on purpose are not among them.
pub fn all() -> Vec<Lock> {
    [rwlock::LOCKS, mutex::LOCKS, condvar::LOCKS, range::LOCKS].concat()
}

/// Locks that are wrong on purpose, each in a way of its own: torture must find them.
pub fn broken() -> Vec<Lock> {
    [broken::LOCKS, rwlock::BROKEN, mutex::BROKEN, condvar::BROKEN, range::BROKEN].concat()
}

/// The lock of this name, also a broken one.
pub fn named(name: &str) -> Option<Lock> {
    all().into_iter().chain(broken()).find(|lock| lock.name == name)
}

/// What a lock guards: two numbers that are the same whenever nobody writes. Atomic, as a lock that does not
/// exclude must be no undefined behaviour here; but never by an operation that would hide a lost update.
#[derive(Default)]
struct Pair {
    halves: [AtomicU64; 2],
    /// How often it was written.
    written: AtomicU64,
}

impl Pair {
    fn load(&self) -> [u64; 2] {
        [0, 1].map(|half| self.halves[half].load(Ordering::Relaxed))
    }

    /// Writes the first half.
    fn begin(&self, seat: &Seat<'_>) {
        let [first, second] = self.load();
        if first != second {
            seat.fail(format!(
                "exclusion: a writer found {first} and {second}, which should be the same"
            ));
        }
        self.halves[0].store(first + 1, Ordering::Relaxed);
    }

    /// Writes the second half.
    fn finish(&self, seat: &Seat<'_>) {
        let [first, second] = self.load();
        if first != second + 1 {
            seat.fail(format!(
                "exclusion: a writer found {first} and {second}, but wrote {}",
                second + 1
            ));
        }
        self.halves[1].store(first, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self, seat: &Seat<'_>, section: Section) {
        self.begin(seat);
        section.stay();
        self.finish(seat);
    }

    /// Returns what is there.
    fn read(&self, seat: &Seat<'_>, section: Section) -> u64 {
        let before = self.load();
        section.stay();
        let after = self.load();
        if before[0] != before[1] || before != after {
            seat.fail(format!("exclusion: a reader found {before:?}, and then {after:?}"));
        }
        after[0]
    }

    /// Nobody is inside.
    fn check_idle(&self) -> Result<(), String> {
        let ([first, second], written) = (self.load(), self.written.load(Ordering::Relaxed));
        match first == second && first == written {
            true => Ok(()),
            false => Err(format!("written {written} times, and has {first} and {second}")),
        }
    }
}

/// What waits for a wake-up from each of so many others may take where the lock itself plans nothing.
fn wake_ups(others: usize) -> u64 {
    const WAKE_UP_NS: u64 = 1_000_000;
    (others as u64 + 2) * WAKE_UP_NS
}
