//! What a thread knows of a wait or a release, until it counts that where all threads count.
//!
//! The counts of a lock are shared: each wait would move several cache lines from another CPU, while
//! the thread holds the lock that others want. So a thread notes it first, in its own part of the
//! file, and counts many at once after a release. Whoever reads the file counts the notes, too.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairlock_profile::buckets;
use fairlock_profile::layout::{ContentionEntry, NoteEntry, side};

use super::thread::Local;

// Relaxed throughout: statistics.
const RELAXED: Ordering = Ordering::Relaxed;

/// A wait that is over, or a release: see [`NoteEntry`].
#[derive(Clone, Copy)]
pub(super) struct Note {
    /// The number of the lock.
    pub(super) lock: u32,
    pub(super) stack: u32,
    pub(super) side: u32,
    /// It stands for so many waits.
    pub(super) times: u32,
    pub(super) waited: u64,
    pub(super) passed: u64,
    pub(super) held: Option<u64>,
}

impl Note {
    pub(super) fn write(&self, to: &NoteEntry) {
        to.stack.store(self.stack, RELAXED);
        to.side.store(self.side, RELAXED);
        to.times.store(self.times, RELAXED);
        to.passed.store(u32::try_from(self.passed).unwrap_or(u32::MAX), RELAXED);
        to.waited_ns.store(self.waited, RELAXED);
        to.held_ns.store(self.held.map_or(0, |held| held + 1), RELAXED);
        to.lock.store(self.lock + 1, RELAXED);
    }

    /// The note of an entry, which is empty afterwards.
    pub(super) fn take(from: &NoteEntry) -> Option<Self> {
        let lock = from.lock.load(RELAXED).checked_sub(1)?;
        from.lock.store(0, RELAXED);
        Some(Self {
            lock,
            stack: from.stack.load(RELAXED),
            side: from.side.load(RELAXED),
            times: from.times.load(RELAXED),
            waited: from.waited_ns.load(RELAXED),
            passed: from.passed.load(RELAXED).into(),
            held: from.held_ns.load(RELAXED).checked_sub(1),
        })
    }

    /// Counts it where all threads count. `contention` is the lock's.
    pub(super) fn count(&self, contention: &ContentionEntry, local: &Local) {
        if self.side & side::HELD == 0 {
            raise(&contention.longest_ns, self.waited);
            add(&contention.waits_by_time[buckets::of(self.waited)], self.times);
            if self.passed > 0 {
                contention.passed.fetch_add(self.passed, RELAXED);
                raise(&contention.most_passed, self.passed);
            }
        }
        if let Some(held) = self.held {
            contention.holds.fetch_add(1, RELAXED);
            contention.held_ns.fetch_add(held, RELAXED);
            raise(&contention.longest_held_ns, held);
            add(&contention.holds_by_time[buckets::of(held)], 1);
        }
        if self.side & side::HELD == 0 || self.waited > 0 {
            let times = u64::from(self.times);
            local.count_at([self.lock + 1, self.stack, self.side], times, times * self.waited);
        }
    }
}

/// Adds to a count, up to half of what it may be: there is room for what all threads add at once.
fn add(count: &AtomicU32, times: u32) {
    if count.load(RELAXED) < u32::MAX / 2 {
        count.fetch_add(times, RELAXED);
    }
}

/// Raises a maximum. A load first: the line is shared.
fn raise(count: &AtomicU64, to: u64) {
    if count.load(RELAXED) < to {
        count.fetch_max(to, RELAXED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_counted_once() {
        // SAFETY: atomic numbers.
        let entry: NoteEntry = unsafe { core::mem::zeroed() };
        assert!(Note::take(&entry).is_none());
        for held in [None, Some(0), Some(7)] {
            let note = Note {
                lock: 0,
                stack: 3,
                side: side::HELD,
                times: 8,
                waited: 5,
                passed: 1 << 40,
                held,
            };
            note.write(&entry);
            let found = Note::take(&entry).unwrap();
            assert_eq!((found.lock, found.stack, found.side), (0, 3, side::HELD));
            assert_eq!((found.times, found.waited, found.held), (8, 5, held));
            assert_eq!(found.passed, u32::MAX.into(), "as many as there is room for");
            assert!(Note::take(&entry).is_none());
        }
    }
}
