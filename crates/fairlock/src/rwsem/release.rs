//! The slow way out.

use super::RwSem;
use super::word::{HANDOFF, flag_queue};
use crate::platform::Platform;

impl<P: Platform> RwSem<P> {
    /// The writer's word was not just `WRITER_LOCKED`.
    #[cold]
    pub(super) fn write_release_slow(&self) {
        match self.in_tenure() {
            Some(tenure) => tenure.write_release(),
            None => self.write_release_published(),
        }
    }

    /// Sets `HANDOFF` if anyone is queued; returns the word after it. From here on only the
    /// queue gets in.
    pub(super) fn close(&self) -> usize {
        flag_queue(&self.word, HANDOFF)
    }

    /// The last reader left and somebody waits.
    #[cold]
    pub(super) fn read_release_slow(&self) {
        match self.in_tenure() {
            Some(tenure) => tenure.wake_next(),
            None => self.read_release_published(),
        }
    }
}
