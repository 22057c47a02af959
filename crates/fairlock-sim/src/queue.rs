//! A priority queue most of whose traffic is at its head: an operation that is planned is
//! nearly always one of the next few that end.
//!
//! Those are kept in order, and only what is later goes to a heap.

use std::cmp::Reverse;

use dary_heap::QuaternaryHeap;

/// How many are kept in order: most machines have fewer operations under way.
const SOON: usize = 64;

/// The least first.
pub(crate) struct Queue {
    /// The last is the least, and none is greater than one in `later`.
    soon: [u128; SOON],
    len: usize,
    /// Empty if there are none in `soon`.
    later: QuaternaryHeap<Reverse<u128>>,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { soon: [0; SOON], len: 0, later: QuaternaryHeap::with_capacity(1024) }
    }

    /// The least, if there is one.
    #[inline]
    pub(crate) fn first(&self) -> Option<u128> {
        self.soon[..self.len].last().copied()
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: u128) {
        if self.len == SOON {
            self.spill();
        }
        if self.len > 0 && entry > self.soon[0] && !self.later.is_empty() {
            self.later.push(Reverse(entry));
            return;
        }
        let soon = &mut self.soon[..=self.len];
        let mut at = self.len;
        while at > 0 && soon[at - 1] < entry {
            soon[at] = soon[at - 1];
            at -= 1;
        }
        soon[at] = entry;
        self.len += 1;
    }

    /// Makes room: the greater half of those in order go to the heap.
    #[cold]
    fn spill(&mut self) {
        for &entry in &self.soon[..SOON / 2] {
            self.later.push(Reverse(entry));
        }
        self.soon.copy_within(SOON / 2.., 0);
        self.len = SOON / 2;
    }

    /// Takes the least.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u128> {
        let first = self.first()?;
        self.len -= 1;
        if self.len == 0
            && let Some(Reverse(next)) = self.later.pop()
        {
            self.soon[0] = next;
            self.len = 1;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_comes_first_however_many_there_are() {
        // Numbers without pattern, among them runs that all go to the head, or to the end.
        let mut queue = Queue::new();
        let mut expected = std::collections::BTreeSet::new();
        let mut random = 1_u64;
        for step in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let entry = match step / 50 % 4 {
                0 => u128::from(random >> 32),
                1 => u128::from(u64::MAX - step),
                2 => u128::from(20_000 - step),
                _ => u128::from(step),
            };
            let filling = step / 1_000 % 2 == 0;
            if random >> 60 < if filling { 11 } else { 5 } {
                if expected.insert(entry) {
                    queue.push(entry);
                }
            } else {
                assert_eq!(queue.pop(), expected.pop_first());
            }
            assert_eq!(queue.first(), expected.first().copied());
        }
        while let Some(least) = expected.pop_first() {
            assert_eq!(queue.pop(), Some(least));
        }
        assert_eq!(queue.pop(), None);
    }
}
