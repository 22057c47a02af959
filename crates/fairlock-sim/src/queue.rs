//! A priority queue that is mostly used at its head: an operation that is planned is nearly always
//! one of the next few that end.
//!
//! These few are kept in order. Later entries are not, until they are next; then the next few of
//! them are found at once.

use std::cmp::Ordering;

/// What is due at a time. Of two that are due at the same time, the lesser ticket is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time: u64,
    pub(crate) ticket: u64,
}

impl Entry {
    /// After all others.
    pub(crate) const NEVER: Self = Self { time: u64::MAX, ticket: u64::MAX };

    fn rank(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.ticket)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How many entries are kept in order: most machines have fewer operations under way.
const SOON: usize = 64;

/// Entries in order of time, then of their arrival.
pub(crate) struct Queue {
    /// The last one is due first; none is due after an entry in `later`.
    soon: [Entry; SOON],
    len: usize,
    /// In no order. Empty if `soon` is.
    later: Vec<Entry>,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { soon: [Entry::NEVER; SOON], len: 0, later: Vec::with_capacity(1024) }
    }

    /// The first due, if there is one.
    #[inline]
    pub(crate) fn first(&self) -> Option<Entry> {
        self.soon[..self.len].last().copied()
    }

    /// Adds an entry, whose ticket is greater than those of all entries that are there.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        let is_late = || entry.time >= self.soon[0].time && !self.later.is_empty();
        if self.len == SOON || self.len > 0 && is_late() {
            self.push_late(entry);
        } else {
            self.insert(entry);
        }
    }

    /// Adds an entry to those in order, for which there is room.
    #[inline]
    fn insert(&mut self, entry: Entry) {
        let soon = &mut self.soon[..=self.len];
        let mut at = self.len;
        while at > 0 && soon[at - 1].time <= entry.time {
            soon[at] = soon[at - 1];
            at -= 1;
        }
        soon[at] = entry;
        self.len += 1;
    }

    /// Adds an entry to the later ones, or makes room where it belongs.
    #[inline(never)]
    fn push_late(&mut self, entry: Entry) {
        if self.len == SOON {
            self.later.extend_from_slice(&self.soon[..SOON / 2]);
            self.soon.copy_within(SOON / 2.., 0);
            self.len = SOON / 2;
        }
        if entry.time >= self.soon[0].time {
            self.later.push(entry);
        } else {
            self.insert(entry);
        }
    }

    /// Takes the first due.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let first = self.first()?;
        self.len -= 1;
        if self.len == 0 {
            self.refill();
        }
        Some(first)
    }

    /// Puts the first of the later entries in order: half of those there is room for, as others
    /// will come between them.
    #[inline(never)]
    fn refill(&mut self) {
        let last_first = |a: &Entry, b: &Entry| b.cmp(a);
        self.len = self.later.len().min(SOON / 2);
        let rest = self.later.len() - self.len;
        if rest > 0 {
            self.later.select_nth_unstable_by(rest, last_first);
        }
        let next = &mut self.soon[..self.len];
        next.copy_from_slice(&self.later[rest..]);
        next.sort_unstable_by(last_first);
        self.later.truncate(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_due_comes_first_however_many_there_are() {
        // Times without a pattern, many of them twice; among them runs that all go to the head, or
        // to the end.
        let mut queue = Queue::new();
        let mut expected = std::collections::BTreeSet::new();
        let mut random = 1_u64;
        for ticket in 0..40_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let time = match ticket / 50 % 4 {
                0 => random >> 54,
                1 => u64::MAX - ticket,
                2 => 40_000 - ticket,
                _ => ticket,
            };
            let filling = ticket / 2_000 % 2 == 0;
            if random >> 60 < if filling { 11 } else { 5 } {
                queue.push(Entry { time, ticket });
                expected.insert(Entry { time, ticket });
            } else {
                assert_eq!(queue.pop(), expected.pop_first());
            }
            assert_eq!(queue.first(), expected.first().copied());
        }
        while let Some(first) = expected.pop_first() {
            assert_eq!(queue.pop(), Some(first));
        }
        assert_eq!(queue.pop(), None);
    }
}
