//! The slot of a lock: what it has only while threads wait, and for a short time after. It has the queue, and nothing
//! about who is inside (R1). Slots are in a pool and are never freed, so a thread that is late may touch one.
//!
//! | rule | |
//! |---|---|
//! | R2 | A name is put into a word and taken out of it only under that slot's queue lock. |
//! | R3 | To use a slot, a thread reads its name in the word, takes the queue lock, and reads the word again. If the name is another, it begins again. |
//! | R4 | A queued thread is inside a method of the lock. So under the queue lock, while the slot says that it belongs to a lock and somebody is queued, that lock's memory exists. |
//! | R6 | A name is dropped only when nobody waits: by a holder, on its way in (a mutex reads the name before it leaves); or by any thread, of a lock whose release reads the name in the step in which it leaves. |
//!
//! In the child of a fork the slots of the parent are nobody's: threads that the child does not have may be queued
//! there, or hold the queue lock. A slot knows its process, and a lock of the child whose word names a slot of the
//! parent forgets that name ([`Words::forget_queue`](super::words::Words::forget_queue)), whichever thread comes first.
//! Who is inside is not forgotten: it may be the thread that forked. So a thread of the parent that had counted itself in at
//! the fork, and would have left again, stays counted in the child, and the lock is held there for ever: a reader that was turned
//! away, a thread that had found that it was not its turn, or one that was just taking back the name of a visible lock.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use super::clock::TenureClock;
use super::holder::Holder;
use super::mode::Modes;
use super::policy::{Policy, TenureShape};
use super::queue_lock::QueueLock;
#[cfg(feature = "async")]
use super::timer::{Link, Timer};
use super::visible::VisibleReaders;
use crate::events;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::pool::{Memory, Pool, Pooled, name};
use crate::system::{System, fork};
#[cfg(feature = "async")]
use crate::wait::Sleeper;
use crate::wait::{FEW_WAKES, Hint, Queue, Waiter, WakeList};

/// Enough for two readers that an entering reader wakes, and the waiter that is next.
pub(super) type FewWakes<P> = WakeList<P, FEW_WAKES>;

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

    /// Locks become visible by themselves.
    const WATCHES_READERS: bool = false;

    /// Starts a thread that calls [`keep_time`](Slots::keep_time) of the slots, which ends offers of locks to tasks that do
    /// not come. Called at most once in a process, by a task that waits. Returns whether there is one.
    #[cfg(feature = "async")]
    fn start_timer() -> bool {
        false
    }

    /// Called by a thread that reads a lock in which other readers are; now and then that is to be watched, whether it is only
    /// read.
    #[inline(always)]
    fn begins_watch() -> bool {
        Self::WATCHES_READERS && Self::thread().visible.periods.ends()
    }
}

/// The slots of a platform: what locks have while threads wait for them.
pub struct Slots<P: PooledPlatform> {
    pool: Pool<P::AtomicU64, Slot<P>, P::Memory>,
    #[cfg(feature = "async")]
    pub(super) timer: Timer<Slot<P>, Sleeper<P>>,
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
    pub(super) waiters: Queue<P>,
    /// The thread that upgrades and waits for the readers inside to leave.
    pub(super) upgrader: Option<&'static P::Thread>,
    /// The waiter that is next, and was told so: null if nobody waits. It is in the queue.
    pub(super) next: *const Waiter<P>,
    /// A fair release left the lock to that waiter: nobody goes before it.
    pub(super) is_promised: bool,
    /// Since when that waiter is missed; zero: it runs, or need not. See [`late`](super::late).
    pub(super) missed: u64,
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
            unwoken: false,
            clock: TenureClock::new(),
            modes: Modes::new(),
            freed: 0,
            #[cfg(feature = "async")]
            is_watched: false,
        }
    }

    /// The waiter that is next.
    pub(super) fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: queued (see the field), so alive: nobody leaves the queue without the queue lock, which the caller has.
        unsafe { self.next.as_ref() }
    }

    /// Whether this waiter is next.
    pub(super) fn is_next(&self, waiter: *const Waiter<P>) -> bool {
        core::ptr::eq(self.next, waiter)
    }

    pub(super) fn shape(&self) -> TenureShape {
        self.policy.shape()
    }
}

impl<P: Platform> Slot<P> {
    fn new(index: u32) -> Self {
        Self {
            queue_lock: QueueLock::new(),
            next: P::AtomicU32::new(0),
            index,
            process: Hint::new(fork::number()),
            #[cfg(feature = "async")]
            watched: Link::new(),
            events: events::Sink::new(),
            queued: UnsafeCell::new(Queued::new()),
            holder: Holder::default(),
        }
    }

    /// What the words of locks call it.
    #[inline(always)]
    pub(super) fn name(&self) -> u32 {
        self.index + 1
    }

    /// Whether it is of this process, and not of one that forked it.
    #[inline(always)]
    pub(super) fn is_here(&self) -> bool {
        // Relaxed: it changes where there is one thread.
        self.process.load(Ordering::Relaxed) == fork::number()
    }

    /// Takes the queue lock.
    pub(super) fn lock(&self) -> Locked<'_, P> {
        self.queue_lock.lock();
        Locked(self)
    }

    /// Takes the queue lock, if nobody has it.
    pub(super) fn try_lock(&self) -> Option<Locked<'_, P>> {
        self.queue_lock.try_lock().then(|| Locked(self))
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

    /// The child of a fork: the lock that has the slot, which nobody has used there yet, keeps it. What the threads of the
    /// parent were about is forgotten.
    ///
    /// # Safety
    /// No other thread of the process uses the slot, or has its queue lock.
    pub(super) unsafe fn enter_child(&self) {
        // SAFETY: the caller's promise. Waiters of the parent are not touched: there is nothing to drop.
        unsafe {
            let queued = self.queued.get();
            let (lock, policy) = ((*queued).lock, (*queued).policy);
            queued.write(Queued { lock, policy, ..Queued::new() });
        }
        self.holder.begin();
        self.holder.set_queued(0);
        self.queue_lock.enter_child();
        // Relaxed: a thread that uses the slot comes after the caller by other means.
        self.process.store(fork::number(), Ordering::Relaxed);
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

/// The queue of a slot, under its queue lock.
pub(super) struct Locked<'a, P: Platform>(&'a Slot<P>);

impl<'a, P: Platform> Locked<'a, P> {
    /// The slot whose queue lock this is.
    pub(super) fn slot(&self) -> &'a Slot<P> {
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
        self.0.holder.set_queued(self.waiters.len());
        let checked = cfg!(any(debug_assertions, fairlock_loom));
        let watched = !checked || self.waiters.is_empty() || self.next().is_some();
        self.0.queue_lock.unlock();
        // After the queue lock is released: others would wait for it for ever.
        assert!(watched, "somebody waits and nobody is next");
    }
}

impl<P: PooledPlatform> Slots<P> {
    /// No slots yet.
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub fn new() -> Self {
        // SAFETY: the platform's atomics are atomic; a slot's link is its pool's.
        Self::of(unsafe { Pool::new(P::AtomicU64::new(0)) })
    }

    /// As [`new`](Self::new), for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        // SAFETY: as above.
        Self::of(unsafe { Pool::new(ConstZero::ZERO) })
    }

    const fn of(pool: Pool<P::AtomicU64, Slot<P>, P::Memory>) -> Self {
        Self {
            pool,
            #[cfg(feature = "async")]
            timer: Timer::new(),
        }
    }

    /// Called in the child of a fork, which makes new slots: threads that it does not have may have been late at the free ones.
    ///
    /// # Safety
    /// The calling thread is the only one of the process, and in no other function of this.
    pub unsafe fn enter_child(&self) {
        self.pool.forget_free();
        #[cfg(feature = "async")]
        self.timer.enter_child();
    }

    /// The slot of this name, which was given out.
    #[inline(always)]
    pub(super) fn get(&self, name_in_word: u32) -> &Slot<P> {
        // SAFETY: names are in words of locks, and are of slots that were made.
        unsafe { self.pool.get(name(name_in_word - 1)) }
    }

    /// For testers: whether a slot of this name was made.
    pub(super) fn has_made(&self, name_in_word: u32) -> bool {
        !self.pool.at(name_in_word - 1).is_null()
    }

    /// A slot that no lock has.
    #[cold]
    pub(super) fn take(&self) -> &Slot<P> {
        self.try_take().expect("too many locks are waited for")
    }

    /// The same, if there is memory for it.
    pub(super) fn try_take(&self) -> Option<&Slot<P>> {
        // Sees to it that the child of a fork is told (`enter_child`).
        P::thread();
        self.pool.take().or_else(|| self.pool.make(Slot::new))
    }

    /// No lock has the slot any more, whose queue lock is held.
    pub(super) fn give(&self, mut queued: Locked<'_, P>) {
        let slot = queued.0;
        #[cfg(feature = "async")]
        queued.forget_waiters();
        queued.lock = core::ptr::null();
        queued.freed = 0;
        if slot.holder.stays() {
            queued.policy = Policy::DEFAULT;
            slot.holder.set_stays(false);
            slot.holder.set_priorities(false);
            slot.events.set(None);
        }
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
