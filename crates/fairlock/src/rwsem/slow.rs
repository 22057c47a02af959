//! The slow paths: each calls the lock's discipline, tenure or published.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::discipline::with_view;
use super::queued::wake_upgrader;
use super::word::Word;
use crate::events::Event;
use crate::platform::Platform;
use crate::wait::{Kind, WaitContext, WaitError};

impl<P: Platform> RwSem<P> {
    // ---- in, to read ----

    #[cold]
    pub(super) fn read_slow_forever(&self, before: Word) {
        if let Err(error) = self.read_slow(before, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// The fast path found `before`, and the reader is counted already.
    #[cold]
    pub(super) fn read_slow(
        &self,
        before: Word,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if !before.has_room() {
            return self.refuse_reader();
        }
        with_view!(self, view => view.read(before, context))?;
        self.keep_if_room()
    }

    /// A reader was counted, by itself or by its granter, without a look for room: may it stay?
    pub(super) fn keep_if_room(&self) -> Result<(), WaitError> {
        // Relaxed: this thread knows of its own count, so it sees the word with it.
        if self.word.load(Ordering::Relaxed).has_room() { Ok(()) } else { self.refuse_reader() }
    }

    /// A reader that is counted finds no room, and takes its count back.
    fn refuse_reader(&self) -> Result<(), WaitError> {
        self.events.count(Event::fail(Kind::Reader));
        // SAFETY: the thread gives up a count as a reader inside does, and it may be the last one.
        unsafe { self.unlock_read() };
        Err(WaitError::TooManyReaders)
    }

    // ---- in, to write ----

    #[cold]
    pub(super) fn write_slow_forever(&self, word: Word) {
        // Waiting for ever ends with the lock only.
        let _ = self.write_slow(word, &WaitContext::FOREVER);
    }

    /// The fast path found `word`.
    #[cold]
    pub(super) fn write_slow(
        &self,
        word: Word,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        with_view!(self, view => view.write(word, context))
    }

    // ---- out ----

    /// The writer's word was not just `WRITER_LOCKED`.
    #[inline(never)]
    pub(super) fn write_release_slow(&self) {
        if !self.in_tenure().is_some_and(|tenure| tenure.write_release_at_once(P::thread())) {
            self.write_release_to_others();
        }
    }

    #[cold]
    #[inline(never)] // its frame is large
    fn write_release_to_others(&self) {
        with_view!(self, view => view.write_release());
    }

    /// The last reader left, the word was `before`, and somebody waits.
    #[cold]
    pub(super) fn read_release_slow(&self, before: Word) {
        if before.is_written() {
            // The lock is not free. Beside a writer that is inside, the reader was only passing
            // through.
            return if before.is_upgradable() {
                wake_upgrader(&self.queue)
            };
        }
        with_view!(self, view => view.read_release());
    }
}
