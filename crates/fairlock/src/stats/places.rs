//! A place for each thread in each lock's statistics, which no other thread writes.
//!
//! So what a thread counts there needs no locked instruction, and takes no line from another CPU.
//! A thread has one place in all locks; one that comes later has the place of one that ended.

use core::array;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::boxed::Box;
use std::string::String;
use std::vec::Vec;

use super::hold::{Hold, Waits};

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
static TAKERS: [Taker; WORDS * 64] = [const { Taker::new() }; WORDS * 64];

/// The thread that has a place.
struct Taker {
    /// Where it has its variables. If another thread has its variables there now,
    /// this one has ended without giving the place back: it came here in the destructor of a pthread key, and
    /// [`GivesBack`] is dropped before those.
    variables: AtomicUsize,
    /// The system's number on Linux; elsewhere another one.
    number: AtomicUsize,
    /// Its name in Rust, cut off if need be; zero bytes if it has none.
    name: [AtomicU64; 4],
}

impl Taker {
    const fn new() -> Self {
        Self {
            variables: AtomicUsize::new(0),
            number: AtomicUsize::new(0),
            name: [const { AtomicU64::new(0) }; 4],
        }
    }

    /// The calling thread has the place now. Relaxed: who reads a name while it changes reads something of both.
    fn set(&self, variables: usize) {
        self.variables.store(variables, Ordering::Relaxed);
        self.number.store(own_number(), Ordering::Relaxed);
        let mut text = [0; 32];
        let thread = std::thread::current();
        for (to, from) in text.iter_mut().zip(thread.name().unwrap_or("").bytes()) {
            *to = from;
        }
        for (to, from) in self.name.iter().zip(text.chunks_exact(8)) {
            let from = from.try_into().unwrap_or_default();
            to.store(u64::from_ne_bytes(from), Ordering::Relaxed);
        }
    }

    /// Its name: Rust's, or else the system's, or else its number.
    fn name(&self) -> String {
        let text: Vec<u8> =
            self.name.iter().flat_map(|part| part.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        if length > 0 {
            return String::from_utf8_lossy(&text[..length]).into_owned();
        }
        let number = self.number.load(Ordering::Relaxed);
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Ok(name) = std::fs::read(std::format!("/proc/self/task/{number}/comm")) {
            return String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        }
        std::format!("thread {number}")
    }
}

/// The calling thread's number: the system's on Linux.
fn own_number() -> usize {
    #[cfg(all(target_os = "linux", not(miri)))]
    return rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs() as usize;
    #[cfg(not(all(target_os = "linux", not(miri))))]
    lock_api::GetThreadId::nonzero_thread_id(&crate::RawThreadId).get()
}

/// The name of the thread that has this place.
pub(super) fn name_of(place: usize) -> String {
    let taker = place.checked_sub(BASE).and_then(|index| TAKERS.get(index));
    taker.map_or_else(|| "unknown thread".into(), Taker::name)
}

/// The calling thread's place.
#[inline]
pub(super) fn own_place() -> usize {
    match PLACE.get() {
        0 => take_place(),
        place => place,
    }
}

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
            TAKERS[index].variables.store(0, Ordering::Relaxed);
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
    if let Some(left) =
        TAKERS.iter().position(|other| other.variables.load(Ordering::Relaxed) == taker)
    {
        TAKERS[left].set(taker);
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
                    TAKERS[index].set(taker);
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
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::sync::Mutex;
    use std::thread;
    use std::vec;

    use super::*;

    #[test]
    fn a_thread_that_has_a_place_has_a_name() {
        let named = |name: &str| thread::Builder::new().name(name.into());
        let name = || name_of(own_place());
        assert_eq!(named("worker").spawn(name).unwrap().join().unwrap(), "worker");
        let long = "a name that is longer than what there is room for";
        assert_eq!(named(long).spawn(name).unwrap().join().unwrap(), &long[..32]);
        #[cfg(all(target_os = "linux", not(miri)))]
        #[cfg(all(target_os = "linux", not(miri)))]
        let later = move || {
            own_place();
            // As C programs do, at any time.
            rustix::thread::set_name(c"later").unwrap();
            name()
        };
        #[cfg(all(target_os = "linux", not(miri)))]
        assert_eq!(thread::spawn(later).join().unwrap(), "later");
        assert_eq!(name_of(NONE), "unknown thread");
    }

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
