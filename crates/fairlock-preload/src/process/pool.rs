//! Items that are recycled and never freed, so that a thread that is late may still touch them; in
//! memory from the system. An item has a number, as pointers to it must not be where a program may
//! copy them.
//!
//! No lock is taken, and each change is one exchange: a fork at any moment leaves the child a whole
//! pool, but for an item that was just being taken or given back.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::table::Chunks;

/// An item that can be in a list of free ones.
pub(crate) trait Pooled: Sized + 'static {
    /// The number of the item behind this one in the list, plus one; or zero. Used by the pool.
    fn next(&self) -> &AtomicU32;
}

pub(crate) struct Pool<T> {
    /// The first free item, as in [`Pooled::next`], and above it a number that grows with each
    /// change: so an exchange fails if the list has changed, even if it begins with the same item.
    free: AtomicU64,
    /// How many numbers have been given to items.
    len: AtomicU32,
    items: Chunks<T>,
}

impl<T: Pooled> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { free: AtomicU64::new(0), len: AtomicU32::new(0), items: Chunks::new() }
    }

    /// A free item, as it was when it was given back; or a new one, which knows its number. `None` if
    /// there is no memory for it.
    pub(crate) fn take(&self, make: impl FnOnce(u32) -> T) -> Option<&'static T> {
        // Acquire, here and below: the item is as the thread that gave it back left it.
        let mut free = self.free.load(Ordering::Acquire);
        while let Some(item) = (free as u32).checked_sub(1).and_then(|number| self.get(number)) {
            let rest = following(free) | u64::from(item.next().load(Ordering::Relaxed));
            let order = (Ordering::Acquire, Ordering::Acquire);
            match self.free.compare_exchange_weak(free, rest, order.0, order.1) {
                Ok(_) => return Some(item),
                Err(now) => free = now,
            }
        }
        loop {
            let number = self.len.load(Ordering::Relaxed);
            let item = self.items.make(number)?;
            // Relaxed: only makes the number this thread's.
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            if self.len.compare_exchange_weak(number, number + 1, order.0, order.1).is_ok() {
                // SAFETY: room for an item that nobody knows yet.
                return unsafe {
                    item.write(make(number));
                    Some(&*item)
                };
            }
        }
    }

    /// Gives an item, which has this number, back.
    pub(crate) fn give(&self, number: u32, item: &'static T) {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            item.next().store(free as u32, Ordering::Relaxed);
            let list = following(free) | u64::from(number + 1);
            // Release: see `take`.
            let order = (Ordering::Release, Ordering::Relaxed);
            match self.free.compare_exchange_weak(free, list, order.0, order.1) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    /// Whether the next item that is taken is a new one.
    pub(crate) fn is_drained(&self) -> bool {
        self.free.load(Ordering::Relaxed) as u32 == 0
    }

    /// How many numbers have been given to items.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// The item of this number; `None` if the number was not given out yet. A number that does not
    /// come from the thread that took the item may lead to zeros, or to an item in the making.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&'static T> {
        if number >= self.len.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: null, or memory that is never given back; items are zeros at first, which may be
        // read.
        unsafe { self.items.get(number).as_ref() }
    }

    /// The places of all items that were ever taken. Some may be in the making: these are zeros, or
    /// partly so.
    pub(crate) fn places(&self) -> impl Iterator<Item = *const T> {
        let places = (0..self.len()).map(|number| self.items.get(number).cast_const());
        places.filter(|place| !place.is_null())
    }
}

/// The change count of the list's next state, in its upper half.
fn following(free: u64) -> u64 {
    (free >> u32::BITS).wrapping_add(1) << u32::BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    struct Item {
        number: u32,
        next: AtomicU32,
        _room: [u8; 1000],
    }

    impl Item {
        fn new(number: u32) -> Self {
            Self { number, next: AtomicU32::new(0), _room: [0; 1000] }
        }
    }

    impl Pooled for Item {
        fn next(&self) -> &AtomicU32 {
            &self.next
        }
    }

    #[test]
    fn items_are_taken_given_and_taken_again() {
        static POOL: Pool<Item> = Pool::new();
        // More than three chunks.
        let items: Vec<_> = (0..500).map(|_| POOL.take(Item::new).unwrap()).collect();
        let addresses = |items: &[&Item]| {
            let mut addresses: Vec<_> = items.iter().map(|&i| ptr::from_ref(i) as usize).collect();
            addresses.sort_unstable();
            addresses
        };
        let made = addresses(&items);
        assert!(made.windows(2).all(|pair| pair[1] - pair[0] >= size_of::<Item>()));
        let mut all: Vec<_> = POOL.places().map(|item| item as usize).collect();
        all.sort_unstable();
        assert_eq!(all, made);
        for item in &items {
            assert!(ptr::eq(POOL.get(item.number).unwrap(), *item));
        }
        assert!(POOL.get(500).is_none() && POOL.get(u32::MAX).is_none());
        items.into_iter().for_each(|item| POOL.give(item.number, item));
        let again: Vec<_> = (0..500).map(|_| POOL.take(Item::new).unwrap()).collect();
        assert_eq!(addresses(&again), made);
    }

    #[test]
    fn nobody_has_what_another_one_has() {
        static POOL: Pool<Item> = Pool::new();
        static TAKEN: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
        fairlock_testing::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..5_000 {
                        let items = [(); 3].map(|()| POOL.take(Item::new).unwrap());
                        for item in items {
                            let taken = &TAKEN[item.number as usize];
                            assert_eq!(taken.swap(1, Ordering::Relaxed), 0);
                        }
                        for item in items {
                            TAKEN[item.number as usize].store(0, Ordering::Relaxed);
                            POOL.give(item.number, item);
                        }
                    }
                });
            }
        });
        assert!(POOL.places().count() <= 12);
    }
}
