//! A place for each thread in each lock's statistics, which no other thread writes.
//!
//! So what a thread counts there needs no locked instruction, and takes no line from another CPU.
//! A thread has one place in all locks; one that comes later has the place of one that ended.

use core::array;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::boxed::Box;
use std::vec::Vec;

use super::hold::Hold;

/// A lock has memory for the places of so many threads at first, and twice as much each time that
/// more come. Places begin with this number.
const BASE: usize = 8;
/// So many words of one bit for each place. Threads beyond have none.
const WORDS: usize = 64;
const NONE: usize = usize::MAX;
const BLOCKS: usize = (BASE + WORDS * 64).ilog2() as usize - BASE.ilog2() as usize + 1;

/// Which places are taken. Without a lock: the child of a fork may be where another thread of its
/// parent was at it.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

std::thread_local! {
    /// The thread's place; 0: it has none yet; `NONE`: it gets none. It has no destructor, so it can
    /// be read while others of the thread's variables are being destroyed.
    static PLACE: Cell<usize> = const { Cell::new(0) };
    static GIVES_BACK: GivesBack = const { GivesBack };
}

struct GivesBack;

impl Drop for GivesBack {
    fn drop(&mut self) {
        if let Some(index) = PLACE.replace(NONE).checked_sub(BASE).filter(|i| *i < WORDS * 64) {
            // Release: the next thread with this place goes on counting where this one ended.
            TAKEN[index / 64].fetch_and(!(1 << (index % 64)), Ordering::Release);
        }
    }
}

#[cold]
fn take_place() -> usize {
    // Set meanwhile, so that an allocator that uses such a lock does not come here again.
    PLACE.set(NONE);
    // Fails only in a thread whose variables are already being destroyed.
    if GIVES_BACK.try_with(|_| ()).is_err() {
        return NONE;
    }
    for (word, taken) in TAKEN.iter().enumerate() {
        let mut bits = taken.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = bits.trailing_ones();
            // Acquire: as the thread before left it.
            match taken.compare_exchange_weak(
                bits,
                bits | 1 << bit,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    PLACE.set(BASE + word * 64 + bit as usize);
                    return PLACE.get();
                }
                Err(now) => bits = now,
            }
        }
    }
    NONE
}

/// What the threads have in the statistics of one lock.
pub(super) struct Places([AtomicPtr<Hold>; BLOCKS]);

impl Places {
    pub(super) fn new() -> Self {
        Self(array::from_fn(|_| AtomicPtr::new(ptr::null_mut())))
    }

    /// That of the calling thread, which no other thread writes. `None` if the thread is about to
    /// end, or there are thousands.
    #[inline]
    pub(super) fn own(&self) -> Option<&Hold> {
        let place = match PLACE.get() {
            0 => take_place(),
            place => place,
        };
        if place == NONE {
            return None;
        }
        let block = (place / BASE).ilog2() as usize;
        let first = self.0[block].load(Ordering::Acquire);
        let first = if first.is_null() { self.make(block) } else { first };
        // SAFETY: block `n` has the `BASE << n` places from `BASE << n` on, and is freed with
        // `self`.
        Some(unsafe { &*first.add(place - (BASE << block)) })
    }

    #[cold]
    fn make(&self, block: usize) -> *mut Hold {
        let made: Box<[Hold]> = (0..BASE << block).map(|_| Hold::new()).collect();
        let made = Box::into_raw(made);
        // Release: whoever sees the block sees it empty. Acquire: or as another thread made it.
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match self.0[block].compare_exchange(ptr::null_mut(), made.cast(), order.0, order.1) {
            Ok(_) => made.cast(),
            Err(other) => {
                // SAFETY: just made, and nobody has it.
                drop(unsafe { Box::from_raw(made) });
                other
            }
        }
    }

    /// Those of all threads.
    pub(super) fn all(&self) -> Vec<&Hold> {
        let mut all = Vec::new();
        for (block, first) in self.0.iter().enumerate() {
            let first = first.load(Ordering::Acquire);
            if !first.is_null() {
                // SAFETY: as in `own`.
                all.extend(unsafe { core::slice::from_raw_parts(first, BASE << block) });
            }
        }
        all
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for (block, first) in self.0.iter_mut().enumerate() {
            if !first.get_mut().is_null() {
                let all = ptr::slice_from_raw_parts_mut(*first.get_mut(), BASE << block);
                // SAFETY: made by `make` with this length, and nobody else has it any more.
                drop(unsafe { Box::from_raw(all) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::vec;

    use super::*;

    #[test]
    fn threads_that_live_at_a_time_have_places_of_their_own() {
        let (places, together) = (Places::new(), Barrier::new(40));
        let mut own = vec![];
        thread::scope(|s| {
            let threads: Vec<_> = (0..40)
                .map(|_| {
                    s.spawn(|| {
                        let own = places.own().map(|own| ptr::from_ref(own).addr());
                        together.wait();
                        own.unwrap()
                    })
                })
                .collect();
            own.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        });
        let all: Vec<_> =
            places.all().into_iter().map(|place| ptr::from_ref(place).addr()).collect();
        assert!(own.iter().all(|place| all.contains(place)));
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), 40);
    }
}
