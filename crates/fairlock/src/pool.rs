//! Items that are recycled and never freed while the pool is there, so that a thread that is late may still
//! touch one: all of them, and a list of those that nobody has.
//!
//! Items are in chunks that double in size. No lock is taken, and each change is one exchange: a fork at any
//! moment leaves the child a whole pool, but for an item that was just being taken or given back.
//!
//! An item has an *index*, and a *name* by which it is found in fewer steps: where it is in its chunk is in
//! the low bits of the name; in the others is the chunk, of which the first one is 1: zero names nothing.
//!
//! The word that has the list:
//!
//! | bits | meaning |
//! |---|---|
//! | 0-31 | the index of the first item plus one; zero if there is none |
//! | 32-63 | how often the list has changed, so that a thread that is late does not take it for what it was |

use alloc::boxed::Box;
#[cfg(all(feature = "std", not(fairlock_loom)))]
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::platform::Atomic;

/// Where the memory of a pool is from.
///
/// # Safety
/// What [`take`](Self::take) returns is memory for that many items, and nobody else's.
pub unsafe trait Memory {
    /// Memory for so many items; `None` if there is none.
    fn take<T>(items: usize) -> Option<*mut T>;

    /// Gives it back.
    ///
    /// # Safety
    /// It was taken for so many items, and is not used any more.
    unsafe fn give_back<T>(memory: *mut T, items: usize);
}

/// The program's allocator. A lock that uses it must not be behind that allocator.
#[derive(Debug)]
pub struct Heap;

// SAFETY: a boxed slice of that many items.
unsafe impl Memory for Heap {
    fn take<T>(items: usize) -> Option<*mut T> {
        Some(Box::into_raw(Box::<[T]>::new_uninit_slice(items)).cast())
    }

    unsafe fn give_back<T>(memory: *mut T, items: usize) {
        let slice =
            ptr::slice_from_raw_parts_mut(memory.cast::<core::mem::MaybeUninit<T>>(), items);
        // SAFETY: made in this way by `take`, and the caller's promise.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// Memory from the system: the program's allocator may itself be behind a lock of this crate, which may be the one
/// that needs the memory.
#[cfg(all(feature = "std", not(fairlock_loom)))]
#[derive(Debug)]
pub struct FromSystem;

#[cfg(all(feature = "std", not(fairlock_loom)))]
// SAFETY: what is mapped, or allocated by the C library, is nobody else's, and as large as the layout says.
unsafe impl Memory for FromSystem {
    fn take<T>(items: usize) -> Option<*mut T> {
        let memory = from_system::take(Layout::array::<T>(items).ok()?);
        (!memory.is_null()).then_some(memory.cast())
    }

    unsafe fn give_back<T>(memory: *mut T, items: usize) {
        if let Ok(layout) = Layout::array::<T>(items) {
            // SAFETY: the caller's promise.
            unsafe { from_system::give_back(memory.cast(), layout) };
        }
    }
}

#[cfg(all(feature = "std", target_os = "linux", not(any(miri, fairlock_loom))))]
mod from_system {
    use super::{Layout, ptr};
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    pub(super) fn take(layout: Layout) -> *mut u8 {
        let may = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at no address in particular.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), layout.size(), may, MapFlags::PRIVATE) };
        mapped.map_or(ptr::null_mut(), |memory| memory.cast())
    }

    /// # Safety
    /// It was taken for this layout, and nobody uses it any more.
    pub(super) unsafe fn give_back(memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        _ = unsafe { munmap(memory.cast(), layout.size()) };
    }
}

#[cfg(all(feature = "std", any(not(target_os = "linux"), miri), not(fairlock_loom)))]
mod from_system {
    use std::alloc::{GlobalAlloc, System};

    use super::Layout;

    pub(super) fn take(layout: Layout) -> *mut u8 {
        // SAFETY: items have a size.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// It was taken for this layout, and nobody uses it any more.
    pub(super) unsafe fn give_back(memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// An item that can be in a list of free ones.
pub trait Pooled {
    /// What the pool needs of it.
    type Link: Atomic<u32>;

    /// The index with which the item was made; and, for the pool, the index plus one of the item
    /// behind it in the list, or zero.
    fn link(&self) -> (u32, &Self::Link);
}

/// Items in the first chunk.
pub(crate) const SMALLEST: u32 = 16;
const CHUNK_SHIFT: u32 = 27;
/// Room for nearly 2^27 items.
const CHUNKS: u32 = 23;
const LIMIT: u32 = SMALLEST * ((1 << CHUNKS) - 1);
/// How many chunks a name can address: the table has as many, so that no name leads out of it.
const NAMED: usize = 1 << (u32::BITS - CHUNK_SHIFT);

const _: () = assert!(SMALLEST << (CHUNKS - 1) <= 1 << CHUNK_SHIFT && (CHUNKS as usize) < NAMED);

/// The name of the item of this index. Names grow with indices.
#[inline(always)]
pub const fn name(index: u32) -> u32 {
    let from_first = index + SMALLEST;
    let chunk = from_first.ilog2() - SMALLEST.ilog2();
    (chunk + 1) << CHUNK_SHIFT | (from_first - (SMALLEST << chunk))
}

/// Where the table has the chunk of the item of this name.
#[inline(always)]
const fn chunk(name: u32) -> usize {
    (name >> CHUNK_SHIFT) as usize
}

/// Where the item of this name is in its chunk.
#[inline(always)]
const fn place(name: u32) -> usize {
    (name & ((1 << CHUNK_SHIFT) - 1)) as usize
}

/// How many items the chunk has of the item of this name.
fn items_of(name: u32) -> usize {
    (SMALLEST as usize) << (chunk(name) - 1)
}

/// See the [module](self). `A` is the word that has the list.
pub struct Pool<A, T, M: Memory> {
    /// The first item of each chunk, or null. Those items are made whose index was given out.
    chunks: [AtomicPtr<T>; NAMED],
    /// How many indices have been given out.
    made: AtomicU32,
    free: A,
    /// Items are shared.
    items: PhantomData<(T, fn() -> M)>,
}

impl<A, T, M: Memory> Pool<A, T, M> {
    /// No items yet.
    ///
    /// # Safety
    /// `free` is atomic, and zero. [`Pooled::link`] of an item returns the index with which it was made, and always the same
    /// atomic, which only the pool uses.
    pub const unsafe fn new(free: A) -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; NAMED],
            made: AtomicU32::new(0),
            free,
            items: PhantomData,
        }
    }

    /// The item of this name.
    ///
    /// # Safety
    /// An item of this pool that was made has the name.
    #[inline(always)]
    pub unsafe fn get(&self, name: u32) -> &T {
        // Relaxed: whoever learns a name acquires what came before it was given out.
        let chunk = self.chunks[chunk(name)].load(Ordering::Relaxed);
        if chunk.is_null() {
            unmade();
        }
        // SAFETY: the caller's promise; and a name leads into its chunk (`name`).
        unsafe { &*chunk.add(place(name)) }
    }

    /// Where the item of this index is; null if the index was not given out. A caller that did not
    /// learn the index from the item's owner may find an unfinished item there: memory as it was
    /// taken, or partly so.
    #[inline(always)]
    pub fn at(&self, index: u32) -> *const T {
        if index >= self.made() {
            return ptr::null();
        }
        let name = name(index);
        // Acquire: the memory is there before it is found.
        let chunk = self.chunks[chunk(name)].load(Ordering::Acquire);
        if chunk.is_null() { chunk } else { chunk.wrapping_add(place(name)) }
    }

    /// How many indices have been given out.
    #[inline(always)]
    pub fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// A new item, which knows its index. `None` if there is no memory for it, or there are too many.
    #[cold]
    pub fn make(&self, make: impl FnOnce(u32) -> T) -> Option<&T> {
        loop {
            let index = self.made();
            if index >= LIMIT {
                return None;
            }
            let chunk = self.chunk(name(index))?;
            // Relaxed: only makes the index this thread's. A thread that learns it from this one finds the item
            // made.
            let (next, order) = (index + 1, Ordering::Relaxed);
            if self.made.compare_exchange(index, next, order, order).is_err() {
                continue;
            }
            // SAFETY: a name leads into its chunk (`name`), and nobody else has this one.
            unsafe {
                let item = chunk.add(place(name(index)));
                item.write(make(index));
                return Some(&*item);
            }
        }
    }

    /// The chunk of the item of this name; it is made if need be.
    fn chunk(&self, name: u32) -> Option<*mut T> {
        let chunk = &self.chunks[chunk(name)];
        // Acquire, here and below: whoever made it.
        let made = chunk.load(Ordering::Acquire);
        if !made.is_null() {
            return Some(made);
        }
        let new = M::take(items_of(name))?;
        // Release: the memory is there before it is found.
        match chunk.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(new),
            Err(made) => {
                // SAFETY: taken above, and nobody else has seen it.
                unsafe { M::give_back(new, items_of(name)) };
                Some(made)
            }
        }
    }
}

impl<A: Atomic<u64>, T: Pooled, M: Memory> Pool<A, T, M> {
    /// Takes a free item, in the state in which it was given back.
    pub fn take(&self) -> Option<&T> {
        // Acquire, here and where the exchange fails: whoever gave the item back is done with it. (All changes are exchanges: so
        // this acquires also from those who gave items before that.)
        let mut free = self.free.load(Ordering::Acquire);
        while let Some(index) = (free as u32).checked_sub(1) {
            // SAFETY: an item in the list was made (`give`).
            let item = unsafe { self.get(name(index)) };
            // Relaxed: if it is not the item's next one any more, the list has changed.
            let next = item.link().1.load(Ordering::Relaxed);
            match self.change(free, next) {
                Ok(()) => return Some(item),
                Err(now) => free = now,
            }
        }
        None
    }

    /// The item goes into the list.
    ///
    /// # Safety
    /// It is of this pool, was taken from it or made, and nobody uses it any more.
    pub unsafe fn give(&self, item: &T) {
        let (index, next) = item.link();
        // Relaxed: nothing is read of the items in the list.
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            next.store(free as u32, Ordering::Relaxed);
            match self.change(free, index + 1) {
                Ok(()) => return,
                Err(now) => free = now,
            }
        }
    }

    /// Makes the item of this index, less one, the first one of a list that nobody has changed.
    fn change(&self, free: u64, first: u32) -> Result<(), u64> {
        let changes = (free >> u32::BITS).wrapping_add(1) << u32::BITS;
        let new = changes | u64::from(first);
        // Release: what was done to the item comes before what is done to it next. `take` has acquired what it found.
        self.free.compare_exchange(free, new, Ordering::Release, Ordering::Acquire).map(|_| ())
    }

    /// Calls `f` with the index of each free item of a list that nobody changes.
    pub(crate) fn for_each_free(&self, mut f: impl FnMut(u32)) {
        // Relaxed: nobody changes it.
        let mut next = self.free.load(Ordering::Relaxed) as u32;
        // An item that was given twice, by a mistake that a tester is to find, makes a circle of the list.
        for _ in 0..self.made() {
            let Some(index) = next.checked_sub(1) else { return };
            f(index);
            // SAFETY: as in `take`.
            next = unsafe { self.get(name(index)) }.link().1.load(Ordering::Relaxed);
        }
    }

    /// Forgets all free items, in the child of a fork: threads of the parent may still have been
    /// using them.
    pub(crate) fn forget_free(&self) {
        // Relaxed: there is nobody else.
        self.free.store(0, Ordering::Relaxed);
    }
}

impl<A, T, M: Memory> Drop for Pool<A, T, M> {
    fn drop(&mut self) {
        for (number, chunk) in (0..).zip(&mut self.chunks) {
            let chunk = *chunk.get_mut();
            if !chunk.is_null() {
                // SAFETY: taken by `chunk`, and nobody uses the pool any more.
                unsafe { M::give_back(chunk, items_of(number << CHUNK_SHIFT)) };
            }
        }
    }
}

#[cold]
fn unmade() -> ! {
    unreachable!("a lock's word names a slot that was not made")
}

#[cfg(all(test, fairlock_loom))]
#[path = "pool_loom.rs"]
mod pool_loom;

#[cfg(all(test, feature = "std", not(any(fairlock_loom, miri))))]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn each_index_has_a_name_of_its_own_that_leads_into_its_chunk() {
        let mut last = 0;
        let all = (0..1 << 12).chain((9..CHUNKS).flat_map(|chunk| {
            let first = SMALLEST * ((1 << chunk) - 1);
            [first - 1, first]
        }));
        for index in all.chain([LIMIT - 1]) {
            let name = name(index);
            assert!(last < name && place(name) < items_of(name) && chunk(name) < NAMED);
            let before = SMALLEST as usize * ((1 << (chunk(name) - 1)) - 1);
            assert_eq!(before + place(name), index as usize);
            last = name;
        }
    }

    struct Item {
        index: u32,
        next: AtomicU32,
        _room: [u8; 1000],
    }

    impl Item {
        fn new(index: u32) -> Self {
            Self { index, next: AtomicU32::new(0), _room: [0; 1000] }
        }
    }

    impl Pooled for Item {
        type Link = AtomicU32;

        fn link(&self) -> (u32, &AtomicU32) {
            (self.index, &self.next)
        }
    }

    type Items = Pool<AtomicU64, Item, FromSystem>;

    fn items() -> Items {
        // SAFETY: zero; and `link` is for the pool.
        unsafe { Items::new(AtomicU64::new(0)) }
    }

    fn take(pool: &Items) -> &Item {
        pool.take().or_else(|| pool.make(Item::new)).unwrap()
    }

    #[test]
    fn items_are_taken_given_and_taken_again() {
        let pool = items();
        // More than three chunks.
        let items: Vec<_> = (0..500).map(|_| take(&pool)).collect();
        let addresses = |items: &[&Item]| {
            let mut addresses: Vec<_> = items.iter().map(|&i| ptr::from_ref(i).addr()).collect();
            addresses.sort_unstable();
            addresses
        };
        let made = addresses(&items);
        assert!(made.windows(2).all(|pair| pair[1] - pair[0] >= size_of::<Item>()));
        for item in &items {
            assert!(
                ptr::eq(pool.at(item.index), *item)
                    // SAFETY: it was made.
                    && ptr::eq(unsafe { pool.get(name(item.index)) }, *item)
            );
        }
        assert!(pool.at(500).is_null() && pool.at(u32::MAX).is_null());
        // SAFETY: taken above.
        items.into_iter().for_each(|item| unsafe { pool.give(item) });
        let again: Vec<_> = (0..500).map(|_| take(&pool)).collect();
        assert_eq!(addresses(&again), made);
    }

    #[test]
    fn nobody_has_what_another_one_has() {
        let pool = items();
        let taken = [const { AtomicU32::new(0) }; 64];
        fairlock_testing::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..5_000 {
                        let items = [(); 3].map(|()| take(&pool));
                        for item in items {
                            assert_eq!(taken[item.index as usize].swap(1, Ordering::Relaxed), 0);
                        }
                        for item in items {
                            taken[item.index as usize].store(0, Ordering::Relaxed);
                            // SAFETY: taken above.
                            unsafe { pool.give(item) };
                        }
                    }
                });
            }
        });
        assert!(pool.made() <= 12);
    }

    struct Nowhere;

    // SAFETY: it returns none.
    unsafe impl Memory for Nowhere {
        fn take<T>(_: usize) -> Option<*mut T> {
            None
        }

        unsafe fn give_back<T>(_: *mut T, _: usize) {}
    }

    #[test]
    fn an_attempt_without_memory_takes_no_index() {
        // SAFETY: as in `items`.
        let pool = unsafe { Pool::<_, Item, Nowhere>::new(AtomicU64::new(0)) };
        assert!((0..3).all(|_| pool.make(Item::new).is_none()));
        assert_eq!(pool.made(), 0);
    }

    struct Unasked;

    // SAFETY: it returns none.
    unsafe impl Memory for Unasked {
        fn take<T>(_: usize) -> Option<*mut T> {
            panic!("no chunk is left for more");
        }

        unsafe fn give_back<T>(_: *mut T, _: usize) {}
    }

    #[test]
    fn a_pool_of_as_many_items_as_can_be_makes_no_more() {
        // SAFETY: as in `items`.
        let pool = unsafe { Pool::<_, Item, Unasked>::new(AtomicU64::new(0)) };
        pool.made.store(LIMIT, Ordering::Relaxed);
        assert!(pool.make(Item::new).is_none());
        assert_eq!(pool.made(), LIMIT);
    }

    struct Counted;

    static OUT: AtomicU32 = AtomicU32::new(0);

    // SAFETY: as that of `FromSystem`.
    unsafe impl Memory for Counted {
        fn take<T>(items: usize) -> Option<*mut T> {
            OUT.fetch_add(items as u32, Ordering::Relaxed);
            FromSystem::take(items)
        }

        unsafe fn give_back<T>(memory: *mut T, items: usize) {
            OUT.fetch_sub(items as u32, Ordering::Relaxed);
            // SAFETY: the caller's promise.
            unsafe { FromSystem::give_back(memory, items) };
        }
    }

    #[test]
    fn a_pool_gives_all_its_memory_back_in_the_end() {
        // SAFETY: as in `items`.
        let pool = unsafe { Pool::<_, Item, Counted>::new(AtomicU64::new(0)) };
        // Two chunks.
        assert!((0..=SMALLEST).all(|_| pool.make(Item::new).is_some()));
        assert_eq!(OUT.load(Ordering::Relaxed), 3 * SMALLEST);
        drop(pool);
        assert_eq!(OUT.load(Ordering::Relaxed), 0);
    }
}
