//! For locks in a pool, which [thin](crate::thin) ones have one after the other: somebody may
//! come late, and try to take what is another's by now.
//!
//! A *sealed* lock is held, with a ticket, by nobody in particular: no attempt succeeds.

use core::sync::atomic::Ordering;

use super::batch::BatchSize;
use super::lock::TicketLock;
use super::word::Word;
use crate::platform::{Atomic, Platform};

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// A sealed lock. Whoever has it may release it.
    pub(crate) fn sealed() -> Self {
        let lock = Self::new();
        // Relaxed: nobody else knows it yet.
        lock.word.store(Word::SOLE.0, Ordering::Relaxed);
        lock.ticketed.set(true);
        lock
    }

    /// The lock, which the caller holds, is sealed. False if somebody else has a ticket: the
    /// caller holds it as before.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub(crate) unsafe fn seal(&self) -> bool {
        let word = self.load();
        let ticketed = self.ticketed.get();
        if word.outstanding() != u32::from(ticketed) {
            return false;
        }
        // Relaxed: the caller goes on holding it.
        let sealed =
            self.word.compare_exchange(word.0, Word::SOLE.0, Ordering::Relaxed, Ordering::Relaxed);
        if sealed.is_err() {
            return false;
        }
        if !ticketed {
            self.ticketed.set(true);
            // Nobody can have left an address there: there was no ticket.
            self.solo.leave();
        }
        self.forbid_reopening();
        true
    }
}
