//! Tasks that wait for a lock: a task is a waiter whose frame is its future.
//!
//! A thread takes the lock when it runs, and a task when it is polled. So the lock is *offered* to a task, and never granted:
//! no future that nobody polls owns it. A task waits in the same queue as threads do, and what it does as it is polled is
//! what the waiter that is next does as it looks at the lock (see [`wait`](super::wait)); then it asks to be woken, in the
//! step that sees the lock taken.
//!
//! # An offer that nobody takes
//!
//! A task that is next and was woken may not be polled: its future lies in a task that polls another one ("futurelock").
//! While it is only offered, the lock is open to all that run; or it is closed for the task, if a tenure was over. So the
//! task is late soon, as a thread is that does not run: see [`late`](super::late). Another future of the same task, which
//! is polled, takes the offer without a delay. If nobody comes, the [timer](super::offers) ends the offer. Where a platform has
//! none, offers end when somebody arrives.
//!
//! # A future that is forgotten
//!
//! R4, for tasks: a future is pinned, so the memory of its waiter stays until the future is dropped, which takes the waiter
//! out. But a future that is leaked no longer borrows the lock, which may then be moved or dropped while the waiter is
//! queued. The owner of a lock does that, and there is nobody inside. A lock that is dropped, or found at another place,
//! forgets its waiters: they are of leaked futures only. The timer never follows the address of a lock.

use core::marker::PhantomPinned;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Raw;
use super::raw::SlotOf;
use super::slot::{FewWakes, Queued};
use super::turn::Turns;
use super::word::{Flags, Word};
use super::words::Words;
use crate::platform::{Platform, PooledPlatform, System};
use crate::wait::{
    Access, Duty, FEW_LOOKS, INVITED, MISSED_NS, NEXT, WAITING, WaitError, Waiter, survive,
};

// ---- the future ----

/// A lock that tasks wait for.
pub(crate) trait TaskLock: Sync {
    type W: Words;

    fn raw(&self) -> &Raw<Self::W>;

    /// Takes the lock in this way, as a thread does that has just come, and need not wait.
    fn enter_at_once(&self, access: Access) -> bool;
}

type PlatformOf<L> = <<L as TaskLock>::W as Words>::P;

/// Waits for a lock, in this way.
pub(crate) struct Waiting<'a, L: TaskLock> {
    lock: &'a L,
    access: Access,
    stage: Stage<L>,
    /// In the queue of the slot, while that is the stage. It stays where it is, as the future is pinned.
    waiter: Option<Waiter<PlatformOf<L>>>,
    _pinned: PhantomPinned,
}

enum Stage<L: TaskLock> {
    /// It was not polled, or never had to wait.
    New,
    Queued(&'static SlotOf<L::W>),
    /// It has returned the lock, and waits no longer.
    Ended,
}

// SAFETY: the waiter is changed under the queue lock, or by the owner of the future, and its waker may be sent. The record that
// it refers to is `Sync`.
unsafe impl<L: TaskLock> Send for Waiting<'_, L> {}

/// What a poll has found.
enum Polled<W: Words> {
    Acquired,
    Queued(&'static SlotOf<W>),
}

impl<'a, L: TaskLock> Waiting<'a, L> {
    #[inline(always)]
    pub(crate) const fn new(lock: &'a L, access: Access) -> Self {
        Self { lock, access, stage: Stage::New, waiter: None, _pinned: PhantomPinned }
    }

    /// Ready when the task has the lock; from then on it is pending.
    ///
    /// # Panics
    /// If no more readers can be counted.
    #[inline]
    pub(crate) fn poll(self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if matches!(this.stage, Stage::New) && this.lock.enter_at_once(this.access) {
            this.stage = Stage::Ended;
            return Poll::Ready(());
        }
        this.poll_slow(context)
    }

    #[cold]
    fn poll_slow(&mut self, context: &Context<'_>) -> Poll<()> {
        let lock = self.lock.raw();
        if matches!(self.stage, Stage::Ended) {
            return Poll::Pending;
        }
        if self.access != Access::Exclusive && lock.load().is_full() {
            self.leave();
            panic!("{}", WaitError::TooManyReaders);
        }
        // Of the program: before anything is changed.
        let waker = context.waker().clone();
        let taken = match self.stage {
            Stage::Queued(slot) if slot.is_here() => {
                let Some(waiter) = &self.waiter else { unreachable!("queued without a waiter") };
                let turns = Turns { lock, slot };
                let (mut wakes, mut more) = (FewWakes::new(), FewWakes::new());
                let (taken, old) = turns.with_queue(|q| {
                    let old = waiter.task.polled(waker);
                    if q.is_next(waiter) {
                        turns.miss_no_more(q);
                    }
                    if waiter.is_late() {
                        waiter.set_duty(Duty::Sleeps);
                        turns.recheck(q, Some(waiter), &mut wakes);
                    }
                    (turns.look_as_task(q, waiter, &mut more), old)
                });
                wakes.wake_all();
                more.wake_all();
                survive(|| drop(old));
                taken
            }
            // Or in a slot of the parent of a fork, where nobody is.
            _ => {
                let arrived = PlatformOf::<L>::now();
                let thread = PlatformOf::<L>::thread();
                self.waiter = Some(Waiter::of_task(self.access, thread, arrived, waker));
                // Not by `&mut`: that would be the only reference to the waiter.
                let Some(waiter) = &self.waiter else { unreachable!("it was just made") };
                // SAFETY: it stays there, as the future is pinned, until it is out of the queue.
                match unsafe { lock.queue_task(waiter) } {
                    Polled::Acquired => true,
                    Polled::Queued(slot) => {
                        self.stage = Stage::Queued(slot);
                        false
                    }
                }
            }
        };
        if !taken {
            return Poll::Pending;
        }
        self.stage = Stage::Ended;
        self.retire();
        Poll::Ready(())
    }

    /// Leaves the queue, if it is there, without the lock.
    fn leave(&mut self) {
        let stage = core::mem::replace(&mut self.stage, Stage::Ended);
        match (stage, &self.waiter) {
            (Stage::Queued(slot), Some(waiter)) if slot.is_here() => {
                let mut wakes = FewWakes::new();
                let turns = Turns { lock: self.lock.raw(), slot };
                turns.with_queue(|q| turns.leave(q, waiter, &mut wakes));
                wakes.wake_all();
            }
            _ => {}
        }
        self.retire();
    }

    /// The waiter, which is out of the queue, has no waker from here on.
    fn retire(&self) {
        if let Some(waker) = self.waiter.as_ref().and_then(|waiter| waiter.task.take_waker()) {
            survive(|| drop(waker));
        }
    }
}

impl<L: TaskLock> Drop for Waiting<'_, L> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.stage, Stage::New | Stage::Ended) {
            self.leave();
        }
    }
}

// ---- in the queue ----

impl<W: Words> Raw<W> {
    /// Queues the task, which is polled, unless it can have the lock.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until it is out of that of the slot that is returned.
    unsafe fn queue_task(&self, waiter: &Waiter<W::P>) -> Polled<W> {
        let has_timer = W::P::slots().has_timer();
        let (mut wakes, mut more) = (FewWakes::new(), FewWakes::new());
        let polled = loop {
            let mut is_watched = true;
            let queued = self.with_slot(|q, slot| {
                let turns = Turns { lock: self, slot };
                // SAFETY: the caller's promise.
                let polled = unsafe { turns.arrive_task(q, waiter, &mut wakes, &mut more) };
                if has_timer && matches!(polled, Some(Polled::Queued(_))) {
                    is_watched = core::mem::replace(&mut q.is_watched, true);
                }
                polled
            });
            match queued {
                Ok(polled) => {
                    if let (Polled::Queued(slot), false) = (&polled, is_watched) {
                        W::P::slots().watch(slot);
                    }
                    break polled;
                }
                Err(odd) if self.0.enter_odd(odd, waiter.access) => break Polled::Acquired,
                Err(_) => {}
            }
        };
        wakes.wake_all();
        more.wake_all();
        polled
    }

    /// Takes the lock in this way past the queue, as a thread does that has just come.
    #[cold]
    pub(super) fn enter_past_queue(&self, access: Access) -> bool {
        let word = self.load();
        let pauses = access == Access::Shared && self.holds_off(word);
        !word.is_odd() && !pauses && self.steal_in_turn(word, access)
            || self.steal_past_late(access)
    }

    /// Takes the lock in this way past waiters that are all late. Never blocks.
    #[cold]
    pub(super) fn steal_past_late(&self, access: Access) -> bool {
        let word = self.here(self.load());
        if !word.has_waiters() || !word.may_take_next(access) {
            return false;
        }
        let mut wakes = FewWakes::new();
        let Some(slot) = Self::slot(word) else { return false };
        // As an attempt does not block.
        let Some(mut queued) = slot.try_lock() else { return false };
        if self.load().name() != word.name() {
            return false;
        }
        let turns = Turns { lock: self, slot };
        turns.look(&mut queued, None, W::P::now(), &mut wakes);
        let taken = queued.is_next_late().then(|| turns.take_past_late(access)).flatten();
        drop(queued);
        wakes.wake_all();
        taken.map(|before| self.note(access, before)).is_some()
    }
}

impl<W: Words> Turns<'_, W> {
    /// Queues the task, which is polled, unless it can have the lock. Nothing if the lock has another slot by now.
    ///
    /// # Safety
    /// As [`arrive`](Self::arrive).
    unsafe fn arrive_task(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
        more: &mut FewWakes<W::P>,
    ) -> Option<Polled<W>> {
        self.look(q, None, waiter.arrived, wakes);
        if self.enters(q, waiter.access, 0)
            || q.is_next_late() && self.take_past_late(waiter.access).is_some()
        {
            return Some(Polled::Acquired);
        }
        // SAFETY: the caller's promise.
        unsafe { self.queue_up(q, waiter, wakes)? };
        self.wake_unwoken(q, waiter, wakes);
        let taken = self.look_as_task(q, waiter, more);
        Some(if taken { Polled::Acquired } else { Polled::Queued(self.slot) })
    }

    /// Takes the lock in this way past waiters, all of which are late; returns the word before.
    fn take_past_late(&self, access: Access) -> Option<Word> {
        let may = |word: Word| word.may_take_next(access) && !word.is_closed();
        self.lock.0.take_while(self.lock.load(), access, may)
    }

    /// The task, which is queued and polled, takes the lock if it may. Otherwise it will be woken.
    fn look_as_task(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
    ) -> bool {
        let now = W::P::now();
        self.end_offer_to_task(q, waiter, now, wakes);
        self.look(q, Some(waiter), now, wakes);
        if waiter.state() == INVITED {
            if self.take(q, waiter, now, wakes) {
                return true;
            }
            self.decline(q, waiter);
        }
        if waiter.state() != NEXT {
            return false;
        }
        let over = q.clock.is_over(now);
        if over {
            self.lock.close();
        }
        // It lets others run if the lock is taken and left that often as it looks.
        for _ in 0..FEW_LOOKS {
            if self.take(q, waiter, now, wakes) {
                return true;
            }
            // In the same step as seeing the lock taken: the release that leaves it free sees the flag.
            let word = self.lock.0.set(Flags::WAKE_NEXT);
            if !word.may_take_next(waiter.access) {
                q.unwoken = false;
                let is_seen = W::is_seen(word);
                if !is_seen && !W::P::slots().has_timer() {
                    break;
                }
                // Readers may overlap so that the lock is never free. The release of a mutex may not see the flag (R7).
                let end = if over { u64::MAX } else { q.clock.end() };
                waiter.task.set_due(if is_seen { end } else { end.min(now + MISSED_NS) });
                return false;
            }
            self.lock.0.clear(Flags::WAKE_NEXT);
        }
        // It is polled again when its runtime has let others run.
        self.wake_appointed(q, wakes);
        false
    }

    /// If the task was woken for another of its futures, which is next, and polls this one, its `own`, that one does not come: this
    /// one is next, if it may take the lock.
    fn end_offer_to_task(
        &self,
        q: &mut Queued<W::P>,
        own: &Waiter<W::P>,
        now: u64,
        wakes: &mut FewWakes<W::P>,
    ) {
        let of_task =
            |next: &&Waiter<W::P>| !core::ptr::eq(*next, own) && next.task.is_same(&own.task);
        let Some(next) = q.awaited().filter(of_task).filter(|_| q.missed != 0) else { return };
        if self.lock.load().may_take_next(own.access) {
            next.set_state(WAITING);
            own.set_state(NEXT);
            q.next = own;
            self.miss_no_more(q);
        } else {
            self.pass(q, Some(own), now, wakes);
        }
    }
}

impl<P: Platform> Queued<P> {
    /// The lock was moved, or is dropped: those that wait do so in futures that were leaked.
    pub(super) fn forget_waiters(&mut self) {
        self.waiters = crate::wait::Queue::new();
        self.next = core::ptr::null();
        (self.is_promised, self.unwoken, self.missed) = (false, false, 0);
    }
}
