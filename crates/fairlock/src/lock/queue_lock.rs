//! The lock of a slot's queue, in memory that is never freed: a futex lock, in which no thread that has slept is passed
//! for long. Else threads that come again and again, as those that retry every few microseconds, would keep the waiter that is
//! next from its queue.
//!
//! | word | | set by |
//! |---|---|---|
//! | `FREE` | | a release |
//! | `TAKEN` | somebody has it, and nobody sleeps | a thread that has just come |
//! | `AWAITED` | somebody has it, and threads may sleep: the release wakes two | a thread that goes to sleep, or takes the lock after that |
//! | `CLAIMED` | as `AWAITED`, and a thread that has slept is awake: the release leaves the lock to it | that thread, until it has the lock, or sleeps again |
//! | `LEFT` | nobody has it; threads that have just come do not take it | a release |
//!
//! Why no wake-up is lost: of those that sleep a release from `AWAITED` wakes one, at least, and that one makes the word
//! `CLAIMED` or `AWAITED` again before it sleeps, and takes the lock as `AWAITED`. So while threads sleep, the
//! word is one of those two, or such a thread is awake. A release from `CLAIMED` wakes nobody: the one that claims is
//! awake.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, System};
use crate::wait::SOON_NS;

pub(super) struct QueueLock<P: System>(P::AtomicU32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;
const CLAIMED: u32 = 3;
const LEFT: u32 = 4;

/// How long a thread spins for a queue lock before it sleeps: longer than its holder takes to queue a thread and to wake
/// another.
const SPIN: u64 = 2 * SOON_NS;

impl<P: System> QueueLock<P> {
    pub(super) fn new() -> Self {
        Self(P::AtomicU32::new(FREE))
    }

    /// Of a word that is zero, which nobody else has.
    #[cfg(feature = "async")]
    pub(super) const fn of(word: P::AtomicU32) -> Self {
        Self(word)
    }

    /// In the child of a fork: nobody has it. Relaxed: there is one thread.
    #[cfg(feature = "async")]
    pub(super) fn enter_child(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        self.exchange(FREE, TAKEN)
    }

    /// Awake for a moment, and then asleep until a release, which is followed by a moment in which the lock is left to
    /// those that have slept.
    #[cold]
    fn lock_slow(&self) {
        while P::spin_until(&self.0, SPIN, |word| word == FREE) {
            if self.try_lock() {
                return;
            }
        }
        loop {
            self.sleep();
            if self.claim() {
                return;
            }
        }
    }

    /// Sleeps until a release, unless nobody has the lock.
    fn sleep(&self) {
        self.exchange(TAKEN, AWAITED);
        let word = self.0.load(Ordering::Relaxed);
        if word == AWAITED || word == CLAIMED {
            P::wait(&self.0, word, None, false);
        }
    }

    /// The calling thread has slept, or waited for as long as any does awake. Returns whether it has the lock.
    fn claim(&self) -> bool {
        loop {
            let is_claimed = !P::spin_until(&self.0, SPIN, |word| word != CLAIMED);
            let word = self.0.load(Ordering::Relaxed);
            if word == FREE || word == LEFT {
                if self.exchange(word, AWAITED) {
                    return true;
                }
            } else if word != CLAIMED {
                self.exchange(word, CLAIMED);
            } else if is_claimed && self.exchange(CLAIMED, AWAITED) {
                return false; // another thread that claims it does so again
            }
        }
    }

    #[inline]
    pub(super) fn unlock(&self) {
        // Relaxed: only compared.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = if word == CLAIMED { LEFT } else { FREE };
            // Release: what was done under the lock comes before what the next owner does.
            match self.0.compare_exchange(word, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word == AWAITED {
            // A thread takes longer to wake up than it has the lock: two are on their way at a time.
            P::wake_one(&self.0);
            P::wake_one(&self.0);
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// Whether the word was `word`, and is `next`.
    #[inline(always)]
    fn exchange(&self, word: u32, next: u32) -> bool {
        // Acquire: owns the lock if nobody had it.
        self.0.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
