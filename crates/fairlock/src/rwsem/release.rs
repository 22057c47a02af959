//! The slow way out.

use super::RwSem;
use super::upgrade::wake_upgrader;
use super::word::{HANDOFF, UPGRADABLE, WRITER_LOCKED, flag_queue};
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

    /// The last reader left, the word was `before`, and somebody waits.
    #[cold]
    pub(super) fn read_release_slow(&self, before: usize) {
        if before & WRITER_LOCKED != 0 {
            // Not free; and beside a mere writer it was not inside.
            return if before & UPGRADABLE != 0 {
                wake_upgrader(&self.queue)
            };
        }
        match self.in_tenure() {
            Some(tenure) => tenure.wake_next(),
            None => self.read_release_published(),
        }
    }
}
