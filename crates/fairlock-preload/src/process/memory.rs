//! Memory from the system, as the program's allocator may use locks itself; tables in it, which are zeros at
//! first, and pools.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Fibonacci hashing: locks are often at equal distances. The upper bits are the best.
#[inline(always)]
pub(crate) fn spread(address: usize) -> u64 {
    (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Which of `places`, a power of two, an address has.
#[inline(always)]
pub(crate) fn spread_over(address: usize, places: usize) -> usize {
    place(spread(address), places)
}

/// The upper bits of a hash.
#[inline(always)]
fn place(hash: u64, places: usize) -> usize {
    (hash >> (u64::BITS - places.ilog2())) as usize
}

/// How many entries the first chunk has; each later one has twice as many.
const SMALLEST: u32 = 64;
const CHUNKS: usize = (u32::BITS - SMALLEST.ilog2()) as usize - 1;

/// Entries by number, which stay where they are, and are never given back. For any number of
/// threads. A fork at any moment leaves the child a whole table.
pub(crate) struct Chunks<T>([AtomicPtr<T>; CHUNKS]);

impl<T> Chunks<T> {
    /// All numbers are below this.
    pub(crate) const NUMBERS: u32 = u32::MAX / 2 - SMALLEST;

    pub(crate) const fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS])
    }

    /// The place of this number, which is below [`NUMBERS`](Self::NUMBERS); null if none was
    /// [made](Self::make) in its chunk.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> *mut T {
        let (chunk, index) = locate(number);
        // Acquire: the memory is there.
        let entries = self.0[chunk].load(Ordering::Acquire);
        // SAFETY: a chunk, which has room for more than `index` entries.
        if entries.is_null() { entries } else { unsafe { entries.add(index) } }
    }

    /// As [`get`](Self::get). `None` if there is no such number, or no memory.
    pub(crate) fn make(&self, number: u32) -> Option<*mut T> {
        if number >= Self::NUMBERS {
            return None;
        }
        let (chunk, index) = locate(number);
        let mut entries = self.0[chunk].load(Ordering::Acquire);
        if entries.is_null() {
            let bytes = size_of::<T>() * ((SMALLEST as usize) << chunk);
            let new = map(bytes)?.cast::<T>().as_ptr();
            // Release: a thread that finds the chunk finds its memory. Acquire: as in `get`.
            let order = (Ordering::Release, Ordering::Acquire);
            entries = match self.0[chunk].compare_exchange(entries, new, order.0, order.1) {
                Ok(_) => new,
                Err(others) => {
                    // SAFETY: mapped above, and nobody has seen it.
                    unsafe { unmap(new.cast(), bytes) };
                    others
                }
            };
        }
        // SAFETY: the chunk has room for more than `index` entries.
        Some(unsafe { entries.add(index) })
    }
}

/// The chunk of an entry, and its place there.
#[inline(always)]
fn locate(number: u32) -> (usize, usize) {
    let place = number + SMALLEST;
    let chunk = place.ilog2() - SMALLEST.ilog2();
    (chunk as usize, (place - (SMALLEST << chunk)) as usize)
}

/// Entries by their content: open addressing. At least half of the places are empty, which is what
/// zeros mean. For one thread at a time.
pub(crate) struct Open<E> {
    places: Cell<*mut E>,
    capacity: Cell<usize>,
    pub(crate) len: Cell<usize>,
}

impl<E: Copy + Default + PartialEq> Open<E> {
    /// How many places there are at first: a page.
    const SMALLEST: usize = 4096 / size_of::<E>();

    pub(crate) const fn new() -> Self {
        Self { places: Cell::new(ptr::null_mut()), capacity: Cell::new(0), len: Cell::new(0) }
    }

    /// Makes room for one more entry: false if there is no memory for it. `hash` is that of an entry.
    pub(crate) fn make_room(&self, hash: impl Fn(E) -> u64) -> bool {
        let (old, len) = (self.places.get(), self.capacity.get());
        if (self.len.get() + 1) * 2 <= len {
            return true;
        }
        let capacity = (len * 2).max(Self::SMALLEST);
        let Some(new) = map(capacity * size_of::<E>()) else { return false };
        self.places.set(new.cast().as_ptr());
        // A fork in the midst must not leave the child fewer places than it counts.
        compiler_fence(Ordering::Release);
        self.capacity.set(capacity);
        for at in 0..len {
            // SAFETY: there were so many.
            let entry = unsafe { old.add(at).read() };
            if entry != E::default() {
                self.write(self.place(hash(entry), |_| false), entry);
            }
        }
        Self::give_back(old, len);
        true
    }

    /// Forgets all entries, and gives the memory back.
    pub(crate) fn clear(&self) {
        self.len.set(0);
        Self::give_back(self.places.replace(ptr::null_mut()), self.capacity.take());
    }

    fn give_back(places: *mut E, capacity: usize) {
        if capacity > 0 {
            // SAFETY: mapped by `make_room`, and given up.
            unsafe { unmap(places.cast(), capacity * size_of::<E>()) };
        }
    }

    /// Where the entry of this hash is that `is_it`.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(E) -> bool) -> Option<usize> {
        let at = (self.capacity.get() > 0).then(|| self.place(hash, is_it))?;
        (self.get(at) != E::default()).then_some(at)
    }

    /// Where it is, or the empty place where it would be. The table has some.
    fn place(&self, hash: u64, is_it: impl Fn(E) -> bool) -> usize {
        let mut at = self.home(hash);
        loop {
            let entry = self.get(at);
            if entry == E::default() || is_it(entry) {
                return at;
            }
            at = self.after(at);
        }
    }

    pub(crate) fn get(&self, at: usize) -> E {
        debug_assert!(at < self.capacity.get());
        // SAFETY: below the capacity; the entry is zero, or written.
        unsafe { self.places.get().add(at).read() }
    }

    /// Adds an entry of this hash, for which there is room.
    pub(crate) fn add(&self, hash: u64, entry: E) {
        self.len.set(self.len.get() + 1);
        self.write(self.place(hash, |_| false), entry);
    }

    /// Puts an entry, of the same hash, in place of one that [was found](Self::find).
    pub(crate) fn write(&self, at: usize, entry: E) {
        debug_assert!(at < self.capacity.get());
        // SAFETY: below the capacity, and for one thread at a time.
        unsafe { self.places.get().add(at).write(entry) };
    }

    /// Empties a place. Entries behind it that it kept from their own places move up.
    pub(crate) fn take_out(&self, at: usize, hash: impl Fn(E) -> u64) {
        let (mut hole, mut next) = (at, self.after(at));
        loop {
            let entry = self.get(next);
            if entry == E::default() {
                break;
            }
            if self.distance(self.home(hash(entry)), next) >= self.distance(hole, next) {
                self.write(hole, entry);
                hole = next;
            }
            next = self.after(next);
        }
        self.write(hole, E::default());
        // The child of a fork in the midst of an addition may not have counted it.
        self.len.set(self.len.get().saturating_sub(1));
    }

    /// The place that an entry of this hash has if no other one is there.
    pub(crate) fn home(&self, hash: u64) -> usize {
        place(hash, self.capacity.get())
    }

    pub(crate) fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) % self.capacity.get()
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) % self.capacity.get()
    }
}

/// Maps `bytes` of zeros, if the system has them.
pub(crate) fn map(bytes: usize) -> Option<NonNull<c_void>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED { None } else { NonNull::new(memory) }
}

/// Gives memory back.
///
/// # Safety
/// It is from [`map`], and not used any more.
pub(crate) unsafe fn unmap(memory: *mut c_void, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(memory, bytes) };
}

/// An item that can be in a list of free ones.
pub(crate) trait Pooled: Sized + 'static {
    /// The number of the item behind this one in the list, plus one; or zero. Used by the pool.
    fn next(&self) -> &AtomicU32;
}

/// Items that are recycled and never freed, so that a thread that is late may still touch them. An item
/// has a number, as pointers to it must not be where a program may copy them.
///
/// No lock is taken, and each change is one exchange: a fork at any moment leaves the child a whole
/// pool, but for an item that was just being taken or given back.
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

    #[test]
    fn every_number_has_its_own_place() {
        let mut expected = (0, 0);
        for number in 0..10_000 {
            assert_eq!(locate(number), expected);
            expected.1 += 1;
            if expected.1 == (SMALLEST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(locate(Chunks::<u8>::NUMBERS - 1).0 < CHUNKS);
    }
}

#[cfg(test)]
mod pool_tests {
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
