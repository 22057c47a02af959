//! The threads' timers: at most one each, most of which never expire, as the waits that
//! they bound end before.
//!
//! A tournament: a binary tree with a leaf for each thread, in which every node is the earlier of
//! its children. Taking a timer back costs as little as setting one, and leaves nothing behind.

use crate::queue::Entry;

pub(crate) struct Timers {
    /// The root is node 1, and the parent of node `n` is `n / 2`. The second half are
    /// the leaves.
    nodes: Vec<Entry>,
}

impl Timers {
    /// No timer is set.
    pub(crate) fn new(threads: usize) -> Self {
        Self { nodes: vec![Entry::NEVER; 2 * threads.next_power_of_two()] }
    }

    fn leaf(&self, thread: u32) -> usize {
        self.nodes.len() / 2 + thread as usize
    }

    /// Sets the timer of a thread; [`NEVER`](Entry::NEVER) takes it back.
    pub(crate) fn set(&mut self, thread: u32, expiry: Entry) {
        let mut node = self.leaf(thread);
        self.nodes[node] = expiry;
        while node > 1 {
            let earlier = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == earlier {
                break;
            }
            self.nodes[node] = earlier;
        }
    }

    pub(crate) fn of(&self, thread: u32) -> Entry {
        self.nodes[self.leaf(thread)]
    }

    /// The earliest of all.
    #[inline]
    pub(crate) fn earliest(&self) -> Entry {
        self.nodes[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_that_of_all_that_are_set() {
        for threads in [1, 2, 5, 8] {
            let mut timers = Timers::new(threads as usize);
            let mut expected = vec![Entry::NEVER; threads as usize];
            assert_eq!(timers.earliest(), Entry::NEVER);
            // Some of them set twice, some taken back, in an order without pattern.
            for step in 0..200_u32 {
                let random = step.wrapping_mul(0x9e37_79b9) >> 8;
                let thread = random % threads;
                let set = Entry { time: (random % 64).into(), ticket: step.into() };
                let expiry = if random % 3 == 0 { Entry::NEVER } else { set };
                timers.set(thread, expiry);
                expected[thread as usize] = expiry;
                assert_eq!(timers.of(thread), expiry);
                assert_eq!(Some(timers.earliest()), expected.iter().min().copied());
            }
        }
    }
}
