//! A mutex for the library's own lists. Waiting for it takes no thread record. In the child of a
//! fork it is free, whoever held it.

use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::linux::Linux;
use fairlock::platform::{Platform, WaitOutcome};

use super::fork;

/// The low bits of the word are the state. The others are the holder's process: see
/// [`fork::number`].
const STATE: u32 = 0b11;
const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may sleep on the word.
const WANTED: u32 = 2;

pub(crate) struct Mutex {
    word: AtomicU32,
}

const FOREVER_NS: u64 = u64::MAX;

/// Holds a [`Mutex`].
pub(crate) struct Guard<'a>(&'a Mutex);

impl Mutex {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(FREE) }
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        loop {
            if let Some(guard) = self.lock_within(FOREVER_NS) {
                return guard;
            }
        }
    }

    /// `None` if the mutex is not free for so long.
    pub(crate) fn lock_within(&self, most_ns: u64) -> Option<Guard<'_>> {
        let mut deadline = None;
        let here = fork::number() << STATE.count_ones();
        let mut state = HELD;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & STATE == FREE || word & !STATE != here {
                // Acquire: what the last holder did is seen.
                if self.exchange(word, here | state, Ordering::Acquire) {
                    return Some(Guard(self));
                }
            } else if word == here | WANTED || self.exchange(word, here | WANTED, Ordering::Relaxed)
            {
                if most_ns != FOREVER_NS {
                    deadline.get_or_insert_with(|| Linux::now() + most_ns);
                }
                let outcome = Linux::wait(&self.word, here | WANTED, deadline, false);
                if outcome == WaitOutcome::TimedOut {
                    return None;
                }
                // Others may still sleep.
                state = WANTED;
            }
        }
    }

    fn exchange(&self, word: u32, next: u32, success: Ordering) -> bool {
        self.word.compare_exchange(word, next, success, Ordering::Relaxed).is_ok()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        if self.0.word.swap(FREE, Ordering::Release) & STATE == WANTED {
            Linux::wake_one(&self.0.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn one_at_a_time() {
        struct Shared(Mutex, Cell<u32>);
        // SAFETY: the cell is used under the mutex.
        unsafe impl Sync for Shared {}
        let shared = Shared(Mutex::new(), Cell::new(0));
        fairlock_testing::scope(|s| {
            for _ in 0..4 {
                let shared = &shared;
                s.spawn(move || {
                    for _ in 0..10_000 {
                        let _guard = shared.0.lock();
                        shared.1.set(shared.1.get() + 1);
                    }
                });
            }
        });
        assert_eq!(shared.1.get(), 40_000);
    }

    #[test]
    fn a_wait_has_an_end() {
        let mutex = Mutex::new();
        let guard = mutex.lock();
        assert!(mutex.lock_within(1_000_000).is_none());
        drop(guard);
        assert!(mutex.lock_within(0).is_some());
    }

    #[test]
    fn what_another_process_holds_is_free() {
        let mutex = Mutex::new();
        let parent = fork::number().wrapping_sub(1) << STATE.count_ones();
        for state in [HELD, WANTED] {
            mutex.word.store(parent | state, Ordering::Relaxed);
            drop(mutex.lock());
            assert_eq!(mutex.word.load(Ordering::Relaxed), FREE);
        }
    }
}
