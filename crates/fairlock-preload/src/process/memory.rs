//! Memory from the system, as the program's allocator may use locks itself, and what is in it: zeros at first.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use fairlock::pool::Memory;

use super::quietly;

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
    let memory =
        quietly(|| unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) });
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

/// Items that are recycled and never freed, in memory from the system. An item has a number, as pointers to it
/// must not be where a program may copy them.
pub(crate) type Pool<T> = fairlock::pool::Pool<AtomicU64, T, Mapped>;

/// The system's memory.
pub(crate) struct Mapped;

// SAFETY: a mapping of that size.
unsafe impl Memory for Mapped {
    fn take<T>(items: usize) -> Option<*mut T> {
        map(items * size_of::<T>()).map(|memory| memory.cast().as_ptr())
    }

    unsafe fn give_back<T>(memory: *mut T, items: usize) {
        // SAFETY: mapped by `take`, and the caller's promise.
        unsafe { unmap(memory.cast(), items * size_of::<T>()) };
    }
}

/// The item of this number; `None` if the number was not given out yet. A number that does not
/// come from the thread that took the item may lead to zeros, or to an item in the making.
#[inline(always)]
pub(crate) fn item<T>(pool: &'static Pool<T>, number: u32) -> Option<&'static T> {
    // SAFETY: null, or memory that is never given back; items are zeros at first, which may be read.
    unsafe { pool.at(number).as_ref() }
}
