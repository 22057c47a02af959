//! Taking the lock in somebody else's tenure, in a moment when nobody is inside.
//!
//! A tenure belongs to one writer, or to the readers. If they do other things between
//! their sections the lock is idle meanwhile, and others that run could use it. Nobody's
//! wait gets longer by that: the tenure ends when it would have, and from then on only
//! the queue gets in.
//!
//! For callers that would rather watch the lock for a moment than queue. Not part of the
//! interface.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::word::{HANDOFF, READ_STEAL_BLOCKED, READER, WAITERS, WRITER_LOCKED, is_free};
use crate::platform::{Atomic, Platform};

/// What came of it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barge {
    /// The caller has the lock.
    Taken,
    /// Somebody is inside, or the lock is about to go to the queue.
    Refused,
    /// Ask for the lock in the ordinary way: nobody waits, or it is the caller's tenure,
    /// or the lock has none.
    Ask,
}

impl<P: Platform> RwSem<P> {
    #[doc(hidden)]
    pub fn barge_read(&self) -> Barge {
        if !self.policy.has_tenure() {
            return Barge::Ask;
        }
        let word = self.word.load(Ordering::Relaxed);
        if word & READ_STEAL_BLOCKED != 0 {
            return Barge::Refused;
        }
        if word & WAITERS == 0 || self.tenure_is_readers() || self.tenure_is_mine() {
            return Barge::Ask;
        }
        self.barge(word, word + READER)
    }

    #[doc(hidden)]
    pub fn barge_write(&self) -> Barge {
        if !self.policy.has_tenure() {
            return Barge::Ask;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !is_free(word) || word & HANDOFF != 0 {
            return Barge::Refused;
        }
        if word & WAITERS == 0 || self.tenure_is_mine() {
            return Barge::Ask;
        }
        let barge = self.barge(word, word | WRITER_LOCKED);
        if barge == Barge::Taken {
            self.set_owner(P::thread_hint());
        }
        barge
    }

    /// Somebody waits, nothing is in the way, and it is another's tenure.
    fn barge(&self, word: usize, next: usize) -> Barge {
        // Acquire: owns the lock on success (rule 3).
        let taken =
            self.word.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !taken {
            return Barge::Refused;
        }
        // Who watches the lock sees that it is not idle.
        self.count_steal();
        Barge::Taken
    }

    fn tenure_is_mine(&self) -> bool {
        self.tenure.holder.load(Ordering::Relaxed) == P::thread_hint()
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;
    use crate::rwsem::Policy;
    use crate::rwsem::pace::READERS;

    type Lock = RwSem<Native>;

    /// A lock with this word, in a tenure of this holder, asked both ways.
    fn ask(policy: Policy, word: usize, holder: usize) -> [Barge; 2] {
        [Lock::barge_read, Lock::barge_write].map(|barge| {
            let lock = Lock::new(policy);
            lock.word.store(word, Ordering::Relaxed);
            lock.tenure.holder.store(holder, Ordering::Relaxed);
            let barge = barge(&lock);
            let now = lock.word.load(Ordering::Relaxed);
            let taken = now == word + READER || now == word | WRITER_LOCKED;
            assert_eq!(taken && now != word, barge == Barge::Taken, "{word:#x} became {now:#x}");
            barge
        })
    }

    #[test]
    fn only_an_open_lock_in_anothers_tenure_is_taken() {
        use Barge::{Ask, Refused, Taken};
        let me = Native::thread().hint();
        let other = me + 128; // an address that is never followed
        let default = |word, holder| ask(Policy::DEFAULT, word, holder);
        assert_eq!(default(0, other), [Ask, Ask]);
        assert_eq!(default(WAITERS, other), [Taken, Taken]);
        assert_eq!(default(WAITERS, READERS), [Ask, Taken]);
        assert_eq!(default(WAITERS, me), [Ask, Ask]);
        assert_eq!(default(WAITERS | READER, other), [Taken, Refused]);
        assert_eq!(default(WAITERS | WRITER_LOCKED, other), [Refused, Refused]);
        assert_eq!(default(WAITERS | HANDOFF, other), [Refused, Refused]);
        assert_eq!(default(WRITER_LOCKED, me), [Refused, Refused]);
        for word in [0, WAITERS, WAITERS | HANDOFF, WRITER_LOCKED] {
            assert_eq!(ask(Policy::HANDOFF, word, other), [Ask, Ask]);
        }
    }
}
