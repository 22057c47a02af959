//! The locks that a thread reads: what lets it read one of them again, past waiting
//! writers.
//!
//! A stack of addresses, and behind it, once that is full, a table of them ([`Table`]). What is
//! released is mostly what was taken last, so both ends of a section are a few instructions; and
//! any lock, however many the thread reads, is found in a few steps. If another thread releases
//! what this one took, which POSIX forbids, an address stays behind: all that costs is turns, as
//! the thread then passes writers.
//!
//! A signal handler may use locks in the middle of any of this, if it releases what it takes. Hence
//! the order of the steps on the stack: an entry counts before it is written, and is not touched
//! after it has left. In the middle of the other steps (`busy`), what does not fit on the stack is
//! not noted: the handler may then have to wait for its turn.

use core::cell::Cell;

use super::tidy_up_at_exit;
use crate::process::memory::{Open, spread};

/// How many entries the stack has, the one at the bottom included.
const STACK: usize = 16;

/// All zero at first; [`init`](Held::init) comes before anything else.
pub(crate) struct Held {
    /// Behind the last entry.
    top: Cell<*mut usize>,
    /// Where there is no more room; null while locks must not be taken at once.
    limit: Cell<*mut usize>,
    busy: Cell<bool>,
    table: Table,
    stack: [Cell<usize>; STACK],
}

impl Held {
    pub(super) fn init(&self) {
        self.top.set(self.at(1));
    }

    /// Locks may be taken by the short path.
    pub(super) fn open_short_path(&self) {
        self.limit.set(self.at(STACK));
    }

    /// Whether a lock may be taken at once, and added by [`push_in_room`](Self::push_in_room).
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.top.get() < self.limit.get()
    }

    /// The thread reads the lock at `address` once more.
    #[inline(always)]
    pub(crate) fn push_in_room(&self, address: usize) {
        let top = self.top.get();
        // SAFETY: there is room.
        unsafe {
            self.top.set(top.add(1));
            top.write(address);
        }
    }

    /// As [`push_in_room`](Self::push_in_room), whether there is room or not.
    pub(crate) fn push(&self, address: usize) {
        if self.len() == STACK {
            self.exclusively(|| self.move_to_table());
        }
        if self.len() < STACK {
            self.push_in_room(address);
        }
    }

    /// Whether the lock at `address` is the one that the thread came to read last. Only after
    /// [`init`](Self::init).
    #[inline(always)]
    pub(crate) fn is_last(&self, address: usize) -> bool {
        // SAFETY: below the top there is at least the bottom entry.
        unsafe { self.top.get().sub(1).read() == address }
    }

    /// The thread reads the lock that it came to read last once less.
    #[inline(always)]
    pub(crate) fn remove_last(&self) {
        // SAFETY: as in `is_last`, and that entry is not the bottom.
        self.top.set(unsafe { self.top.get().sub(1) });
    }

    /// The thread reads the lock at `address` once less.
    #[inline(always)]
    pub(crate) fn remove(&self, address: usize) {
        if self.is_last(address) {
            return self.remove_last();
        }
        self.remove_other(address);
    }

    /// The same of a lock that it did not come to read last.
    #[cold]
    #[inline(never)]
    fn remove_other(&self, address: usize) {
        self.exclusively(|| match self.find(address) {
            Some(index) => {
                let last = self.len() - 1;
                self.stack[index].set(self.stack[last].get());
                self.top.set(self.at(last));
            }
            None => self.table.remove(address),
        });
    }

    /// Whether the thread reads the lock at `address`.
    pub(crate) fn contains(&self, address: usize) -> bool {
        let mut is_in_table = false;
        self.exclusively(|| is_in_table = self.table.contains(address));
        is_in_table || self.find(address).is_some()
    }

    /// Empties the stack into the table. Without memory for that, the thread just has to wait for
    /// its turn.
    #[cold]
    fn move_to_table(&self) {
        while self.len() > 1 {
            let last = self.len() - 1;
            self.table.add(self.stack[last].get());
            self.top.set(self.at(last));
        }
        tidy_up_at_exit(super::state());
    }

    /// Runs `change`, unless this is in the middle of another one.
    fn exclusively(&self, change: impl FnOnce()) {
        if !self.busy.replace(true) {
            change();
            self.busy.set(false);
        }
    }

    /// Called when the thread ends.
    pub(super) fn tidy_up(&self) {
        self.table.tidy_up();
        self.init();
    }

    /// How many entries the stack has, with the one at the bottom.
    fn len(&self) -> usize {
        // SAFETY: both pointers are into the same array.
        unsafe { self.top.get().offset_from(self.at(0)) as usize }
    }

    /// The place of `address`, from the top on: what was taken last is mostly released first.
    #[inline]
    fn find(&self, address: usize) -> Option<usize> {
        (1..self.len()).rev().find(|&index| self.stack[index].get() == address)
    }

    #[inline(always)]
    fn at(&self, index: usize) -> *mut usize {
        debug_assert!(index <= STACK);
        // SAFETY: the index is of an entry, or one behind the last.
        unsafe { self.stack.as_ptr().cast_mut().cast::<usize>().add(index) }
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Entry {
    /// Zero: the entry is empty.
    address: usize,
    count: u64,
}

/// Addresses, each with how often it is held. Every operation takes the same time, however many there are.
/// All zero at first: empty.
struct Table(Open<Entry>);

impl Table {
    /// Holds `address` once more; false if there is no memory for it.
    fn add(&self, address: usize) -> bool {
        match self.find(address) {
            Some(at) => self.0.write(at, Entry { address, count: self.0.get(at).count + 1 }),
            None if !self.0.make_room(|entry| spread(entry.address)) => return false,
            None => self.0.add(spread(address), Entry { address, count: 1 }),
        }
        true
    }

    /// Holds `address` once less, if at all.
    fn remove(&self, address: usize) {
        let Some(at) = self.find(address) else { return };
        match self.0.get(at).count {
            1 => self.0.take_out(at, |entry| spread(entry.address)),
            count => self.0.write(at, Entry { address, count: count - 1 }),
        }
    }

    fn contains(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    fn tidy_up(&self) {
        self.0.clear();
    }

    fn find(&self, address: usize) -> Option<usize> {
        self.0.find(spread(address), |entry| entry.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calling thread's `Held`, as a new thread has it.
    fn held() -> &'static Held {
        let held = &super::super::enter().held;
        assert_eq!(held.len(), 1);
        held
    }

    #[test]
    fn what_was_pushed_is_held_until_it_is_removed() {
        let held = held();
        for address in [8, 16, 8, 24] {
            held.push(address);
        }
        held.remove(16);
        assert!(held.contains(8) && held.contains(24) && !held.contains(16));
        held.remove(8);
        assert!(held.contains(8));
        held.remove(8);
        held.remove(8); // of another thread
        assert!(held.contains(24) && !held.contains(8) && held.len() == 2);
    }

    #[test]
    fn any_number_is_held_and_the_memory_goes_with_the_thread() {
        std::thread::spawn(|| {
            let held = held();
            for address in 1..=1000 {
                held.push(address * 8);
                held.push(8);
            }
            assert!((1..=1000).all(|address| held.contains(address * 8)));
            for address in 2..=999 {
                held.remove(address * 8);
            }
            (0..1000).for_each(|_| held.remove(8));
            assert!(held.contains(8) && held.contains(8000) && !held.contains(7992));
            held.remove(8);
            assert!(!held.contains(8));
            held.tidy_up();
            assert!(held.len() == 1 && !held.contains(8000));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn entries_that_stay_behind_are_counted_by_address() {
        std::thread::spawn(|| {
            let held = held();
            for turn in 0..100_000 {
                held.push(8 + turn % 3 * 8);
            }
            for _ in 0..100_000 / 3 {
                [8, 16, 24].iter().for_each(|&address| held.remove(address));
            }
            assert!(held.contains(8) && !held.contains(16) && !held.contains(24));
            held.tidy_up();
        })
        .join()
        .unwrap();
    }

    /// As a signal handler does it.
    #[test]
    fn in_the_middle_of_a_change_others_leave_the_table_alone() {
        std::thread::spawn(|| {
            let held = held();
            (1..STACK).for_each(|address| held.push(address * 8));
            held.exclusively(|| {
                held.push(4096);
                held.remove(4096);
                assert!(held.len() == STACK && !held.contains(4096));
                held.remove(STACK / 2 * 8);
            });
            assert!((1..STACK).all(|address| held.contains(address * 8)));
        })
        .join()
        .unwrap();
    }
}

#[cfg(test)]
mod table_tests {
    use super::*;

    fn empty() -> Table {
        Table(Open::new())
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
