//! Addresses, each with how often it is held: the locks that a thread reads beyond the few that it
//! took last. Every operation takes the same time, however many there are.

use crate::process::table::{Open, spread};

#[derive(Clone, Copy, Default, PartialEq)]
struct Entry {
    /// Zero: the entry is empty.
    address: usize,
    count: u64,
}

/// All zero at first: empty.
pub(super) struct Spilled(Open<Entry>);

impl Spilled {
    /// Holds `address` once more; false if there is no memory for it.
    pub(super) fn add(&self, address: usize) -> bool {
        match self.find(address) {
            Some(at) => self.0.write(at, Entry { address, count: self.0.get(at).count + 1 }),
            None if !self.0.make_room(|entry| spread(entry.address)) => return false,
            None => self.0.add(spread(address), Entry { address, count: 1 }),
        }
        true
    }

    /// Holds `address` once less, if at all.
    pub(super) fn remove(&self, address: usize) {
        let Some(at) = self.find(address) else { return };
        match self.0.get(at).count {
            1 => self.0.take_out(at, |entry| spread(entry.address)),
            count => self.0.write(at, Entry { address, count: count - 1 }),
        }
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    pub(super) fn tidy_up(&self) {
        self.0.clear();
    }

    fn find(&self, address: usize) -> Option<usize> {
        self.0.find(spread(address), |entry| entry.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Spilled {
        Spilled(Open::new())
    }

    #[test]
    fn it_is_a_multiset() {
        let (held, mut model) = (empty(), std::collections::BTreeMap::<usize, u64>::new());
        let mut random = 88_172_645_463_325_252_u64;
        for _ in 0..100_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let address = (random % 3000 + 1) as usize * 56;
            if random >> 40 & 1 == 0 {
                assert!(held.add(address));
                *model.entry(address).or_default() += 1;
            } else {
                held.remove(address);
                if let Some(count) = model.get_mut(&address) {
                    *count -= 1;
                    if *count == 0 {
                        model.remove(&address);
                    }
                }
            }
            assert_eq!(held.contains(address), model.contains_key(&address));
        }
        assert_eq!(held.0.len.get(), model.len());
        assert!((1..=3000).all(|n| held.contains(n * 56) == model.contains_key(&(n * 56))));
        held.tidy_up();
        assert!(!held.contains(56) && held.0.len.get() == 0);
    }

    /// However many entries there are, at whatever distance, and in whatever order they are
    /// removed.
    #[test]
    fn nothing_is_far_from_its_place() {
        for distance in [56, 64, 4096] {
            let held = empty();
            (1..=100_000).for_each(|n| assert!(held.add(n * distance)));
            let far = |address| {
                held.0.distance(held.0.home(spread(address)), held.find(address).unwrap())
            };
            let longest = (1..=100_000).map(|n| far(n * distance)).max();
            assert!(longest.unwrap() < 64, "{longest:?}");
            (1..=100_000).for_each(|n| held.remove(n * distance));
            assert_eq!(held.0.len.get(), 0);
            held.tidy_up();
        }
    }
}
