//! For concurrency testers, between two steps of a lock's threads. Not part of the
//! interface.

use core::mem::offset_of;

use super::batch::BatchSize;
use super::lock::{Parts, TicketLock};
use super::word::Word;
use crate::inspect;
use crate::platform::Platform;

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// How many tickets have been taken since the lock was idle, and how many of
    /// them have been served.
    #[doc(hidden)]
    pub fn tickets(&self) -> (u32, u32) {
        let word = self.load();
        (word.tail(), word.head())
    }

    /// Checks that nothing is left in a lock that nobody uses.
    #[doc(hidden)]
    pub fn check_idle(&self) -> Result<(), &'static str> {
        if self.load() != Word::IDLE || self.solo.is_held() {
            return Err("the lock is not idle after everybody has left");
        }
        if !self.inbox.is_empty() || self.hints.load().has_responsible() {
            return Err("somebody is still parked after everybody has left");
        }
        Ok(())
    }

    /// The name of what is at an address in the lock.
    #[doc(hidden)]
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(Parts<P, S>, word), size_of_val(&self.word), "word"),
            (offset_of!(Parts<P, S>, solo), size_of_val(&self.solo), "solo"),
            (offset_of!(Parts<P, S>, inbox), size_of_val(&self.inbox), "inbox"),
            (offset_of!(Parts<P, S>, hints), size_of_val(&self.hints), "hints"),
        ];
        inspect::field_at(self, address, &fields)
    }
}
