//! A place for each thread in each lock's statistics, which no other thread writes.
//!
//! So what a thread counts there needs no locked instruction, and takes no line from another CPU.
//! A thread has one place in all locks; one that comes later has the place of one that ended.

use core::array;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;
use std::vec::Vec;

use super::hold::{Hold, Waits};
use super::threads::{BASE, NONE, PLACES, own_place};

/// A lock has memory for [`BASE`] threads at first, and twice as much each time that more come.
const BLOCKS: usize = (BASE + PLACES).ilog2() as usize - BASE.ilog2() as usize + 1;

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
        let place = own_place();
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

    /// As [`Hold::is_to_tell`], of this place.
    pub(super) fn is_to_tell(&self, place: usize, wait: Waits) -> bool {
        self.all().iter().any(|(other, hold)| *other == place && hold.is_to_tell(wait))
    }

    #[cold]
    fn make(&self, block: usize) -> *mut Hold {
        let made: Box<[Hold]> = (0..BASE << block).map(|_| Hold::new()).collect();
        let made = Box::into_raw(made);
        // Release: the thread that sees the block sees it empty. Acquire: or as another thread made it.
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

    /// Those of all threads, with their places.
    pub(super) fn all(&self) -> Vec<(usize, &Hold)> {
        let mut all = Vec::new();
        for (block, first) in self.0.iter().enumerate() {
            let first = first.load(Ordering::Acquire);
            if !first.is_null() {
                // SAFETY: as in `own`.
                let holds = unsafe { core::slice::from_raw_parts(first, BASE << block) };
                all.extend((BASE << block..).zip(holds));
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
            places.all().into_iter().map(|(_, place)| ptr::from_ref(place).addr()).collect();
        assert!(own.iter().all(|place| all.contains(place)));
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), 40);
    }
}
