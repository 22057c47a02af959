//! Waiting: awake before queueing, then queued, and how a wait ends.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use super::mode::SAMPLE_NS;
use super::turn::Arrival;
use super::{FewWakes, IDLE};
use crate::events::Event;
use crate::platform::{Platform, WaitOutcome};
use crate::rwsem::Turns;
use crate::rwsem::word::{AtomicWord, Flags, Word};
use crate::wait::{
    Access, FEW_LOOKS, INVITED, Kind, LOOK_NS, NEXT, SOON_NS, Thread, WAITING, WAKE_NS, WATCH_NS,
    WaitContext, WaitError, Waiter,
};

/// How long the next waiter, if it is a writer, waits awake for the readers inside to leave while
/// other readers pause: about as long as their longest pause ([`FEW_LOOKS`]). In ns, seven looks;
/// compared with the time since the writer became the next.
const OUTWAIT_NS: u64 = 1_500;

/// A writer waits, awake, for the readers inside to leave: while it spins, readers that come pause for a moment.
///
/// If several writers wait so, the first that stops clears the hint for all, and the others set it
/// again.
pub(super) struct AwakeWriter<'a, P: Platform>(&'a AtomicWord<P>);

impl<'a, P: Platform> AwakeWriter<'a, P> {
    pub(super) fn new(word: &'a AtomicWord<P>) -> Self {
        Self(word)
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
            let ended = self.0.spin_until(left, |word| {
                is_done.set(done(word));
                is_done.get() || lacks_hint(word)
            });
            if is_done.get() || !ended || left == 0 {
                return is_done.get();
            }
            // Relaxed, as where the hint is cleared: a stale one costs time, never exclusion.
            self.0.set(Flags::AWAKE_WRITER, Ordering::Relaxed);
            let now = P::now();
            left = end.get_or_insert(now.saturating_add(bound_ns)).saturating_sub(now);
        }
    }
}

impl<P: Platform> Drop for AwakeWriter<'_, P> {
    fn drop(&mut self) {
        // Whoever takes the lock for writing has cleared it.
        if self.0.load(Ordering::Relaxed).has_awake_writer() {
            self.0.clear(Flags::AWAKE_WRITER, Ordering::Relaxed);
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

impl<P: Platform> Turns<P> {
    // ---- before queueing ----

    /// A thread that has just come tries for a moment, awake: most sections are over sooner than a sleep. It does not
    /// yield: where CPUs are short, that puts the thread behind all that run, for a slice each, whereas a sleeper that
    /// is woken comes soon. Returns whether it has the lock.
    pub(crate) fn compete(&self, access: Access, context: &WaitContext<'_, P>) -> bool {
        let me = P::thread();
        // It has competed in earlier attempts: awake, it would take CPU time from the others.
        if me.tenure.ages.at(self.id()).is_some() {
            return self.steal_at_once(access);
        }
        if access == Access::Shared {
            self.give_way_before(me, context);
        }
        let mut outwaits = None;
        let mut held_off = 0;
        let mut looks = 0;
        let in_turns = self.holder().is_in_turns();
        while looks < context.most_looks(self.holder().queued()) {
            let word = self.word.load(Ordering::Relaxed);
            // Also before anybody waits: else a thread that has just waited for its turn would lose the
            // lock in the gaps between its sections.
            if !word.is_reserved()
                && self.is_others_turn(me, access.kind(), word)
                && (word.has_waiters() || P::now() < self.holder().end())
            {
                let may = word.is_free() && self.is_idle();
                return may && self.steal(access);
            }
            let holds_off =
                access == Access::Shared && !word.is_written() && word.has_awake_writer();
            if !holds_off && self.steal(access) {
                return true;
            }
            if word.is_reserved() {
                outwaits = None;
                // A real-time thread does not give way to lower priorities, but sleeps.
                if self.priority() > 0 {
                    return false;
                }
                match self.yield_to_next(me, access, context) {
                    Some(taken) => return taken,
                    None => continue,
                }
            }
            let ended = if access == Access::Exclusive && !in_turns {
                let writer = outwaits.get_or_insert_with(|| AwakeWriter::new(&self.word));
                writer.spin_until(LOOK_NS << looks, Word::is_free)
            } else {
                self.spin_until_next_look(me, access, looks, holds_off)
            };
            held_off += u32::from(holds_off && !ended);
            if held_off == FEW_LOOKS {
                // It waited the whole pause in vain: it clears the hint, so that later readers do not.
                self.word.clear(Flags::AWAKE_WRITER, Ordering::Relaxed);
            }
            looks += 1;
        }
        self.steal_at_once(access)
    }

    /// The calling thread, `me`, spins until it may take the lock in this way, or the next look is due. `holds_off`:
    /// it is a reader that pauses for an awake writer, until that has come in or gone. Returns whether the spin
    /// ended before the next look was due.
    #[inline(always)]
    fn spin_until_next_look(
        &self,
        me: &Thread<P>,
        access: Access,
        looks: u32,
        holds_off: bool,
    ) -> bool {
        self.word.spin_until(LOOK_NS << looks, |word| match access {
            _ if holds_off => word.is_written() || !word.has_awake_writer(),
            // Readers, who do not see a gap between two sections of others either.
            Access::Shared => self.may_read(me, word),
            _ => word.is_free(),
        })
    }

    /// Nobody is inside the lock, which is reserved: the waiter that is next should be on its way. The calling
    /// thread, `me`, yields until that one has come (none), until its own deadline, or for as long as a wake-up
    /// takes. In the last case the waiter has no CPU, or is stopped until another thread has had the
    /// lock, as by a collector of garbage: `me` takes the lock, which stays closed, and the waiter stays next.
    /// Not if that is a real-time thread, or if a fair release left the lock to it. Returns whether it did.
    #[cold]
    fn yield_to_next(
        &self,
        me: &Thread<P>,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Option<bool> {
        let began = P::now();
        let mut now = began;
        while now.saturating_sub(began) < WAKE_NS {
            if context.is_late(|| now) {
                return Some(false);
            }
            P::yield_now();
            if !self.word.load(Ordering::Relaxed).is_reserved() {
                return None;
            }
            now = P::now();
        }
        let taken = self.with_queue(|q| {
            let word = self.word.load(Ordering::Relaxed);
            let may = q.waiters.urgent().is_none() && !q.own.is_promised;
            may.then(|| self.word.take_while(word, access, Word::is_reserved))?
        });
        Some(taken.map(|before| self.note_steal(me, access.kind(), before)).is_some())
    }

    // ---- queued ----

    /// Queues the calling thread, which then waits until it has taken the lock.
    #[inline(never)] // its frame is large, and stealing must not pay for it
    pub(crate) fn wait(
        &self,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let me = P::thread();
        me.parker.forget_notification();
        let priority = self.priority();
        let now = P::now();
        // An attempt whose deadline has passed does not queue.
        if let Some(error) = context.expired(|| now) {
            let passes = priority > 0 && access == Access::Shared;
            if passes && self.with_queue(|q| self.enters_at_once(q, priority)) {
                return Ok(());
            }
            return self.try_last(access, error);
        }
        let age = me.tenure.ages.at(self.id());
        // As if its earlier attempts had been one wait that goes on.
        let arrived = now.saturating_sub(age.map_or(0, |age| age.waited));
        let mut waiter = Waiter::new(access, me, arrived, priority);
        waiter.returns = age.is_some();
        let mut wakes = FewWakes::new();
        // SAFETY: `waiter` stays in this frame until it is out of the queue: every return
        // below is after `take` or after `leave`.
        let arrival = self.with_queue(|q| unsafe { self.arrive(q, &waiter, &mut wakes) });
        wakes.wake_all();
        if let Arrival::Acquired = arrival {
            return Ok(());
        }
        let result = context.listed(me, || self.wait_queued(&waiter, context));
        if result.is_err() {
            let now = P::now();
            me.tenure.ages.note(self.id(), now.saturating_sub(arrived), now);
        }
        result
    }

    /// Waits until the calling thread, whose waiter this is, has the lock, or the wait ends. If another thread is only
    /// about to queue the waiter, it is one that is not next until then.
    pub(crate) fn wait_queued(
        &self,
        waiter: &Waiter<P>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let mut watch = Watch::new();
        loop {
            let state = waiter.state();
            if let Some(error) = context.expired(P::now) {
                return self.give_up(waiter, error);
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
                    self.sleep(waiter, context.deadline, context)
                }
            };
            if outcome == WaitOutcome::Interrupted && context.interruptible {
                return self.give_up(waiter, WaitError::Interrupted);
            }
        }
    }

    /// An invited reader runs: it joins those inside if it still may.
    fn join(&self, waiter: &Waiter<P>) -> bool {
        let mut wakes = FewWakes::new();
        let joined = self.with_queue(|q| {
            let joined = self.take(q, waiter, P::now(), &mut wakes);
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
        waiter: &Waiter<P>,
        watch: &mut Watch,
        context: &WaitContext<'_, P>,
    ) -> Waited {
        if watch.is_new() {
            self.look_at_clock(watch);
        }
        let now = P::now();
        let over = now >= watch.end;
        let word = self.word.load(Ordering::Relaxed);
        // A waiter that waits only for an upgradable reader to leave does not close the lock: that reader
        // may itself wait for readers.
        let is_for_readers = waiter.access == Access::Upgradable && word.is_upgradable();
        let word = if over && !is_for_readers { self.close() } else { word };
        let may_take = word.may_take_next(waiter.access);
        // Where threads take turns, the thread whose turn it is may take the free lock again at once.
        let is_left = || !word.is_free() || !self.holder().is_in_turns() || self.is_idle();
        if may_take && (over || is_left()) {
            if self.take_as_next(waiter) {
                return Waited::Taken;
            }
            return Waited::Not(WaitOutcome::Woken);
        }
        if !over
            && now < watch.until
            && waiter.access == Access::Exclusive
            && word.readers() > 0
            && !self.holder().is_in_turns()
            && self.outwait_readers(waiter)
        {
            return Waited::Taken;
        }
        watch.see(self.holder().steals(), over, now);
        let left = watch.end.saturating_sub(now);
        let awake_until = match watch.alive {
            // A holder that is inside for longer may itself be asleep.
            Some(alive) if left <= watch.near_ns => alive + 2 * WAKE_NS,
            _ => watch.until,
        };
        if now < awake_until {
            let bound_ns = awake_until - now;
            if over {
                self.word.spin_until(bound_ns, |word| word.may_take_next(waiter.access));
            } else {
                let bound_ns = watch.pause().min(bound_ns).min(left);
                P::spin_until(waiter.state_word(), bound_ns, |state| state != NEXT);
            }
            return Waited::Not(WaitOutcome::Woken);
        }
        Waited::Not(self.sleep_as_next(waiter, watch, context, now, over))
    }

    /// Where threads share the lock, the writer that is next makes readers pause. It waits for those inside to leave, for a
    /// moment, and takes the lock, if nobody was faster.
    fn outwait_readers(&self, waiter: &Waiter<P>) -> bool {
        let writer = AwakeWriter::new(&self.word);
        writer.spin_until(OUTWAIT_NS, |word| word.may_take_next(waiter.access))
            && self.take_as_next(waiter)
    }

    /// Takes the lock, if nobody was faster.
    fn take_as_next(&self, waiter: &Waiter<P>) -> bool {
        let mut wakes = FewWakes::new();
        let taken = self
            .with_queue(|q| waiter.state() == NEXT && self.take(q, waiter, P::now(), &mut wakes));
        wakes.wake_all();
        taken
    }

    fn look_at_clock(&self, watch: &mut Watch) {
        let mut wakes = FewWakes::new();
        self.with_queue(|q| {
            watch.end = q.own.clock.end();
            watch.near_ns = match q.own.clock.side() {
                // Awake, it takes a CPU from readers.
                Kind::Reader => WAKE_NS,
                Kind::Writer => SAMPLE_NS,
            };
            // Readers wait that could be inside, and there are CPUs for them.
            let word = self.word.load(Ordering::Relaxed);
            if watch.slept && word.may_join() && word.readers() < P::cpus() {
                self.invite_readers(q, 1, &mut wakes);
            }
        });
        wakes.wake_all();
        watch.begin(P::now());
        watch.steals = self.holder().steals();
    }

    /// Sleeps until the lock is left free, or it is time to look again.
    fn sleep_as_next(
        &self,
        waiter: &Waiter<P>,
        watch: &mut Watch,
        context: &WaitContext<'_, P>,
        now: u64,
        over: bool,
    ) -> WaitOutcome {
        let asks = over || !watch.in_vain || self.word.load(Ordering::Relaxed).is_closed();
        let mut needs_timer = !over;
        if asks {
            // In the same step as seeing the lock taken: whoever leaves it free sees the flag.
            let word = self.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
            // A writer wakes this waiter at its release, and closes the lock if the tenure is over by then.
            // Readers may overlap so that the lock is never free.
            needs_timer &= !word.is_held_by_writer();
            if word.may_take_next(waiter.access) {
                // The lock is free, but not for long enough to be idle: it is busy with short
                // sections.
                self.with_queue(|q| self.ask_no_more(q, waiter));
                watch.in_vain = true;
                watch.begin(now);
                return WaitOutcome::Woken;
            }
        }
        let timer = needs_timer.then(|| {
            let early = watch.end.saturating_sub(WAKE_NS).max(now);
            // A waiter that was woken but found the lock taken looks again soon.
            if asks { early } else { early.min(now + WAKE_NS) }
        });
        let until = match (timer, context.deadline) {
            (Some(timer), Some(deadline)) => Some(timer.min(deadline)),
            (timer, deadline) => timer.or(deadline),
        };
        let outcome = self.sleep(waiter, until, context);
        watch.in_vain = asks && outcome != WaitOutcome::TimedOut;
        watch.slept = true;
        watch.end_of_watch();
        outcome
    }

    fn sleep(
        &self,
        waiter: &Waiter<P>,
        until: Option<u64>,
        context: &WaitContext<'_, P>,
    ) -> WaitOutcome {
        self.events.count(Event::sleep(waiter.kind));
        waiter.thread.parker.park(until, context.interruptible)
    }

    /// The identity of the lock, for threads that come back.
    pub(super) fn id(&self) -> usize {
        self.word.address()
    }

    /// Leaves the queue; with the lock, if it can be had at once.
    fn give_up(&self, waiter: &Waiter<P>, error: WaitError) -> Result<(), WaitError> {
        let mut wakes = FewWakes::new();
        let taken = self.with_queue(|q| {
            let taken = waiter.state() != WAITING && self.take(q, waiter, P::now(), &mut wakes);
            if !taken {
                self.leave(q, waiter, &mut wakes);
            }
            taken
        });
        wakes.wake_all();
        // This may pass waiters in the queue; but a lock that is open and free is for any running thread.
        if taken { Ok(()) } else { self.try_last(waiter.access, error) }
    }

    /// An attempt that ends with an error tries once more as its last step.
    fn try_last(&self, access: Access, error: WaitError) -> Result<(), WaitError> {
        if self.steal(access) {
            return Ok(());
        }
        self.events.count(Event::fail(access.kind()));
        Err(error)
    }
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
}

impl Watch {
    const fn new() -> Self {
        Self {
            end: 0,
            near_ns: 0,
            until: 0,
            alive: None,
            steals: 0,
            pause: IDLE,
            in_vain: false,
            slept: false,
        }
    }

    fn is_new(&self) -> bool {
        self.until == 0
    }

    fn begin(&mut self, now: u64) {
        self.until = now + WATCH_NS;
        self.pause = IDLE;
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

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use std::sync::mpsc;

    use fairlock_testing::{join, scope, until};

    use super::*;
    use crate::platform::{Native, System};
    use crate::rwsem::policy::Policy;

    /// The writer that is next has slept, and readers could be inside beside the one that is.
    #[test]
    fn a_waiter_that_is_next_and_has_slept_invites_a_reader() {
        let lock = &Turns::<Native>::new(Policy::DEFAULT);
        let next = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
        assert!(lock.try_read());
        // SAFETY: it leaves below, in this frame.
        lock.with_queue(|q| unsafe { lock.arrive(q, &next, &mut FewWakes::new()) });
        // As in a tenure of writers: or else readers would not queue.
        lock.word.clear(Flags::READERS_TURN, Ordering::Relaxed);
        scope(|s| {
            let (send, record) = mpsc::channel();
            let reader = s.spawn(move || {
                send.send(Native::thread()).unwrap();
                lock.wait(Access::Shared, &WaitContext::FOREVER).unwrap();
                // SAFETY: just taken.
                unsafe { lock.unlock_read() };
            });
            let record = record.recv().unwrap();
            until(|| record.is_asleep());
            let mut watch = Watch::new();
            lock.look_at_clock(&mut watch);
            assert!(!watch.is_new());
            assert!(lock.with_queue(|q| q.waiters.iter().all(|queued| queued.state() != INVITED)));
            watch.slept = true;
            lock.look_at_clock(&mut watch);
            join(reader);
        });
        lock.with_queue(|q| lock.leave(q, &next, &mut FewWakes::new()));
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
    }

    #[test]
    fn a_waiter_that_is_next_sleeps_once_it_has_watched_for_long_enough() {
        let lock = Turns::<Native>::new(Policy::DEFAULT);
        let me = Native::thread();
        let next = Waiter::new(Access::Exclusive, me, 0, 0);
        assert!(lock.try_write());
        // SAFETY: it leaves below, in this frame.
        lock.with_queue(|q| unsafe { lock.arrive(q, &next, &mut FewWakes::new()) });
        for (until, sleeps) in [(u64::MAX, false), (1, true)] {
            let mut watch = Watch::new();
            (watch.end, watch.until) = (u64::MAX, until);
            me.parker.unpark(); // or it would sleep for ever
            lock.wait_as_next(&next, &mut watch, &WaitContext::FOREVER);
            assert_eq!(watch.slept, sleeps);
        }
        me.parker.forget_notification();
        lock.with_queue(|q| lock.leave(q, &next, &mut FewWakes::new()));
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
    }

    #[test]
    fn a_watch_begins_with_a_look_at_the_clock_and_so_does_the_next() {
        let mut watch = Watch::new();
        assert!(watch.is_new());
        watch.begin(1_000);
        assert!(!watch.is_new());
        watch.see(0, false, 1_100);
        assert_eq!(watch.alive, None, "nobody has taken it");
        watch.see(0, true, 1_200);
        watch.see(0, true, 1_300);
        assert_eq!(watch.alive, Some(1_200), "the tenure was over");
        watch.see(1, true, 1_400);
        assert_eq!(watch.alive, Some(1_400));
        watch.end_of_watch();
        assert!(watch.is_new() && watch.alive.is_none());
    }
}
