//! Who is granted, under the tenure discipline.
//!
//! A grant is for a while: the *tenure*. Inside it the granted side may take
//! the lock again and again and wakes nobody. At its end the lock is closed
//! (`HANDOFF`) and the last holder out transfers it to the queue, the other
//! side first. So a handoff costs one switch per tenure, not one per
//! operation, and a waiter waits at most (grants ahead x (tenure + grace + handoff)).
//!
//! What makes the switch itself nearly free:
//!
//! * The waiter that is next is told so (`NEXT`) as soon as the one before it
//!   is granted, by the thread that leaves. In a writer's tenure it sleeps on
//!   its own timer until shortly before the end, then spins on its own word: the
//!   holder pays no wake-up, and the transfer is one store. In a readers' tenure
//!   one of them calls it shortly before the end.
//! * A writers' tenure does not end before the one who is next is awake, within
//!   bounds: a thread takes 10 to 100 us to run once woken (proposal 5), and the
//!   lock works meanwhile.
//! * It is one that did not run on the holder's CPU last, if there is one near
//!   the head of its list: behind the holder it would not run.
//! * One reader is granted; the others are *invited*: each takes the lock
//!   itself when it runs, so that no sleeping thread ever holds the lock up.
//! * A lock that falls idle is taken at once by a `NEXT` that watches it, and
//!   at the latest when its timer makes it look.
//!
//! How long a tenure is, and what is known of it without the queue lock, is in
//! `pace`.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::pace::{NOT_YET, READERS};
use super::policy::TenureShape;
use super::turns::Turns;
use super::word::{
    HANDOFF, QUEUE_FLAGS, READ_STEAL_BLOCKED, READER, WAITERS, WRITER_LOCKED, is_free,
};
use crate::events::Event;
use crate::fault::{Fault, active};
use crate::platform::{Atomic, Platform};
use crate::wait::{INVITED, Kind, NEXT, Queue, WAITING, Waiter, WakeList};

/// What the queue lock guards.
pub(super) struct Queued<P: Platform> {
    pub(super) waiters: Queue<P>,
    /// The waiter that was told it is next; null if there is none. Queued.
    /// While the queue is not empty there is one, whenever the queue lock is let
    /// go: somebody must notice the end of the tenure, or an idle lock.
    pub(super) next: *const Waiter<P>,
    /// How long each side's last tenure was, if it was given up before its end;
    /// else the longest there is. What one side does not need the other need
    /// not have either.
    pub(super) used: [u64; 2],
    /// The CPU that whoever was granted last ran on: see [`Thread::cpu`].
    holder_cpu: usize,
    /// For `ReaderSpin::Adaptive`.
    pub(super) turns: Turns,
}

// SAFETY: `next` is used as an address, or under the queue lock while the
// waiter is queued.
unsafe impl<P: Platform> Send for Queued<P> {}

impl<P: Platform> Queued<P> {
    pub(super) const fn new() -> Self {
        Self {
            waiters: Queue::new(),
            next: core::ptr::null(),
            used: [u64::MAX; 2],
            holder_cpu: 0,
            turns: Turns::new(),
        }
    }
}

/// What a new waiter found when it queued.
pub(super) enum Arrival {
    /// Nobody was in the way: it has the lock and never queued.
    Acquired,
    /// It is queued.
    Queued,
}

impl<P: Platform> RwSem<P> {
    /// Sets `HANDOFF` if anyone is queued, in the same step (rule 6); returns
    /// the word after it. From here on only the queue gets in.
    pub(super) fn close(&self) -> usize {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (WAITERS | HANDOFF) == WAITERS {
            match self.word.compare_exchange_weak(
                word,
                word | HANDOFF,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return word | HANDOFF,
                Err(now) => word = now,
            }
        }
        word
    }

    /// Queues `waiter`, taking back the count of a reader that could not steal.
    ///
    /// # Safety
    /// The waiter stays where it is until it is out of the queue.
    pub(super) unsafe fn arrive(
        &self,
        q: &mut Queued<P>,
        waiter: &Waiter<P>,
        shape: TenureShape,
        wakes: &mut WakeList<P>,
    ) -> Arrival {
        let counted = if waiter.kind == Kind::Reader { READER } else { 0 };
        let first = q.waiters.is_empty();
        if counted != 0 {
            // The writer that was in the way left without a queue, or those in the
            // queue have a lower priority: the count stands.
            let blocked = if first {
                READ_STEAL_BLOCKED
            } else if Self::passes_writers(&q.waiters, waiter.priority) {
                WRITER_LOCKED
            } else {
                !0
            };
            // Acquire: owns the lock then (rule 3).
            if self.word.load(Ordering::Acquire) & blocked == 0 {
                self.count(Event::ReadFast);
                return Arrival::Acquired;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { q.waiters.push(waiter) };
        let flags = if first { WAITERS } else { 0 };
        // The queue was empty, so WAITERS was clear and this addition sets it.
        let delta = flags.wrapping_sub(counted);
        let word = self.word.fetch_add(delta, Ordering::Relaxed).wrapping_add(delta);
        if first {
            let holder = if word & WRITER_LOCKED != 0 {
                self.owner.load(Ordering::Relaxed)
            } else {
                READERS
            };
            // Readers without a queue have had a tenure, too.
            if holder == READERS && self.tenure_is_readers() {
                self.set_end(q, shape);
            } else {
                self.begin_tenure(q, waiter.arrived, holder, shape);
            }
        } else {
            self.set_end(q, shape);
        }
        if is_free(word) && (first || word & HANDOFF != 0) {
            // Nobody is inside whose release would grant: that falls to the
            // one who notices (rules 7 and 15).
            self.grant_next(q, waiter.arrived, shape, wakes);
        } else {
            self.recheck(q, waiter.arrived, shape, wakes);
        }
        Arrival::Queued
    }

    /// Takes `waiter` out of the queue: the only way out (rule 6).
    pub(super) fn take_out(&self, q: &mut Queued<P>, waiter: &Waiter<P>) {
        q.waiters.remove(waiter);
        self.left_queue(q, waiter);
    }

    /// After `waiter` has left the queue: the last one out clears its flags.
    fn left_queue(&self, q: &mut Queued<P>, waiter: &Waiter<P>) {
        if core::ptr::eq(q.next, waiter) {
            q.next = core::ptr::null();
        }
        if q.waiters.is_empty() {
            self.word.fetch_and(!QUEUE_FLAGS, Ordering::Relaxed);
        }
    }

    /// The queue or the word changed: is a grant due (rules 7, 8 and 14)? If
    /// not, the one who is next is told so.
    pub(super) fn recheck(
        &self,
        q: &mut Queued<P>,
        now: u64,
        shape: TenureShape,
        wakes: &mut WakeList<P>,
    ) {
        if q.waiters.is_empty() {
            return;
        }
        let urgent = q.waiters.urgent().map(|urgent| urgent.kind);
        if urgent.is_some() {
            self.close();
        }
        let readers_only = self.tenure_is_readers() && q.waiters.first(Kind::Writer).is_none();
        let word = self.word.load(Ordering::Relaxed);
        if readers_only || urgent == Some(Kind::Reader) || (is_free(word) && word & HANDOFF != 0) {
            self.grant_next(q, now, shape, wakes);
        } else {
            self.appoint_next(q, wakes);
            if word & HANDOFF != 0 {
                self.call_next(q, wakes);
            }
        }
    }

    /// The tenure ends: the one who is next should be awake when the lock is let go.
    pub(super) fn call_next(&self, q: &Queued<P>, wakes: &mut WakeList<P>) {
        // SAFETY: `next` of the queue is queued (see the field), so alive.
        if let Some(next) = unsafe { q.next.as_ref() }
            && !self.next_is_called()
        {
            wakes.push(next.thread);
            self.set_called(true);
        }
    }

    pub(super) fn tenure_is_readers(&self) -> bool {
        self.tenure.holder.load(Ordering::Relaxed) == READERS
    }

    /// Closes the lock and, if nobody is inside, grants it: to a real-time thread,
    /// or to the other side first, in order of arrival within a side. If somebody is inside, they
    /// will see `HANDOFF` when they leave, and come here.
    pub(super) fn grant_next(
        &self,
        q: &mut Queued<P>,
        now: u64,
        shape: TenureShape,
        wakes: &mut WakeList<P>,
    ) {
        let kind = match q.waiters.first(Kind::Writer) {
            // A writer that ends its tenure early leaves the rest to the next.
            Some(writer) if q.waiters.urgent().is_none() && self.writers_have_time(now) => {
                Some(writer.kind)
            }
            _ => self.next_kind(q),
        };
        match kind {
            Some(Kind::Reader) if self.claim_for_readers() => {
                self.grant_readers(q, now, shape, wakes);
            }
            Some(Kind::Writer) if self.claim_for_writer(q) => {
                self.grant_writer(q, now, shape, wakes);
            }
            // Somebody was faster, and will come here.
            _ => self.appoint_next(q, wakes),
        }
    }

    /// Closes the lock; whether readers may be let in, as no writer is inside
    /// and from now on none can steal.
    pub(super) fn claim_for_readers(&self) -> bool {
        self.word.fetch_or(HANDOFF, Ordering::Relaxed) & WRITER_LOCKED == 0
    }

    /// Which side is next: that of a real-time thread, or else the one whose tenure it
    /// is not, if it waits.
    fn next_kind(&self, q: &Queued<P>) -> Option<Kind> {
        if let Some(urgent) = q.waiters.urgent() {
            return Some(urgent.kind);
        }
        let current = self.tenure_side();
        [current.other(), current].into_iter().find(|&kind| q.waiters.first(kind).is_some())
    }

    /// Closes the lock, and takes it for the first writer if nobody is inside.
    fn claim_for_writer(&self, q: &Queued<P>) -> bool {
        let mut word = self.word.fetch_or(HANDOFF, Ordering::Relaxed) | HANDOFF;
        let gone = if q.waiters.len() == 1 { QUEUE_FLAGS } else { HANDOFF };
        while is_free(word) {
            // Acquire: the grant is ownership on the writer's behalf (rule 3).
            match self.word.compare_exchange_weak(
                word,
                (word | WRITER_LOCKED) & !gone,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The word says that a writer owns the lock: tell the first one that it is it.
    fn grant_writer(
        &self,
        q: &mut Queued<P>,
        now: u64,
        shape: TenureShape,
        wakes: &mut WakeList<P>,
    ) {
        // SAFETY: used up to its grant only.
        let Some(writer) = (unsafe { q.waiters.take_first(Kind::Writer) }) else { return };
        if core::ptr::eq(q.next, writer) {
            q.next = core::ptr::null();
        }
        let thread = writer.thread;
        q.holder_cpu = thread.cpu();
        self.set_owner(thread.hint());
        if self.writers_have_time(now) {
            self.pass_tenure(q, now, thread.hint());
        } else {
            self.begin_tenure(q, now, thread.hint(), shape);
        }
        self.tenure.cpu.store(NOT_YET, Ordering::Relaxed);
        if q.waiters.urgent().is_some() && !active(Fault::OpensTooEarly) {
            self.close(); // before it can let go
        }
        writer.grant(wakes);
        self.count(Event::WriteHandoff);
        self.count(Event::WriteLock);
        self.count(Event::WakeWriter);
        self.appoint_next(q, wakes);
    }

    /// Grants the lock, which no writer holds and none can take, to the first
    /// reader, and invites others; to all readers if no writer waits, and to all that
    /// have a higher priority than those.
    pub(super) fn grant_readers(
        &self,
        q: &mut Queued<P>,
        now: u64,
        shape: TenureShape,
        wakes: &mut WakeList<P>,
    ) {
        let all = q.waiters.first(Kind::Writer).is_none();
        // Rule 2: the count holds them before any of them can leave. One at a
        // time is enough for that here: the first is counted before it is
        // granted, and each later one before it is.
        // SAFETY: used up to its grant only.
        while let Some(reader) = unsafe { q.waiters.take_first(Kind::Reader) } {
            self.word.fetch_add(READER, Ordering::Acquire);
            self.left_queue(q, reader);
            q.holder_cpu = reader.thread.cpu();
            self.count(Event::ReadLock);
            self.count(Event::WakeReader);
            reader.grant(wakes);
            // However many: none of those left would be told when to look again.
            let passes = Self::passes_writers(&q.waiters, q.waiters.priority(Kind::Reader));
            if !all && !passes {
                break;
            }
        }
        self.count(Event::ReadHandoff);
        if active(Fault::SubtractsHandoff) {
            self.word.fetch_sub(HANDOFF, Ordering::Relaxed);
        } else if q.waiters.urgent().is_none() || active(Fault::OpensTooEarly) {
            self.word.fetch_and(!HANDOFF, Ordering::Relaxed); // rule 4
        }
        self.begin_tenure(q, now, READERS, shape);
        if q.waiters.is_empty() {
            return;
        }
        if q.waiters.urgent().is_none() {
            q.waiters.prefer_elsewhere(Kind::Reader, q.holder_cpu);
            self.invite_readers(q, usize::MAX, wakes);
        }
        self.appoint_next(q, wakes);
    }

    /// Invites up to `count` more queued readers to join those inside, and not
    /// more at a time than could run.
    pub(super) fn invite_readers(&self, q: &Queued<P>, count: usize, wakes: &mut WakeList<P>) {
        let mut left = count.min(P::cpus().saturating_sub(1).max(1));
        let mut reader = q.waiters.first(Kind::Reader);
        while let Some(invited) = reader
            && left > 0
            && !wakes.is_full()
        {
            reader = q.waiters.after(invited);
            if invited.state() != INVITED {
                invited.set_state(INVITED);
                wakes.push(invited.thread);
                left -= 1;
            }
        }
    }

    /// An invited reader that runs now: joins the readers inside if it can.
    pub(super) fn join(
        &self,
        q: &mut Queued<P>,
        waiter: &Waiter<P>,
        now: u64,
        shape: TenureShape,
        wakes: &mut WakeList<P>,
    ) -> bool {
        let shut = WRITER_LOCKED | HANDOFF;
        if self.tenure_is_readers() && self.word.load(Ordering::Relaxed) & shut == 0 {
            // Acquire: owns the lock, unless a writer was faster (rule 3).
            if self.word.fetch_add(READER, Ordering::Acquire) & WRITER_LOCKED == 0 {
                self.take_out(q, waiter);
                self.make_up_for_start(now);
                if waiter.thread.steals.is_slow() {
                    // Its section may be a sleep: the CPU is free for another.
                    self.invite_readers(q, 1, wakes);
                }
                self.count(Event::ReadLock);
                // It may have been the one who was next (rule 8).
                self.recheck(q, now, shape, wakes);
                return true;
            }
            self.word.fetch_sub(READER, Ordering::Relaxed);
        }
        waiter.set_state(if core::ptr::eq(q.next, waiter) { NEXT } else { WAITING });
        // The count that was just taken back may have hidden a free lock (rule 15).
        self.recheck(q, now, shape, wakes);
        false
    }

    /// Tells the waiter that is next that it is.
    fn appoint_next(&self, q: &mut Queued<P>, wakes: &mut WakeList<P>) {
        let Some(kind) = self.next_kind(q) else { return };
        if q.next.is_null() {
            // Behind the holder it would not run before the holder sleeps.
            q.waiters.prefer_elsewhere(kind, q.holder_cpu);
        }
        let Some(next) = q.waiters.first(kind) else { return };
        if core::ptr::eq(q.next, next) {
            return;
        }
        Self::dismiss_next(q);
        if next.state() != INVITED {
            next.set_state(NEXT);
        }
        wakes.push(next.thread);
        self.count(Event::wake(next.kind));
        q.next = next;
        self.set_called(false);
        self.set_awaited(false);
    }

    pub(super) fn dismiss_next(q: &Queued<P>) {
        // SAFETY: `next` of the queue is queued (see the field), so alive.
        if let Some(next) = unsafe { q.next.as_ref() }
            && next.state() == NEXT
        {
            next.set_state(WAITING);
        }
    }
}
