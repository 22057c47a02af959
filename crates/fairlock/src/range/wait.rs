//! The wait for a range, and the ways to leave it.
//!
//! 1. *Awake.* For a moment the thread tries again whenever what is in its way
//!    changes: most sections end sooner than a thread falls asleep.
//! 2. *Patient.* Then it sleeps, and running threads may overtake it: a thread
//!    that runs can use the range a thousand times while a sleeping one wakes up.
//!    A release pokes the waiter that has waited longest, but not at every
//!    release: that would cost more than the range is used for. The one in front
//!    also looks by itself now and then, for a range that has fallen idle.
//! 3. *Queued.* After the time that the policy sets, its range enters the tree,
//!    and so do those of all that came before it. From there on the published
//!    rules hold: nobody whose range overlaps gets past it, and who is in its way
//!    lets it in on leaving. It comes here awake, so the grant mostly finds it so.
//!
//! With [`RangePolicy::FIFO`](super::RangePolicy::FIFO) there is only 3.

use core::sync::atomic::Ordering;

use super::faults::faulty_lock;
use super::slots::Missed;
use super::span::Span;
use super::waiter::{self, RangeWaiter};
use super::{Hold, RangeRwLock};
use crate::events::Event;
use crate::platform::{Atomic, Platform, WaitOutcome};
use crate::wait::{Kind, WaitContext, WaitError};

/// How long a new waiter tries before it sleeps: about what a wake-up costs.
const SPIN_NS: u64 = 20_000;
/// Between two attempts while the tree is in the way, which does not say when it
/// changes.
const RETRY_NS: u64 = 1_000;
/// How long a spinning waiter keeps away from short sections, at first and at most.
const PAUSE_NS: (u64, u64) = (500, 4_000);
/// How long a queued waiter waits for its grant before it sleeps.
const SPIN_QUEUED_NS: u64 = 50_000;
/// The shortest time between two pokes: a poke costs the releasing thread a few
/// microseconds, and it is not to spend more than a few percent on them.
const POKE_NS: u64 = 100_000;
/// How long the waiter in front sleeps at first before it looks by itself.
const NAP_NS: u64 = 500_000;
/// A waiter that should have queued this long ago is queued by whoever notices:
/// it has not got a CPU.
const OVERDUE_NS: u64 = 500_000;

impl<P: Platform> RangeRwLock<P> {
    /// Waits for a range that could not be had at once. `None` if the gate has to
    /// be passed first.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_for_range(
        &self,
        span: Span,
        kind: Kind,
        context: &WaitContext<'_, P>,
    ) -> Result<Option<Hold>, WaitError> {
        let me = P::thread();
        let arrived = P::now();
        if !self.policy.is_fifo() {
            match self.spin(span, kind, arrived) {
                Ok(hold) => return Ok(Some(hold)),
                Err(Missed::Gate) => return Ok(None),
                Err(_) => {}
            }
        }
        if let Some(error) = context.expired(P::now) {
            return Err(error);
        }
        me.parker.forget_notification();
        let waiter = RangeWaiter::new(me, span, kind, arrived);
        match context.cancel {
            Some(token) => token.with_registered(me, || self.wait_listed(&waiter, context)),
            None => self.wait_listed(&waiter, context),
        }
    }

    /// Waits for a range, for reading, ahead of those that wait for it. `None` if the
    /// gate has to be passed first.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_ahead(&self, span: Span) -> Option<Hold> {
        let me = P::thread();
        me.parker.forget_notification();
        let waiter = RangeWaiter::new(me, span, Kind::Reader, P::now());
        // SAFETY: the waiter is in this frame, which stays until it is granted.
        let entered =
            self.with_queue_and_wakes(|q, wakes| unsafe { self.enqueue_ahead(q, &waiter, wakes) });
        entered.ok()?;
        let granted = |state| state == waiter::GRANTED;
        while !P::spin_until(waiter.state_word(), SPIN_QUEUED_NS, granted) {
            self.sleep(&waiter, None, &WaitContext::FOREVER);
        }
        Some(Hold::node(waiter.node()))
    }

    /// One attempt: by a slot alone, or by asking the tree.
    pub(super) fn attempt(&self, span: Span, kind: Kind) -> Result<Hold, Missed> {
        match self.try_slot(span, kind) {
            Err(Missed::Unknown) => self.try_beside_tree(span, kind),
            result => result,
        }
    }

    /// Tries for a while. Where sections are short it keeps away for ever longer:
    /// two CPUs that fight for a range use it less than one that has it.
    fn spin(&self, span: Span, kind: Kind, started: u64) -> Result<Hold, Missed> {
        let still = P::AtomicU32::new(0);
        let mut pause = PAUSE_NS.0;
        let mut looked = started;
        loop {
            let result = self.attempt(span, kind);
            match result {
                Ok(_) | Err(Missed::Gate) => return result,
                Err(Missed::Slot(slot)) => {
                    let slot = &self.slots[usize::from(slot)];
                    // Relaxed: only to see it change.
                    let there = slot.load(Ordering::Relaxed);
                    P::spin_until(slot, RETRY_NS, |now| now != there);
                }
                Err(_) => {
                    P::spin_until(&still, RETRY_NS, |_| false);
                }
            }
            let now = P::now();
            if now.wrapping_sub(looked) < RETRY_NS {
                P::spin_until(&still, pause, |_| false);
                pause = (2 * pause).min(PAUSE_NS.1);
            }
            looked = P::now();
            if looked.wrapping_sub(started) >= SPIN_NS {
                return result;
            }
        }
    }

    /// Lists or queues the waiter, and waits until it has its range or gives up.
    fn wait_listed(
        &self,
        waiter: &RangeWaiter<P>,
        context: &WaitContext<'_, P>,
    ) -> Result<Option<Hold>, WaitError> {
        let fifo = self.policy.is_fifo();
        let listed = self.with_queue_and_wakes(|q, wakes| {
            // SAFETY: the caller keeps the waiter in its frame while this runs,
            // and every way out of here is after a grant or after `take_out`.
            unsafe { if fifo { self.enqueue(q, waiter, wakes) } else { self.list(q, waiter) } }
        });
        if listed.is_err() {
            return Ok(None);
        }
        let mut nap = NAP_NS;
        let mut has_spun = false;
        loop {
            let outcome = match waiter.state() {
                waiter::GRANTED => return Ok(Some(Hold::node(waiter.node()))),
                waiter::PATIENT => {
                    if let Ok(hold) = self.attempt(waiter.span, waiter.kind) {
                        self.leave_with(waiter);
                        return Ok(Some(hold));
                    }
                    if let Some(error) = context.expired(P::now) {
                        return self.leave(waiter, error).map(Some);
                    }
                    match self.patient_until(waiter, &mut nap) {
                        Some(until) => {
                            let until = context.deadline.map_or(until, |end| end.min(until));
                            self.sleep(waiter, Some(until), context)
                        }
                        None => continue,
                    }
                }
                _ if !has_spun => {
                    has_spun = true;
                    P::spin_until(waiter.state_word(), SPIN_QUEUED_NS, |s| s == waiter::GRANTED);
                    continue;
                }
                _ => {
                    if let Some(error) = context.expired(P::now) {
                        return self.leave(waiter, error).map(Some);
                    }
                    self.sleep(waiter, context.deadline, context)
                }
            };
            if outcome == WaitOutcome::Interrupted && context.interruptible {
                return self.leave(waiter, WaitError::Interrupted).map(Some);
            }
        }
    }

    /// Until when a waiter that may be overtaken sleeps. If its time is over it is
    /// queued instead: `None`.
    fn patient_until(&self, waiter: &RangeWaiter<P>, nap: &mut u64) -> Option<u64> {
        self.with_queue_and_wakes(|q, wakes| {
            let now = P::now();
            let end = waiter.arrived + self.policy.patience_ns(q.patient.len());
            if now >= end {
                self.enqueue_up_to(q, waiter, wakes);
                return None;
            }
            if !q.patient.first().is_some_and(|first| core::ptr::eq(first, waiter)) {
                return Some(end);
            }
            let until = now + *nap;
            *nap *= 2;
            Some(until.min(end))
        })
    }

    fn sleep(
        &self,
        waiter: &RangeWaiter<P>,
        until: Option<u64>,
        context: &WaitContext<'_, P>,
    ) -> WaitOutcome {
        self.count(Event::sleep(waiter.kind));
        waiter.thread.parker.park(until, context.interruptible)
    }

    /// Gives up, unless the grant came first: then the range is held (defect 6).
    fn leave(&self, waiter: &RangeWaiter<P>, error: WaitError) -> Result<Hold, WaitError> {
        let granted = self.with_queue_and_wakes(|q, wakes| self.take_out(q, waiter, wakes));
        match granted {
            Some(hold) if !faulty_lock!(self, ForgetsGrant) => Ok(hold),
            _ => {
                self.count(Event::fail(waiter.kind));
                Err(error)
            }
        }
    }

    /// The waiter has its range by an attempt of its own: what it may have been
    /// granted meanwhile it gives back.
    fn leave_with(&self, waiter: &RangeWaiter<P>) {
        let granted = self.with_queue_and_wakes(|q, wakes| self.take_out(q, waiter, wakes));
        if let Some(hold) = granted {
            // SAFETY: it was granted to this waiter, which uses it no further.
            unsafe { self.release(hold, waiter.span, waiter.kind) };
        }
    }

    /// Somebody who may be overtaken waits, and `span` was just released or
    /// downgraded: wakes the one that has waited longest for a part of it, now
    /// and then.
    #[cold]
    pub(super) fn poke(&self, span: Span) {
        let Some(look) = P::thread().steals.tick::<P>() else { return };
        // Relaxed: how often is a matter of speed.
        let last = self.poked.load(Ordering::Relaxed);
        if look.now.saturating_sub(last) < POKE_NS {
            return;
        }
        self.poked.store(look.now, Ordering::Relaxed);
        self.with_queue_and_wakes(|q, wakes| {
            let patience = self.policy.patience_ns(q.patient.len());
            let overdue = look.now.saturating_sub(patience + OVERDUE_NS);
            while let Some(first) = q.patient.first()
                && first.arrived < overdue
            {
                let first = core::ptr::from_ref(first);
                self.enqueue_up_to(q, first, wakes);
            }
            if let Some(first) = q.patient.iter().find(|waiter| waiter.span.overlaps(&span)) {
                wakes.push(first.thread);
                self.count(Event::wake(first.kind));
            }
        });
    }
}
