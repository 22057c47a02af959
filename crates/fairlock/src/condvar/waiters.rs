//! The condition variable without data, for any ticket lock, thin or not.
//!
//! Waiters queue in the order they came. A waiter that is notified is taken out and, mostly, woken; it
//! takes the mutex like anybody else: it is not given the mutex while it sleeps, as nobody could
//! use the mutex until it is awake. Before it waits in the mutex's queue it gives way for a moment,
//! as notifications are often sent under the mutex.
//!
//! Where somebody has the mutex when a sleeper is notified, and the mutex has a queue, the sleeper
//! goes on to sleep there, without being woken (`Seat`): it could not go on, and a wake-up under the
//! mutex would keep others from it for as long. The release wakes it. A thin mutex has no
//! queue, and does not become full for this: it would not become thin again while one sleeps.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | WAITING | in the queue | a holder of the queue lock |
//! | NOTIFIED | taken out, and not told yet | whoever notified it, or the waiter that it follows |
//! | WOKEN | takes the mutex by itself, from its seat in the mutex's queue if it has one | nobody: final |
//!
//! Of several waiters that are notified at once, and wait with the same mutex, one is woken. The
//! others *follow*: the first wakes [`LINES`] more, each of these wakes one more, and so on. Each
//! does so when it finds the mutex free, or else when it has the mutex: then they may be queued there
//! instead. So there is no herd at the mutex, and no CPU is idle for the length of a wake-up each time.
//!
//! *Awake.* Where threads wait for each other by turns the notification comes sooner than a sleep
//! could pay. So a waiter spins for a moment, for the thread on another CPU that is about to notify
//! it; then it gives way, for one that wants this CPU. Each as long as that has lately been worth it
//! (`watch`). No more waiters give way than there are CPUs, and none behind one that sleeps: a
//! waiter that stays awake comes sooner each time, and would take what the other was notified of.
//!
//! *No notification is lost.* A waiter queues before it lets the mutex go. A waiter that gives up
//! takes itself out under the queue lock. If it is not in the queue any more it was notified, and
//! says so: what ended its wait came too late.
//!
//! *No wake-up is needless*, as a waiter is woken only when it was notified. So waits do not end
//! for no reason, and notifications are counted exactly.
//!
//! *Frames.* A waiter is in the stack frame of its wait, which is not left before the waiter is
//! WOKEN, or has taken itself out. So WOKEN is the last thing that is stored there. A seat in it is
//! used until the waiter is out of the queue of the mutex, before which it does not leave. A thread that
//! notifies does not touch the condition variable after that: the thread that it woke may free it.

use core::cell::{Cell, OnceCell};
use core::ptr;
use core::sync::atomic::Ordering;

use super::Mutex;
use crate::fault::{Fault, active};
use crate::platform::{Atomic, ConstZero, Platform, WaitOutcome};
use crate::ticket::TicketLock;
use crate::wait::{Hint, Thread, Wait, WaitContext, WaitError};

const WAITING: u32 = 0;
const NOTIFIED: u32 = 1;
const WOKEN: u32 = 2;

/// Waiters notified at once are woken in this many lines: few lines leave a CPU idle for each
/// wake-up, too many are in each other's way at the mutex. Models have no more than three waiters.
const LINES: usize = if cfg!(fairlock_loom) { 2 } else { 8 };
/// How long a woken thread gives way to the holder of the mutex before it queues there. In ns;
/// compared with the time since it began to give way.
const COMPETE_NS: u64 = 100_000;

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
// only; waiters stay in their frames while they are in it. What a notified waiter is told is stored by
// whoever took it out, and read by the waiter once it is WOKEN.
unsafe impl<P: Platform, M: Mutex<P>> Sync for LockCondvar<P, M> {}
// SAFETY: as above; a condition variable that can be moved has no waiters.
unsafe impl<P: Platform, M: Mutex<P>> Send for LockCondvar<P, M> {}

// In this order: whoever notifies a waiter fetches the lines of its frame from another CPU.
#[repr(C, align(64))]
struct Waiter<P: Platform, M: Mutex<P>> {
    thread: &'static Thread<P>,
    /// The mutex it waits with.
    mutex: *const M,
    prev: Cell<*const Waiter<P, M>>,
    next: Cell<*const Waiter<P, M>>,
    /// Once it is notified: the first of those that follow it, and the next one that is woken with
    /// it.
    follower: Cell<*const Waiter<P, M>>,
    beside: Cell<*const Waiter<P, M>>,
    /// Its number in the row of waiters that stay awake; zero if it sleeps.
    awake: Hint,
    state: P::AtomicU32,
    /// Its place in the queue of the mutex, if it was given one: by whoever makes it WOKEN, before.
    seat: OnceCell<M::Seat>,
}

impl<P: Platform, M: Mutex<P>> Waiter<P, M> {
    fn new(mutex: &M) -> Self {
        let nobody = || Cell::new(ptr::null());
        Self {
            thread: P::thread(),
            mutex,
            prev: nobody(),
            next: nobody(),
            follower: nobody(),
            beside: nobody(),
            awake: Hint::new(0),
            state: P::AtomicU32::new(WAITING),
            seat: OnceCell::new(),
        }
    }

    /// For whoever is to wake it: if it sleeps, and somebody has the mutex, a place in its queue. (It
    /// may sleep for the queue lock, too: it is not in the queue any more, and will look again.)
    fn take_seat(&self) -> Option<&M::Seat> {
        // SAFETY: it takes the mutex before its wait is over, so that is there.
        let seat = unsafe { (*self.mutex).seat(self.thread)? };
        Some(self.seat.get_or_init(|| seat))
    }

    /// Acquire: the follower is seen, and what came before the notification.
    fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }
}

/// Wakes a waiter that is in no queue, or queues it at its mutex, and those beside it.
///
/// # Safety
/// They were notified, and nobody else wakes them.
unsafe fn wake<P: Platform, M: Mutex<P>>(mut next: *const Waiter<P, M>) {
    // SAFETY: they stay in their frames until they are WOKEN, here.
    while let Some(waiter) = unsafe { next.as_ref() } {
        next = waiter.beside.get();
        let thread = waiter.thread;
        let Some(seat) = waiter.take_seat() else {
            // Release: the follower is seen. The frame may be gone from here on.
            waiter.state.store(WOKEN, Ordering::Release);
            thread.parker.unpark();
            continue;
        };
        let tells_late = active(Fault::QueuesUntold);
        if !tells_late {
            // Before it can be woken. Release: as above, and the seat.
            waiter.state.store(WOKEN, Ordering::Release);
        }
        // SAFETY: the seat is new, and in the frame, which is not left without the mutex.
        unsafe { M::queue(seat) };
        if tells_late {
            waiter.state.store(WOKEN, Ordering::Release);
        }
    }
}

impl<P: Platform, M: Mutex<P>> LockCondvar<P, M> {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Self {
            lock: M::Queue::default(),
            first: P::AtomicUsize::new(0),
            last: Cell::new(ptr::null()),
        }
    }

    /// As [`new`](Self::new), for statics.
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

    /// Lets `mutex` go, and takes it again once notified, or as `wait` says.
    ///
    /// # Errors
    /// As `wait` says: it was not notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait_with(&self, mutex: &M, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_within(mutex, &wait.begin()) }
    }

    /// The lock of the queue.
    #[doc(hidden)]
    pub fn queue_lock(&self) -> &M::Queue {
        &self.lock
    }

    /// Whether a thread waits that was not notified yet.
    pub fn has_waiters(&self) -> bool {
        // Relaxed: a waiter that has to be seen queued before it let the mutex go, and this thread,
        // or the one that told it, has had the mutex since.
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
        let notified = until.listed(P::thread(), || self.sleep(&waiter, until));
        if notified.is_ok() {
            Self::lock_again(mutex, &waiter);
        } else {
            mutex.lock();
        }
        if active(Fault::TakesNotification) {
            return until.expired(P::now).map_or(notified, Err);
        }
        notified
    }

    /// For a thread that was woken: takes the mutex, and wakes those that follow.
    fn lock_again(mutex: &M, waiter: &Waiter<P, M>) {
        let mut follower = waiter.follower.get();
        if active(Fault::ForgetsFollowers) {
            follower = ptr::null();
        }
        let at_once = follower.is_null() || !mutex.is_locked();
        if at_once {
            // SAFETY: they follow this one only.
            unsafe { wake(follower) };
        }
        match waiter.seat.get() {
            Some(seat) => mutex.lock_seated(seat),
            _ if P::thread().watch.give_way::<P>(COMPETE_NS, || mutex.try_lock()) => {}
            _ => mutex.lock(),
        }
        if !at_once {
            // SAFETY: as above.
            unsafe { wake(follower) };
        }
    }

    /// Sleeps until woken, or until the wait ends without a notification.
    fn sleep(&self, waiter: &Waiter<P, M>, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut until = until;
        let mut interrupted = None;
        Self::stay_awake(waiter, until);
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
                // What ends the wait now comes too late.
                NOTIFIED => until = &WaitContext::FOREVER,
                _ => return Ok(()),
            }
            waiter.thread.note_cpu();
            let outcome = waiter.thread.parker.park(until.deadline, until.interruptible);
            if outcome == WaitOutcome::Interrupted {
                interrupted = Some(WaitError::Interrupted);
            }
        }
    }

    /// Stays awake for a moment, if the waiter is to. Not where a signal is to end the wait: that
    /// would not be noticed.
    fn stay_awake(waiter: &Waiter<P, M>, until: &WaitContext<'_, P>) {
        let yields = || waiter.awake.load(Ordering::Relaxed) > 0;
        if !until.interruptible {
            P::thread().watch.stay_awake::<P>(&waiter.state, WOKEN, until.deadline, yields);
        }
        waiter.awake.store(0, Ordering::Relaxed);
    }

    /// Notifies the thread that has waited longest; returns whether there was one.
    pub fn notify_one(&self) -> bool {
        if !self.has_waiters() {
            return false;
        }
        let first = self.locked(|| self.first().map_or(ptr::null(), |first| self.take(first)));
        // SAFETY: taken above.
        unsafe { wake(first) };
        !first.is_null()
    }

    /// Notifies all threads that wait; returns how many there were.
    pub fn notify_all(&self) -> usize {
        if !self.has_waiters() {
            return 0;
        }
        let (mut firsts, mut notified) = (ptr::null(), 0);
        self.locked(|| {
            // One mutex after the other; nearly always there is one only.
            while let Some(first) = self.first() {
                notified += self.take_all(first);
                first.beside.set(firsts);
                firsts = first;
            }
        });
        // SAFETY: taken above.
        unsafe { wake(firsts) };
        notified
    }

    /// Under the queue lock: takes out a waiter, and notes that it is notified.
    fn take(&self, waiter: &Waiter<P, M>) -> *const Waiter<P, M> {
        self.remove(waiter);
        // Relaxed: read under the queue lock; a read without it leads to no more than another look.
        waiter.state.store(NOTIFIED, Ordering::Relaxed);
        waiter
    }

    /// Under the queue lock: takes out the first waiter, and all that wait with the same mutex,
    /// which follow it. Returns how many they are.
    fn take_all(&self, first: &Waiter<P, M>) -> usize {
        let mut taken = 1;
        // The last of each line behind the first one.
        let mut last = [ptr::from_ref(first); LINES];
        let mut next = first.next.get();
        self.take(first);
        // SAFETY: the waiter is in the queue, so its frame is there.
        while let Some(waiter) = unsafe { next.as_ref() } {
            next = waiter.next.get();
            if ptr::eq(waiter.mutex, first.mutex) {
                self.take(waiter);
                // SAFETY: notified, and not woken yet.
                let last_of = |line: usize| unsafe { &*last[line] };
                match taken {
                    1 => first.follower.set(waiter),
                    n if n <= LINES => last_of(n - 1).beside.set(waiter),
                    n => last_of(n % LINES).follower.set(waiter),
                }
                last[taken % LINES] = waiter;
                taken += 1;
            }
        }
        taken
    }

    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.lock.lock();
        let result = f();
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
        result
    }

    fn first(&self) -> Option<&Waiter<P, M>> {
        // SAFETY: under the queue lock: a waiter in the queue is in its frame.
        unsafe { (self.first.load(Ordering::Relaxed) as *const Waiter<P, M>).as_ref() }
    }

    fn push(&self, waiter: &Waiter<P, M>) {
        let last = self.last.replace(waiter);
        waiter.prev.set(last);
        // SAFETY: as in `first`.
        let last = unsafe { last.as_ref() };
        waiter.awake.store(Self::row_behind(last), Ordering::Relaxed);
        match last {
            Some(last) => last.next.set(waiter),
            // Relaxed: see `has_waiters`.
            None => self.first.store(ptr::from_ref(waiter) as usize, Ordering::Relaxed),
        }
    }

    /// The calling thread's number in the row of those that stay awake, behind `last`; zero if it is
    /// to sleep.
    /// See *Awake*.
    fn row_behind(last: Option<&Waiter<P, M>>) -> usize {
        let before = last.map(|last| last.awake.load(Ordering::Relaxed));
        let awake = match before {
            Some(0) => return 0,
            before => before.unwrap_or(0) + 1,
        };
        if awake <= P::cpus() && P::thread().watch.yields.begins() { awake } else { 0 }
    }

    /// The waiter takes itself out of the queue: false if it was notified.
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

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::vec::Vec;

    use fairlock_testing::{join, scope, until};

    use super::*;
    use crate::platform::{Native, System};
    use crate::thin::ThinMutex;

    type Condvar = ThinCondvar<Native>;

    fn queued<'a>(
        condvar: &Condvar,
        mutexes: impl Iterator<Item = &'a ThinMutex<Native>>,
    ) -> Vec<Waiter<Native, ThinMutex<Native>>> {
        let waiters: Vec<_> = mutexes.map(Waiter::new).collect();
        condvar.locked(|| waiters.iter().for_each(|waiter| condvar.push(waiter)));
        waiters
    }

    #[test]
    fn of_those_notified_at_once_few_are_woken_at_a_time_in_their_order() {
        let (condvar, here, there) = (Condvar::new(), ThinMutex::new(), ThinMutex::new());
        // Every tenth waits with another mutex.
        let waiters = queued(&condvar, (0..40).map(|n| if n % 10 == 5 { &there } else { &here }));
        assert_eq!(condvar.notify_all(), 40);
        assert!(!condvar.has_waiters());
        let mine: Vec<_> = (0..40).filter(|n| n % 10 != 5).collect();
        let woken = || -> Vec<_> { (0..40).filter(|&n| waiters[n].state() == WOKEN).collect() };
        assert_eq!(woken(), [0, 5]);
        // SAFETY: each is woken once.
        unsafe { wake(waiters[5].follower.get()) };
        let theirs = || woken().into_iter().filter(|n| n % 10 == 5).count();
        assert_eq!(theirs(), 1 + LINES.min(3));
        for (passed, &n) in mine.iter().enumerate() {
            // SAFETY: as above.
            unsafe { wake(waiters[n].follower.get()) };
            let came: Vec<_> = woken().into_iter().filter(|n| n % 10 != 5).collect();
            let expected = (passed + 1 + LINES).min(mine.len());
            assert_eq!(came, mine[..expected]);
        }
    }

    #[test]
    fn a_sleeper_that_is_notified_under_a_full_mutex_is_queued_there() {
        let (condvar, mutex) = (&Condvar::new(), &ThinMutex::<Native>::new());
        let sleeps =
            || condvar.locked(|| condvar.first().is_some_and(|first| first.thread.is_asleep()));
        for is_full in [true, false] {
            scope(|s| {
                let waiter = s.spawn(|| {
                    mutex.lock();
                    // SAFETY: just taken; and taken again.
                    unsafe { (condvar.wait(mutex), mutex.unlock()) };
                });
                until(sleeps);
                if is_full {
                    mutex.lock_inflating();
                } else {
                    assert!(mutex.trim());
                    mutex.lock();
                }
                assert_eq!(mutex.is_inflated(), is_full);
                assert!(condvar.notify_one());
                assert!(!is_full || mutex.is_contended());
                // SAFETY: taken above.
                unsafe { mutex.unlock() };
                join(waiter);
            });
        }
    }

    #[test]
    fn nobody_stays_awake_behind_one_that_sleeps() {
        let (condvar, mutex) = (Condvar::new(), ThinMutex::new());
        let awake = |waiters: &[Waiter<_, _>]| -> Vec<_> {
            waiters.iter().map(|waiter| waiter.awake.load(Ordering::Relaxed) > 0).collect()
        };
        let cpus = Native::cpus();
        let first = queued(&condvar, core::iter::repeat_n(&mutex, cpus + 2));
        let expected: Vec<_> = (0..cpus + 2).map(|n| n < cpus).collect();
        assert_eq!(awake(&first), expected);
        let next = queued(&condvar, core::iter::repeat_n(&mutex, 1));
        assert_eq!(awake(&next), [false]);
        condvar.notify_all();
        let alone = queued(&condvar, core::iter::repeat_n(&mutex, 1));
        assert_eq!(awake(&alone), [true]);
        condvar.notify_all();
    }
}
