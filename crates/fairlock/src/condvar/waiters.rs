//! The condition variable without data, for any ticket lock, thin or not.
//!
//! Waiters queue in the order they came. A notification takes the first one out, and then
//! it waits for the mutex:
//!
//! * If the mutex is held by somebody with a ticket, so contended, the waiter is *moved*: it
//!   gets a ticket, and sleeps on in the mutex's list of parked waiters, without being woken
//!   in order to find the mutex taken (`ticket::move_in`).
//! * Otherwise it is *woken*, and takes the mutex like anybody else. Of several that are
//!   notified at once one is woken: the others *follow*, which means that they sleep on, and
//!   the one that was woken moves them once it holds the mutex.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | WAITING | in the queue | a holder of the queue lock |
//! | FOLLOWS | notified; in the list of one that was woken | that one, which holds the mutex |
//! | MOVED | notified; has a ticket, and is parked at the mutex | nobody: final |
//! | WOKEN | notified; takes the mutex by itself | nobody: final |
//!
//! *No notification is lost.* A waiter queues before it lets the mutex go. One that gives up
//! takes itself out under the queue lock; if it is not in the queue any more it was
//! notified, and says so: what ended its wait came too late.
//!
//! *No wake-up is needless*, as a waiter is woken only when it was notified; and whoever was
//! moved only when it may have the mutex. So waits do not end for no reason, and
//! notifications are counted exactly.
//!
//! *Frames.* A waiter is in the frame of its wait, which is not left before it has the mutex,
//! and so not while it is in any list. Whoever moves it lists it after it says so, and
//! touches the mutex last, to tell the holder: by then the waiter may be awake, and have had
//! the mutex, and free it. So it first takes the queue lock, once, under which it is moved.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering;

use super::Mutex;
use crate::fault::{Fault, active};
use crate::platform::{Atomic, ConstZero, Platform, WaitOutcome};
use crate::ticket::{Movers, Parked, TicketLock};
use crate::wait::{CancelToken, Parker, WaitContext, WaitError};

const WAITING: u32 = 0;
const FOLLOWS: u32 = 1;
const MOVED: u32 = 2;
const WOKEN: u32 = 3;

/// A condition variable of [ticket locks](TicketLock) of size `S`.
///
/// Threads that wait at the same time may have given up different locks.
pub type TicketCondvar<P, S> = LockCondvar<P, TicketLock<P, S>>;

/// The condition variable of [thin mutexes](crate::thin::ThinMutex).
#[cfg(any(feature = "std", fairlock_loom))]
pub type ThinCondvar<P> = LockCondvar<P, crate::thin::ThinMutex<P>>;

/// A condition variable of locks of type `M`: a [`TicketCondvar`] or a `ThinCondvar`.
pub struct LockCondvar<P: Platform, M: Mutex<P>> {
    /// The queue lock.
    lock: M::Queue,
    /// The first and the last in the queue, as addresses; zero if it is empty. Changed under
    /// the queue lock.
    first: P::AtomicUsize,
    last: Cell<*const Waiter<P, M>>,
}

// SAFETY: `last`, and the links of the waiters in the queue, are touched under the queue lock
// only; waiters stay in their frames while they are in it.
unsafe impl<P: Platform, M: Mutex<P>> Sync for LockCondvar<P, M> {}
// SAFETY: as above; one that can be moved has no waiters.
unsafe impl<P: Platform, M: Mutex<P>> Send for LockCondvar<P, M> {}

struct Waiter<P: Platform, M: Mutex<P>> {
    entry: Parked<P>,
    mutex: *const M,
    prev: Cell<*const Waiter<P, M>>,
    /// In the queue, or among followers.
    next: Cell<*const Waiter<P, M>>,
    /// For who is woken: those that follow, and how many.
    followers: Cell<Chain<P, M>>,
    state: P::AtomicU32,
}

/// Waiters of one mutex, linked by `next`.
struct Chain<P: Platform, M: Mutex<P>> {
    first: *const Waiter<P, M>,
    len: u32,
}

impl<P: Platform, M: Mutex<P>> Clone for Chain<P, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, M: Mutex<P>> Copy for Chain<P, M> {}

impl<P: Platform, M: Mutex<P>> Chain<P, M> {
    const EMPTY: Self = Self { first: ptr::null(), len: 0 };
}

impl<P: Platform, M: Mutex<P>> Movers<P> for Chain<P, M> {
    fn first(&self) -> &'static Parker<P> {
        // SAFETY: a chain that is moved is not empty, and its waiters' frames are there.
        unsafe { &*self.first }.entry.parker
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn next(&mut self, ticket: u32) -> *const Parked<P> {
        // SAFETY: as above.
        let Some(waiter) = (unsafe { self.first.as_ref() }) else { return ptr::null() };
        self.first = waiter.next.get();
        waiter.entry.ticket.set(ticket);
        // Release: the ticket. Before the entry is listed: from then on it may be woken.
        waiter.state.store(MOVED, Ordering::Release);
        &waiter.entry
    }
}

impl<P: Platform, M: Mutex<P>> Waiter<P, M> {
    fn new(mutex: &M) -> Self {
        Self {
            // A token wakes this parker; the queue lock uses the other one.
            entry: Parked::new(0, &P::thread().parker),
            mutex,
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            followers: Cell::new(Chain::EMPTY),
            state: P::AtomicU32::new(WAITING),
        }
    }

    /// Acquire: the ticket, and the followers.
    fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }
}

impl<P: Platform, M: Mutex<P>> LockCondvar<P, M> {
    /// Nobody waits.
    pub fn new() -> Self {
        Self {
            lock: M::Queue::default(),
            first: P::AtomicUsize::new(0),
            last: Cell::new(ptr::null()),
        }
    }

    /// The same, for statics.
    pub const fn new_const() -> Self
    where
        M::Queue: ConstZero,
        P::AtomicUsize: ConstZero,
    {
        Self { lock: ConstZero::ZERO, first: ConstZero::ZERO, last: Cell::new(ptr::null()) }
    }

    /// Lets `mutex` go, and takes it again once notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait(&self, mutex: &M) {
        // SAFETY: the caller's promise.
        let notified = unsafe { self.wait_within(mutex, &WaitContext::FOREVER) };
        debug_assert!(notified.is_ok(), "a wait for ever has ended");
    }

    /// Lets `mutex` go, and takes it again once notified, or once `deadline` has passed on
    /// the platform's clock.
    ///
    /// # Errors
    /// [`TimedOut`](WaitError::TimedOut): it was not notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait_until(&self, mutex: &M, deadline: u64) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_within(mutex, &WaitContext::until(deadline)) }
    }

    /// Lets `mutex` go, and takes it again once notified, or once a signal handler has run in
    /// this thread while it slept.
    ///
    /// # Errors
    /// [`Interrupted`](WaitError::Interrupted): it was not notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait_interruptible(&self, mutex: &M) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_within(mutex, &WaitContext::interruptible()) }
    }

    /// Lets `mutex` go, and takes it again once notified, or once `token` is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled): it was not notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait_cancellable(
        &self,
        mutex: &M,
        token: &CancelToken<P>,
    ) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_within(mutex, &WaitContext::cancellable(token)) }
    }

    /// The same until `deadline` on the platform's clock, if the token is not cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](WaitError::Cancelled) or [`TimedOut`](WaitError::TimedOut): it was not
    /// notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait_cancellable_until(
        &self,
        mutex: &M,
        token: &CancelToken<P>,
        deadline: u64,
    ) -> Result<(), WaitError> {
        let until = WaitContext { deadline: Some(deadline), ..WaitContext::cancellable(token) };
        // SAFETY: the caller's promise.
        unsafe { self.wait_within(mutex, &until) }
    }

    /// The lock of the queue.
    #[doc(hidden)]
    pub fn queue_lock(&self) -> &M::Queue {
        &self.lock
    }

    /// Whether a thread waits that was not notified yet.
    pub fn has_waiters(&self) -> bool {
        // Relaxed: who has to be seen queued before it let the mutex go, and this thread, or
        // whoever told it, has had the mutex since.
        self.first.load(Ordering::Relaxed) != 0
    }

    /// # Safety
    /// The caller holds `mutex`.
    pub(super) unsafe fn wait_within(
        &self,
        mutex: &M,
        until: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let waiter = Waiter::new(mutex);
        if !active(Fault::QueuesTooLate) {
            self.locked(|| self.push(&waiter));
        }
        // SAFETY: the caller's promise.
        unsafe { mutex.unlock() };
        if active(Fault::QueuesTooLate) {
            self.locked(|| self.push(&waiter));
        }
        let notified = match until.cancel {
            Some(token) => token.with_registered(P::thread(), || self.sleep(&waiter, until)),
            None => self.sleep(&waiter, until),
        };
        if notified.is_ok() && waiter.state() == MOVED {
            // Whoever moved it is done with the mutex then: see *Frames*.
            self.locked(|| ());
            mutex.lock_moved(&waiter.entry);
        } else {
            mutex.lock();
        }
        let mut followers = waiter.followers.get();
        if followers.len > 0 && !active(Fault::ForgetsFollowers) {
            // SAFETY: taken above; they leave their frames when they have had the mutex.
            let first = self.locked(|| unsafe { mutex.move_in_held(&mut followers) });
            if let Some(first) = first {
                first.unpark();
            }
        }
        if active(Fault::TakesNotification) {
            return until.expired(P::now).map_or(notified, Err);
        }
        notified
    }

    /// Sleeps until moved or woken, or until the wait ends and it was not notified.
    fn sleep(&self, waiter: &Waiter<P, M>, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut until = until;
        let mut interrupted = None;
        loop {
            match waiter.state() {
                WAITING => {
                    if let Some(why) = interrupted.or_else(|| until.expired(P::now)) {
                        if self.locked(|| self.give_up(waiter)) {
                            return Err(why);
                        }
                        continue;
                    }
                }
                // Notified: whatever ends the wait comes too late.
                FOLLOWS => until = &WaitContext::FOREVER,
                _ => return Ok(()),
            }
            let outcome = waiter.entry.parker.park(until.deadline, until.interruptible);
            if outcome == WaitOutcome::Interrupted {
                interrupted = Some(WaitError::Interrupted);
            }
        }
    }

    /// Notifies the thread that waits longest: whether there was one.
    pub fn notify_one(&self) -> bool {
        if !self.has_waiters() {
            return false;
        }
        let mut wake = None;
        let notified = self.locked(|| {
            let Some(waiter) = self.first() else { return false };
            self.remove(waiter);
            waiter.next.set(ptr::null());
            wake = self.pass(Chain { first: waiter, len: 1 });
            true
        });
        if let Some(parker) = wake {
            parker.unpark();
        }
        notified
    }

    /// Notifies all threads that wait: how many they were.
    pub fn notify_all(&self) -> usize {
        if !self.has_waiters() {
            return 0;
        }
        let mut wake = None;
        let notified = self.locked(|| self.notify_queue(&mut wake));
        if let Some(parker) = wake {
            parker.unpark();
        }
        notified
    }

    /// Under the queue lock: notifies those that wait. One may have to be woken later.
    fn notify_queue(&self, wake: &mut Option<&'static Parker<P>>) -> usize {
        let mut notified = 0;
        // One mutex after the other; nearly always there is one only.
        while let Some(first) = self.first() {
            let (mut last, mut len, mut next) = (None::<&Waiter<P, M>>, 0, Some(first));
            while let Some(waiter) = next {
                // SAFETY: in the queue, so its frame is there.
                next = unsafe { waiter.next.get().as_ref() };
                if waiter.mutex == first.mutex {
                    self.remove(waiter);
                    waiter.next.set(ptr::null());
                    if let Some(last) = last.replace(waiter) {
                        last.next.set(waiter);
                    }
                    len += 1;
                }
            }
            notified += len as usize;
            let woken = self.pass(Chain { first, len });
            if let Some(before) = core::mem::replace(wake, woken) {
                before.unpark();
            }
        }
        notified
    }

    /// Under the queue lock: what becomes of waiters that are notified; whom to wake then.
    fn pass(&self, mut chain: Chain<P, M>) -> Option<&'static Parker<P>> {
        // SAFETY: a waiter's frame is there until it takes the queue lock or is WOKEN, and
        // with it the mutex that it waits for.
        let first = unsafe { &*chain.first };
        // SAFETY: as above.
        if let Some(moved) = unsafe { (*first.mutex).move_in(&mut chain) } {
            return moved;
        }
        let followers = Chain { first: first.next.get(), len: chain.len - 1 };
        let mut next = followers.first;
        // SAFETY: as above.
        while let Some(waiter) = unsafe { next.as_ref() } {
            next = waiter.next.get();
            // Relaxed: read under the queue lock, or for no more than another look.
            waiter.state.store(FOLLOWS, Ordering::Relaxed);
        }
        first.followers.set(followers);
        let parker = first.entry.parker;
        // Release: the followers. Its frame may be gone from here on.
        first.state.store(WOKEN, Ordering::Release);
        Some(parker)
    }

    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.lock.lock();
        let result = f();
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
        result
    }

    fn first(&self) -> Option<&Waiter<P, M>> {
        // SAFETY: under the queue lock: who is in the queue is in its frame.
        unsafe { (self.first.load(Ordering::Relaxed) as *const Waiter<P, M>).as_ref() }
    }

    fn push(&self, waiter: &Waiter<P, M>) {
        let last = self.last.replace(waiter);
        waiter.prev.set(last);
        // SAFETY: as in `first`.
        match unsafe { last.as_ref() } {
            Some(last) => last.next.set(waiter),
            // Relaxed: see `has_waiters`.
            None => self.first.store(ptr::from_ref(waiter) as usize, Ordering::Relaxed),
        }
    }

    /// Takes itself out of the queue: false if it was notified.
    fn give_up(&self, waiter: &Waiter<P, M>) -> bool {
        // Relaxed: under the queue lock.
        let waits = waiter.state.load(Ordering::Relaxed) == WAITING;
        if waits {
            self.remove(waiter);
        }
        waits
    }

    fn remove(&self, waiter: &Waiter<P, M>) {
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        // SAFETY: as in `first`.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => self.first.store(next as usize, Ordering::Relaxed),
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => self.last.set(prev),
        }
    }
}

impl<P: Platform, M: Mutex<P>> Default for LockCondvar<P, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, M: Mutex<P>> core::fmt::Debug for LockCondvar<P, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LockCondvar").field("waiting", &self.has_waiters()).finish_non_exhaustive()
    }
}
