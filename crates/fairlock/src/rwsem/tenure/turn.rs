//! Whose turn it is: what the lock remembers of that, under its queue lock ([`Tenure`]) and without it ([`Holder`]);
//! and coming to the queue, being next, taking the lock, leaving. All steps are under the queue lock, but for closing the lock.
//!
//! A waiter leaves the queue only by itself, so no other thread ever touches a stack frame that may
//! be gone.

use core::sync::atomic::Ordering;

use super::clock::{TenureClock, Waiting};
use super::mode::{Mode, Modes};
use super::{FewWakes, Queued};
use crate::events::Event;
use crate::platform::{Atomic, Platform, Thread};
use crate::rwsem::Turns;
use crate::rwsem::sem::{passes_writers, set};
use crate::rwsem::word::{Flags, Word};
use crate::system::{System, all_zero};
use crate::wait::{Access, Hint, INVITED, Kind, NEXT, Queue, WAITING, Waiter, WakeList};

/// How many others each queued reader wakes when it gets in: all are awake sooner than if one
/// thread woke them. In waiters; compared with those woken so far by this one.
const INVITES: usize = 2;

// ---- what the lock remembers: under the queue lock, and without it ----

/// What the queue lock guards for the discipline.
pub(crate) struct Tenure<P: System> {
    /// The waiter that is next, and was told so: null if nobody waits. It is in the queue.
    pub(super) next: *const Waiter<P>,
    /// A fair release left the lock to that waiter: nobody goes before it.
    pub(super) is_promised: bool,
    /// Whose turn it is and until when.
    pub(crate) clock: TenureClock,
    /// How threads that are not queued share the lock.
    pub(super) modes: Modes,
    /// When the closed lock became free; zero if it has not.
    pub(super) freed: u64,
    /// The waiter that is next was not woken yet, and `WAKE_NEXT` was set for it.
    pub(super) unwoken: bool,
}

// SAFETY: `next` is used as an address, or under the queue lock while the waiter is queued.
unsafe impl<P: System> Send for Tenure<P> {}

impl<P: System> Tenure<P> {
    pub(crate) const fn new() -> Self {
        Self {
            next: core::ptr::null(),
            is_promised: false,
            clock: TenureClock::new(),
            modes: Modes::new(),
            freed: 0,
            unwoken: false,
        }
    }

    /// The waiter that is next.
    pub(crate) fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: queued (see the field), so alive: nobody leaves the queue without the
        // queue lock, which the caller has.
        unsafe { self.next.as_ref() }
    }

    /// Whether this waiter is next.
    pub(crate) fn is_next(&self, waiter: *const Waiter<P>) -> bool {
        core::ptr::eq(self.next, waiter)
    }
}

/// Hints about whoever takes the lock past the queue. Relaxed throughout: a stale one costs
/// time, never exclusion.
#[repr(align(64))] // its own cache line: read by who waits, while `word` changes hands
pub(crate) struct Holder<P: Platform> {
    /// When the tenure ends.
    end: P::AtomicU64,
    /// Counts acquisitions past the queue, to tell a lock that is idle from one that is busy with
    /// short sections, and what sharing and turns yield.
    steals: Hint,
    /// Who took the lock last while somebody waited: a thread hint.
    thread: Hint,
    /// Whether threads take turns at the lock (1): see [`mode`](super::mode).
    in_turns: Hint,
    /// How many are queued.
    queued: Hint,
}

all_zero!(Holder of [AtomicU64]: [end, steals, thread, in_turns, queued], []);

impl<P: Platform> Holder<P> {
    /// A thread has taken the lock so often. A load and a store, not one step: a lost count does not
    /// matter.
    #[inline(always)]
    pub(super) fn count(&self, steals: u32) {
        let before = self.steals.load(Ordering::Relaxed);
        self.steals.store(before.wrapping_add(steals as usize), Ordering::Relaxed);
    }

    /// The calling thread, `me`, has taken the lock.
    pub(crate) fn set(&self, me: &Thread<P>) {
        set(&self.thread, core::ptr::from_ref(me).addr());
    }

    /// Whether `thread` took the lock last.
    #[inline(always)]
    pub(super) fn is(&self, thread: &Thread<P>) -> bool {
        self.thread.load(Ordering::Relaxed) == core::ptr::from_ref(thread).addr()
    }

    pub(super) fn is_in_turns(&self) -> bool {
        self.in_turns.load(Ordering::Relaxed) != 0
    }

    /// Whether anybody is queued, most likely.
    #[inline(always)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.queued() != 0
    }

    /// How many are queued, most likely.
    #[inline(always)]
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn set_queued(&self, queued: usize) {
        set(&self.queued, queued);
    }

    pub(super) fn set_in_turns(&self, in_turns: bool) {
        set(&self.in_turns, in_turns.into());
    }

    /// When the tenure ends.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    pub(super) fn set_end(&self, end: u64) {
        if self.end() != end {
            self.end.store(end, Ordering::Relaxed);
        }
    }

    pub(super) fn steals(&self) -> usize {
        self.steals.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, fairlock_loom))]
impl<P: Platform<AtomicU64 = loom::sync::atomic::AtomicU64>> Holder<P> {
    /// Has loom check that every access so far happens before this one.
    pub(crate) fn access_mut(&mut self) {
        self.end.with_mut(|_| ());
    }
}

// ---- the steps ----

/// What a new waiter found when it queued.
pub(super) enum Arrival {
    /// Nobody was in the way: it has the lock and never queued.
    Acquired,
    /// It is queued.
    Queued,
}

impl<P: Platform> Turns<P> {
    /// Runs `f` on the queue, under the queue lock.
    pub(super) fn with_queue<R>(&self, f: impl FnOnce(&mut Queued<P>) -> R) -> R {
        let (result, watched) = self.queue.with(|q| {
            let result = f(q);
            self.holder().set_end(q.own.clock.end());
            self.holder().set_queued(q.waiters.len());
            let checked = cfg!(any(debug_assertions, fairlock_loom));
            (result, !checked || q.waiters.is_empty() || q.own.next().is_some())
        });
        // After the queue lock is released: others would wait for it for ever.
        assert!(watched, "somebody waits and nobody is next");
        result
    }

    /// From here on only the queue gets in, if anybody is queued; returns the word after it.
    pub(crate) fn close(&self) -> Word {
        self.word.flag_queue(Flags::HANDOFF)
    }

    /// Queues `waiter`, unless it can have the lock at once.
    ///
    /// # Safety
    /// The waiter stays where it is until it is out of the queue.
    pub(super) unsafe fn arrive(
        &self,
        q: &mut Queued<P>,
        waiter: &Waiter<P>,
        wakes: &mut FewWakes<P>,
    ) -> Arrival {
        if waiter.kind == Kind::Reader && self.enters_at_once(q, waiter.priority) {
            self.events.count(Event::ReadFast);
            return Arrival::Acquired;
        }
        // SAFETY: the caller's promise.
        unsafe { self.queue_up(q, waiter, wakes) };
        if core::mem::take(&mut q.own.unwoken) {
            self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
            if !q.own.is_next(waiter) {
                self.wake_appointed(q, wakes);
            }
        }
        Arrival::Queued
    }

    /// Queues `waiter`. If it is next, it is not woken.
    ///
    /// # Safety
    /// As [`arrive`](Self::arrive).
    pub(super) unsafe fn queue_up(
        &self,
        q: &mut Queued<P>,
        waiter: &Waiter<P>,
        wakes: &mut FewWakes<P>,
    ) {
        let first = q.waiters.is_empty();
        // SAFETY: the caller's promise.
        unsafe { q.waiters.push(waiter) };
        if first {
            // From here on threads that steal compare the time with the tenure's end: not with the end
            // that an earlier queue left here.
            self.holder().set_end(u64::MAX);
            // Releases after this step see the flag. An earlier release is seen by the waiter, which is
            // next, when it looks at the lock (rule 7).
            let word = self.word.set(Flags::WAITERS, Ordering::Relaxed);
            let inside = if word.is_written() || word.is_free() {
                Kind::Writer
            } else {
                self.word.set(Flags::READERS_TURN, Ordering::Relaxed);
                Kind::Reader
            };
            let now = P::now();
            q.own.clock.first_comes(now, inside, waiting(&q.waiters), self.shape());
            q.own.modes.first_comes(now, self.holder().steals());
        } else {
            q.own.clock.another_comes(waiting(&q.waiters), self.shape());
        }
        self.recheck(q, Some(waiter), wakes);
    }

    /// A reader that comes gets in if nothing is in the way any more, or only waiters of a lower
    /// priority.
    pub(super) fn enters_at_once(&self, q: &Queued<P>, priority: u8) -> bool {
        let passes = passes_writers(&q.waiters, priority);
        let may =
            |word: Word| word.is_read_stealable() || (passes && word.may_take_next(Access::Shared));
        let enters = self.take_if(Access::Shared, may);
        if enters {
            P::thread().tenure.ages.forget(self.id());
        }
        enters
    }

    /// A waiter that is next, or invited, takes the lock and leaves the queue, if it can.
    pub(super) fn take(
        &self,
        q: &mut Queued<P>,
        waiter: &Waiter<P>,
        now: u64,
        wakes: &mut FewWakes<P>,
    ) -> bool {
        let is_next = q.own.is_next(waiter);
        let last = q.waiters.len() == 1;
        // Closed without a gap: else threads of a lower priority would get in before `recheck`.
        let stays_closed = q.waiters.is_urgent_beside(waiter);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let may = if is_next { word.may_take_next(waiter.access) } else { word.may_join() };
            if !may {
                return false;
            }
            let taken = word.taken(waiter.access);
            // The flags that are the queue's change in the same step (rules 4 and 6).
            let new = if last {
                taken.without(Flags::QUEUE)
            } else if !is_next {
                taken
            } else {
                let taken = taken
                    .without(Flags::READERS_TURN.with(Flags::WAKE_NEXT))
                    .with(Flags::READERS_TURN.only_if(waiter.kind == Kind::Reader));
                taken.without(Flags::HANDOFF.only_if(!stays_closed))
            };
            // Acquire: owns the lock on success (rule 3).
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let own = &P::thread().tenure;
        if waiter.kind == Kind::Writer {
            own.writes(self.id());
        }
        own.ages.forget(self.id());
        q.waiters.remove(waiter);
        self.events.count(match waiter.kind {
            Kind::Reader => Event::ReadLock,
            Kind::Writer => Event::WriteLock,
        });
        if is_next {
            q.own.next = core::ptr::null();
            self.begin_turn(q, waiter, word, now, wakes);
        } else {
            q.own.clock.reader_joins();
            if !q.own.clock.is_over(now) && word.readers() < P::cpus() {
                self.invite_readers(q, INVITES, wakes);
            }
        }
        true
    }

    /// The waiter that was next has taken the lock, whose word was `before`.
    fn begin_turn(
        &self,
        q: &mut Queued<P>,
        waiter: &Waiter<P>,
        before: Word,
        now: u64,
        wakes: &mut FewWakes<P>,
    ) {
        if before.is_closed() {
            let freed = core::mem::take(&mut q.own.freed);
            q.own.clock.note_idle(if freed == 0 { 0 } else { now.saturating_sub(freed) });
            self.events.count(match waiter.kind {
                Kind::Reader => Event::ReadHandoff,
                Kind::Writer => Event::WriteHandoff,
            });
        }
        q.own.clock.note_leaving(P::thread().tenure.wake_cost.get());
        self.holder().count(1);
        self.holder().set(P::thread());
        q.own.modes.next_takes(now, self.holder().steals());
        self.holder().set_in_turns(q.own.modes.mode() == Mode::InTurns);
        q.own.clock.next_takes(now, waiter.kind, waiting(&q.waiters), self.shape());
        if q.waiters.is_empty() {
            return;
        }
        // Beside an upgradable reader others may get in: they are not to wait for its release.
        if waiter.access == Access::Exclusive && q.waiters.urgent().is_none() {
            // Leave the wake-up of the next waiter to another thread: it takes longer than a short
            // section, and the previous holder is likely to queue in a moment.
            if self.appoint(q, None) {
                self.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
                q.own.unwoken = true;
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
        let mut wakes = WakeList::<P>::new(); // a crowd
        self.with_queue(|q| {
            let word = self.word.load(Ordering::Relaxed);
            let may_take = |next: &Waiter<P>| word.may_take_next(next.access);
            if word.has_next_to_wake() {
                // Readers may come and go without a gap, and then no release would wake it.
                self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
                self.wake_appointed(q, &mut wakes);
            } else if q.own.next().is_some_and(may_take) {
                self.wake_appointed(q, &mut wakes);
            }
            self.invite_readers(q, P::cpus(), &mut wakes);
        });
        wakes.wake_all();
    }

    /// Gives up: out of the queue, without the lock.
    pub(super) fn leave(&self, q: &mut Queued<P>, waiter: &Waiter<P>, wakes: &mut FewWakes<P>) {
        q.waiters.remove(waiter);
        if q.own.is_next(waiter) {
            q.own.next = core::ptr::null();
        }
        if q.waiters.is_empty() {
            self.word.clear(Flags::QUEUE, Ordering::Relaxed); // rule 6
            q.own.modes.last_gives_up(P::now(), self.holder().steals());
        } else {
            self.recheck(q, None, wakes); // rules 8 and 14
            if waiter.state() == INVITED && self.word.load(Ordering::Relaxed).may_join() {
                self.invite_readers(q, INVITES, wakes);
            }
        }
    }

    /// The waiter that asked to be woken when the lock is left free is awake, and asks no more;
    /// unless another is next by now, which may have asked as well (the flag is the same).
    pub(super) fn ask_no_more(&self, q: &Queued<P>, waiter: &Waiter<P>) {
        if q.own.is_next(waiter) {
            self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
        }
    }

    /// Invites up to `count` more queued readers to join those inside.
    pub(super) fn invite_readers<const MOST: usize>(
        &self,
        q: &Queued<P>,
        count: usize,
        wakes: &mut WakeList<P, MOST>,
    ) {
        let mut left = count;
        let mut reader = q.waiters.first(Kind::Reader);
        while let Some(invited) = reader.filter(|_| left > 0 && !wakes.is_full()) {
            reader = q.waiters.after(invited);
            if invited.state() == WAITING {
                invited.set_state(INVITED);
                wakes.push(invited.thread);
                self.events.count(Event::WakeReader);
                left -= 1;
            }
        }
    }

    /// An invited reader came too late: it waits again.
    pub(super) fn decline(&self, q: &Queued<P>, waiter: &Waiter<P>) {
        waiter.set_state(if q.own.is_next(waiter) { NEXT } else { WAITING });
    }

    /// The queue or the word changed: tells the waiter that is next that it is next, and wakes it
    /// to look at the lock (rules 7, 8 and 14). The `caller`, if it waits, is awake.
    pub(super) fn recheck(
        &self,
        q: &mut Queued<P>,
        caller: Option<&Waiter<P>>,
        wakes: &mut FewWakes<P>,
    ) {
        if self.appoint(q, caller) {
            self.wake_appointed(q, wakes);
        }
    }

    /// Tells the waiter that is next that it is. Returns whether it is to be woken for that.
    fn appoint(&self, q: &mut Queued<P>, caller: Option<&Waiter<P>>) -> bool {
        let Some(kind) = next_kind(q) else { return false };
        let urgent = q.waiters.urgent().is_some();
        if urgent {
            self.close(); // before whoever has the lock can let go
        }
        // A closed lock stays reserved for the waiter that is next, even if others come; but not
        // for a waiter that waits only for an upgradable reader, which may itself wait for the
        // readers that this would keep out.
        let word = self.word.load(Ordering::Relaxed);
        let is_kept = |next: &Waiter<P>| next.access != Access::Upgradable || !word.is_upgradable();
        if !urgent && word.is_closed() && q.own.next().is_some_and(is_kept) {
            return false;
        }
        let Some(next) = q.waiters.first(kind) else { return false };
        let next = core::ptr::from_ref(next);
        if q.own.is_next(next) {
            return false;
        }
        if let Some(dismissed) = q.own.next() {
            dismissed.set_state(WAITING);
        }
        q.own.next = next;
        q.own.is_promised = false;
        let Some(next) = q.own.next() else { return false };
        next.set_state(NEXT);
        // The `caller` sets its own timer, and asks to be woken if it has to.
        !caller.is_some_and(|caller| core::ptr::eq(caller, next))
    }

    /// Wakes the waiter that is next.
    pub(super) fn wake_appointed<const MOST: usize>(
        &self,
        q: &mut Queued<P>,
        wakes: &mut WakeList<P, MOST>,
    ) {
        q.own.unwoken = false;
        if let Some(next) = q.own.next() {
            wakes.push(next.thread);
            self.events.count(Event::wake(next.kind));
        }
    }

    // ---- a thread that sleeps at a condition variable ----
    //
    // From the time that it is queued on it waits only for this lock, so it stays asleep until it is next and the
    // lock becomes free.

    /// Queues a writer whose thread sleeps.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until its thread has the lock.
    pub(crate) unsafe fn queue_sleeping_writer(&self, waiter: &Waiter<P>) {
        let mut wakes = FewWakes::new();
        self.with_queue(|q| {
            // SAFETY: the caller's promise.
            unsafe { self.queue_up(q, waiter, &mut wakes) };
            if q.own.is_next(waiter) {
                self.ask_for(q, waiter, &mut wakes);
            }
        });
        wakes.wake_all();
    }

    /// Sets `WAKE_NEXT` for the waiter, which is next and asleep; wakes it if the lock is free.
    fn ask_for(&self, q: &mut Queued<P>, waiter: &Waiter<P>, wakes: &mut FewWakes<P>) {
        // In the same step as seeing the lock taken: whoever leaves it free sees the flag.
        let word = self.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
        if word.may_take_next(waiter.access) {
            self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
            self.wake_appointed(q, wakes);
        } else {
            q.own.unwoken = true;
        }
    }
}

/// Which side is next: that of a waiting real-time thread, or else the side whose tenure it is not,
/// if that side waits.
fn next_kind<P: Platform>(q: &Queued<P>) -> Option<Kind> {
    if let Some(urgent) = q.waiters.urgent() {
        return Some(urgent.kind);
    }
    let current = q.own.clock.side();
    [current.other(), current].into_iter().find(|&kind| q.waiters.first(kind).is_some())
}

fn waiting<P: Platform>(queue: &Queue<P>) -> Waiting {
    let sides = [Kind::Reader, Kind::Writer].map(|kind| queue.first(kind).is_some());
    Waiting { threads: queue.len(), sides }
}
