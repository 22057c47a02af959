//! The short way in for the thread that had the lock last, while others wait.
//!
//! It is that thread's turn, if threads take turns, and nothing new is to be noted of it: what is
//! known of the last holder is true of it already.

use core::sync::atomic::Ordering;

use super::InTenure;
use crate::platform::Platform;
use crate::rwsem::word::Word;
use crate::wait::{Access, Thread};

impl<P: Platform> InTenure<'_, P> {
    /// The calling thread, `me`, takes the lock past the queue, if it had the lock last, and nothing
    /// is in the way but those that wait. Returns the word before, if it did; then
    /// [`note_again`](Self::note_again) is to follow.
    #[inline(always)]
    pub(in crate::rwsem) fn take_again(&self, me: &Thread<P>, access: Access) -> Option<Word> {
        // First, and on another line than the word, which others should not fetch for that. A reader
        // gives way as it comes, a writer as it leaves.
        if !self.holder.is(me) || access == Access::Shared && self.holds_off(me) {
            return None;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.is_left_free() {
            return None;
        }
        let taken = word.taken(access);
        // Acquire: owns the lock on success (rule 3).
        self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).ok()
    }

    /// As [`note_again`](Self::note_again), of a writer: where there are readers, it counts for it as
    /// a reader that it has written.
    #[inline(always)]
    pub(in crate::rwsem) fn note_write_again(&self, me: &Thread<P>, before: Word) {
        me.writes(self.id());
        self.note_again(me, before);
    }

    /// As `note_steal`, after [`take_again`](Self::take_again), which returned `before`.
    #[inline(always)]
    pub(in crate::rwsem) fn note_again(&self, me: &Thread<P>, before: Word) {
        me.ages.forget(self.id());
        let alone = self.is_ones_own(before);
        if alone {
            self.holder.count(1);
        }
        if me.steals.count() {
            Self::look_around(self.word, self.holder, me, None, alone);
        }
    }
}
