//! Waiting: awake before queueing, then queued, and how a wait ends.

use core::cell::Cell;

use super::Raw;
use super::holder::Holder;
use super::late::{Line, Lookout};
use super::mode::SAMPLE_NS;
use super::slot::{FewWakes, PooledPlatform};
use super::turn::{Arrival, Turns};
use super::word::{Flags, Word};
use super::words::Words;
use crate::events::Event;
use crate::platform::{Platform, System, WaitOutcome};
use crate::wait::{
    Access, Duty, FEW_LOOKS, INVITED, Kind, LOOK_NS, NEXT, SOON_NS, WAITING, WAKE_NS, WATCH_NS,
    WaitContext, WaitError, Waiter, give_way, nap,
};

/// How long the next waiter, if it is a writer, waits awake for the readers inside to leave while
/// other readers pause: about as long as their longest pause ([`FEW_LOOKS`]). In ns, seven looks;
/// compared with the time since the writer became the next.
const OUTWAIT_NS: u64 = 1_500;

/// The first pause between two looks of the waiter that is next. In ns, one and a half looks; compared with nothing: it is
/// the length of a pause, which doubles.
const PAUSE_NS: u64 = LOOK_NS * 3 / 2;

/// A writer waits, awake, for the readers inside to leave: while it spins, readers that come pause for a moment.
///
/// If several writers wait so, the first that stops clears the hint for all, and the others set it
/// again.
pub(super) struct AwakeWriter<'a, W: Words>(&'a Raw<W>);

impl<'a, W: Words> AwakeWriter<'a, W> {
    pub(super) fn new(lock: &'a Raw<W>) -> Self {
        Self(lock)
    }

    /// Spins until the word is as wanted, but at most `bound_ns` from when it first set the hint;
    /// returns whether the word is as wanted. Sets the hint whenever readers are inside and the
    /// hint is clear: another thread that took the lock for writing has cleared it, and is likely
    /// to read next.
    pub(super) fn spin_until(&self, bound_ns: u64, done: impl Fn(Word) -> bool) -> bool {
        let is_done = Cell::new(false);
        let lacks_hint = |word: Word| word.readers() > 0 && !word.has_awake_writer();
        let (mut end, mut left) = (None, bound_ns);
        loop {
            let ended = self.0.0.spin_until(left, |word| {
                is_done.set(done(word));
                is_done.get() || lacks_hint(word)
            });
            if is_done.get() || !ended || left == 0 {
                return is_done.get();
            }
            // A stale one costs time, never exclusion.
            self.0.0.set(Flags::AWAKE_WRITER);
            let now = W::P::now();
            left = end.get_or_insert(now.saturating_add(bound_ns)).saturating_sub(now);
        }
    }
}

impl<W: Words> Drop for AwakeWriter<'_, W> {
    fn drop(&mut self) {
        // A thread that takes the lock for writing has cleared it.
        if self.0.load().has_awake_writer() {
            self.0.0.clear(Flags::AWAKE_WRITER);
        }
    }
}

/// How a turn of a wait ended.
enum Waited {
    /// With the lock.
    Taken,
    /// Without it.
    Not(WaitOutcome),
}

impl<W: Words> Raw<W> {
    // ---- before queueing ----

    /// The slow way in, in one attempt: awake for a moment, then queued.
    #[inline(never)] // its frame is large
    pub(super) fn take_slow(
        &self,
        access: Access,
        context: &WaitContext<'_, W::P>,
    ) -> Result<(), WaitError> {
        if self.compete(access, context) {
            return Ok(());
        }
        self.wait(access, context)
    }

    /// A thread that has just come tries for a moment, awake: most sections are over sooner than a sleep. It does not
    /// yield: where CPUs are short, that puts the thread behind all that run, for a slice each, whereas a sleeper that
    /// is woken comes soon. Returns whether it has the lock.
    pub(super) fn compete(&self, access: Access, context: &WaitContext<'_, W::P>) -> bool {
        let me = W::P::thread();
        // It has competed in earlier attempts: awake, it would take CPU time from the others.
        if me.lock.ages.at(self.id()).is_some() {
            return self.steal_in_turn(self.load(), access);
        }
        if access == Access::Shared {
            self.give_way_before(me, context);
        }
        let mut outwaits = None;
        let mut held_off = 0;
        let mut looks = 0;
        loop {
            let word = self.load();
            if word.is_odd() {
                if self.0.enter_odd(word, access) {
                    return true;
                }
                continue;
            }
            let holder = Self::holder(word);
            let queued = holder.map_or(0, |holder| holder.queued());
            if looks >= context.most_looks(queued) || word.is_full() {
                break;
            }
            // Also before anybody waits: else a thread that has just waited for its turn would lose the
            // lock in the gaps between its sections.
            let in_turns = |holder: &&Holder<W::P>| {
                !word.is_reserved()
                    && self.is_others_turn(me, access.kind(), word)
                    && (word.has_waiters() || W::P::now() < holder.end())
            };
            if let Some(holder) = holder.filter(in_turns) {
                let may = word.is_free() && self.is_idle(holder);
                return may && self.steal(self.load(), access);
            }
            let holds_off =
                access == Access::Shared && !word.is_written() && word.has_awake_writer();
            if !holds_off && self.steal(self.load(), access) {
                return true;
            }
            if word.is_reserved() {
                outwaits = None;
                // A real-time thread does not give way to lower priorities, but sleeps.
                if self.priority(word) > 0 {
                    return false;
                }
                match self.await_next(access, context) {
                    Some(taken) => return taken,
                    None => continue,
                }
            }
            let in_turns = holder.is_some_and(|holder| holder.is_in_turns());
            let bound_ns = context.at_most(LOOK_NS << looks);
            let ended = if W::HAS_READERS && access == Access::Exclusive && !in_turns {
                let writer = outwaits.get_or_insert_with(|| AwakeWriter::new(self));
                writer.spin_until(bound_ns, Word::is_free)
            } else {
                self.spin_until_next_look(access, bound_ns, holds_off)
            };
            held_off += u32::from(holds_off && !ended);
            if held_off == FEW_LOOKS {
                // It waited the whole pause for nothing: it clears the hint, so that later readers do not.
                self.0.clear(Flags::AWAKE_WRITER);
            }
            looks += 1;
        }
        self.steal_in_turn(self.load(), access)
    }

    /// The calling thread spins until it may take the lock in this way, or the next look is due. `holds_off`:
    /// it is a reader that pauses for an awake writer, until that has come in or gone. Returns whether the spin
    /// ended before the next look was due.
    #[inline(always)]
    fn spin_until_next_look(&self, access: Access, bound_ns: u64, holds_off: bool) -> bool {
        self.0.spin_until(bound_ns, |word| match access {
            _ if holds_off => word.is_written() || !word.has_awake_writer(),
            // Readers, which do not see a gap between two sections of others either.
            Access::Shared => word.is_odd() || self.may_read(word),
            _ => word.is_free(),
        })
    }

    /// Nobody is inside the lock, which is reserved: the waiter that is next should be on its way. The calling
    /// thread waits for that one by the clock, awake, for as long as a wake-up takes. It does not yield: where CPUs are short,
    /// that costs it a slice for each thread that runs. But if it was the last holder, it has woken that waiter, which is then
    /// often queued for this very CPU: so it yields once, if others wait, too. If the waiter has not come by then, it has no CPU,
    /// or is stopped until another thread has had the lock, as by a collector of garbage: the calling thread takes the lock, which
    /// stays closed, and the waiter stays next, unless it is late (`turn`). Threads that come later do not wait, until the
    /// waiter runs. Not if that is a real-time thread, or if a fair release left the lock to it.
    ///
    /// Returns whether the thread has the lock; nothing if it is to look again.
    #[cold]
    fn await_next(&self, access: Access, context: &WaitContext<'_, W::P>) -> Option<bool> {
        let began = W::P::now();
        let holder = Self::holder(self.load());
        let is_absent = holder.is_some_and(Holder::is_next_absent);
        // A lock that is waited for now and then: a yield would cost the caller a slice for nothing.
        let is_alone = holder.is_some_and(|holder| holder.queued() <= 1);
        if !is_absent {
            let woke_it = !is_alone && holder.is_some_and(|holder| holder.is(W::P::thread()));
            let gave_ns = if woke_it && !context.is_attempt() { give_way::<W::P>() } else { 0 };
            let late = holder.map_or(0, Holder::next_came_late);
            let bound_ns = (WAKE_NS << late).saturating_sub(gave_ns).min(context.left(began));
            if self.0.spin_until(bound_ns, |word| !word.is_free()) {
                return None;
            }
        }
        let now = W::P::now();
        if context.is_late(|| now) {
            return Some(false);
        }
        let mut wakes = FewWakes::new();
        let mut queued = self.lock_queue()?;
        // It is the waiter that came: the one that is next by now may rightly sleep.
        if !self.load().is_reserved() {
            return None;
        }
        let turns = Turns { lock: self, slot: queued.slot() };
        turns.miss(&mut queued, began, &mut wakes);
        if turns.look(&mut queued, None, now, &mut wakes) {
            drop(queued);
            wakes.wake_all();
            return None;
        }
        let may = queued.waiters.urgent().is_none() && !queued.is_promised;
        let taken = may.then(|| self.0.take_while(self.load(), access, Word::is_reserved).ok());
        queued.freed = 0;
        turns.holder().next_is_absent();
        drop(queued);
        wakes.wake_all();
        let before = taken.flatten();
        if let Some(before) = before {
            self.note(access, before);
            if is_alone {
                // It has given that waiter its time: it does not yield for it again as it leaves.
                W::P::thread().lock.gave_way(now.saturating_add(WAKE_NS));
            }
        }
        Some(before.is_some())
    }

    /// The priority with which the calling thread waits for the lock, which has this word.
    pub(super) fn priority(&self, word: Word) -> u8 {
        let asks = W::P::POLICY.priorities
            || Self::slot(word).is_some_and(|slot| slot.holder.has_priorities());
        if asks { W::P::priority() } else { 0 }
    }

    // ---- queued ----

    /// Queues the calling thread, which then waits until it has taken the lock.
    #[inline(never)] // its frame is large, and stealing must not pay for it
    pub(super) fn wait(
        &self,
        access: Access,
        context: &WaitContext<'_, W::P>,
    ) -> Result<(), WaitError> {
        let me = W::P::thread();
        me.parker.forget_notification();
        let priority = self.priority(self.load());
        let now = W::P::now();
        // An attempt whose deadline has passed does not queue.
        if let Some(error) = context.expired(|| now) {
            return self.try_last(access, error, priority);
        }
        let age = me.lock.ages.at(self.id());
        // As if its earlier attempts had been one wait that goes on.
        let arrived = now.saturating_sub(age.map_or(0, |age| age.waited));
        let mut waiter = Waiter::new(access, me, arrived, priority);
        waiter.returns = age.is_some();
        let mut wakes = FewWakes::new();
        let (slot, arrival) = loop {
            if self.load().is_full() && access != Access::Exclusive {
                return Err(WaitError::TooManyReaders);
            }
            let queued = self.with_slot(|q, slot| {
                // Many short attempts are over before they have the queue lock: they take it once, not twice.
                if let Some(error) = context.expired(W::P::now) {
                    return Some(Err(error));
                }
                let turns = Turns { lock: self, slot };
                // SAFETY: `waiter` stays in this frame until it is out of the queue: every return
                // below is after `take` or after `leave`.
                let arrival = unsafe { turns.arrive(q, &waiter, &mut wakes) };
                arrival.map(|arrival| Ok((slot, arrival)))
            });
            match queued {
                Ok(Ok(queued)) => break queued,
                Ok(Err(error)) => {
                    self.note_age(arrived);
                    return self.try_last(access, error, priority);
                }
                Err(word) if word.is_odd() => {
                    if self.0.enter_odd(word, access) {
                        return Ok(());
                    }
                }
                // No slot is to be had: the thread looks from time to time, and gets the lock in no order.
                Err(_) => {
                    nap::<W::P>();
                    if self.steal(self.load(), access) {
                        return Ok(());
                    }
                    if let Some(error) = context.expired(W::P::now) {
                        self.note_age(arrived);
                        return self.try_last(access, error, priority);
                    }
                }
            }
        };
        wakes.wake_all();
        let Arrival::Queued(patience) = arrival else { return Ok(()) };
        let turns = Turns { lock: self, slot };
        let wait = || turns.wait_queued(&waiter, Lookout::new(patience), context);
        let result = context.listed(me, wait);
        if result.is_err() {
            self.note_age(arrived);
        }
        result
    }

    /// The calling thread gives up, which has waited for the lock as if since `arrived`.
    fn note_age(&self, arrived: u64) {
        let now = W::P::now();
        W::P::thread().lock.ages.note(self.id(), now.saturating_sub(arrived), now);
    }

    /// Waits until the calling thread, whose waiter this is, has the lock. Another thread queues the waiter, or is just about
    /// to; or, where it could not, has told it so.
    pub(super) fn wait_seated(&self, waiter: &Waiter<W::P>) {
        while waiter.state() == WAITING && waiter.duty() == Duty::Sleeps {
            waiter.thread.parker.park(None, false);
        }
        if waiter.state() == INVITED {
            let taken = self.take_slow(waiter.access, &WaitContext::FOREVER);
            debug_assert!(taken.is_ok(), "a wait for ever has ended");
            return;
        }
        let Some(slot) = Self::slot(self.load()) else {
            unreachable!("a thread is queued, and the lock has no slot")
        };
        let turns = Turns { lock: self, slot };
        let taken = turns.wait_queued(waiter, Lookout::of_seat(), &WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    /// An attempt that ends with an error tries once more as its last step.
    fn try_last(&self, access: Access, error: WaitError, priority: u8) -> Result<(), WaitError> {
        let word = self.load();
        // The last act is of the lock as it is: it may have become visible while the caller waited.
        let enters = word.is_odd() && self.0.enter_odd(word, access);
        if enters || self.steal(self.load(), access) || self.try_past_writers(access, priority) {
            return Ok(());
        }
        if let Some(slot) = Self::slot(self.load()) {
            slot.events.count(Event::fail(access.kind()));
        }
        Err(error)
    }

    /// A reader that found somebody waiting gets in if it has a priority, and passes all writers that wait.
    #[inline]
    pub(super) fn try_past_writers(&self, access: Access, priority: u8) -> bool {
        priority > 0 && access == Access::Shared && self.enters_by(priority)
    }

    #[cold]
    fn enters_by(&self, priority: u8) -> bool {
        let Some(queued) = self.lock_queue() else { return false };
        let Some(slot) = Self::slot(self.load()) else { return false };
        Turns { lock: self, slot }.enters(&queued, Access::Shared, priority)
    }
}

impl<W: Words> Turns<'_, W> {
    /// Waits until the calling thread, whose waiter this is, has the lock, or the wait ends. If another thread is only
    /// about to queue the waiter, it is one that is not next until then.
    pub(crate) fn wait_queued(
        &self,
        waiter: &Waiter<W::P>,
        mut lookout: Lookout,
        context: &WaitContext<'_, W::P>,
    ) -> Result<(), WaitError> {
        let mut watch = Watch::new();
        loop {
            let state = waiter.state();
            if let Some(error) = context.expired(W::P::now) {
                return self.give_up(waiter, error);
            }
            if waiter.access != Access::Exclusive && self.lock.load().is_full() {
                return self.give_up(waiter, WaitError::TooManyReaders);
            }
            let outcome = match state {
                INVITED if self.join(waiter) => return Ok(()),
                INVITED => continue,
                NEXT => match self.wait_as_next(waiter, &mut watch, context) {
                    Waited::Taken => return Ok(()),
                    Waited::Not(outcome) => outcome,
                },
                _ => {
                    // When it is next again, it will be in another tenure.
                    watch.end_of_watch();
                    let Some(until) = self.look_out(waiter, &mut lookout) else { continue };
                    // Loom's clock stands still.
                    let until = (!cfg!(fairlock_loom)).then_some(until);
                    self.sleep(waiter, until.into_iter().chain(context.deadline).min(), context)
                }
            };
            if outcome == WaitOutcome::Interrupted && context.interruptible {
                return self.give_up(waiter, WaitError::Interrupted);
            }
        }
    }

    /// An invited reader runs: it joins those inside if it still may.
    fn join(&self, waiter: &Waiter<W::P>) -> bool {
        let mut wakes = FewWakes::new();
        let joined = self.with_queue(|q| {
            let joined = self.take(q, waiter, W::P::now(), &mut wakes);
            if !joined {
                self.decline(q, waiter);
            }
            joined
        });
        wakes.wake_all();
        joined
    }

    /// One turn of the waiter that is next.
    fn wait_as_next(
        &self,
        waiter: &Waiter<W::P>,
        watch: &mut Watch,
        context: &WaitContext<'_, W::P>,
    ) -> Waited {
        // It may have lost its CPU while it watched.
        if (watch.is_new() || self.holder().is_next_absent()) && !self.look_at_clock(waiter, watch)
        {
            return Waited::Not(WaitOutcome::Woken);
        }
        let now = W::P::now();
        let over = now >= watch.end;
        let word = if over { self.lock.close() } else { self.lock.load() };
        let may_take = word.may_take_next(waiter.access);
        // Where threads take turns, the thread whose turn it is may take the free lock again immediately.
        let is_left =
            || !word.is_free() || !self.holder().is_in_turns() || self.lock.is_idle(self.holder());
        if may_take && (over || is_left()) {
            if self.take_as_next(waiter) {
                watch.stayed::<W::P>(true);
                return Waited::Taken;
            }
            return Waited::Not(WaitOutcome::Woken);
        }
        if !over
            && now < watch.until
            && waiter.access == Access::Exclusive
            && word.readers() > 0
            && !self.holder().is_in_turns()
            && self.outwait_readers(waiter, context)
        {
            return Waited::Taken;
        }
        watch.see(self.holder().steals(), over, now);
        let left = watch.end.saturating_sub(now);
        let alive = watch.alive;
        let awake_until = match alive {
            // A holder that is inside for longer may itself be asleep, as the last one may have been.
            Some(alive) if left <= watch.near_ns && watch.stays::<W::P>(self.holder().queued()) => {
                alive + 2 * (WAKE_NS << self.holder().next_came_late())
            }
            _ => watch.until,
        };
        if now < awake_until {
            let bound_ns = (awake_until - now).min(context.left(now));
            if over {
                self.lock.0.spin_until(bound_ns, |word| word.may_take_next(waiter.access));
            } else {
                let bound_ns = watch.pause().min(bound_ns).min(left);
                W::P::spin_until(waiter.state_word(), bound_ns, |state| state != NEXT);
            }
            return Waited::Not(WaitOutcome::Woken);
        }
        Waited::Not(self.sleep_as_next(waiter, watch, context, now, over))
    }

    /// Where threads share the lock, the writer that is next makes readers pause. It waits for those inside to leave, for a
    /// moment, and takes the lock, if nobody was faster.
    fn outwait_readers(&self, waiter: &Waiter<W::P>, context: &WaitContext<'_, W::P>) -> bool {
        let writer = AwakeWriter::new(self.lock);
        writer.spin_until(context.at_most(OUTWAIT_NS), |word| word.may_take_next(waiter.access))
            && self.take_as_next(waiter)
    }

    /// Takes the lock, if nobody was faster.
    fn take_as_next(&self, waiter: &Waiter<W::P>) -> bool {
        let mut wakes = FewWakes::new();
        let taken = self.with_queue(|q| {
            waiter.state() == NEXT && self.take(q, waiter, W::P::now(), &mut wakes)
        });
        wakes.wake_all();
        taken
    }

    /// The calling thread, whose waiter was told that it is next, runs. Whether it is next still.
    fn look_at_clock(&self, waiter: &Waiter<W::P>, watch: &mut Watch) -> bool {
        let mut wakes = FewWakes::new();
        let is_slow = self.with_queue(|q| {
            if !q.is_next(waiter) {
                return None;
            }
            q.missed = 0;
            self.holder().next_runs();
            watch.end = q.clock.end();
            watch.near_ns = match q.clock.side() {
                // Awake, it takes a CPU from readers.
                Kind::Reader => WAKE_NS,
                Kind::Writer => SAMPLE_NS,
            };
            // Readers wait that could be inside, and there are CPUs for them.
            let word = self.lock.load();
            if watch.slept && word.may_join() && word.readers() < W::P::cpus() {
                self.invite_readers(q, 1, &mut wakes);
            }
            Some(q.modes.is_slow())
        });
        wakes.wake_all();
        let Some(is_slow) = is_slow else { return false };
        watch.begin(W::P::now(), is_slow);
        watch.steals = self.holder().steals();
        true
    }

    /// Sleeps until the lock is left free, or it is time to look again.
    fn sleep_as_next(
        &self,
        waiter: &Waiter<W::P>,
        watch: &mut Watch,
        context: &WaitContext<'_, W::P>,
        now: u64,
        over: bool,
    ) -> WaitOutcome {
        let asks = over || !watch.in_vain || self.lock.load().is_closed();
        let (began, mut now) = (now, now);
        let outcome = loop {
            let (mut needs_timer, mut nap) = (!over, None);
            if asks {
                // In the same step as seeing the lock taken: the thread that leaves it free sees the flag.
                let word = self.lock.0.set(Flags::WAKE_NEXT);
                if word.may_take_next(waiter.access) {
                    // The lock is free, but not for long enough to be idle: it is busy with short
                    // sections.
                    self.with_queue(|q| self.ask_no_more(q, waiter));
                    watch.in_vain = true;
                    watch.begin(now, false);
                    return WaitOutcome::Woken;
                }
                // A writer wakes this waiter at its release, which closes the lock if the tenure is over by then.
                // Readers may overlap so that the lock is never free.
                needs_timer &= !word.has_writer_inside();
                nap = (word.is_written() && !W::is_seen(word)).then(|| now + nap_ns(now - began));
            }
            let timer = needs_timer.then(|| {
                let early = watch.end.saturating_sub(WAKE_NS).max(now);
                // A waiter that was woken but found the lock taken looks again soon.
                if asks { early } else { early.min(now + WAKE_NS) }
            });
            let until = [nap, context.deadline].into_iter().flatten().chain(timer).min();
            let outcome = self.sleep(waiter, until, context);
            if outcome != WaitOutcome::TimedOut || nap.is_none() || until != nap {
                break outcome;
            }
            now = W::P::now();
        };
        watch.in_vain = asks && outcome != WaitOutcome::TimedOut;
        watch.slept = true;
        watch.stayed::<W::P>(false);
        watch.end_of_watch();
        outcome
    }

    fn sleep(
        &self,
        waiter: &Waiter<W::P>,
        until: Option<u64>,
        context: &WaitContext<'_, W::P>,
    ) -> WaitOutcome {
        self.slot.events.count(Event::sleep(waiter.kind));
        waiter.thread.parker.park(until, context.interruptible)
    }

    /// Leaves the queue; with the lock, if it can be had immediately.
    fn give_up(&self, waiter: &Waiter<W::P>, error: WaitError) -> Result<(), WaitError> {
        let mut wakes = FewWakes::new();
        let taken = self.with_queue(|q| {
            let taken = waiter.state() != WAITING && self.take(q, waiter, W::P::now(), &mut wakes);
            if !taken {
                self.leave(q, waiter, &mut wakes);
            }
            taken
        });
        wakes.wake_all();
        // This may pass waiters in the queue; but a lock that is open and free is for any running thread.
        if taken { Ok(()) } else { self.lock.try_last(waiter.access, error, waiter.priority) }
    }
}

/// How long the waiter that is next, and has slept for so long, sleeps before it looks again, behind the holder of a mutex
/// whose release may not see that it waits, as that may have lost its CPU in its release. Less than a hundredth of its sleep: so
/// a mutex that is held for an hour wakes it 1,700 times.
fn nap_ns(slept_ns: u64) -> u64 {
    (slept_ns / 128).max(2 * WAKE_NS)
}

/// What the waiter that is next knows about the lock.
struct Watch {
    /// When the tenure ends, as of the last look at the clock; and how long before that to be awake.
    end: u64,
    near_ns: u64,
    /// Until when to watch before sleeping; zero: look at the clock first.
    until: u64,
    /// When the last acquisition was seen, or else when the tenure was seen to be over; and the lock's count
    /// of acquisitions at that time.
    alive: Option<u64>,
    steals: usize,
    pause: u64,
    /// A release ended the last sleep, but another thread was faster.
    in_vain: bool,
    slept: bool,
    /// Whether it stays awake near the end of the tenure, once that is known; of the thread's [habit](crate::wait::Habit).
    stays: Option<bool>,
}

impl Watch {
    const fn new() -> Self {
        Self {
            end: 0,
            near_ns: 0,
            until: 0,
            alive: None,
            steals: 0,
            pause: PAUSE_NS,
            in_vain: false,
            slept: false,
            stays: None,
        }
    }

    fn is_new(&self) -> bool {
        self.until == 0
    }

    fn begin(&mut self, now: u64, is_slow: bool) {
        self.until = if is_slow { now } else { now + WATCH_NS };
        self.pause = PAUSE_NS;
    }

    /// At `now` the lock has been taken this often, and its tenure is over or not.
    fn see(&mut self, steals: usize, over: bool, now: u64) {
        if self.steals != steals {
            self.steals = steals;
            self.alive = Some(now);
        } else if over {
            self.alive.get_or_insert(now);
        }
    }

    /// Whether the calling thread stays awake near the end of the tenure, beside so many that are queued: as it usually is
    /// worth it, or if all at the lock can have a CPU.
    fn stays<P: Platform>(&mut self, queued: usize) -> bool {
        let usually = || P::thread().lock.stays.begins();
        *self.stays.get_or_insert_with(|| queued + 2 <= P::cpus() || usually())
    }

    /// It stayed awake, if it was to; `came` says whether it had the lock then.
    fn stayed<P: Platform>(&mut self, came: bool) {
        if self.stays.take() == Some(true) {
            P::thread().lock.stays.ended(came);
        }
    }

    fn end_of_watch(&mut self) {
        self.until = 0;
        self.alive = None;
    }

    fn pause(&mut self) -> u64 {
        let pause = self.pause;
        self.pause = (pause * 2).min(SOON_NS);
        pause
    }
}
