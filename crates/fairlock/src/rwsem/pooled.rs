//! For locks in a pool, which [thin](crate::thin) ones share one after the other: somebody
//! may come late, and take or count itself in what is another's lock by now.

use core::sync::atomic::Ordering;

use super::word::{READ_BLOCKED, READER, WRITER_LOCKED, has_room};
use super::{Policy, RwSem};
use crate::platform::{Atomic, Platform};
use crate::wait::Kind;

impl<P: Platform> RwSem<P> {
    /// A lock that is held for writing.
    pub(crate) fn held(policy: Policy) -> Self {
        Self::with_word(policy, WRITER_LOCKED)
    }

    /// Takes the lock for reading if that needs no waiting, past the queue too; then, whether
    /// it was free.
    #[inline(always)]
    pub(crate) fn steal_read(&self) -> Option<bool> {
        match self.read_fast_found() {
            Ok(before) => Some(before == 0),
            Err(before) => self.steal_read_slow(before).then_some(false),
        }
    }

    fn steal_read_slow(&self, before: usize) -> bool {
        if let Some(tenure) = self.in_tenure()
            && has_room(before)
        {
            if !tenure.keeps_count(before) {
                return false;
            }
            // As in `read_slow`.
            if has_room(self.word.load(Ordering::Relaxed)) {
                return true;
            }
        }
        // SAFETY: it gives up a count as a reader inside does, which may be the last.
        unsafe { self.unlock_read() };
        false
    }

    /// The same for writing.
    #[inline(always)]
    pub(crate) fn steal_write(&self) -> Option<bool> {
        if self.try_write() {
            return Some(true);
        }
        self.in_tenure()?.steal_at_once(Kind::Writer).then_some(false)
    }

    /// From the only reader to a writer, without a gap; not if anybody waits.
    ///
    /// # Safety
    /// The caller holds the lock for reading; where it is true, for writing then.
    pub(crate) unsafe fn try_upgrade_alone(&self) -> bool {
        // Acquire: the sections of the readers before it, too, come before what follows
        // (rule 3). Release: nothing else hands its own on.
        self.word
            .compare_exchange(READER, WRITER_LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// So many adopted readers are not this lock's, which nobody may have entered meanwhile.
    pub(crate) fn disown_readers(&self, count: usize) {
        // Relaxed: as they were adopted. By subtraction: who is late may be counted, too.
        self.word.fetch_sub(count * READER, Ordering::Relaxed);
    }

    /// The caller, which has the lock now, found it free, or not.
    #[inline(always)]
    pub(crate) fn note_calm(&self, found_free: bool, enough: usize) {
        let calm = self.holder.calm.load(Ordering::Relaxed);
        let now = if found_free { enough.min(calm + 1) } else { 0 };
        if now != calm {
            self.holder.calm.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the lock was found free so often in a row.
    #[inline(always)]
    pub(crate) fn is_calm(&self, enough: usize) -> bool {
        self.holder.calm.load(Ordering::Relaxed) >= enough
    }

    /// As [`read_fast`](Self::read_fast), with the word it found in both cases.
    #[inline(always)]
    fn read_fast_found(&self) -> Result<usize, usize> {
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.fetch_add(READER, Ordering::Acquire);
        if before & READ_BLOCKED == 0 { Ok(before) } else { Err(before) }
    }
}
