//! The slow way in for readers.

use super::RwSem;
use crate::platform::Platform;
use crate::wait::{Kind, WaitContext, WaitError};

impl<P: Platform> RwSem<P> {
    #[cold]
    pub(super) fn read_slow_forever(&self, before: usize) {
        // Waiting for ever ends with the lock only.
        let _ = self.read_slow(before, &WaitContext::FOREVER);
    }

    /// The fast path found `before`, and the reader is counted already.
    #[cold]
    pub(super) fn read_slow(
        &self,
        before: usize,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let me = P::thread();
        // First, and without the frame of a wait: within a tenure this is the way in.
        if self.policy.has_tenure() && self.steal_read(before, me) {
            return Ok(());
        }
        match self.policy.tenure() {
            Some(shape) => self.wait_in_tenure(Kind::Reader, me, context, shape),
            None => self.read_published(before, me, context),
        }
    }
}
