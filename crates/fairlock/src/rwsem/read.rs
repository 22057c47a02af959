//! The slow way in for readers.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::word::has_room;
use crate::events::Event;
use crate::platform::{Atomic, Platform};
use crate::wait::{Access, Kind, WaitContext, WaitError};

impl<P: Platform> RwSem<P> {
    #[cold]
    pub(super) fn read_slow_forever(&self, before: usize) {
        if let Err(error) = self.read_slow(before, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// The fast path found `before`, and the reader is counted already.
    #[cold]
    pub(super) fn read_slow(
        &self,
        before: usize,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if !has_room(before) {
            return self.refuse_reader();
        }
        match self.in_tenure() {
            Some(tenure) => {
                if !tenure.keeps_count(before) && !tenure.compete(Access::Shared, context) {
                    tenure.wait(Access::Shared, context)?;
                }
            }
            None => self.read_published(before, P::thread(), context)?,
        }
        self.keep_if_room()
    }

    /// A reader was counted, by itself or by who granted to it, without a look for room.
    pub(super) fn keep_if_room(&self) -> Result<(), WaitError> {
        // Relaxed: this thread knows of its own count, so it sees the word with it.
        if has_room(self.word.load(Ordering::Relaxed)) { Ok(()) } else { self.refuse_reader() }
    }

    /// A reader that is counted finds no room, and takes its count back.
    fn refuse_reader(&self) -> Result<(), WaitError> {
        self.count(Event::fail(Kind::Reader));
        // SAFETY: it gives up a count as a reader inside does, which may be the last.
        unsafe { self.unlock_read() };
        Err(WaitError::TooManyReaders)
    }
}
