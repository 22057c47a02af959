//! Tables in memory from the system, which are zeros at first.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

use super::memory;

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
            let new = memory::map(bytes)?.cast::<T>().as_ptr();
            // Release: a thread that finds the chunk finds its memory. Acquire: as in `get`.
            let order = (Ordering::Release, Ordering::Acquire);
            entries = match self.0[chunk].compare_exchange(entries, new, order.0, order.1) {
                Ok(_) => new,
                Err(others) => {
                    // SAFETY: mapped above, and nobody has seen it.
                    unsafe { memory::unmap(new.cast(), bytes) };
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
        let Some(new) = memory::map(capacity * size_of::<E>()) else { return false };
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
        Self::unmap(old, len);
        true
    }

    /// Forgets all entries, and gives the memory back.
    pub(crate) fn clear(&self) {
        self.len.set(0);
        Self::unmap(self.places.replace(ptr::null_mut()), self.capacity.take());
    }

    fn unmap(places: *mut E, capacity: usize) {
        if capacity > 0 {
            // SAFETY: mapped by `make_room`, and given up.
            unsafe { memory::unmap(places.cast(), capacity * size_of::<E>()) };
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
