//! The fast path of the thread that had the lock last, while others wait.
//!
//! If threads take turns, it is this thread's turn; and the hints about the last holder need no update.

use core::sync::atomic::Ordering;

use super::InTenure;
use crate::platform::Platform;
use crate::rwsem::RwSem;
use crate::rwsem::policy::TenurePolicy;
use crate::rwsem::word::Word;
use crate::wait::{Access, Thread};

/// A lock that its last holder has taken again: to be noted, or left at once if it is not the right one.
#[must_use]
pub(crate) struct Again {
    /// The word before.
    before: Word,
}

impl Again {
    /// Notes that the calling thread, `me`, has taken `lock`, which follows the default policy.
    #[inline(always)]
    pub(crate) fn note<P: Platform>(self, lock: &RwSem<P>, me: &Thread<P>) {
        InTenure::of(lock, TenurePolicy::DEFAULT).note_again(me, self);
    }

    /// As [`note`](Self::note), of a writer of a lock that is also read.
    #[inline(always)]
    pub(crate) fn note_write<P: Platform>(self, lock: &RwSem<P>, me: &Thread<P>) {
        InTenure::of(lock, TenurePolicy::DEFAULT).note_write_again(me, self);
    }
}

impl<P: Platform> InTenure<'_, P> {
    /// The calling thread, `me`, takes the lock past the queue, if it had the lock last, and nothing
    /// is in the way but those that wait.
    #[inline(always)]
    #[must_use]
    pub(in crate::rwsem) fn take_again(&self, me: &Thread<P>, access: Access) -> Option<Again> {
        // Check the holder first: its cache line is separate, so a failed check leaves the word's line
        // alone. A reader yields before it enters, a writer after it has left.
        if !self.holder.is(me) || access == Access::Shared && self.holds_off(me) {
            return None;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.is_left_free() {
            return None;
        }
        let taken = word.taken(access);
        // Acquire: owns the lock on success (rule 3).
        let before =
            self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Again { before })
    }

    /// As [`note_again`](Self::note_again), of a writer of a lock that is also read: later the thread may
    /// join readers as one that has written.
    #[inline(always)]
    pub(in crate::rwsem) fn note_write_again(&self, me: &Thread<P>, again: Again) {
        me.tenure.writes(self.id());
        self.note_again(me, again);
    }

    /// As `note_steal`, for a thread that has taken the lock [again](Self::take_again).
    #[inline(always)]
    pub(in crate::rwsem) fn note_again(&self, me: &Thread<P>, Again { before }: Again) {
        me.tenure.ages.forget(self.id());
        let alone = self.is_ones_own(before);
        if alone {
            self.holder.count(1);
        }
        if me.steals.count() {
            Self::look_around(self.word, self.holder, me, None, alone);
        }
    }
}
