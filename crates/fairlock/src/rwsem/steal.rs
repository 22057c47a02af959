//! Stealing: whose tenure it is takes the lock past the queue, until it is over.
//!
//! What a thread that steals owes the others: it looks at the clock now and then, ends
//! the tenure, calls the one who is next before a readers' tenure ends, invites another
//! reader if it is alone, and gives a writer's tenure up if it only reads any more.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::pace::{READERS, STEAL_MARK_NS};
use super::word::{HANDOFF, READ_STEAL_BLOCKED, READER, WRITER_LOCKED, readers, write_stealable};
use crate::events::Event;
use crate::platform::{Atomic, Platform};
use crate::wait::{Kind, Thread, WakeList, this_cpu};

impl<P: Platform> RwSem<P> {
    /// A reader, counted already, that found `before`: may it stay?
    pub(super) fn steal_read(&self, before: usize, me: &'static Thread<P>) -> bool {
        me.steals.read();
        if before & READ_STEAL_BLOCKED != 0 {
            return false;
        }
        let holder = self.tenure.holder.load(Ordering::Relaxed);
        let writes = holder == me.hint();
        if writes && me.steals.reads_in_a_row() && !self.stop_writing(false) {
            return false;
        }
        let stolen = (holder == READERS || writes) && self.stays_in_tenure(before, me, writes);
        if stolen {
            self.count(Event::ReadSteal);
        }
        stolen
    }

    /// A writer that found `word`: does it get the lock right now?
    pub(super) fn steal_write(&self, mut word: usize, me: &'static Thread<P>) -> bool {
        if self.tenure.holder.load(Ordering::Relaxed) != me.hint() {
            return false;
        }
        while write_stealable(word) {
            // Acquire: owns the lock on success (rule 3).
            match self.word.compare_exchange_weak(
                word,
                word | WRITER_LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.count_steal();
                    me.steals.wrote();
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// The writer whose tenure it is, and who is inside as a reader, only reads
    /// now. Unless it has downgraded, the next writer has the rest of the tenure
    /// (false: the lock is closed). Else the readers' begins (true): one is
    /// granted, since those that are only invited may find the lock closed, or
    /// the next writer faster, and this was their turn.
    #[cold]
    pub(super) fn stop_writing(&self, downgraded: bool) -> bool {
        let Some(shape) = self.policy.tenure() else { return true };
        let now = P::now();
        let mut wakes = WakeList::new();
        let stays = self.with_queue(|q| {
            if !downgraded && q.waiters.first(Kind::Writer).is_some() {
                self.close();
                return false;
            }
            let readers_wait = q.waiters.first(Kind::Reader).is_some();
            let urgent_writer =
                q.waiters.urgent().is_some_and(|urgent| urgent.kind == Kind::Writer);
            if readers_wait && !urgent_writer && self.claim_for_readers() {
                self.grant_readers(q, now, shape, &mut wakes);
            } else {
                self.begin_tenure(q, now, READERS, shape);
                self.recheck(q, now, shape, &mut wakes);
            }
            true
        });
        wakes.wake_all();
        stays
    }

    /// Closes the lock if the tenure is over; or if it is the caller's to write (`writes`)
    /// and it has only read for as long as it takes to give the lock to another.
    fn stays_in_tenure(&self, before: usize, me: &'static Thread<P>, writes: bool) -> bool {
        let Some(look) = me.steals.tick::<P>() else { return true };
        if look.passed_multiple_of(STEAL_MARK_NS) {
            self.count_steal();
        }
        if self.ends_tenure(&look) {
            return self.close() & HANDOFF == 0;
        }
        if writes && me.steals.reads_for(&look) > self.handoff_ns() && !self.stop_writing(false) {
            return false;
        }
        if !self.tenure_is_readers() {
            return true;
        }
        let lonely = me.steals.is_lonely(readers(before) == 0, self.joined() > 0);
        if !lonely && !self.call_is_due(look.now) {
            return true;
        }
        // Outside while it wakes others: they may take its CPU.
        // SAFETY: counted, and not blocked: it holds the lock for reading.
        unsafe { self.unlock_read() };
        self.wake_for_tenure(look.now);
        // Acquire: owns the lock again, unless it was closed meanwhile (rule 3).
        let before = self.word.fetch_add(READER, Ordering::Acquire);
        before & READ_STEAL_BLOCKED == 0 && self.tenure_is_readers()
    }

    /// What a reader does for others in its tenure: calls the one who is next,
    /// if the end is near; else invites another reader, as it has had the lock
    /// to itself for a while, and those that were invited do not run.
    #[cold]
    fn wake_for_tenure(&self, now: u64) {
        let mut wakes = WakeList::new();
        self.with_queue(|q| {
            if self.call_is_due(now) {
                self.call_next(q, &mut wakes);
            } else {
                q.waiters.prefer_elsewhere(Kind::Reader, this_cpu::<P>());
                self.invite_readers(q, 1, &mut wakes);
            }
        });
        wakes.wake_all();
    }

    /// A load and a store, not one step: one writer counts, or a few readers now
    /// and then, and a lost count does not matter.
    pub(super) fn count_steal(&self) {
        let steals = self.tenure.steals.load(Ordering::Relaxed);
        self.tenure.steals.store(steals.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether the tenure has ended; looks at the clock now and then only.
    pub(super) fn tenure_is_over(&self, me: &'static Thread<P>) -> bool {
        me.steals.tick::<P>().is_some_and(|look| {
            self.note_cpu();
            self.ends_tenure(&look)
        })
    }
}
