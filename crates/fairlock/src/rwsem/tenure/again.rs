//! The short way in for the thread that had the lock last, while others wait.
//!
//! It is that thread's turn, if threads take turns, and nothing new is to be noted of it: what is
//! known of the last holder is true of it already.

use core::sync::atomic::Ordering;

use super::InTenure;
use crate::platform::Platform;
use crate::wait::{Access, Thread};

impl<P: Platform> InTenure<'_, P> {
    /// The calling thread, `me`, takes the lock past the queue, if it had the lock last, and nothing
    /// is in the way but those that wait. Then [`note_again`](Self::note_again) is to follow.
    #[inline(always)]
    pub(in crate::rwsem) fn take_again(&self, me: &Thread<P>, access: Access) -> bool {
        // First, and on another line than the word, which others should not fetch for that. A reader
        // gives way as it comes, a writer as it leaves.
        if !self.holder.is(me) || access == Access::Shared && self.gives_way(me) {
            return false;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.is_left_free() {
            return false;
        }
        let taken = word.taken(access);
        // Acquire: owns the lock on success (rule 3).
        self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// As `note_steal`, after [`take_again`](Self::take_again).
    #[inline(always)]
    pub(in crate::rwsem) fn note_again(&self, me: &Thread<P>) {
        if self.holder.is_in_turns() {
            self.holder.count(1);
        }
        if me.steals.count() {
            Self::look_around(self.word, self.holder, me, None);
        }
    }
}
