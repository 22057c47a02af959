//! The wait itself, under the tenure discipline, and the ways to leave it.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::pace::STEAL_MARK_NS;
use super::policy::TenureShape;
use super::tenure::Arrival;
use super::word::{is_free, write_stealable};

use crate::events::Event;
use crate::fault::{Fault, active};
use crate::platform::{Atomic, Platform, WaitOutcome};
use crate::wait::{
    GRANTED, INVITED, Kind, NEXT, Thread, WAITING, WaitContext, WaitError, Waiter, WakeList,
};

/// A lock that is free at every look for so long, with no steal between them,
/// is idle.
const IDLE_NS: u64 = 300;
/// The same in a readers' tenure: twice [`STEAL_MARK_NS`], as readers do not
/// count every steal.
const READERS_IDLE_NS: u64 = 2 * STEAL_MARK_NS;
/// The longest pause between two looks at the lock while watching it.
const LOOK_NS: u64 = 20_000;
/// How long a new `NEXT` watches the lock before it sleeps.
const WATCH_NS: u64 = 10_000;
/// How long a `NEXT` waits awake for the holder's last section.
const DRAIN_NS: u64 = 100_000;
/// How long a reader gives way, awake, to a brief writer before it sleeps.
const GIVE_WAY_NS: u64 = 40_000;
/// A `NEXT` that sleeps looks after this time whether the lock is idle, then
/// after twice as long, and so on,
const SLEEP_NS: u64 = 500_000;
/// up to this.
const LONGEST_SLEEP_NS: u64 = 4_000_000;
/// How much earlier than its lateness says a timer is set: it must not be late.
const EARLY_NS: u64 = 25_000;
/// A `NEXT` does not sleep for less than this while it may spin.
const SPIN_THROUGH_NS: u64 = 250_000;

impl<P: Platform> RwSem<P> {
    /// Queues the calling thread and waits for its grant.
    #[inline(never)] // its frame is large, and stealing must not pay for it
    pub(super) fn wait_in_tenure(
        &self,
        kind: Kind,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
        shape: TenureShape,
    ) -> Result<(), WaitError> {
        me.parker.forget_notification();
        let waiter = Waiter::new(kind, me, P::now(), self.priority());
        me.steals.note_wait(waiter.arrived);
        if kind == Kind::Writer {
            me.steals.wrote();
        }
        let mut wakes = WakeList::new();
        // SAFETY: `waiter` stays in this frame until it is out of the queue:
        // every return below is after a grant or after `leave`.
        let arrival = self.with_queue(|q| unsafe { self.arrive(q, &waiter, shape, &mut wakes) });
        self.wake_and_note(waiter.arrived, &mut wakes);
        if let Arrival::Acquired = arrival {
            return Ok(());
        }
        match context.cancel {
            Some(token) => {
                token.with_registered(me, || self.wait_for_grant(&waiter, context, shape))
            }
            None => self.wait_for_grant(&waiter, context, shape),
        }
    }

    fn wait_for_grant(
        &self,
        waiter: &Waiter<P>,
        context: &WaitContext<'_, P>,
        shape: TenureShape,
    ) -> Result<(), WaitError> {
        let mut watch = Watch::new(waiter.arrived);
        loop {
            let state = waiter.state();
            if state == GRANTED {
                self.start_tenure(waiter);
                return Ok(());
            }
            if let Some(error) = context.expired(P::now) {
                return self.leave(waiter, error, shape);
            }
            let outcome = match state {
                INVITED if self.accept(waiter, shape) => return Ok(()),
                INVITED => continue,
                NEXT => self.wait_as_next(waiter, &mut watch, context, shape),
                WAITING if self.waits_for_brief_writer(waiter) => {
                    P::yield_now();
                    continue;
                }
                _ if (watch.lasts(P::now()) || watch.is_undecided()) && self.is_open() => {
                    self.wait_at_open_lock(waiter, &mut watch, shape)
                }
                _ => self.sleep(waiter, context.deadline, context),
            };
            if outcome == WaitOutcome::Interrupted && context.interruptible {
                return self.leave(waiter, WaitError::Interrupted, shape);
            }
        }
    }

    /// An invited reader runs: whether it joined the readers inside.
    fn accept(&self, waiter: &Waiter<P>, shape: TenureShape) -> bool {
        let mut wakes = WakeList::new();
        let (held, joined) = self.with_queue(|q| {
            let held = q.waiters.holds(waiter);
            let invited = held && waiter.state() == INVITED;
            (held, invited && self.join(q, waiter, P::now(), shape, &mut wakes))
        });
        wakes.wake_all();
        if joined {
            waiter.thread.steals.restart(P::now());
        } else if !held {
            waiter.wait_until_told();
        }
        joined
    }

    /// The waiter was granted the lock, and runs.
    fn start_tenure(&self, waiter: &Waiter<P>) {
        let now = P::now();
        waiter.thread.steals.restart(now);
        self.arrive_at_grant(now);
    }

    /// One turn of a new waiter that finds the lock free: whoever may steal it
    /// will, or has gone, and then those who sleep would not notice.
    fn wait_at_open_lock(
        &self,
        waiter: &Waiter<P>,
        watch: &mut Watch,
        shape: TenureShape,
    ) -> WaitOutcome {
        let now = P::now();
        if watch.sees_idle(self, now) {
            self.grant_if_free(false, shape);
        } else {
            let state = waiter.state();
            P::spin_until(waiter.state_word(), IDLE_NS, |now| now != state);
        }
        WaitOutcome::Woken
    }

    /// Nobody is inside and stealing is allowed.
    fn is_open(&self) -> bool {
        write_stealable(self.word.load(Ordering::Relaxed))
    }

    /// A reader that waits for a writer which will be gone in a moment gives its
    /// CPU to whoever the writer waits for, and does not go to sleep yet.
    fn waits_for_brief_writer(&self, waiter: &Waiter<P>) -> bool {
        waiter.kind == Kind::Reader
            && self.writers_are_brief()
            && P::now().saturating_sub(waiter.arrived) < GIVE_WAY_NS
    }

    /// One turn of the waiter that is next.
    fn wait_as_next(
        &self,
        waiter: &Waiter<P>,
        watch: &mut Watch,
        context: &WaitContext<'_, P>,
        shape: TenureShape,
    ) -> WaitOutcome {
        let now = P::now();
        let left = self.left(now);
        if left <= 0 {
            let word = self.close();
            if is_free(word) {
                self.grant_if_free(false, shape);
            } else if !self.stay_awake(waiter, DRAIN_NS) {
                return self.sleep(waiter, context.deadline, context);
            }
            return WaitOutcome::Woken;
        }
        let left = left as u64;
        let near = if self.tenure_is_readers() {
            self.next_is_called()
        } else {
            left <= (2 * self.lateness()).max(SPIN_THROUGH_NS)
        };
        if near || watch.lasts(now) || watch.is_undecided() {
            if watch.sees_idle(self, now) {
                self.grant_if_free(false, shape);
            } else {
                self.stay_awake(waiter, watch.pause().min(left));
            }
            return WaitOutcome::Woken;
        }
        let before = if self.tenure_is_readers() { 0 } else { self.lateness() + EARLY_NS };
        self.set_awaited(false);
        let timer = now + left.saturating_sub(before).min(watch.sleep());
        let until = context.deadline.map_or(timer, |deadline| deadline.min(timer));
        let outcome = self.sleep(waiter, Some(until), context);
        let woken = P::now();
        if outcome == WaitOutcome::TimedOut {
            self.note_lateness(woken.saturating_sub(timer));
        }
        watch.again(woken);
        outcome
    }

    /// Waits awake for `bound_ns` at most, spinning if the holder runs on
    /// another CPU and giving way to it if it does not. Whether it was granted.
    fn stay_awake(&self, waiter: &Waiter<P>, bound_ns: u64) -> bool {
        waiter.thread.note_cpu();
        self.set_awaited(true);
        if self.holder_may_be_running() {
            return P::spin_until(waiter.state_word(), bound_ns, |state| state != NEXT);
        }
        let start = P::now();
        while waiter.state() == NEXT && P::now() - start < bound_ns {
            P::yield_now();
        }
        waiter.state() != NEXT
    }

    fn sleep(
        &self,
        waiter: &Waiter<P>,
        until: Option<u64>,
        context: &WaitContext<'_, P>,
    ) -> WaitOutcome {
        waiter.thread.note_cpu();
        self.count(Event::sleep(waiter.kind));
        waiter.thread.parker.park(until, context.interruptible)
    }

    /// Gives up, unless the grant came first: then the lock is owned.
    fn leave(
        &self,
        waiter: &Waiter<P>,
        error: WaitError,
        shape: TenureShape,
    ) -> Result<(), WaitError> {
        let mut wakes = WakeList::new();
        let result = self.with_queue(|q| {
            if !q.waiters.holds(waiter) {
                return Ok(());
            }
            self.take_out(q, waiter);
            if !active(Fault::leaves_quietly(waiter.kind)) {
                self.recheck(q, P::now(), shape, &mut wakes); // rules 8 and 14
            }
            self.count(Event::fail(waiter.kind));
            Err(error)
        });
        wakes.wake_all();
        if result.is_ok() {
            waiter.wait_until_told();
            self.start_tenure(waiter);
        }
        result
    }
}

/// Watches the lock for idleness, ever more rarely: a look takes the holder's
/// cache line from it for a moment.
struct Watch {
    /// Watch until then before sleeping.
    until: u64,
    /// Whether there was a look since the last sleep.
    looked: bool,
    /// Since when every look found the lock free, and no steal in between.
    free_since: Option<u64>,
    steals: usize,
    pause: u64,
    sleep: u64,
}

impl Watch {
    fn new(now: u64) -> Self {
        Self {
            until: now + WATCH_NS,
            looked: false,
            free_since: None,
            steals: 0,
            pause: IDLE_NS,
            sleep: SLEEP_NS,
        }
    }

    fn lasts(&self, now: u64) -> bool {
        now < self.until
    }

    /// After a sleep: look, as often as it takes to decide.
    fn again(&mut self, now: u64) {
        self.until = now + 10 * IDLE_NS;
        self.looked = false;
        self.free_since = None;
        self.pause = IDLE_NS;
    }

    /// It has not looked yet, or not long enough at a lock that was free. Not
    /// a matter of time: this thread may be slow.
    fn is_undecided(&self) -> bool {
        !self.looked || self.free_since.is_some()
    }

    fn pause(&mut self) -> u64 {
        let pause = self.pause;
        self.pause = (pause * 2).min(LOOK_NS);
        pause
    }

    fn sleep(&mut self) -> u64 {
        let sleep = self.sleep;
        self.sleep = (sleep * 2).min(LONGEST_SLEEP_NS);
        sleep
    }

    fn sees_idle<P: Platform>(&mut self, lock: &RwSem<P>, now: u64) -> bool {
        let steals = lock.steals();
        let stolen = core::mem::replace(&mut self.steals, steals) != steals;
        let first = !core::mem::replace(&mut self.looked, true);
        if !is_free(lock.word.load(Ordering::Relaxed)) || (stolen && !first) {
            self.free_since = None;
            return false;
        }
        let since = *self.free_since.get_or_insert(now);
        let idle = if lock.tenure_is_readers() { READERS_IDLE_NS } else { IDLE_NS };
        now.saturating_sub(since) >= idle
    }
}
