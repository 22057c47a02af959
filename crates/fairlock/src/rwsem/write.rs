//! The slow way in for writers.

use super::RwSem;
use crate::platform::Platform;
use crate::wait::{Kind, WaitContext, WaitError};

impl<P: Platform> RwSem<P> {
    #[cold]
    pub(super) fn write_slow_forever(&self, word: usize) {
        // Waiting for ever ends with the lock only.
        let _ = self.write_slow(word, &WaitContext::FOREVER);
    }

    /// The fast path found `word`.
    #[cold]
    pub(super) fn write_slow(
        &self,
        word: usize,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let me = P::thread();
        // First, and without the frame of a wait: within a tenure this is the way in.
        if self.policy.has_tenure() && self.steal_write(word, me) {
            return Ok(());
        }
        match self.policy.tenure() {
            Some(shape) => self.wait_in_tenure(Kind::Writer, me, context, shape),
            None => self.write_published(word, me, context),
        }
    }
}
