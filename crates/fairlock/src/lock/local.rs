//! What the discipline remembers of a thread: the lock that it wrote last, the lock at which it is
//! to yield, and its ages.
//!
//! A thread's *age* at a lock is the total length of its attempts there that ended without the
//! lock. An age ends when the thread takes that lock. The time between two attempts does not count,
//! nor does it reduce the age, whatever other locks the thread took meanwhile.

use core::cell::Cell;

use crate::wait::{Habit, StealClock};

/// What the discipline remembers of a thread. Used by that thread only.
pub(crate) struct LockLocal {
    /// The lock after whose release the thread yields its CPU: an address, only compared; or zero.
    pub(crate) gives_way: Cell<usize>,
    /// The address of the lock that the thread last took for writing, or upgradably, while others waited;
    /// zero once it has joined readers there more often than is counted. An upgrade needs no store: the
    /// upgradable acquisition before it made one.
    wrote: Cell<usize>,
    /// How often it has joined readers there.
    joins: Cell<u8>,
    /// The tenure's end for which it last yielded, and when it may yield again for that end.
    gave_way_for: Cell<u64>,
    pub(crate) gives_way_again: Cell<u64>,
    /// For how long it has waited at locks that it did not get.
    pub(crate) ages: Ages,
    /// Whether it stays awake near the end of a tenure, if it is next.
    pub(super) stays: Habit,
    /// How long it last took the thread to wake others, in nanoseconds.
    pub(super) wake_cost: Cell<u64>,
    /// Acquisitions not yet added to the lock's counter, where threads share the lock.
    pub(super) unreported_steals: Cell<u32>,
    /// When to look at the clock.
    pub(crate) steals: StealClock,
    /// How often it found a lock that has a slot, and nobody there.
    calm: Cell<u32>,
}

impl LockLocal {
    pub(crate) const fn new() -> Self {
        Self {
            gives_way: Cell::new(0),
            wrote: Cell::new(0),
            joins: Cell::new(0),
            gave_way_for: Cell::new(0),
            gives_way_again: Cell::new(0),
            ages: Ages::new(),
            stays: Habit::new(),
            wake_cost: Cell::new(0),
            unreported_steals: Cell::new(0),
            steals: StealClock::new(),
            calm: Cell::new(0),
        }
    }

    /// The thread has found a lock that has a slot, and nobody there. Whether the lock is to give the slot back: each time
    /// after so many.
    #[inline(always)]
    pub(super) fn is_calm(&self) -> bool {
        self.calm.set(self.calm.get().wrapping_add(1));
        self.calm.get() % CALM == 0
    }

    /// For testers: the next lock that the thread finds so gives its slot back.
    pub(super) fn seem_calm(&self) {
        self.calm.set(CALM - 1);
    }

    /// Makes the thread yield its CPU when it releases the lock, as the next waiter has not come by
    /// the `end` of the tenure. Not if the thread has yielded for that end a short time ago.
    pub(crate) fn is_to_give_way(&self, lock: usize, end: u64, now: u64) {
        if self.gave_way_for.replace(end) != end || now >= self.gives_way_again.get() {
            self.gives_way.set(lock);
        }
    }

    /// The thread has [yielded](Self::is_to_give_way). From `again` on it may yield for the same end once
    /// more.
    pub(crate) fn gave_way(&self, again: u64) {
        self.gives_way.set(0);
        self.gives_way_again.set(again);
    }

    /// Another thread has the record.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    pub(crate) fn forget(&self) {
        self.ages.forget_all();
        self.writes(0);
        self.gave_way(0);
        self.stays.ended(true);
    }

    /// The thread takes the lock at `address` for writing, or
    /// upgradably, while others wait.
    #[inline(always)]
    pub(crate) fn writes(&self, address: usize) {
        self.wrote.set(address);
        self.joins.set(0);
    }

    /// It joins readers of the lock that it wrote last, in a tenure of writers.
    pub(crate) fn joins_as_writer(&self) {
        match self.joins.get().checked_add(1) {
            Some(joins) => self.joins.set(joins),
            // It has not written for a long time, and is a reader again.
            None => self.writes(0),
        }
    }

    /// Whether it has lately written the lock at `address`, as far as that is known.
    #[inline(always)]
    pub(crate) fn wrote(&self, address: usize) -> bool {
        self.wrote.get() == address
    }
}

/// After so many acquisitions that find a slot and nobody there, a lock gives the slot back. They cost next to nothing, and
/// taking another slot costs as much as two transfers of a line. In acquisitions of a thread; compared with those since the
/// last.
const CALM: u32 = if cfg!(fairlock_loom) { 1 } else { 32 };

/// The number of locks with an age. With more, a stale age or else the youngest is dropped: the oldest waits
/// come to an end.
const LOCKS: usize = 8;

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

    /// Whether this age may be dropped for another: the thread has stayed away for longer than if
    /// it polled the square of [`LOCKS`] locks by turns.
    fn is_stale(&self, now: u64) -> bool {
        now.saturating_sub(self.ended) / (LOCKS * LOCKS) as u64 > self.waited
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
        // The age of a lock that the thread most likely left for good is dropped, or else the
        // youngest.
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
    fn a_thread_gives_way_for_an_end_again_after_a_pause_unless_its_cpu_was_long_gone() {
        let local = LockLocal::new();
        let again = 1_000;
        let gives_way = |end, now, again| {
            local.is_to_give_way(1, end, now);
            let gives_way = local.gives_way.get() != 0;
            if gives_way {
                local.gave_way(again);
            }
            gives_way
        };
        assert!(gives_way(10, 0, again));
        assert!(!gives_way(10, again - 1, again), "too early");
        assert!(gives_way(10, again, again));
        assert!(gives_way(20, 0, u64::MAX), "another end");
        assert!(!gives_way(20, u64::MAX - 1, u64::MAX), "others want the CPU");
        assert!(gives_way(30, 0, u64::MAX));
    }

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

    #[test]
    fn a_thread_that_begins_has_waited_for_nothing() {
        let ages = Ages::new();
        ages.note(1, 100, 200);
        ages.forget_all();
        assert!(!ages.any.get() && ages.ages.iter().all(|cell| cell.get().lock == 0));
    }

    #[test]
    fn a_record_that_another_thread_has_knows_nothing_of_the_one_before() {
        let local = LockLocal::new();
        local.writes(1);
        local.is_to_give_way(1, 10, 0);
        local.ages.note(1, 100, 200);
        local.forget();
        assert!(!local.wrote(1) && local.gives_way.get() == 0 && local.ages.at(1).is_none());
    }

    #[test]
    fn a_thread_that_writes_again_may_join_readers_as_often_again() {
        let local = LockLocal::new();
        for _ in 0..2 {
            local.writes(1);
            (0..200).for_each(|_| local.joins_as_writer());
            assert!(local.wrote(1));
        }
        (0..200).for_each(|_| local.joins_as_writer());
        assert!(!local.wrote(1));
    }
}
