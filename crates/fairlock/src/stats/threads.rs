//! A number for each thread that uses named locks: its place in their statistics, and the name of the thread that has it.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::string::String;
use std::vec::Vec;

/// Places begin with this number.
pub(super) const BASE: usize = 8;
/// So many there are. Threads beyond have none.
pub(super) const PLACES: usize = WORDS * 64;
/// Of one bit for each place.
const WORDS: usize = 64;
/// The place of a thread that has none.
pub(super) const NONE: usize = usize::MAX;

/// Which places are taken. Without a lock: the child of a fork may be where another thread of its
/// parent was at it.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static TAKERS: [Taker; PLACES] = [const { Taker::new() }; PLACES];

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

    /// The calling thread has the place now. Relaxed: a thread that reads a name while it changes reads something of both.
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

/// The calling thread is the only one of a process that was just forked, and has another number there.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn enter_child() {
    let place = PLACE.get().checked_sub(BASE);
    let taker = place.and_then(|index| TAKERS.get(index));
    taker.into_iter().for_each(|taker| taker.number.store(own_number(), Ordering::Relaxed));
}

/// The calling thread's number: the system's on Linux.
fn own_number() -> usize {
    #[cfg(all(target_os = "linux", not(miri)))]
    return rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs() as usize;
    #[cfg(not(all(target_os = "linux", not(miri))))]
    lock_api::GetThreadId::nonzero_thread_id(&crate::RawThreadId).get()
}

/// The name of the thread that has this place.
pub(crate) fn name_of(place: usize) -> String {
    let taker = place.checked_sub(BASE).and_then(|index| TAKERS.get(index));
    taker.map_or_else(|| "unknown thread".into(), Taker::name)
}

/// The number of the thread that has this place: the system's on Linux. Zero: it has none.
pub(super) fn number_of(place: usize) -> usize {
    let taker = place.checked_sub(BASE).and_then(|index| TAKERS.get(index));
    taker.map_or(0, |taker| taker.number.load(Ordering::Relaxed))
}

/// The calling thread's place.
#[inline]
pub(crate) fn own_place() -> usize {
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
        if let Some(index) = PLACE.replace(NONE).checked_sub(BASE).filter(|i| *i < PLACES) {
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

#[cfg(test)]
mod tests {
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::collections::BTreeSet;
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::sync::Mutex;
    use std::thread;

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
