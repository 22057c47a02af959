//! What a thread knows of a wait or a release, until it counts that where all threads count.
//!
//! The counts of a lock are shared: each wait would move several cache lines from another CPU, while
//! the thread holds the lock that others want. So a thread notes it first, in its own part of the
//! file, and counts many at once after a release. Whoever reads the file counts the notes, too.

use core::sync::atomic::Ordering;

use fairlock_profile::layout::NoteEntry;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlock_profile::layout::side;

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
