//! Tasks that wait for a lock or a semaphore: a task is a waiter whose frame is its future.
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
use core::task::{Context, Poll, Waker};

use super::Raw;
use super::late::Line;
use super::raw::SlotOf;
use super::slot::{FewWakes, Queued};
use super::turn::Turns;
use super::word::{Flags, Word};
use super::words::{Names, Words};
use crate::platform::{Platform, PooledPlatform, System};
use crate::system::Cell;
use crate::wait::{
    Access, Duty, FEW_LOOKS, INVITED, MISSED_NS, NEXT, Sleeper, WAITING, WaitError, Waiter, survive,
};

// ---- the future ----

/// What tasks wait for.
pub(crate) trait TaskLock: Sync {
    type W: Names;

    /// What a task wants of it.
    type Request: Copy;

    type Line<'a>: TaskLine<P = PlatformOf<Self>>
    where
        Self: 'a;

    fn raw(&self) -> &Raw<Self::W>;

    /// The queue in this slot, which it has.
    fn line(&self, slot: &'static SlotOf<Self::W>) -> Self::Line<'_>;

    /// The waiter of a task that wants this.
    fn waiter(request: Self::Request, task: Task<PlatformOf<Self>>) -> Waiter<PlatformOf<Self>>;

    /// Takes it in this way by the few steps that suffice if it is free.
    fn enter_at_once(&self, request: Self::Request) -> bool;

    /// Takes it in this way, as a thread does that has just come, and need not wait.
    fn enter_past_queue(&self, request: Self::Request) -> bool;

    /// Takes it in this way if that needs no waiting.
    fn try_enter(&self, request: Self::Request) -> bool;

    /// It has this word, by which it has no slot: as [`Words::enter_odd`].
    fn enter_odd(&self, word: Word, request: Self::Request) -> bool;

    /// Whether it can never be taken in this way, as it is.
    fn is_full(&self, request: Self::Request) -> bool;
}

/// A queue in which tasks wait.
pub(crate) trait TaskLine: Line {
    /// Queues the task, which is polled, unless it need not wait: whether it is queued. Nothing if there is another slot by now.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until it is out of this one.
    unsafe fn arrive_task(
        &self,
        q: &mut Queued<Self::P>,
        waiter: &Waiter<Self::P>,
        wakes: &mut FewWakes<Self::P>,
        more: &mut FewWakes<Self::P>,
    ) -> Option<bool>;

    /// The task, which is queued and was polled at `now`, takes what it waits for if it may. Otherwise it will be woken.
    fn look_as_task(
        &self,
        q: &mut Queued<Self::P>,
        waiter: &Waiter<Self::P>,
        now: u64,
        wakes: &mut FewWakes<Self::P>,
    ) -> bool;

    /// Out of the queue, without what it waits for.
    fn leave(
        &self,
        q: &mut Queued<Self::P>,
        waiter: &Waiter<Self::P>,
        wakes: &mut FewWakes<Self::P>,
    );

    /// If the task was woken for another of its futures, which is next, and polls this one, its `own`, that one does not come: this
    /// one is next, if it may have what it waits for.
    fn end_offer_to_task(
        &self,
        q: &mut Queued<Self::P>,
        own: &Waiter<Self::P>,
        now: u64,
        wakes: &mut FewWakes<Self::P>,
    ) {
        let of_task =
            |next: &&Waiter<Self::P>| !core::ptr::eq(*next, own) && next.task.is_same(&own.task);
        let Some(next) = q.awaited().filter(of_task).filter(|_| q.missed != 0) else { return };
        if self.is_left_to(own) {
            next.set_state(WAITING);
            own.set_state(NEXT);
            q.set_next(own);
            self.miss_no_more(q);
        } else {
            self.pass(q, Some(own), now, wakes);
        }
    }
}

type PlatformOf<L> = <<L as TaskLock>::W as Names>::P;

/// A task's wait for `L`. Its owner says for what at each poll, so it has nothing to store before it is queued.
#[allow(private_bounds, reason = "nobody else can name it")]
pub struct Waiting<'a, L: TaskLock> {
    stage: Stage<'a, L>,
    _pinned: PhantomPinned,
}

enum Stage<'a, L: TaskLock> {
    /// It was not polled, or never had to wait.
    New,
    Queued(Place<'a, L>),
    /// It has returned the lock, and waits no longer.
    Ended,
}

/// A task in the queue. It stays where it is, as the future is pinned.
struct Place<'a, L: TaskLock> {
    lock: &'a L,
    /// None: it is about to be queued.
    slot: Cell<Option<&'static SlotOf<L::W>>>,
    waiter: Waiter<PlatformOf<L>>,
}

// SAFETY: the waiter is changed under the queue lock, or by the owner of the future, and its waker may be sent. The record that
// it refers to is `Sync`.
unsafe impl<L: TaskLock> Send for Waiting<'_, L> {}

/// What a poll has found.
enum Polled<W: Names> {
    Acquired,
    Queued(&'static SlotOf<W>),
    /// No slot could be had for the queue.
    Lacking,
}

#[allow(private_bounds, reason = "as above")]
impl<'a, L: TaskLock> Waiting<'a, L> {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { stage: Stage::New, _pinned: PhantomPinned }
    }

    /// Ready when the task has what it wants of the lock, or can never have it as no more readers can be counted; from then on
    /// it is pending. Each call is for the same. If the wait is `over`, it does not queue.
    #[inline(always)]
    pub(crate) fn poll(
        self: Pin<&mut Self>,
        lock: &'a L,
        request: L::Request,
        context: &Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<(), WaitError>> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if matches!(this.stage, Stage::New) && lock.enter_at_once(request) {
            // It was new: nothing is dropped.
            core::mem::forget(core::mem::replace(&mut this.stage, Stage::Ended));
            return Poll::Ready(Ok(()));
        }
        this.poll_slow(lock, request, context, over)
    }

    #[cold]
    #[inline(never)]
    fn poll_slow(
        &mut self,
        lock: &'a L,
        request: L::Request,
        context: &Context<'_>,
        over: &dyn Fn() -> Option<WaitError>,
    ) -> Poll<Result<(), WaitError>> {
        match &self.stage {
            Stage::Ended => return Poll::Pending,
            Stage::New if lock.enter_past_queue(request) => {
                self.stage = Stage::Ended;
                return Poll::Ready(Ok(()));
            }
            _ => {}
        }
        if lock.is_full(request) {
            self.leave();
            return Poll::Ready(Err(WaitError::TooManyReaders));
        }
        let over = if self.place().is_none() { over() } else { None };
        if let Some(error) = over {
            let taken = lock.try_enter(request);
            self.end(Stage::Ended);
            return Poll::Ready(if taken { Ok(()) } else { Err(error) });
        }
        // Of the program: before anything is changed.
        let waker = context.waker().clone();
        let taken = match self.place() {
            Some((place, slot)) => place.look(slot, waker),
            // Or in a slot of the parent of a fork, where nobody is.
            None => {
                let arrived = PlatformOf::<L>::now();
                let thread = PlatformOf::<L>::thread();
                let waiter = L::waiter(request, Task { thread, arrived, waker });
                self.stage = Stage::Queued(Place { lock, slot: Cell::new(None), waiter });
                // Not by `&mut`: that would be the only reference to the waiter.
                let Stage::Queued(place) = &self.stage else { unreachable!("it was just made") };
                // SAFETY: it stays there, as the future is pinned, until it is out of the queue.
                match unsafe { queue_task(lock, request, &place.waiter) } {
                    Polled::Acquired => true,
                    Polled::Queued(slot) => {
                        place.slot.set(Some(slot));
                        false
                    }
                    Polled::Lacking => {
                        self.end(Stage::New);
                        // It is polled again when its runtime has let others run.
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
            }
        };
        if !taken {
            return Poll::Pending;
        }
        self.end(Stage::Ended);
        Poll::Ready(Ok(()))
    }

    /// Where it is queued, if it is.
    fn place(&self) -> Option<(&Place<'a, L>, &'static SlotOf<L::W>)> {
        let Stage::Queued(place) = &self.stage else { return None };
        place.slot.get().filter(|slot| slot.is_here()).map(|slot| (place, slot))
    }

    /// Waits no longer, and stays pending.
    pub(crate) fn give_up(self: Pin<&mut Self>) {
        // SAFETY: nothing is moved out of it.
        unsafe { self.get_unchecked_mut() }.leave();
    }

    /// Leaves the queue, if it is there, without the lock.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        if let Some((place, slot)) = self.place() {
            let mut wakes = FewWakes::new();
            let line = place.lock.line(slot);
            line.with_queue(|q| line.leave(q, &place.waiter, &mut wakes));
            wakes.wake_all();
        }
        self.end(Stage::Ended);
    }

    /// The waiter, if there is one, is out of the queue, and is not needed any more.
    fn end(&mut self, stage: Stage<'a, L>) {
        if let Stage::Queued(place) = &self.stage {
            let waker = place.waiter.task.take_waker();
            survive(|| drop(waker));
        }
        self.stage = stage;
    }
}

impl<L: TaskLock> Place<'_, L> {
    /// The task, which is polled and has this waker from here on, looks at the lock: whether it has it now.
    fn look(&self, slot: &'static SlotOf<L::W>, waker: Waker) -> bool {
        let (line, waiter) = (self.lock.line(slot), &self.waiter);
        let (mut wakes, mut more) = (FewWakes::new(), FewWakes::new());
        let (taken, old) = line.with_queue(|q| {
            let now = PlatformOf::<L>::now();
            let old = waiter.task.polled(waker);
            if q.is_next(waiter) {
                line.miss_no_more(q);
            }
            if waiter.is_late() {
                waiter.task.comes_late(now);
                waiter.set_duty(Duty::Sleeps);
                line.recheck(q, Some(waiter), &mut wakes);
            }
            (line.look_as_task(q, waiter, now, &mut more), old)
        });
        wakes.wake_all();
        more.wake_all();
        survive(|| drop(old));
        taken
    }
}

impl<L: TaskLock> Drop for Waiting<'_, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Queued(_)) {
            self.leave();
        }
    }
}

// ---- in the queue ----

/// A task that is polled.
pub(crate) struct Task<P: PooledPlatform> {
    thread: &'static Sleeper<P>,
    arrived: u64,
    waker: Waker,
}

impl<P: PooledPlatform> Task<P> {
    /// Its waiter, which wants this.
    pub(crate) fn waiter(self, access: Access) -> Waiter<P> {
        Waiter::of_task(access, self.thread, self.arrived, self.waker)
    }
}

/// Queues the task, which is polled, unless it can have the lock.
///
/// # Safety
/// The waiter is in no queue, and stays where it is until it is out of that of the slot that is returned.
unsafe fn queue_task<L: TaskLock>(
    lock: &L,
    request: L::Request,
    waiter: &Waiter<PlatformOf<L>>,
) -> Polled<L::W> {
    let slots = PlatformOf::<L>::slots();
    let has_timer = slots.has_timer();
    let (mut wakes, mut more) = (FewWakes::new(), FewWakes::new());
    let polled = loop {
        let mut is_watched = true;
        let queued = lock.raw().with_slot(|q, slot| {
            let line = lock.line(slot);
            // SAFETY: the caller's promise.
            let waits = unsafe { line.arrive_task(q, waiter, &mut wakes, &mut more)? };
            if has_timer && waits {
                is_watched = core::mem::replace(&mut q.is_watched, true);
            }
            Some(if waits { Polled::Queued(slot) } else { Polled::Acquired })
        });
        match queued {
            Ok(polled) => {
                if let (Polled::Queued(slot), false) = (&polled, is_watched) {
                    slots.watch(slot);
                }
                break polled;
            }
            Err(word) if !word.is_odd() => break Polled::Lacking,
            Err(odd) if lock.enter_odd(odd, request) => break Polled::Acquired,
            Err(_) => {}
        }
    };
    wakes.wake_all();
    more.wake_all();
    polled
}

impl<W: Words> Raw<W> {
    /// Takes the lock in this way past the queue, as a thread does that has just come.
    #[cold]
    pub(super) fn enter_past_queue(&self, access: Access) -> bool {
        let word = self.load();
        if word.is_closed() {
            return false;
        }
        let pauses = access == Access::Shared && self.holds_off(word);
        !word.is_odd() && !pauses && self.steal_in_turn(word, access)
    }

    /// Takes the lock in this way past waiters that are all late. Never blocks.
    #[cold]
    pub(super) fn steal_past_late(&self, access: Access) -> bool {
        let word = self.here(self.load());
        if !word.has_waiters() || !word.may_take_next(access) {
            return false;
        }
        let mut wakes = FewWakes::new();
        // As an attempt does not block.
        let Some(mut queued) = self.try_lock_queue(word) else { return false };
        let turns = Turns { lock: self, slot: queued.slot() };
        turns.look(&mut queued, None, W::P::now(), &mut wakes);
        let taken = queued.is_next_late().then(|| turns.take_past_late(access)).flatten();
        drop(queued);
        wakes.wake_all();
        taken.map(|before| self.note(access, before)).is_some()
    }
}

impl<W: Words> TaskLine for Turns<'_, W> {
    unsafe fn arrive_task(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        wakes: &mut FewWakes<W::P>,
        more: &mut FewWakes<W::P>,
    ) -> Option<bool> {
        self.look(q, None, waiter.arrived, wakes);
        if self.enters(q, waiter.access, 0)
            || q.is_next_late() && self.take_past_late(waiter.access).is_some()
        {
            return Some(false);
        }
        // SAFETY: the caller's promise.
        unsafe { self.queue_up(q, waiter, wakes)? };
        self.wake_unwoken(q, waiter, wakes);
        Some(!self.look_as_task(q, waiter, waiter.arrived, more))
    }

    fn look_as_task(
        &self,
        q: &mut Queued<W::P>,
        waiter: &Waiter<W::P>,
        now: u64,
        wakes: &mut FewWakes<W::P>,
    ) -> bool {
        self.end_offer_to_task(q, waiter, now, wakes);
        if !q.is_next(waiter) {
            self.look(q, Some(waiter), now, wakes);
        }
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
                let due = if is_seen { end } else { end.min(now + MISSED_NS) };
                waiter.task.set_due(due);
                // It may doze beyond that: the slot was watched for tasks that have left.
                let timer = W::P::slots().timer.dozing_beyond(due);
                timer.into_iter().for_each(|timer| wakes.push(timer));
                return false;
            }
            self.lock.0.clear(Flags::WAKE_NEXT);
        }
        // It is polled again when its runtime has let others run.
        self.wake_appointed(q, wakes);
        false
    }

    fn leave(&self, q: &mut Queued<W::P>, waiter: &Waiter<W::P>, wakes: &mut FewWakes<W::P>) {
        Turns::leave(self, q, waiter, wakes);
    }
}

impl<W: Words> Turns<'_, W> {
    /// Takes the lock in this way past waiters, all of which are late; returns the word before.
    fn take_past_late(&self, access: Access) -> Option<Word> {
        // The timer, which passes the last of them, knows no lock and cannot open it.
        if self.lock.load().is_closed() {
            self.lock.0.clear(Flags::CLOSED);
        }
        let may = |word: Word| word.may_take_next(access) && !word.is_closed();
        self.lock.0.take_while(self.lock.load(), access, may).ok()
    }
}

impl<P: Platform> Queued<P> {
    /// The lock was moved, or is dropped: those that wait do so in futures that were leaked.
    pub(super) fn forget_waiters(&mut self) {
        self.waiters = crate::wait::Queue::new();
        self.set_next(core::ptr::null());
        self.lookout = core::ptr::null();
    }
}
