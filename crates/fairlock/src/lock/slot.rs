//! The slot of a lock or a semaphore: what it has only while threads wait, and for a short time after. It has the queue, and nothing
//! about who is inside (R1). Slots are in a pool and are never freed, so a thread that is late may touch one.
//!
//! | rule | |
//! |---|---|
//! | R2 | A name is put into a word and taken out of it only under that slot's queue lock. |
//! | R3 | To use a slot, a thread reads its name in the word, takes the queue lock, and reads the word again. If the name is another, it begins again. |
//! | R4 | A queued thread is inside a method of the lock. So under the queue lock, while the slot says that it belongs to a lock and somebody is queued, that lock's memory exists. |
//! | R6 | A name is dropped only when nobody waits: by a holder, on its way in (a mutex reads the name before it leaves); or by any thread, of a lock whose release reads the name in the step in which it leaves. |
//!
//! *Stray names.* Under the preload library a word is in bytes that the program may copy, overwrite, or use for another lock
//! without a word ([`NAMES_MAY_BE_STRAY`](PooledPlatform::NAMES_MAY_BE_STRAY)). A name counts there only while the slot
//! says that it belongs to the lock's address; a thread that finds another address there, under the queue lock, takes the
//! name out of the word. The holder stays in the word. A slot at which nobody waits can be taken away from any lock
//! ([`Slots::sweep`]): its owner is changed, and the lock, which may be gone, is not touched. A mutex then loses its name by a
//! thread that does not hold it, and the holder may have read that before: so `KNOWN` goes with the name, and the waiter
//! that is next naps behind that holder (R7).
//!
//! In the child of a fork the slots of the parent are nobody's: threads that the child does not have may be queued
//! there, or hold the queue lock. A slot knows its process, and a lock of the child whose word names a slot of the
//! parent forgets that name ([`Names::forget_queue`](super::words::Names::forget_queue)), whichever thread comes first.
//! Who is inside is not forgotten: it may be the thread that forked. So a thread of the parent that had counted itself in at
//! the fork, and would have left again, stays counted in the child, and the lock is held there for ever: a reader that was turned
//! away, a thread that had found that it was not its turn, or one that was just taking back the name of a visible lock.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use core::{iter, mem};

#[cfg(feature = "async")]
use super::alarms::Alarms;
use super::clock::TenureClock;
use super::holder::Holder;
use super::mode::Modes;
use super::owners::VisibleOwners;
use super::policy::{Policy, TenureShape};
use super::queue_lock::QueueLock;
#[cfg(feature = "async")]
use super::timer::{Link, Timer};
use super::visible::VisibleReaders;
use crate::events;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::pool::{Memory, Pool, Pooled, SMALLEST, name};
use crate::system::{System, fork};
#[cfg(feature = "async")]
use crate::wait::Sleeper;
use crate::wait::{FEW_WAKES, Hint, Queue, Waiter, WakeList};

/// Enough for two readers that an entering reader wakes, and the waiter that is next.
pub(crate) type FewWakes<P> = WakeList<P, FEW_WAKES>;

/// A [`Platform`] that has the slots of locks.
///
/// # Safety
///
/// The [`thread_hint`](crate::system::System::thread_hint) is zero, or the address of the calling thread's record;
/// and `slots` always returns the same pool to the threads that have a record, one after the other.
pub unsafe trait PooledPlatform: Platform {
    /// Where the memory of the slots is from.
    type Memory: Memory;

    /// The slots.
    fn slots() -> &'static Slots<Self>;

    /// What visible readers share, if the platform has any: then it has a
    /// [`process_barrier`](crate::system::System::process_barrier). See `lock::visible`.
    #[inline(always)]
    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        None
    }

    /// To which locks the numbers of visible ones belong, where [names may be stray](Self::NAMES_MAY_BE_STRAY).
    #[inline(always)]
    fn visible_owners() -> Option<&'static VisibleOwners<Self>> {
        None
    }

    /// Locks become visible by themselves.
    const WATCHES_READERS: bool = false;

    /// A range is only offered to a thread that has slept in the queue of a [`RangeRwLock`](crate::range::RangeRwLock), which
    /// may not come. Not where each step is compared with the specification: there ranges are granted.
    const OFFERS_RANGES: bool = true;

    /// Starts a thread that calls [`keep_time`](Slots::keep_time) of the slots, which ends offers of locks to tasks that do
    /// not come. Called at most once in a process, by a task that waits. Returns whether there is one.
    #[cfg(feature = "async")]
    fn start_timer() -> bool {
        false
    }

    /// The policy of a lock that has none of its own.
    const POLICY: Policy = Policy::DEFAULT;

    /// Whether a lock may be copied, overwritten, or used for another one, by a program that knows nothing of slots. Then a
    /// name is *stray* unless the slot says that it belongs to the address at which the name is; and locks do not move. (The
    /// memory of slots is zero at first there, and the number of a process never is.)
    const NAMES_MAY_BE_STRAY: bool = false;

    /// The number of this process, which its ancestors do not have.
    #[inline(always)]
    fn process() -> usize {
        fork::number()
    }

    /// Runs `forget`, which takes out of a word the name of a slot that is not of this process, or changes who
    /// [owns](Self::visible_owners) the number of a visible lock; one thread at a time, where
    /// such a slot may yet be made, and not interrupted by a signal handler that uses locks.
    fn forgetting(forget: impl FnOnce()) {
        forget();
    }

    /// Whether the lock that the calling thread reads may become visible.
    #[inline(always)]
    fn may_watch() -> bool {
        Self::WATCHES_READERS
    }

    /// Called by a thread that reads a lock in which other readers are; now and then that is to be watched, whether it is only
    /// read.
    #[inline(always)]
    fn begins_watch() -> bool {
        Self::may_watch() && Self::thread().visible.periods.ends()
    }
}

/// The slots of a platform: what locks have while threads wait for them.
pub struct Slots<P: PooledPlatform> {
    pool: Pool<P::AtomicU64, Slot<P>, P::Memory>,
    /// Which one is looked at next.
    swept: Hint,
    #[cfg(feature = "async")]
    pub(super) timer: Timer<Slot<P>, Sleeper<P>>,
    #[cfg(feature = "async")]
    pub(super) alarms: Alarms<P>,
}

/// See the [module](self).
#[doc(hidden)]
// In cache lines of its own.
#[repr(C, align(128))]
pub struct Slot<P: Platform> {
    queue_lock: QueueLock<P>,
    /// The next slot in the list of free ones, which is the pool's.
    next: P::AtomicU32,
    pub(super) index: u32,
    /// The number of the process whose slot it is.
    process: Hint,
    #[cfg(feature = "async")]
    pub(super) watched: Link<Self>,
    pub(super) events: events::Sink,
    /// Guarded by `queue_lock`.
    queued: UnsafeCell<Queued<P>>,
    /// Read without the queue lock.
    pub(super) holder: Holder<P>,
}

// SAFETY: `queued` is reached under `queue_lock` only; all else is atomic, or does not change.
unsafe impl<P: Platform> Sync for Slot<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Send for Slot<P> {}

/// What the queue lock guards.
pub(crate) struct Queued<P: System> {
    /// The lock that has the slot, or null: only as [`Raw`](super::Raw) knows its locks.
    pub(super) lock: *const (),
    pub(super) policy: Policy,
    pub(crate) waiters: Queue<P>,
    /// The thread that upgrades and waits for the readers inside to leave.
    pub(super) upgrader: Option<&'static P::Thread>,
    /// The waiter that is next, and was told so: null if nobody waits. It is in the queue.
    pub(super) next: *const Waiter<P>,
    /// A fair release left the lock to that waiter: nobody goes before it.
    pub(crate) is_promised: bool,
    /// Since when that waiter is missed; zero: it runs, or need not. See [`late`](super::late).
    pub(crate) missed: u64,
    /// Of a semaphore: the waiter that looks for the one that is next, or null; and when.
    pub(super) lookout: *const Waiter<P>,
    pub(super) looks_at: u64,
    /// A thread has used the slot since it was last [looked at](Slots::sweep).
    pub(super) is_used: bool,
    /// The waiter that is next was not woken yet, and `WAKE_NEXT` was set for it.
    pub(super) unwoken: bool,
    /// Whose turn it is and until when.
    pub(super) clock: TenureClock,
    /// How threads that are not queued share the lock.
    pub(super) modes: Modes,
    /// When the closed lock became free; zero if it has not.
    pub(super) freed: u64,
    /// The timer looks at the slot, or is about to.
    #[cfg(feature = "async")]
    pub(super) is_watched: bool,
}

impl<P: System> Queued<P> {
    pub(super) const fn new() -> Self {
        Self {
            lock: core::ptr::null(),
            policy: Policy::DEFAULT,
            waiters: Queue::new(),
            upgrader: None,
            next: core::ptr::null(),
            is_promised: false,
            missed: 0,
            lookout: core::ptr::null(),
            looks_at: 0,
            is_used: false,
            unwoken: false,
            clock: TenureClock::new(),
            modes: Modes::new(),
            freed: 0,
            #[cfg(feature = "async")]
            is_watched: false,
        }
    }

    /// The waiter that is next.
    pub(crate) fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: queued (see the field), so alive: nobody leaves the queue without the queue lock, which the caller has.
        unsafe { self.next.as_ref() }
    }

    /// Another waiter is next, which is in the queue, or nobody: what is known of the last one is not true of it.
    pub(crate) fn set_next(&mut self, next: *const Waiter<P>) {
        self.next = next;
        (self.is_promised, self.unwoken, self.missed) = (false, false, 0);
    }

    /// Whether this waiter is next.
    pub(crate) fn is_next(&self, waiter: *const Waiter<P>) -> bool {
        core::ptr::eq(self.next, waiter)
    }

    pub(super) fn shape(&self) -> TenureShape {
        self.policy.shape()
    }

    /// The shape of a tenure that begins or changes now.
    pub(super) fn tenure_shape(&self) -> TenureShape {
        let shape = self.shape();
        #[cfg(feature = "async")]
        if self.waiters.tasks() > 0 && !self.waiters.has_threads() {
            return shape.of_tasks();
        }
        shape
    }
}

/// The number of no process.
const NOWHERE: usize = usize::MAX;

impl<P: PooledPlatform> Slot<P> {
    fn new(index: u32) -> Self {
        let slot = Self {
            queue_lock: QueueLock::new(),
            next: P::AtomicU32::new(0),
            index,
            process: Hint::new(NOWHERE),
            #[cfg(feature = "async")]
            watched: Link::new(),
            events: events::Sink::new(),
            queued: UnsafeCell::new(Queued { policy: P::POLICY, ..Queued::new() }),
            holder: Holder::default(),
        };
        slot.holder.set_priorities(P::POLICY.priorities);
        slot
    }

    /// Whether it is of this process, and not of one that forked it; nor one that is just being made.
    #[inline(always)]
    pub(super) fn is_here(&self) -> bool {
        // Acquire: it was made.
        self.process.load(Ordering::Acquire) == P::process()
    }

    /// It is of this process from here on.
    fn begin_here(&self) {
        // Release: it was made.
        self.process.store(P::process(), Ordering::Release);
    }
}

impl<P: Platform> Slot<P> {
    /// What the words of locks call it.
    #[inline(always)]
    pub(crate) fn name(&self) -> u32 {
        self.index + 1
    }

    /// Takes the queue lock.
    pub(crate) fn lock(&self) -> Locked<'_, P> {
        let signals = P::hold_signals();
        self.queue_lock.lock();
        Locked(self, signals)
    }

    /// Takes the queue lock, if nobody has it.
    pub(super) fn try_lock(&self) -> Option<Locked<'_, P>> {
        let signals = P::hold_signals();
        if self.queue_lock.try_lock() {
            return Some(Locked(self, signals));
        }
        P::let_signals(signals);
        None
    }

    /// This lock, with this policy, has the slot from here on, and keeps it. The queue lock is held.
    pub(super) fn begin(&self, lock: *const (), policy: Policy) -> Locked<'_, P> {
        let mut queued = self.lock();
        (queued.lock, queued.policy) = (lock, policy);
        self.holder.begin();
        self.holder.set_stays(true);
        self.holder.set_priorities(policy.priorities);
        queued
    }

    /// The child of a fork: the policy of a lock that keeps the slot, which is the parent's.
    pub(super) fn policy_in_parent(&self) -> Policy {
        // SAFETY: nobody in this process changes the slot; and no thread of the parent did, at the fork: the policy is set before
        // the lock has the slot.
        unsafe { (*self.queued.get()).policy }
    }

    /// Runs `f` on the queue, under the queue lock. `f` does not panic.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Queued<P>) -> R) -> R {
        f(&mut self.lock())
    }

    /// For testers, between two steps of all threads: the queue, unless one of them is changing it.
    ///
    /// # Safety
    /// No thread runs in a method of the lock meanwhile.
    pub(super) unsafe fn peek(&self) -> Option<&Queued<P>> {
        // SAFETY: nobody has the queue lock, and nobody runs that could take it.
        (!self.queue_lock.is_locked()).then(|| unsafe { &*self.queued.get() })
    }
}

/// The queue of a slot, under its queue lock; and what [`hold_signals`](System::hold_signals) has returned.
pub(crate) struct Locked<'a, P: Platform>(&'a Slot<P>, Option<u64>);

impl<'a, P: Platform> Locked<'a, P> {
    /// The slot whose queue lock this is.
    pub(crate) fn slot(&self) -> &'a Slot<P> {
        self.0
    }
}

impl<P: Platform> Deref for Locked<'_, P> {
    type Target = Queued<P>;

    fn deref(&self) -> &Queued<P> {
        // SAFETY: the queue lock is held.
        unsafe { &*self.0.queued.get() }
    }
}

impl<P: Platform> DerefMut for Locked<'_, P> {
    fn deref_mut(&mut self) -> &mut Queued<P> {
        // SAFETY: the queue lock is held.
        unsafe { &mut *self.0.queued.get() }
    }
}

impl<P: Platform> Drop for Locked<'_, P> {
    fn drop(&mut self) {
        self.0.holder.set_end(if self.is_next_late() { u64::MAX } else { self.clock.end() });
        let is_task = self.next().is_some_and(|next| next.task.is_task());
        self.0.holder.set_queued(self.waiters.len(), is_task);
        let checked = cfg!(any(debug_assertions, fairlock_loom));
        let watched = !checked || self.waiters.is_empty() || self.next().is_some();
        self.0.queue_lock.unlock();
        P::let_signals(self.1);
        // After the queue lock is released: others would wait for it for ever.
        assert!(watched, "somebody waits and nobody is next");
    }
}

impl<P: PooledPlatform> Slots<P> {
    /// No slots yet.
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub fn new() -> Self {
        Self {
            // SAFETY: the platform's atomics are atomic; a slot's link is its pool's.
            pool: unsafe { Pool::new(P::AtomicU64::new(0)) },
            swept: Hint::new(0),
            #[cfg(feature = "async")]
            timer: Timer::new(),
            #[cfg(feature = "async")]
            alarms: Alarms::new(QueueLock::new()),
        }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self {
            // SAFETY: as above.
            pool: unsafe { Pool::new(ConstZero::ZERO) },
            swept: Hint::new(0),
            #[cfg(feature = "async")]
            timer: Timer::new(),
            #[cfg(feature = "async")]
            alarms: Alarms::new(QueueLock::of(ConstZero::ZERO)),
        }
    }

    /// Called in the child of a fork, which makes new slots: threads that it does not have may have been late at the free ones.
    ///
    /// # Safety
    /// The calling thread is the only one of the process, and in no other function of this.
    pub unsafe fn enter_child(&self) {
        self.pool.forget_free();
        #[cfg(feature = "async")]
        {
            self.timer.enter_child();
            // SAFETY: the caller's promise.
            unsafe { self.alarms.enter_child() };
        }
    }

    /// The slot of this name, which was given out.
    #[inline(always)]
    pub(super) fn get(&self, name_in_word: u32) -> &Slot<P> {
        // SAFETY: names are in words of locks, and are of slots that were made.
        unsafe { self.pool.get(name(name_in_word - 1)) }
    }

    /// The slot that a word names which may be wrong. None if no slot of this name was made.
    #[inline]
    pub(super) fn find(&self, name_in_word: u32) -> Option<&Slot<P>> {
        // SAFETY: null, or memory that stays. If another thread is just making the slot, it is of no process.
        unsafe { self.pool.at(name_in_word - 1).as_ref() }
    }

    /// A slot that no lock has; none without memory for it, or if too many locks have one.
    #[cold]
    pub(super) fn take(&self) -> Option<&Slot<P>> {
        // Sees to it that the child of a fork is told (`enter_child`).
        P::thread();
        self.take_free().or_else(|| {
            if P::NAMES_MAY_BE_STRAY {
                self.sweep();
            }
            self.take_free().or_else(|| self.pool.make(Slot::new).inspect(|slot| slot.begin_here()))
        })
    }

    /// A free slot of this process. One of a parent's that a child finds stays out of the list: names of it may be in
    /// words.
    fn take_free(&self) -> Option<&Slot<P>> {
        iter::from_fn(|| self.pool.take()).find(|slot| slot.is_here())
    }

    /// Takes some slots away from locks at which nobody waits, nor has waited between two looks: such a lock may be gone
    /// without having given its slot back. Its memory is not touched; a word that names the slot is stray from here on.
    /// Before each slot that is made some are looked at. So there are never many more than are in use.
    #[cold]
    pub(super) fn sweep(&self) {
        let made = self.made();
        let is_idle = |queued: &mut Locked<'_, P>| {
            let is_used = mem::take(&mut queued.is_used);
            let has_lock = !queued.lock.is_null() && !queued.slot().holder.stays();
            has_lock && queued.waiters.is_empty() && queued.upgrader.is_none() && !is_used
        };
        for _ in 0..SMALLEST.min(made) {
            // Relaxed: which slots a thread looks at is all the same.
            let index = self.swept.fetch_add(1, Ordering::Relaxed) as u32 % made;
            let slot = self.find(index + 1).filter(|slot| slot.is_here());
            if let Some(mut queued) = slot.and_then(Slot::try_lock) {
                if is_idle(&mut queued) {
                    self.give(queued);
                }
            }
        }
    }

    /// No lock has the slot any more, whose queue lock is held.
    pub(super) fn give(&self, mut queued: Locked<'_, P>) {
        let slot = queued.0;
        #[cfg(feature = "async")]
        queued.forget_waiters();
        queued.lock = core::ptr::null();
        queued.freed = 0;
        if slot.holder.stays() {
            queued.policy = P::POLICY;
            slot.holder.set_stays(false);
            slot.holder.set_priorities(P::POLICY.priorities);
        }
        slot.events.set(None);
        drop(queued);
        // SAFETY: the caller has it from this pool, and is the last to.
        unsafe { self.pool.give(slot) };
    }

    /// How many slots were made.
    #[doc(hidden)]
    pub fn made(&self) -> u32 {
        self.pool.made()
    }

    /// Calls `f` with the index of each free slot; nobody changes the list meanwhile.
    pub(super) fn for_each_free(&self, f: impl FnMut(u32)) {
        self.pool.for_each_free(f);
    }
}

impl<P: Platform> Pooled for Slot<P> {
    type Link = P::AtomicU32;

    #[inline(always)]
    fn link(&self) -> (u32, &P::AtomicU32) {
        (self.index, &self.next)
    }
}
