//! Items that are recycled and never freed, so that whoever is late may still touch
//! them; in memory from the system.

use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::memory;
use super::mutex::Mutex;

/// An item that can be in a list of free ones.
pub(crate) trait Pooled: Sized + 'static {
    /// Where it points to the next one. The pool's while the item is in it.
    fn next(&self) -> &AtomicPtr<Self>;
}

pub(crate) struct Pool<T> {
    /// Guards the rest; what is read without it is said below. Between any two stores the
    /// list is whole, and all that is missing from it is what is just taken or given: a fork
    /// loses no more.
    mutex: Mutex,
    free: AtomicPtr<T>,
    newest: AtomicPtr<Chunk<T>>,
}

/// Items from one mapping, which is never given back.
#[repr(C)]
struct Chunk<T> {
    older: *const Chunk<T>,
    /// How many items have been made. Only grows.
    len: AtomicUsize,
    items: [MaybeUninit<T>; 0],
}

impl<T> Chunk<T> {
    const BYTES: usize = 1 << 16;
    const CAPACITY: usize = (Self::BYTES - size_of::<Self>()) / size_of::<T>();

    fn item(&self, index: usize) -> *mut T {
        // SAFETY: `items` is followed by room for CAPACITY of them.
        unsafe { ptr::from_ref(self).cast::<u8>().add(size_of::<Self>()).cast::<T>().add(index) }
            .cast_mut()
    }
}

impl<T: Pooled> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self {
            mutex: Mutex::new(),
            free: AtomicPtr::new(ptr::null_mut()),
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A free item, as it was when it was given back; or a new one.
    pub(crate) fn take(&self, make: impl FnOnce() -> T) -> &'static T {
        let _guard = self.mutex.lock();
        // Relaxed, here and below: under the mutex.
        let free = self.free.load(Ordering::Relaxed);
        // SAFETY: null, or an item, and those are never freed.
        if let Some(item) = unsafe { free.as_ref() } {
            self.free.store(item.next().load(Ordering::Relaxed), Ordering::Relaxed);
            return item;
        }
        let chunk = self.chunk_with_room();
        let len = chunk.len.load(Ordering::Relaxed);
        let item = chunk.item(len);
        // SAFETY: room for an item that nobody knows yet.
        unsafe { item.write(make()) };
        // Release: whoever counts the item finds it made.
        chunk.len.store(len + 1, Ordering::Release);
        // SAFETY: made above, and never freed.
        unsafe { &*item }
    }

    /// Gives an item back.
    pub(crate) fn give(&self, item: &'static T) {
        let _guard = self.mutex.lock();
        item.next().store(self.free.load(Ordering::Relaxed), Ordering::Relaxed);
        self.free.store(ptr::from_ref(item).cast_mut(), Ordering::Relaxed);
    }

    fn chunk_with_room(&self) -> &'static Chunk<T> {
        let newest = self.newest.load(Ordering::Relaxed);
        // SAFETY: null, or a chunk, and those are never freed.
        if let Some(chunk) = unsafe { newest.as_ref() }
            && chunk.len.load(Ordering::Relaxed) < Chunk::<T>::CAPACITY
        {
            return chunk;
        }
        let Some(memory) = memory::map(Chunk::<T>::BYTES) else { memory::exhausted() };
        let chunk = memory.cast::<Chunk<T>>().as_ptr();
        // SAFETY: large enough, and aligned to a page.
        unsafe { chunk.write(Chunk { older: newest, len: AtomicUsize::new(0), items: [] }) };
        // Release: whoever finds the chunk finds it made.
        self.newest.store(chunk, Ordering::Release);
        // SAFETY: made above, and never freed.
        unsafe { &*chunk }
    }

    /// All items that were ever made, in the pool or not. Takes no lock.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> {
        // SAFETY: null, or a chunk, and those are never freed. Acquire: see above.
        let newest = unsafe { self.newest.load(Ordering::Acquire).as_ref::<'static>() };
        // SAFETY: as above.
        core::iter::successors(newest, |chunk| unsafe { chunk.older.as_ref() })
            .flat_map(|chunk| (0..chunk.len.load(Ordering::Acquire)).map(|index| chunk.item(index)))
            // SAFETY: made, as it is counted, and never freed.
            .map(|item| unsafe { &*item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item {
        next: AtomicPtr<Item>,
        _room: [u8; 1000],
    }

    impl Pooled for Item {
        fn next(&self) -> &AtomicPtr<Self> {
            &self.next
        }
    }

    #[test]
    fn items_are_taken_given_and_taken_again() {
        static POOL: Pool<Item> = Pool::new();
        let make = || Item { next: AtomicPtr::new(ptr::null_mut()), _room: [0; 1000] };
        // More than a chunk.
        let items: Vec<_> = (0..100).map(|_| POOL.take(make)).collect();
        let addresses = |items: &[&Item]| {
            let mut addresses: Vec<_> = items.iter().map(|&i| ptr::from_ref(i) as usize).collect();
            addresses.sort_unstable();
            addresses
        };
        let made = addresses(&items);
        assert!(made.windows(2).all(|pair| pair[1] - pair[0] >= size_of::<Item>()));
        let mut all: Vec<_> = POOL.iter().map(|item| ptr::from_ref(item) as usize).collect();
        all.sort_unstable();
        assert_eq!(all, made);
        items.into_iter().for_each(|item| POOL.give(item));
        let again: Vec<_> = (0..100).map(|_| POOL.take(make)).collect();
        assert_eq!(addresses(&again), made);
    }
}
