//! The wait for a range, and how it ends.
//!
//! 1. *Awake.* While sections are short, the thread tries again for a few microseconds. If the
//!    section in its way is not short, it queues as in 3, but leaves the queue again before it
//!    would sleep. A running thread takes its turn at once, so order costs nothing then, and lets
//!    others run beside each other; a thread that sleeps in the queue would make the others wait
//!    for its wake-up. Hence only so many threads queue in this way that the holders keep a CPU,
//!    and none queues behind more ranges than are likely to leave during such a wait.
//! 2. *Patient.* Then the thread sleeps, and running threads may overtake it: they can use the
//!    range a thousand times while a sleeping thread wakes up. `patient` says how it is woken when
//!    its range becomes free, without a wake-up for each of those thousand times.
//! 3. *Queued.* After the time that the policy sets, its range enters the tree, and so do those of
//!    all that came before it. From then on the published rules hold: no overlapping range gets
//!    past it, and the last range in its way lets it in on leaving. The thread queues while it is
//!    awake, so the grant mostly finds it awake.
//!
//! With [`RangePolicy::FIFO`](super::RangePolicy::FIFO) there is only 3. The same goes for a
//! recursive read, which is queued ahead of all others.

pub(super) mod late;
pub(super) mod patient;
pub(super) mod shown;
pub(super) mod waiter;

use core::sync::atomic::Ordering;

use super::slots::Missed;
use super::span::Span;
use super::{Core, Hold, Request};
use crate::events::Event;
use crate::lock::Lookout;
use crate::platform::{Atomic, PooledPlatform, Thread};
use crate::wait::{FEW_LOOKS, Kind, LOOK_NS, MISSED_NS, WAKE_NS, WATCH_NS, WaitContext, WaitError};
use patient::Rest;
use waiter::RangeWaiter;

/// How long a new waiter keeps away from short sections, at first and at most. In ns; compared with
/// nothing: it is the length of a pause, which doubles.
const PAUSE_NS: (u64, u64) = (2_000, 8_000);
/// How many ranges in the way, for each CPU, can be expected to leave while the thread behind them
/// stays awake. Of more ranges most holders do not run; and each is counted, under the tree lock.
/// In ranges for each CPU; compared with those in the waiter's way.
const IN_WAY_A_CPU: usize = 2;

impl<P: PooledPlatform> Core<P> {
    /// Waits for a range that could not be had at once; recursively, ahead of those
    /// that wait for it. `None` if the gate has to be passed first.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_for_range(
        &self,
        span: Span,
        request: Request,
        context: &WaitContext<'_, P>,
    ) -> Result<Option<Hold>, WaitError> {
        let me = P::thread();
        let arrived = P::now();
        let (kind, recursive) = (request.kind(), request == Request::ReadRecursive);
        if !recursive && !self.policy.is_fifo() {
            let had = match self.spin(span, kind, arrived, context) {
                // An attempt whose time is over does not queue.
                Err(Missed::Slot(_) | Missed::Tree) if context.expired(P::now).is_none() => {
                    self.queue_awake(me, span, kind, context)
                }
                result => result,
            };
            match had {
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
        context.listed(me, || self.wait_listed(&waiter, recursive, context))
    }

    /// One attempt: by a slot alone, or by asking the tree.
    pub(super) fn attempt(&self, span: Span, kind: Kind) -> Result<Hold, Missed> {
        match self.try_slot(span, kind) {
            Err(Missed::Unknown) => self.try_beside_tree(span, kind),
            result => result,
        }
    }

    /// Tries for a while, as long as sections are short. The pauses between two attempts become
    /// longer: two CPUs that fight for a range use it less than one that has it.
    fn spin(
        &self,
        span: Span,
        kind: Kind,
        started: u64,
        context: &WaitContext<'_, P>,
    ) -> Result<Hold, Missed> {
        let mut pause = PAUSE_NS.0;
        let mut tree_looks = 0;
        loop {
            let result = self.attempt(span, kind);
            match result {
                Err(Missed::Slot(slot)) => {
                    let slot = self.seat(usize::from(slot)).packed;
                    // Relaxed: only to see it change.
                    let there = slot.load(Ordering::Relaxed);
                    // To be handed the range from the queue would cost more than a short section
                    // takes.
                    if !context.spin(slot, LOOK_NS, |now| now != there) {
                        return result;
                    }
                    context.stand_back(pause);
                    pause = (2 * pause).min(PAUSE_NS.1);
                }
                Err(Missed::Tree) if tree_looks < FEW_LOOKS => {
                    tree_looks += 1;
                    context.stand_back(LOOK_NS);
                }
                _ => return result,
            }
            if P::now().wrapping_sub(started) >= WATCH_NS {
                return Err(Missed::Unknown);
            }
        }
    }

    /// Queues while awake, unless so many do already that no CPU would be left for those in the
    /// way, or those are too many to leave soon. Comes back without the range before it would
    /// sleep.
    fn queue_awake(
        &self,
        me: &'static Thread<P>,
        span: Span,
        kind: Kind,
        context: &WaitContext<'_, P>,
    ) -> Result<Hold, Missed> {
        let waiter = RangeWaiter::new(me, span, kind, P::now());
        self.with_queue_and_wakes(|q, wakes| {
            self.look(q, &waiter, wakes);
            let most = IN_WAY_A_CPU * P::cpus();
            if q.ranges.waiting() + 1 >= P::cpus() || q.ranges.has_more_in_way(span, kind, most) {
                return Err(Missed::Unknown);
            }
            // SAFETY: the waiter stays in this frame, which is left after a grant or
            // after `take_out` only.
            unsafe { self.enqueue(q, &waiter, None, wakes) }
        })?;
        context.spin(waiter.state_word(), WAKE_NS, |s| s == waiter::GRANTED);
        let granted = match waiter.state() {
            waiter::GRANTED => Some(waiter.node()),
            _ => self.with_queue_and_wakes(|q, wakes| q.take_out(&waiter, wakes)),
        };
        granted.map(Hold::node).ok_or(Missed::Unknown)
    }

    /// Lists or queues the waiter, and waits until it has its range or gives up.
    pub(super) fn wait_listed(
        &self,
        waiter: &RangeWaiter<P>,
        recursive: bool,
        context: &WaitContext<'_, P>,
    ) -> Result<Option<Hold>, WaitError> {
        let (mut lookout, mut due) = (Lookout::new(3 * MISSED_NS), None);
        let listed = self.with_queue_and_wakes(|q, wakes| {
            due = self.look(q, waiter, wakes);
            // SAFETY: the caller keeps the waiter in its frame while this runs,
            // and every way out of here is after a grant or after `take_out`.
            unsafe {
                if recursive || self.policy.is_fifo() {
                    self.enqueue(q, waiter, recursive.then_some(0), wakes)
                } else {
                    self.list(q, waiter)
                }
            }
        });
        if listed.is_err() {
            return Ok(None);
        }
        let mut has_spun = false;
        let mut ended = context.expired(P::now);
        loop {
            let state = waiter.state();
            match state {
                waiter::GRANTED => return Ok(Some(Hold::node(waiter.node()))),
                waiter::OFFERED | waiter::PASSED => {
                    // SAFETY: as above.
                    match unsafe { self.come(waiter) } {
                        Ok(None) => continue,
                        Ok(hold) => return Ok(hold),
                        Err(_) => return Ok(None),
                    }
                }
                _ => {}
            }
            // A waiter that is shown to be asleep does not try: an attempt in vain takes a slot for
            // a moment, and leaving that would wake the waiter itself, again and again.
            if state == waiter::AWAKE {
                if let Ok(hold) = self.attempt(waiter.span, waiter.kind) {
                    // A range that was granted meanwhile is given back.
                    let granted = self.with_queue_and_wakes(|q, wakes| q.take_out(waiter, wakes));
                    if let Some(id) = granted {
                        self.release_node(id);
                    }
                    return Ok(Some(hold));
                }
            }
            let may_be_overtaken = matches!(state, waiter::AWAKE | waiter::ASLEEP);
            if !may_be_overtaken && !core::mem::replace(&mut has_spun, true) {
                context.spin(waiter.state_word(), WAKE_NS, |s| s == waiter::GRANTED);
                continue;
            }
            if let Some(error) = ended {
                return self.leave(waiter, error).map(Some);
            }
            let rest = match may_be_overtaken {
                true => self.rest(waiter),
                false => self.rest_queued(waiter, &mut lookout, due.take()),
            };
            let Rest::Until(timer) = rest else { continue };
            self.events.count(Event::sleep(waiter.kind));
            ended = context.sleep(&waiter.thread.parker, timer);
        }
    }

    /// Gives up, unless the grant came first: then the range is held (defect 6).
    fn leave(&self, waiter: &RangeWaiter<P>, error: WaitError) -> Result<Hold, WaitError> {
        let granted = self.with_queue_and_wakes(|q, wakes| q.take_out(waiter, wakes));
        match granted {
            Some(id) => Ok(Hold::node(id)),
            None => {
                self.events.count(Event::fail(waiter.kind));
                Err(error)
            }
        }
    }
}
