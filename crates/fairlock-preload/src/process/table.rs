//! The slots of locks by address, for a part of the addresses.
//!
//! Linear hashing: for each slot beyond the number of buckets, one bucket is split in two. So the
//! table grows without being copied, and nobody waits for that.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::memory;
use super::mutex::{Guard, Mutex};
use super::registry::{SLOTS, Slot};

/// How many buckets there are at first; each chunk of them has twice as many as the last.
const SMALLEST: u32 = 64;
const CHUNKS: usize = 24;

/// Lists of slots, linked by their `next`. A slot is in a list exactly while it has the address of
/// a lock, or of one that was given up without `destroy`. A fork finds each list whole. If a thread
/// was just splitting a bucket, the child may not find what was in it, and gives those locks other
/// slots.
pub(super) struct Table {
    mutex: Mutex,
    slots: AtomicU32,
    buckets: AtomicU32,
    /// For each bucket the number of its first slot, plus one; zero at the end.
    first: [AtomicU32; SMALLEST as usize],
    chunks: [AtomicPtr<AtomicU32>; CHUNKS],
}

// Relaxed throughout: used under the mutex.
impl Table {
    pub(super) const fn new() -> Self {
        Self {
            mutex: Mutex::new(),
            slots: AtomicU32::new(0),
            buckets: AtomicU32::new(SMALLEST),
            first: [const { AtomicU32::new(0) }; SMALLEST as usize],
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
        }
    }

    pub(super) fn lock(&self) -> Guard<'_> {
        self.mutex.lock()
    }

    pub(super) fn find(&self, _guard: &Guard<'_>, address: usize) -> Option<&'static Slot> {
        let mut next = self.bucket_of(address);
        while let Some(slot) = follow(next) {
            if slot.address() == address {
                return Some(slot);
            }
            next = &slot.next;
        }
        None
    }

    /// Adds a slot, which has its address already.
    pub(super) fn insert(&self, _guard: &Guard<'_>, slot: &'static Slot) {
        push(self.bucket_of(slot.address()), slot);
        let slots = self.slots.load(Ordering::Relaxed) + 1;
        self.slots.store(slots, Ordering::Relaxed);
        if slots > self.buckets.load(Ordering::Relaxed) {
            self.split();
        }
    }

    /// Removes the slot of the address, if there is one: it is nobody's then.
    pub(super) fn remove(&self, _guard: &Guard<'_>, address: usize) -> Option<&'static Slot> {
        let mut link = self.bucket_of(address);
        while let Some(slot) = follow(link) {
            if slot.address() == address {
                link.store(slot.next.load(Ordering::Relaxed), Ordering::Relaxed);
                slot.retire();
                self.slots.fetch_sub(1, Ordering::Relaxed);
                return Some(slot);
            }
            link = &slot.next;
        }
        None
    }

    /// Adds a bucket, for half of what is in another one. Without memory the table stays as it is.
    fn split(&self) {
        let new = self.buckets.load(Ordering::Relaxed);
        let half = 1 << new.ilog2();
        let Some(bucket) = self.make(new) else { return };
        let mut link = self.at(new - half);
        while let Some(slot) = follow(link) {
            if hash(slot.address()) & (2 * half - 1) == new {
                link.store(slot.next.load(Ordering::Relaxed), Ordering::Relaxed);
                push(bucket, slot);
            } else {
                link = &slot.next;
            }
        }
        self.buckets.store(new + 1, Ordering::Relaxed);
    }

    fn bucket_of(&self, address: usize) -> &AtomicU32 {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let half = 1 << buckets.ilog2();
        let index = hash(address) & (2 * half - 1);
        self.at(if index < buckets { index } else { index & (half - 1) })
    }

    fn at(&self, index: u32) -> &AtomicU32 {
        match locate(index) {
            (0, place) => &self.first[place],
            // SAFETY: `make` has made it, as there are so many buckets.
            (chunk, place) => unsafe { &*self.chunks[chunk].load(Ordering::Relaxed).add(place) },
        }
    }

    fn make(&self, index: u32) -> Option<&AtomicU32> {
        let (chunk, _) = locate(index);
        let link = self.chunks.get(chunk)?;
        if chunk > 0 && link.load(Ordering::Relaxed).is_null() {
            let bytes = size_of::<AtomicU32>() * ((SMALLEST as usize) << chunk);
            link.store(memory::map(bytes)?.cast().as_ptr(), Ordering::Relaxed);
        }
        Some(self.at(index))
    }

    #[cfg(test)]
    fn longest(&self) -> usize {
        let of = |index| {
            let first = follow(self.at(index));
            core::iter::successors(first, |slot| follow(&slot.next)).count()
        };
        (0..self.buckets.load(Ordering::Relaxed)).map(of).max().unwrap()
    }
}

fn push(bucket: &AtomicU32, slot: &'static Slot) {
    slot.next.store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
    bucket.store(slot.number + 1, Ordering::Relaxed);
}

fn follow(link: &AtomicU32) -> Option<&'static Slot> {
    SLOTS.get(link.load(Ordering::Relaxed).checked_sub(1)?)
}

/// The chunk of a bucket, and its place there.
fn locate(index: u32) -> (usize, usize) {
    let place = index + SMALLEST;
    let chunk = place.ilog2() - SMALLEST.ilog2();
    (chunk as usize, (place - (SMALLEST << chunk)) as usize)
}

/// Fibonacci hashing: locks are often at equal distances. The upper bits are the best.
fn spread(address: usize) -> u64 {
    (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn hash(address: usize) -> u32 {
    // Without the bits that choose the table.
    (spread(address) >> 16) as u32 & (u32::MAX >> 1)
}

/// Which of `places`, a power of two, an address has.
pub(crate) fn spread_over(address: usize, places: usize) -> usize {
    (spread(address) >> (u64::BITS - places.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{config, fork};

    /// Lists stay short however many locks there are, and at whatever distances.
    #[test]
    fn lists_stay_short() {
        fairlock_testing::alone(|| {
            for distance in [56, 64, 4096] {
                let table = Table::new();
                let addresses = || (1..=10_000).map(|place| place * distance);
                for address in addresses() {
                    let new = |number| Slot::new(config::policy(), fork::number(), number);
                    let slot = SLOTS.take(new).unwrap();
                    slot.assign(address);
                    table.insert(&table.lock(), slot);
                }
                assert!(table.longest() <= 8, "{}", table.longest());
                for address in addresses() {
                    let guard = table.lock();
                    assert_eq!(table.find(&guard, address).unwrap().address(), address);
                    let slot = table.remove(&guard, address).unwrap();
                    assert!(table.find(&guard, address).is_none());
                    SLOTS.give(slot.number, slot);
                }
            }
        });
    }
}
