//! The slow way out.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::policy::TenureShape;
use super::word::{HANDOFF, WAITERS, WRITER_LOCKED, is_free};
use crate::platform::{Atomic, Platform};
use crate::wait::{Thread, WakeList};

impl<P: Platform> RwSem<P> {
    /// The writer's word was not just `WRITER_LOCKED`.
    #[cold]
    pub(super) fn write_release_slow(&self) {
        if self.policy.has_tenure() {
            self.write_release_in_tenure();
        } else {
            self.write_release_published();
        }
    }

    fn write_release_in_tenure(&self) {
        let me = P::thread();
        let mut word = self.word.load(Ordering::Relaxed);
        if word & WAITERS != 0 && self.tenure_is_over(me) {
            word = self.close();
        }
        loop {
            if word & HANDOFF != 0 {
                if self.write_transfer(me) {
                    return;
                }
                word &= !HANDOFF;
            }
            // Release: as on the fast path. By compare-exchange, so that the lock
            // is never let go with HANDOFF set and nobody to grant it.
            match self.word.compare_exchange_weak(
                word,
                word & !WRITER_LOCKED,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// The lock is closed: it goes from this writer to the queue, and whoever has it next
    /// may free it. False if nobody is queued any more.
    #[inline(never)]
    fn write_transfer(&self, me: &Thread<P>) -> bool {
        let Some(shape) = self.policy.tenure() else { return false };
        self.note_last_transfer(me);
        let now = P::now();
        let mut wakes = WakeList::new();
        let transferred = self.with_queue(|q| {
            if q.waiters.is_empty() {
                return false;
            }
            // From here on others may get in. But somebody is queued, and uses the lock until
            // it has had the queue lock after this thread, or is told below.
            self.word.fetch_and(!WRITER_LOCKED, Ordering::Release);
            self.grant_next(q, now, shape, &mut wakes);
            true
        });
        if !wakes.is_empty() {
            let lock = core::ptr::from_ref(self).addr();
            wakes.wake_all();
            // The lock may be gone.
            me.transfer.set((lock, P::now().wrapping_sub(now)));
        }
        transferred
    }

    /// The last reader left and somebody waits.
    #[cold]
    pub(super) fn read_release_slow(&self) {
        match self.policy.tenure() {
            Some(shape) => self.grant_if_free(true, shape),
            None => self.read_release_published(),
        }
    }

    /// Grants the lock to the queue if nobody is inside, and, if `closed` is
    /// asked for, its tenure is over.
    pub(super) fn grant_if_free(&self, closed: bool, shape: TenureShape) {
        let is_due = || {
            let word = self.word.load(Ordering::Relaxed);
            is_free(word) && (!closed || word & HANDOFF != 0)
        };
        if is_due() {
            let now = P::now();
            let mut wakes = WakeList::new();
            self.with_queue(|q| {
                if is_due() {
                    self.grant_next(q, now, shape, &mut wakes);
                }
            });
            self.wake_and_note(now, &mut wakes);
        }
    }
}
