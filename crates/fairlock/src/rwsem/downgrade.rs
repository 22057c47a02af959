//! From writer to reader without letting go, and the fair unlocks.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::discipline::with_view;
use crate::platform::Platform;
use crate::wait::Access;

impl<P: Platform> RwSem<P> {
    /// Turns the lock held for writing into one held for reading, with no gap
    /// in which another writer could get in, and lets queued readers in beside
    /// the caller. Under the published discipline those are all queued readers,
    /// unless the lock is kept for a writer that was passed over too long
    /// (`HANDOFF`, `WRITER_PHASE`). Never blocks.
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, for reading.
    pub unsafe fn downgrade(&self) {
        self.become_reader(Access::Shared);
    }

    /// The writer becomes a reader that holds the lock in this way.
    pub(super) fn become_reader(&self, access: Access) {
        with_view!(self, view => view.note_readers());
        // One step, so there is no gap. Release: the readers let in see what was written.
        // `WRITER_LOCKED` is the caller's own, so a subtraction takes off exactly that bit.
        let before = self.word.change(Access::Exclusive, access, Ordering::Release);
        if !before.has_waiters() {
            return;
        }
        with_view!(self, view => view.let_readers_join());
    }

    /// Gives up the lock held for writing, to the queue if anyone waits: nobody
    /// gets in before the waiter whose turn it is.
    ///
    /// Under tenure that is the first waiter of the side whose tenure it is not, if that side
    /// waits; the lock is kept for it until it runs, however long that takes. Under the
    /// published discipline it is the head of the queue, reader or writer.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_write_fair(&self) {
        self.close_for_next();
        // SAFETY: the caller's promise.
        unsafe { self.unlock_write() }
    }

    /// Gives up the lock held for reading; if anyone waits, nobody gets in
    /// before the waiter whose turn it is. Other readers inside stay inside.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    pub unsafe fn unlock_read_fair(&self) {
        self.close_for_next();
        // SAFETY: the caller's promise.
        unsafe { self.unlock_read() }
    }

    /// Closes the lock: nobody else gets in before the waiter whose turn it is has had it.
    pub(super) fn close_for_next(&self) {
        with_view!(self, view => view.close_for_next());
    }
}
