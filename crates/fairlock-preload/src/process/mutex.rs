//! A mutex for the library's own lists. Waiting for it takes no thread record, as those
//! are in one of the lists.

use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::Platform;
use fairlock::platform::linux::Linux;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may sleep on the word.
const WANTED: u32 = 2;

pub(crate) struct Mutex {
    word: AtomicU32,
}

/// Holds a [`Mutex`].
pub(crate) struct Guard<'a>(&'a Mutex);

impl Mutex {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(FREE) }
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        // Acquire, here and below: what the last holder did is seen.
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.word.swap(WANTED, Ordering::Acquire) != FREE {
                Linux::wait(&self.word, WANTED, None, false);
            }
        }
        Guard(self)
    }

    /// Gives up what [`core::mem::forget`] kept.
    pub(crate) fn unlock(&self) {
        // Release: pairs with the Acquire of the next holder.
        if self.word.swap(FREE, Ordering::Release) == WANTED {
            Linux::wake_one(&self.word);
        }
    }

    /// In the child of a fork: nobody else is there to wait for it.
    pub(crate) fn reset(&self) {
        self.word.store(FREE, Ordering::Relaxed);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.unlock();
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
}
