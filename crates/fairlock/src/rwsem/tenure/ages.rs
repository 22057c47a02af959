//! For how long a thread has waited at locks by attempts that ended without them: its *age* at each.
//!
//! An age belongs to a thread and a lock, and ends when the thread takes that lock. The time between two attempts
//! does not count, and takes nothing away, whatever else the thread took meanwhile.

use core::cell::Cell;

/// The number of locks with an age. With more, a stale age or else the youngest is dropped: the oldest waits
/// come to an end.
const LOCKS: usize = 8;
/// An age may make room for another if the thread has stayed away this many times as long as it had
/// waited. In times the age; compared with the time since the last attempt ended.
const STALE: u64 = 100;

/// What became of the attempts at a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    /// The address of the lock; zero: none.
    lock: usize,
    /// How long they lasted, in nanoseconds.
    pub(crate) waited: u64,
    /// When the last one ended.
    ended: u64,
}

impl Age {
    const NONE: Self = Self { lock: 0, waited: 0, ended: 0 };

    fn is_stale(&self, now: u64) -> bool {
        now.saturating_sub(self.ended) / STALE > self.waited
    }
}

/// The ages of the thread that has the record.
pub(crate) struct Ages {
    ages: [Cell<Age>; LOCKS],
    /// There may be one.
    any: Cell<bool>,
}

impl Ages {
    pub(super) const fn new() -> Self {
        Self { ages: [const { Cell::new(Age::NONE) }; LOCKS], any: Cell::new(false) }
    }

    /// The thread, which has `waited` for `lock` in all, gives up at `now`.
    pub(crate) fn note(&self, lock: usize, waited: u64, now: u64) {
        // The lock that the thread left for good, most likely, makes room, or the youngest wait.
        let worth = |cell: &&Cell<Age>| (!cell.get().is_stale(now), cell.get().waited);
        if let Some(cell) = self.find(lock).or_else(|| self.ages.iter().min_by_key(worth)) {
            cell.set(Age { lock, waited, ended: now });
            self.any.set(true);
        }
    }

    /// The thread's age at `lock`, if it has one.
    pub(crate) fn at(&self, lock: usize) -> Option<Age> {
        self.find(lock).map(Cell::get)
    }

    /// The thread has taken `lock`.
    #[inline(always)]
    pub(crate) fn forget(&self, lock: usize) {
        if self.any.get() {
            self.remove(lock);
        }
    }

    #[cold]
    fn remove(&self, lock: usize) {
        if let Some(cell) = self.find(lock) {
            cell.set(Age::NONE);
        }
        self.any.set(self.ages.iter().any(|cell| cell.get().lock != 0));
    }

    /// The thread has ended, and another begins.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    pub(crate) fn forget_all(&self) {
        self.ages.iter().for_each(|cell| cell.set(Age::NONE));
        self.any.set(false);
    }

    fn find(&self, lock: usize) -> Option<&Cell<Age>> {
        // Mostly there is none, and every contended acquisition asks.
        if !self.any.get() {
            return None;
        }
        self.ages.iter().find(|cell| cell.get().lock == lock)
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_taken_ends_its_own_wait_only() {
        let ages = Ages::new();
        ages.note(1, 100, 200);
        ages.note(2, 150, 200);
        ages.note(2, 250, 400);
        ages.forget(3);
        ages.forget(1);
        assert!(ages.at(1).is_none());
        assert_eq!(ages.at(2).map(|age| age.waited), Some(250));
        ages.forget(2);
        assert!(!ages.any.get());
    }

    /// A thread that polls many locks in turns waits for all but the last of them.
    #[test]
    fn of_too_many_locks_the_oldest_waits_go_on() {
        let ages = Ages::new();
        let mut now = 1_000_000;
        for _ in 0..10 {
            for lock in 1..=2 * LOCKS {
                now += 100;
                let waited = ages.at(lock).map_or(0, |age| age.waited) + 100;
                ages.note(lock, waited, now);
            }
        }
        let oldest =
            (1..=2 * LOCKS).filter(|&lock| ages.at(lock).is_some_and(|a| a.waited == 1_000));
        assert!(oldest.count() >= LOCKS - 1);
    }

    #[test]
    fn waits_that_were_left_long_ago_make_room() {
        let ages = Ages::new();
        (1..=LOCKS).for_each(|lock| ages.note(lock, 1_000, 1_000));
        for now in [200_000, 201_000] {
            ages.note(100, 10, now);
            ages.note(101, 10, now);
        }
        assert!(ages.at(100).is_some() && ages.at(101).is_some());
    }
}
