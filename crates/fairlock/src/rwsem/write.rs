//! The slow way in for writers.

use super::RwSem;
use crate::platform::Platform;
use crate::wait::{Access, WaitContext, WaitError};

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
        let Some(tenure) = self.in_tenure() else {
            return self.write_published(word, P::thread(), context);
        };
        // First, and without the frame of a wait: within a tenure this is the way in.
        if tenure.steal_at_once(Access::Exclusive) || tenure.compete(Access::Exclusive, context) {
            return Ok(());
        }
        tenure.wait(Access::Exclusive, context)
    }
}
