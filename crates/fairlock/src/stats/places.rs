//! A place for each thread in each lock's statistics, which no other thread writes.
//!
//! So what a thread counts there needs no locked instruction, and takes no line from another CPU.
//! A thread has one place in all locks; one that comes later has the place of one that ended.

use core::array;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
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
/// For each place that is taken, where its thread has its variables. If another thread has its variables there now,
/// the former has ended without giving the place back: it came here in the destructor of a pthread key, and
/// [`GivesBack`] is dropped before those.
static TAKERS: [AtomicUsize; WORDS * 64] = [const { AtomicUsize::new(0) }; WORDS * 64];

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
            TAKERS[index].store(0, Ordering::Relaxed);
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
    let taker = PLACE.with(|place| ptr::from_ref(place).addr());
    // Relaxed: the system gives the memory of a thread to another one after the thread has ended.
    if let Some(left) = TAKERS.iter().position(|other| other.load(Ordering::Relaxed) == taker) {
        PLACE.set(BASE + left);
        return PLACE.get();
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
                    let index = word * 64 + bit as usize;
                    TAKERS[index].store(taker, Ordering::Relaxed);
                    PLACE.set(BASE + index);
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
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::sync::Mutex;
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

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_place_taken_in_the_destructor_of_a_pthread_key_is_had_by_a_later_thread() {
        static SEEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

        fairlock_testing::at_end_of_threads(300, || {
            SEEN.lock().unwrap().insert(take_place());
        });
        let seen = SEEN.lock().unwrap();
        // As many as there have been threads at a time, with those of other tests.
        assert!(!seen.contains(&NONE) && seen.len() < 100, "{seen:?}");
    }
}
