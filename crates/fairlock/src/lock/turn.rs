//! Whose turn it is: coming to the queue, being next, taking the lock, leaving. All steps are under the queue lock, but
//! for closing the lock.
//!
//! A waiter leaves the queue only by itself, so no other thread ever touches a stack frame that may be gone.

use super::Raw;
use super::clock::Waiting;
use super::holder::Holder;
use super::late::{Line, next_kind};
use super::mode::Mode;
use super::raw::SlotOf;
use super::slot::{FewWakes, Queued, Slot};
use super::word::{Flags, Word};
use super::words::Words;
use crate::events::Event;
use crate::platform::{Platform, System};
use crate::wait::{Access, Duty, INVITED, Kind, NEXT, Queue, WAITING, WAKE_NS, Waiter, WakeList};

/// How many others each queued reader wakes when it gets in: all are awake sooner than if one thread woke them. In
/// waiters; compared with those woken so far by this one.
const INVITES: usize = 2;

/// A lock and its slot, which it keeps while the caller has the queue lock, or is queued.
pub(crate) struct Turns<'a, W: Words> {
    pub(super) lock: &'a Raw<W>,
    pub(super) slot: &'static SlotOf<W>,
}

// ---- the steps ----

/// What a new waiter found when it queued.
pub(super) enum Arrival {
    /// Nobody was in the way: it has the lock and never queued.
    Acquired,
    /// It is queued, and is to be patient for so long if it is not next.
    Queued(u64),
}

impl<W: Words> Turns<'_, W> {
    /// What threads tell each other without the queue lock.
    #[inline(always)]
    pub(super) fn holder(&self) -> &'static Holder<W::P> {
        &self.slot.holder
    }

    /// Queues `waiter`, unless it can have the lock immediately. Nothing if the lock has another slot by now.
    ///
    /// # Safety
    /// The waiter stays where it is until it is out of the queue.
    pub(super) unsafe fn arrive(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) -> Option<Arrival> {
        if self.enters(q, waiter.access, waiter.priority) {
            return Some(Arrival::Acquired);
        }
        // SAFETY: the caller's promise.
        unsafe { self.queue_up(q, waiter, wakes)? };
        self.wake_unwoken(q, waiter, wakes);
        Some(Arrival::Queued(self.patience(q, waiter, wakes)))
    }

    /// A thread or task is queued, and about to sleep: it wakes the waiter that is next, if that was not done. A task
    /// need not watch the lock: the next release wakes it.
    pub(super) fn wake_unwoken(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) {
        if q.unwoken && !q.modes.is_slow() && !q.next().is_some_and(|next| next.task.is_task()) {
            q.unwoken = false;
            self.lock.0.clear(Flags::WAKE_NEXT);
            if !q.is_next(waiter) {
                self.wake_appointed(q, wakes);
            }
        }
    }

    /// Queues `waiter`. If it is next, it is not woken.
    ///
    /// # Safety
    /// As [`arrive`](Self::arrive).
    pub(super) unsafe fn queue_up(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) -> Option<()> {
        let first = q.waiters.is_empty();
        if first {
            // From here on threads that steal compare the time with the tenure's end: not with the end that an earlier queue
            // left here.
            self.holder().set_end(u64::MAX);
            // Releases after this step see the flag. An earlier release is seen by the waiter, which is next, when it looks
            // at the lock.
            let word = self.lock.announce(self.slot)?;
            let inside = if word.is_written() || word.is_free() {
                Kind::Writer
            } else {
                self.lock.0.set(Flags::READERS_TURN);
                Kind::Reader
            };
            // SAFETY: the caller's promise.
            unsafe { q.waiters.push(waiter) };
            let (now, waiting, shape) = (W::P::now(), waiting(&q.waiters), q.tenure_shape());
            q.clock.first_comes(now, inside, waiting, shape);
            q.modes.first_comes(now, self.holder().steals());
        } else {
            // SAFETY: the caller's promise.
            unsafe { q.waiters.push(waiter) };
            let (waiting, shape) = (waiting(&q.waiters), q.tenure_shape());
            q.clock.another_comes(waiting, shape);
        }
        self.recheck(q, Some(waiter), wakes);
        Some(())
    }

    /// A thread that is about to queue takes the lock, if nothing is in the way any more: for a reader but waiters of a lower
    /// priority, or one that waits for an upgradable reader.
    pub(super) fn enters(&self, q: &Queued<W::P>, access: Access, priority: u8) -> bool {
        let passes = access == Access::Shared && passes_writers(&q.waiters, priority);
        let joins = awaits_upgradable(q);
        let may = |word: Word| match access {
            Access::Shared => {
                word.is_stealable(access)
                    || passes && word.may_take_next(access)
                    || joins && word.may_join_upgradable()
            }
            _ => word.is_open(access),
        };
        let enters = self.lock.0.take_while(self.lock.load(), access, may).is_ok();
        if enters {
            W::P::thread().lock.ages.forget(self.lock.id());
            if access == Access::Shared {
                self.slot.events.count(Event::ReadFast);
            }
        }
        enters
    }

    /// A waiter that is next, or invited, takes the lock and leaves the queue, if it can.
    pub(super) fn take(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        now: u64,
        wakes: &mut FewWakes<W::P>,
    ) -> bool {
        let is_next = q.is_next(waiter);
        let last = q.waiters.len() == 1;
        // Closed without a gap: else threads of a lower priority would get in before `recheck`.
        let stays_closed = q.waiters.is_urgent_beside(waiter);
        let joins = awaits_upgradable(q);
        let step = |word: Word| {
            let may = if is_next {
                word.may_take_next(waiter.access)
            } else {
                word.may_join() || joins && word.may_join_upgradable()
            };
            if !may {
                return None;
            }
            let taken = word.taken(waiter.access);
            // The flags that are the queue's change in the same step.
            if last {
                return Some(taken.without(Flags::QUEUE));
            }
            if !is_next {
                return Some(taken);
            }
            let taken = taken
                .without(Flags::READERS_TURN.with(Flags::WAKE_NEXT))
                .with(Flags::READERS_TURN.only_if(waiter.kind == Kind::Reader));
            Some(taken.without(Flags::CLOSED.only_if(!stays_closed)))
        };
        let Some(word) = self.lock.0.take_queued(step) else { return false };
        let own = &W::P::thread().lock;
        if waiter.kind == Kind::Writer {
            own.writes(self.lock.id());
        }
        own.ages.forget(self.lock.id());
        q.waiters.remove(waiter);
        self.slot.events.count(match waiter.kind {
            Kind::Reader => Event::ReadLock,
            Kind::Writer => Event::WriteLock,
        });
        if is_next {
            q.set_next(core::ptr::null());
            self.miss_no_more(q);
            self.begin_turn(q, waiter, word, now, wakes);
        } else {
            q.clock.reader_joins();
            if joins || !q.clock.is_over(now) && word.readers() < W::P::cpus() {
                self.invite_readers(q, INVITES, wakes);
            }
        }
        true
    }

    /// The waiter that was next has taken the lock, whose word was `before`.
    fn begin_turn(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        before: Word,
        now: u64,
        wakes: &mut FewWakes<W::P>,
    ) {
        if before.is_closed() {
            let freed = core::mem::take(&mut q.freed);
            q.clock.note_idle(if freed == 0 { 0 } else { now.saturating_sub(freed) });
            self.slot.events.count(match waiter.kind {
                Kind::Reader => Event::ReadHandoff,
                Kind::Writer => Event::WriteHandoff,
            });
        }
        q.clock.note_leaving(W::P::thread().lock.wake_cost.get());
        self.holder().count(1);
        self.holder().set(W::P::thread());
        q.modes.next_takes(now, self.holder().steals());
        self.holder().set_in_turns(q.modes.mode() == Mode::InTurns);
        q.clock.next_takes(now, waiter.kind, waiting(&q.waiters), q.tenure_shape());
        if q.waiters.is_empty() {
            return;
        }
        // Beside an upgradable reader others may get in: they are not to wait for its release.
        if waiter.access == Access::Exclusive && q.waiters.urgent().is_none() {
            // Leave the wake-up of the next waiter to another thread: it takes longer than a short
            // section, and the previous holder is likely to queue in a moment.
            if self.appoint(q, None) {
                self.lock.0.set(Flags::WAKE_NEXT);
                q.unwoken = true;
            }
            return;
        }
        // This comes first: waking a crowd takes longer than a short tenure.
        self.recheck(q, None, wakes);
        if waiter.kind == Kind::Reader && q.waiters.urgent().is_none() {
            self.invite_readers(q, INVITES, wakes);
        }
    }

    /// A writer has become a reader: readers that wait may join it, although it is not their turn.
    pub(crate) fn let_readers_join(&self) {
        let mut wakes = WakeList::<W::P>::new(); // a crowd
        self.with_queue(|q| {
            let word = self.lock.load();
            let may_take = |next: &Waiter<W::P>| word.may_take_next(next.access);
            if word.has_next_to_wake() {
                // Readers may come and go without a gap, and then no release would wake it.
                self.lock.0.clear(Flags::WAKE_NEXT);
                self.wake_appointed(q, &mut wakes);
            } else if q.next().is_some_and(may_take) {
                self.wake_appointed(q, &mut wakes);
            }
            self.invite_readers(q, W::P::cpus(), &mut wakes);
        });
        wakes.wake_all();
    }

    /// An upgradable reader is none any more: the waiter that is next is woken, if it waits for that.
    pub(super) fn wake_upgradable(&self) {
        let mut wakes = FewWakes::new();
        self.with_queue(|q| {
            let waits = q.next().is_some_and(|next| next.access == Access::Upgradable);
            if waits && self.lock.0.clear(Flags::WAKE_NEXT).has_next_to_wake() {
                self.wake_appointed(q, &mut wakes);
            }
        });
        wakes.wake_all();
    }

    /// Gives up: out of the queue, without the lock.
    pub(super) fn leave(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) {
        q.waiters.remove(waiter);
        if q.is_next(waiter) {
            q.set_next(core::ptr::null());
            q.freed = 0;
            self.miss_no_more(q);
        }
        if q.waiters.is_empty() {
            self.lock.0.clear(Flags::QUEUE); // rule 6
            q.modes.last_gives_up(W::P::now(), self.holder().steals());
        } else {
            self.recheck(q, None, wakes); // rules 8 and 14
            if waiter.state() == INVITED && self.lock.load().may_join() {
                self.invite_readers(q, INVITES, wakes);
            }
        }
    }

    /// The waiter that asked to be woken when the lock is left free is awake, and asks no more;
    /// unless another is next by now, which may have asked as well (the flag is the same).
    pub(super) fn ask_no_more(&self, q: &Queued<W::P>, waiter: &Waiter<W::P>) {
        if q.is_next(waiter) {
            self.lock.0.clear(Flags::WAKE_NEXT);
        }
    }

    /// Invites up to `count` more queued readers to join those inside.
    pub(super) fn invite_readers<const MOST: usize>(
        &self,
        q: &Queued<W::P>,
        count: usize,
        wakes: &mut WakeList<W::P, MOST>,
    ) {
        let mut left = count;
        let mut reader = q.waiters.first(Kind::Reader);
        while let Some(invited) = reader.filter(|_| left > 0 && !wakes.is_full()) {
            reader = q.waiters.after(invited);
            if invited.state() == WAITING {
                invited.set_state(INVITED);
                wakes.push_waiter(invited);
                self.slot.events.count(Event::WakeReader);
                left -= 1;
            }
        }
    }

    /// An invited reader came too late: it waits again.
    pub(super) fn decline(&self, q: &Queued<W::P>, waiter: &Waiter<W::P>) {
        waiter.set_state(if q.is_next(waiter) { NEXT } else { WAITING });
    }

    /// Readers may join the upgradable reader for which the waiter that is next waits.
    pub(super) fn invite_beside_upgradable(&self, q: &Queued<W::P>, wakes: &mut FewWakes<W::P>) {
        if awaits_upgradable(q) && self.lock.load().may_join_upgradable() {
            self.invite_readers(q, INVITES, wakes);
        }
    }

    /// Tells the waiter that is next that it is. Returns whether it is to be woken for that.
    fn appoint(&self, q: &mut Queued<W::P>, caller: Option<&Waiter<W::P>>) -> bool {
        let Some(kind) = next_kind(q) else { return false };
        let urgent = q.waiters.urgent().is_some();
        if urgent {
            self.lock.close(); // before the holder can let go
        }
        // A closed lock stays reserved for the waiter that is next, even if others come.
        if !urgent && self.lock.load().is_closed() && q.awaited().is_some() {
            return false;
        }
        let Some(next) = q.waiters.first_present(kind) else { return false };
        let next = core::ptr::from_ref(next);
        if q.is_next(next) {
            return false;
        }
        if let Some(dismissed) = q.next() {
            dismissed.set_state(WAITING);
        }
        q.set_next(next);
        self.miss_no_more(q);
        let Some(next) = q.next() else { return false };
        next.set_state(NEXT);
        if next.is_late() && !next.task.is_task() {
            next.set_duty(Duty::Looks);
        }
        // The `caller` sets its own timer, and asks to be woken if it has to.
        !caller.is_some_and(|caller| core::ptr::eq(caller, next))
    }

    /// Wakes the waiter that is next.
    pub(super) fn wake_appointed<const MOST: usize>(
        &self,
        q: &mut Queued<W::P>,
        wakes: &mut WakeList<W::P, MOST>,
    ) {
        q.unwoken = false;
        if let Some(next) = q.next() {
            wakes.push_waiter(next);
            self.slot.events.count(Event::wake(next.kind));
            if next.task.is_task() && q.missed == 0 {
                self.miss(q, W::P::now(), wakes);
            }
            q.needs_lookout(wakes);
        }
    }

    /// Sets `WAKE_NEXT` for the waiter, which is next and asleep; wakes it if the lock is free, or its holder may not see
    /// the flag.
    fn ask_for(&self, q: &mut Queued<W::P>, waiter: &Waiter<W::P>, wakes: &mut FewWakes<W::P>) {
        // In the same step as seeing the lock taken: the thread that leaves it free sees the flag.
        let word = self.lock.0.set(Flags::WAKE_NEXT);
        if word.may_take_next(waiter.access) || !W::is_seen(word) {
            self.lock.0.clear(Flags::WAKE_NEXT);
            self.wake_appointed(q, wakes);
        } else {
            q.unwoken = true;
        }
    }
}

// ---- a waiter that does not come ----

impl<W: Words> Line for Turns<'_, W> {
    type P = W::P;

    fn slot(&self) -> &'static Slot<W::P> {
        self.slot
    }

    fn is_left_to(&self, waiter: &Waiter<W::P>) -> bool {
        self.lock.load().may_take_next(waiter.access)
    }

    fn passed(
        &self,
        q: &mut Queued<W::P>,
        caller: Option<&Waiter<W::P>>,
        wakes: &mut FewWakes<W::P>,
    ) {
        if q.is_next_late() {
            self.lock.0.clear(Flags::CLOSED);
        } else if !caller.is_some_and(|caller| q.is_next(caller)) {
            self.wake_appointed(q, wakes);
            self.tell_timer(q, wakes);
        }
        self.invite_beside_upgradable(q, wakes);
    }

    fn recheck(
        &self,
        q: &mut Queued<W::P>,
        caller: Option<&Waiter<W::P>>,
        wakes: &mut FewWakes<W::P>,
    ) {
        if self.appoint(q, caller) {
            self.wake_appointed(q, wakes);
        }
        self.invite_beside_upgradable(q, wakes);
    }
}

impl<W: Words> Turns<'_, W> {
    /// How long the waiter, whose thread has just queued it, sleeps before it looks: for as long as is planned for its wait,
    /// and the sections of those before it take; unless the waiter that is next seems to lack a CPU already.
    pub(super) fn patience(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) -> u64 {
        if q.missed != 0 {
            let now = W::P::now();
            self.look(q, Some(waiter), now, wakes);
            if q.missed_ns(now) >= WAKE_NS {
                return 0;
            }
        }
        let ahead = q.waiters.len();
        q.clock
            .planned_wait_ns(ahead, W::HAS_READERS, q.shape())
            .saturating_add(q.modes.slow_ns(ahead))
    }
}

// ---- a thread that sleeps at a condition variable ----
//
// From the time that it is queued on it waits only for this lock, so it stays asleep until it is next and the lock becomes
// free.

impl<W: Words> Raw<W> {
    /// Queues a writer whose thread sleeps. The lock, which is not odd, exists until that has it.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until its thread has the lock.
    pub(super) unsafe fn queue_sleeping_writer(&self, waiter: &Waiter<W::P>) {
        let mut wakes = FewWakes::new();
        let queued = self.with_slot(|q, slot| {
            let turns = Turns { lock: self, slot };
            // SAFETY: the caller's promise.
            unsafe { turns.queue_up(q, waiter, &mut wakes)? };
            if q.is_next(waiter) {
                turns.ask_for(q, waiter, &mut wakes);
            } else if q.missed != 0 {
                q.needs_lookout(&mut wakes);
            }
            Some(())
        });
        if queued.is_err() {
            // No slot is to be had: the thread waits for the lock by itself. The record outlives the wait.
            let thread = waiter.thread;
            waiter.set_state(INVITED);
            thread.parker.unpark();
        }
        wakes.wake_all();
    }
}

/// What is wrong with the queue of a lock that has this word.
pub(super) fn is_sound<P: Platform>(word: Word, q: &Queued<P>) -> Result<(), &'static str> {
    let mut length = 0;
    for kind in [Kind::Reader, Kind::Writer] {
        let mut waiter = q.waiters.first(kind);
        while let Some(queued) = waiter {
            length += 1;
            if queued.kind != kind {
                return Err("somebody is queued on the other side");
            }
            waiter = q.waiters.after(queued);
        }
    }
    if length != q.waiters.len() {
        return Err("the queue does not know its length");
    }
    if word.has_waiters() != (length > 0) {
        return Err("WAITERS does not say whether the queue is empty");
    }
    let is_queued = |next| q.waiters.iter().any(|waiter| core::ptr::eq(waiter, next));
    match q.next() {
        Some(next) if !is_queued(next) => Err("the waiter that is next is not queued"),
        Some(next) if next.is_late() && !next.task.is_task() => {
            Err("the waiter that is next is late")
        }
        None if length > 0 => Err("nobody in the queue is next"),
        _ => Ok(()),
    }
}

/// Whether the waiter that is next waits to read upgradably, and goes before all others. An upgradable reader that is
/// inside may wait for other readers, so it is only from that reader that the lock is closed.
fn awaits_upgradable<P: Platform>(q: &Queued<P>) -> bool {
    let awaits = q.next().is_some_and(|next| next.access == Access::Upgradable);
    awaits && q.waiters.urgent().is_none()
}

fn waiting<P: Platform>(queue: &Queue<P>) -> Waiting {
    let sides = [Kind::Reader, Kind::Writer].map(|kind| queue.first(kind).is_some());
    Waiting { threads: queue.len(), sides }
}

/// Whether a reader of this priority passes the writers that wait; not if a reader of a higher priority waits, which is
/// about to go first.
fn passes_writers<P: Platform>(queue: &Queue<P>, priority: u8) -> bool {
    priority > queue.priority(Kind::Writer) && priority >= queue.priority(Kind::Reader)
}
