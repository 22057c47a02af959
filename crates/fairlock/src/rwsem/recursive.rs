//! Reads that go past waiting writers: for a thread that may hold the lock for reading already. As
//! an ordinary reader it would wait for a writer that waits for it.
//!
//! A thread that holds the lock never waits here: it is counted, so no writer is inside (one that
//! upgrades may be about to be). A thread that does not hold the lock waits as an ordinary reader.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::word::Word;
use crate::platform::Platform;
use crate::wait::{Access, Wait, WaitError};

impl<P: Platform> RwSem<P> {
    /// Takes the lock for reading even past waiting writers if readers hold it
    /// already; else like [`read`](Self::read). For a thread that may hold it.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn read_recursive(&self) {
        if !self.try_read_recursive() {
            self.read();
        }
    }

    /// As [`read_recursive`](Self::read_recursive), without waiting; false if the lock
    /// is [saturated](Self::is_saturated), too.
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read_recursive(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        self.word.take_while(word, Access::Shared, Word::is_joinable).is_some() || self.try_read()
    }

    /// As [`read_recursive`](Self::read_recursive); gives up as `wait` says.
    pub fn read_recursive_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.try_read_recursive() { Ok(()) } else { self.read_with(wait) }
    }
}
