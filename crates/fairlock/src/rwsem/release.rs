//! The slow way out.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::policy::TenureShape;
use super::word::{HANDOFF, WAITERS, WRITER_LOCKED, is_free};
use crate::platform::{Atomic, Platform};
use crate::wait::WakeList;

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
        // Release: as on the fast path. By compare-exchange, so that the lock
        // is never let go with HANDOFF set and nobody to grant it.
        while word & HANDOFF == 0 {
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
        if let Some(shape) = self.policy.tenure() {
            self.write_transfer(shape);
        }
    }

    /// The lock is closed: it goes from this writer to the queue.
    #[inline(never)]
    fn write_transfer(&self, shape: TenureShape) {
        let now = P::now();
        let mut wakes = WakeList::new();
        self.with_queue(|q| {
            self.word.fetch_and(!WRITER_LOCKED, Ordering::Release);
            self.grant_next(q, now, shape, &mut wakes);
        });
        self.wake_and_note(now, &mut wakes);
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
