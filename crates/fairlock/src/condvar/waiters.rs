//! The condition variable without data, for a mutex.
//!
//! Waiters queue in order of arrival. A notified waiter is taken out of the queue and, mostly,
//! woken; then it takes the mutex like any other thread. It is not handed the mutex while it
//! sleeps, as nobody could use the mutex until it is awake. Before it waits in the mutex's queue,
//! it yields for a moment, as notifications are often sent while the mutex is held.
//!
//! If the mutex is held when a sleeper is notified, and the holder knows that somebody may wait, the sleeper
//! is moved to the mutex's queue without being woken (`Seat`): it could not go on, and a wake-up under the mutex
//! would make others wait for as long. The release of the mutex wakes it. The release of a holder
//! that does not know may miss a waiter: such a mutex gets no seat.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | WAITING | in the queue | a holder of the queue lock |
//! | NOTIFIED | taken out, but not yet woken | the thread that notified it, or another that was notified with it |
//! | WOKEN | takes the mutex by itself, from its seat in the mutex's queue if it has one | nobody: final |
//!
//! If several waiters are notified at once, few are woken, and these wake others (`notified`): each
//! when it finds the mutex free or holds it, and before it sleeps for the mutex. So there is no
//! herd at the mutex, no CPU idles for a wake-up each time, and a waiter that does not run delays
//! no other.
//!
//! *Awake.* If threads take turns in waiting for each other, the notification comes too soon for a
//! sleep to pay. So a waiter first spins for a moment, in case a thread on another CPU is about to
//! notify it; then it yields, in case such a thread wants this CPU. Each phase stops when it no
//! longer pays (`watch`). No more waiters yield than there are CPUs, and none behind a sleeping
//! one: a waiter that stays awake is faster each time, and would take what the sleeper was notified
//! of.
//!
//! *No notification is lost.* A waiter queues before it releases the mutex. A waiter that gives up
//! leaves the queue under the queue lock. If it is no longer in the queue, it was notified, and its
//! wait succeeds: the deadline or token came too late. If it was not woken by then, it wakes those before it on the list,
//! and itself: they may not run.
//!
//! *No wake-up is spurious*, as a waiter is woken only when it was notified. So notifications are
//! counted exactly.
//!
//! *Tasks* wait in the same queue: see `task`.
//!
//! *Frames.* A waiter is in the stack frame of its wait, which is not left before the waiter is
//! WOKEN, or has left the queue. So WOKEN is the last thing that is stored there. A seat is in the
//! same frame, which is not left before the seat is out of the queue of the mutex. A thread that
//! notifies does not touch the condition variable after storing WOKEN: the woken thread may free
//! it.

use core::cell::{self, OnceCell};
use core::ptr;
use core::sync::atomic::Ordering;
#[cfg(feature = "async")]
use core::task::Waker;

#[cfg(feature = "async")]
use super::notified::OWES;
use super::notified::{Batch, NOTIFIED, Notice, WAITING, WOKEN};
use crate::lock::{PooledPlatform, RawMutex, Seat};
use crate::platform::{Atomic, ConstZero};
use crate::system::Cell;
#[cfg(feature = "async")]
use crate::wait::survive;
use crate::wait::{Hint, MISSED_NS, Task, WAKE_NS, Wait, WaitContext, WaitError};

/// The condition variable of [mutexes](RawMutex). Threads that wait at the same time may have given up different ones.
pub struct WordCondvar<P: PooledPlatform> {
    /// The queue lock.
    pub(super) lock: RawMutex<P>,
    /// The first and the last in the queue, as addresses; zero if it is empty. Changed under
    /// the queue lock.
    pub(super) first: P::AtomicUsize,
    last: cell::Cell<*const Waiter<P>>,
}

// SAFETY: `last`, and the links of the waiters in the queue, are touched under the queue lock
// only; waiters stay in their frames while they are in it. What a notified waiter is told is stored by
// the thread that took it out, and read by the waiter once it is WOKEN.
unsafe impl<P: PooledPlatform> Sync for WordCondvar<P> {}
// SAFETY: as above; a condition variable that can be moved has no waiters.
unsafe impl<P: PooledPlatform> Send for WordCondvar<P> {}

// In this order: the thread that notifies a waiter fetches the lines of its frame from another CPU.
#[repr(C, align(64))]
pub(super) struct Waiter<P: PooledPlatform> {
    pub(super) notice: Notice<P>,
    /// The mutex it waits with.
    mutex: *const RawMutex<P>,
    prev: Cell<*const Waiter<P>>,
    pub(super) next: Cell<*const Waiter<P>>,
    /// Its number in the row of waiters that stay awake; zero if it sleeps.
    awake: Hint,
    /// Its place in the queue of the mutex, if it was given one: by the thread that makes it WOKEN, before.
    pub(super) seat: OnceCell<Seat<P>>,
    pub(super) task: Task,
}

/// A waiter that was notified alone, and taken out. It is to be woken when the queue lock is released.
enum Taken<'a, P: PooledPlatform> {
    Thread(&'a Waiter<P>),
    #[cfg(feature = "async")]
    Task(Option<Waker>),
}

impl<P: PooledPlatform> Waiter<P> {
    fn new(mutex: &RawMutex<P>) -> Self {
        Self::with_task(mutex, Task::none())
    }

    pub(super) fn with_task(mutex: &RawMutex<P>, task: Task) -> Self {
        let nobody = || Cell::new(ptr::null());
        Self {
            notice: Notice::new(P::thread()),
            mutex,
            prev: nobody(),
            next: nobody(),
            awake: Hint::new(0),
            seat: OnceCell::new(),
            task,
        }
    }

    /// For the thread that is to wake it: if it sleeps, and somebody has the mutex, a place in its queue. (It
    /// may sleep for the queue lock, too: it is not in the queue any more, and will look again.)
    fn take_seat(&self) -> Option<&Seat<P>> {
        // SAFETY: it takes the mutex before its wait is over, so that is there.
        let seat = unsafe { (*self.mutex).seat(self.notice.thread)? };
        Some(self.seat.get_or_init(|| seat))
    }

    /// Wakes it, or queues it at its mutex.
    ///
    /// # Safety
    /// It was notified, and nobody else wakes it. Its frame may be gone afterwards.
    unsafe fn wake(&self) {
        let mutex = self.mutex;
        let Some(seat) = self.take_seat() else {
            // SAFETY: the caller's promise.
            return unsafe { self.notice.wake() };
        };
        // Release: what came before the notification is seen, and the seat.
        self.notice.state.store(WOKEN, Ordering::Release); // before it can be woken
        // SAFETY: the seat is new, and in the frame, which is not left without the mutex; so that is there, too.
        unsafe { (*mutex).queue(seat) };
    }
}

impl<P: PooledPlatform> WordCondvar<P> {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Self {
            lock: RawMutex::new(),
            first: P::AtomicUsize::new(0),
            last: cell::Cell::new(ptr::null()),
        }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
        P::AtomicUsize: ConstZero,
    {
        Self { lock: ConstZero::ZERO, first: ConstZero::ZERO, last: cell::Cell::new(ptr::null()) }
    }

    /// Lets `mutex` go, and takes it again once notified.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    pub unsafe fn wait(&self, mutex: &RawMutex<P>) {
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
    pub unsafe fn wait_with(
        &self,
        mutex: &RawMutex<P>,
        wait: Wait<'_, P>,
    ) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_within(mutex, &wait.begin()) }
    }

    /// The lock of the queue.
    #[doc(hidden)]
    pub fn queue_lock(&self) -> &RawMutex<P> {
        &self.lock
    }

    /// Whether a thread or task waits that was not notified yet; or a task whose waker is just to be called.
    pub fn has_waiters(&self) -> bool {
        // Relaxed: a waiter that has to be seen queued before it let the mutex go, and this thread,
        // or the one that told it, has had the mutex since.
        self.first.load(Ordering::Relaxed) != 0
    }

    /// # Safety
    /// The caller holds `mutex`.
    pub(super) unsafe fn wait_within(
        &self,
        mutex: &RawMutex<P>,
        until: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let waiter = Waiter::new(mutex);
        self.locked(|| self.push(&waiter));
        // SAFETY: the caller's promise.
        unsafe { mutex.unlock() };
        // If none of those runs that this thread has woken.
        P::thread().notified.wake_next_of_own();
        let notified = until.listed(P::thread(), || self.sleep(&waiter, until));
        if notified.is_ok() {
            Self::lock_again(mutex, &waiter);
        } else {
            mutex.lock();
        }
        notified
    }

    /// For a thread that was woken: takes the mutex, and wakes those that are next.
    fn lock_again(mutex: &RawMutex<P>, waiter: &Waiter<P>) {
        if let Some(seat) = waiter.seat.get() {
            return mutex.lock_seated(seat); // it was notified alone
        }
        let mut wakes = waiter.notice.has_next();
        // Not while the mutex is held for a moment: they would be woken in vain.
        if wakes && !mutex.is_locked() {
            waiter.notice.wake_next();
            wakes = false;
        }
        let watch = &P::thread().watch;
        let taken = watch.give_way::<P>(&WaitContext::FOREVER, 2 * WAKE_NS, || mutex.try_lock());
        if wakes {
            waiter.notice.wake_next();
        }
        if !taken {
            mutex.lock();
        }
    }

    /// Sleeps until woken, or until the wait ends without a notification.
    fn sleep(&self, waiter: &Waiter<P>, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        Self::stay_awake(waiter, until);
        let mut ended = until.expired(P::now);
        // When it looks whether the next ones on its list are to be woken.
        let mut looks = None;
        loop {
            match waiter.notice.state() {
                WAITING => {
                    if let Some(why) = ended {
                        if self.locked(|| self.give_up(waiter)) {
                            return Err(why);
                        }
                        continue;
                    }
                }
                // What ends the wait now comes too late. But those that were to wake it may not run.
                NOTIFIED if ended.is_some() => {
                    waiter.notice.wake_up_to_this();
                    if waiter.notice.state() == NOTIFIED {
                        // It is just being put on the list, or taken off. (Loom's clock stands still.)
                        let timer = (!cfg!(fairlock_loom)).then(|| P::now() + WAKE_NS);
                        WaitContext::FOREVER.sleep(&waiter.notice.thread.parker, timer);
                    }
                    continue;
                }
                // It is on the list, and awake: the lookout. (Loom's clock stands still.)
                NOTIFIED if waiter.notice.has_next() && !cfg!(fairlock_loom) => {
                    let now = P::now();
                    if looks.is_some_and(|at| now >= at) {
                        waiter.notice.wake_next();
                    }
                    looks = Some(now + MISSED_NS);
                }
                NOTIFIED => {}
                _ => return Ok(()),
            }
            ended = until.sleep(&waiter.notice.thread.parker, looks);
        }
    }

    /// Stays awake for a moment, if the waiter is to. Not where a signal is to end the wait: that
    /// would not be noticed.
    fn stay_awake(waiter: &Waiter<P>, until: &WaitContext<'_, P>) {
        let yields = || waiter.awake.load(Ordering::Relaxed) > 0;
        if !until.interruptible {
            P::thread().watch.stay_awake(&waiter.notice.state, WOKEN, until, yields);
        }
        waiter.awake.store(0, Ordering::Relaxed);
    }

    /// Notifies the thread or task that has waited longest; returns whether there was one.
    pub fn notify_one(&self) -> bool {
        if !self.has_waiters() {
            return false;
        }
        match self.locked(|| self.take_first()) {
            None => return false,
            // SAFETY: taken above.
            Some(Taken::Thread(first)) => unsafe { first.wake() },
            #[cfg(feature = "async")]
            Some(Taken::Task(waker)) => survive(|| _ = waker.map(Waker::wake)),
        }
        true
    }

    /// Notifies all threads and tasks that wait; returns how many there were.
    pub fn notify_all(&self) -> usize {
        if !self.has_waiters() {
            return 0;
        }
        let (mut threads, mut last) = (Batch::new(&P::thread().notified), None);
        let mut tasks = 0;
        self.locked(|| {
            let mut next = self.first_waiting();
            while let Some(waiter) = next {
                next = Self::behind(waiter);
                // Relaxed: read under the queue lock; a read without it leads to no more than another look.
                waiter.notice.state.store(NOTIFIED, Ordering::Relaxed);
                if waiter.task.is_task() {
                    tasks += 1;
                } else {
                    self.remove(waiter);
                    threads.push(&waiter.notice);
                    last = Some(waiter);
                }
            }
        });
        let notified = threads.len() + tasks;
        // SAFETY: taken above.
        unsafe {
            match last {
                Some(only) if threads.len() == 1 => only.wake(),
                _ => threads.wake(),
            }
        }
        #[cfg(feature = "async")]
        if tasks > 0 {
            self.wake_tasks();
        }
        notified
    }

    /// Under the queue lock: takes out the first waiter that was not notified yet, and notes that it is.
    fn take_first(&self) -> Option<Taken<'_, P>> {
        let first = self.first_waiting()?;
        self.remove(first);
        #[cfg(feature = "async")]
        if first.task.is_task() {
            // Relaxed: as in `notify_all`.
            first.notice.state.store(OWES, Ordering::Relaxed);
            return Some(Taken::Task(first.task.take_waker()));
        }
        // Relaxed: as in `notify_all`.
        first.notice.state.store(NOTIFIED, Ordering::Relaxed);
        Some(Taken::Thread(first))
    }

    /// Under the queue lock: the first waiter that was not notified yet.
    fn first_waiting(&self) -> Option<&Waiter<P>> {
        let mut first = self.first();
        while let Some(waiter) =
            first.filter(|first| first.notice.state.load(Ordering::Relaxed) != WAITING)
        {
            first = Self::behind(waiter);
        }
        first
    }

    /// Under the queue lock: the waiter behind this one, which is in the queue.
    fn behind(waiter: &Waiter<P>) -> Option<&Waiter<P>> {
        // SAFETY: as in `first`.
        unsafe { waiter.next.get().as_ref() }
    }

    pub(super) fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.lock.lock();
        let result = f();
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
        result
    }

    pub(super) fn first(&self) -> Option<&Waiter<P>> {
        // SAFETY: under the queue lock: a waiter in the queue is in its frame.
        unsafe { (self.first.load(Ordering::Relaxed) as *const Waiter<P>).as_ref() }
    }

    pub(super) fn push(&self, waiter: &Waiter<P>) {
        let last = self.last.replace(waiter);
        waiter.prev.set(last);
        // SAFETY: as in `first`.
        let last = unsafe { last.as_ref() };
        let awake = if waiter.task.is_task() { 0 } else { Self::row_behind(last) };
        waiter.awake.store(awake, Ordering::Relaxed);
        match last {
            Some(last) => last.next.set(waiter),
            // Relaxed: see `has_waiters`.
            None => self.first.store(ptr::from_ref(waiter) as usize, Ordering::Relaxed),
        }
    }

    /// The calling thread's number in the row of those that stay awake, behind `last`; zero if it is
    /// to sleep.
    /// See *Awake*.
    fn row_behind(last: Option<&Waiter<P>>) -> usize {
        let before = last.map(|last| last.awake.load(Ordering::Relaxed));
        let awake = match before {
            Some(0) => return 0,
            before => before.unwrap_or(0) + 1,
        };
        if awake <= P::cpus() && P::thread().watch.yields.begins() { awake } else { 0 }
    }

    /// The waiter takes itself out of the queue: false if it was notified.
    fn give_up(&self, waiter: &Waiter<P>) -> bool {
        // Relaxed: under the queue lock.
        let waits = waiter.notice.state.load(Ordering::Relaxed) == WAITING;
        if waits {
            self.remove(waiter);
        }
        waits
    }

    pub(super) fn remove(&self, waiter: &Waiter<P>) {
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

impl<P: PooledPlatform> Default for WordCondvar<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: PooledPlatform> core::fmt::Debug for WordCondvar<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WordCondvar").field("waiting", &self.has_waiters()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::vec::Vec;

    use std::sync::atomic::AtomicUsize;

    use fairlock_testing::{join, scope, until};

    use super::*;
    use core::iter::repeat_n;

    use crate::condvar::notified::{AT_ONCE, MORE};
    use crate::platform::{Native, System};
    use crate::wait::CancelToken;

    type Condvar = WordCondvar<Native>;

    fn queued<'a>(
        condvar: &Condvar,
        mutexes: impl Iterator<Item = &'a RawMutex<Native>>,
    ) -> Vec<Waiter<Native>> {
        let waiters: Vec<_> = mutexes.map(Waiter::new).collect();
        condvar.locked(|| waiters.iter().for_each(|waiter| condvar.push(waiter)));
        waiters
    }

    /// Which of them are woken. A test has to have all woken: those that are left on the list of its thread would be
    /// found there by the next one.
    fn woken(waiters: &[Waiter<Native>]) -> Vec<usize> {
        (0..waiters.len()).filter(|&n| waiters[n].notice.state() == WOKEN).collect()
    }

    #[test]
    fn of_those_notified_at_once_few_are_woken_at_a_time_in_their_order() {
        let (condvar, mutexes) = (Condvar::new(), [RawMutex::new(), RawMutex::new()]);
        let waiters = queued(&condvar, (0..40).map(|n| &mutexes[usize::from(n % 10 == 5)]));
        assert_eq!(condvar.notify_all(), 40);
        assert!(!condvar.has_waiters());
        let mut expected = AT_ONCE;
        for (passed, waiter) in waiters.iter().enumerate() {
            assert_eq!(woken(&waiters), (0..expected).collect::<Vec<_>>());
            waiter.notice.wake_next();
            expected = (expected + if passed < MORE { 2 } else { 1 }).min(40);
        }
    }

    /// All but one that was woken first never run.
    #[test]
    fn a_waiter_that_does_not_run_delays_no_other() {
        let (condvar, mutex) = (&Condvar::new(), &RawMutex::<Native>::new());
        let stopped = queued(condvar, repeat_n(mutex, AT_ONCE - 1));
        let waiting = AtomicUsize::new(0);
        scope(|s| {
            let waiters: Vec<_> = (0..8)
                .map(|_| {
                    s.spawn(|| {
                        mutex.lock();
                        waiting.fetch_add(1, Ordering::Relaxed);
                        // SAFETY: just taken; and taken again.
                        unsafe { (condvar.wait(mutex), mutex.unlock()) };
                    })
                })
                .collect();
            until(|| waiting.load(Ordering::Relaxed) == 8);
            mutex.lock();
            assert_eq!(condvar.notify_all(), stopped.len() + 8);
            // SAFETY: just taken.
            unsafe { mutex.unlock() };
            waiters.into_iter().for_each(join);
        });
    }

    /// None of those that were woken runs, and the thread that notified does not wait again.
    #[test]
    fn a_wait_that_was_notified_and_would_end_goes_on_whoever_runs() {
        let (condvar, mutex) = (&Condvar::new(), &RawMutex::<Native>::new());
        let (stopped, ends) = (queued(condvar, repeat_n(mutex, AT_ONCE + 3)), CancelToken::new());
        scope(|s| {
            let waiter = s.spawn(|| {
                mutex.lock();
                let wait = Wait::FOREVER.cancellable(&ends);
                // SAFETY: just taken; and taken again.
                let notified = unsafe { (condvar.wait_with(mutex, wait), mutex.unlock()).0 };
                assert_eq!(notified, Ok(()));
            });
            let last = || condvar.locked(|| condvar.last.get());
            until(|| !ptr::eq(last(), &raw const stopped[stopped.len() - 1]));
            assert_eq!(condvar.notify_all(), stopped.len() + 1);
            ends.cancel();
            join(waiter);
        });
        assert_eq!(woken(&stopped).len(), stopped.len());
    }

    /// Nor does the wait end, nor the thread that notified wait again. (Eight waiters behind two of the idle class waited for
    /// half a second.)
    #[test]
    fn the_last_of_those_notified_wakes_the_others_if_nobody_else_does() {
        let (condvar, mutex) = (&Condvar::new(), &RawMutex::<Native>::new());
        let stopped = queued(condvar, repeat_n(mutex, AT_ONCE + 3));
        scope(|s| {
            let waiter = s.spawn(|| {
                mutex.lock();
                // SAFETY: just taken; and taken again.
                unsafe { (condvar.wait(mutex), mutex.unlock()) };
            });
            let last = || condvar.locked(|| condvar.last.get());
            until(|| !ptr::eq(last(), &raw const stopped[stopped.len() - 1]));
            assert_eq!(condvar.notify_all(), stopped.len() + 1);
            join(waiter);
        });
        assert_eq!(woken(&stopped).len(), stopped.len());
    }

    #[test]
    fn if_none_of_those_woken_runs_the_thread_that_notified_wakes_the_others() {
        let (condvar, mutex) = (Condvar::new(), RawMutex::new());
        let stopped = queued(&condvar, repeat_n(&mutex, AT_ONCE + 9));
        condvar.notify_all();
        for waits in 1..=3 {
            mutex.lock();
            // SAFETY: just taken; and taken again.
            let notified =
                unsafe { (condvar.wait_with(&mutex, Wait::until_nanos(0)), mutex.unlock()).0 };
            assert_eq!(notified, Err(WaitError::TimedOut));
            assert_eq!(woken(&stopped).len(), AT_ONCE + waits + waits.min(MORE));
        }
        let more = queued(&condvar, repeat_n(&mutex, AT_ONCE + 1));
        condvar.notify_all();
        assert_eq!([woken(&stopped).len(), woken(&more).len()], [stopped.len(), AT_ONCE]);
        more[0].notice.wake_next();
        assert_eq!(woken(&more).len(), more.len());
    }

    /// Those that are still to be woken need nothing but their mutex.
    #[test]
    fn waiters_wake_each_other_when_the_condition_variable_is_gone() {
        let (condvar, mutex) = (Condvar::new(), RawMutex::new());
        let waiters = queued(&condvar, repeat_n(&mutex, 40));
        condvar.notify_all();
        drop(condvar);
        for waiter in &waiters {
            Condvar::lock_again(&mutex, waiter);
            // SAFETY: just taken.
            unsafe { mutex.unlock() };
        }
        assert_eq!(woken(&waiters).len(), 40);
    }

    #[test]
    fn a_sleeper_that_is_notified_under_a_mutex_whose_holder_knows_of_waiters_is_queued_there() {
        let (condvar, mutex) = (&Condvar::new(), &RawMutex::<Native>::new());
        let sleeps = || {
            condvar.locked(|| condvar.first().is_some_and(|first| first.notice.thread.is_asleep()))
        };
        let is_queued = |knows| {
            scope(|s| {
                let waiter = s.spawn(|| {
                    mutex.lock();
                    // SAFETY: just taken; and taken again.
                    unsafe { (condvar.wait(mutex), mutex.unlock()) };
                });
                until(sleeps);
                mutex.lock();
                if knows {
                    mutex.know_of_waiters();
                }
                assert_eq!(mutex.snapshot().known, knows);
                assert!(condvar.notify_one());
                let is_queued = mutex.is_contended();
                // SAFETY: taken above.
                unsafe { mutex.unlock() };
                join(waiter);
                is_queued
            })
        };
        assert!(is_queued(true));
        // One that was woken may have queued by itself by then.
        until(|| !is_queued(false));
    }

    #[test]
    fn nobody_stays_awake_behind_one_that_sleeps() {
        let (condvar, mutex) = (Condvar::new(), RawMutex::new());
        let awake = |waiters: &[Waiter<_>]| -> Vec<_> {
            waiters.iter().map(|waiter| waiter.awake.load(Ordering::Relaxed) > 0).collect()
        };
        let cpus = Native::cpus();
        let first = queued(&condvar, repeat_n(&mutex, cpus + 2));
        let expected: Vec<_> = (0..cpus + 2).map(|n| n < cpus).collect();
        assert_eq!(awake(&first), expected);
        let next = queued(&condvar, repeat_n(&mutex, 1));
        assert_eq!(awake(&next), [false]);
        // None is left on a list.
        (0..cpus + 3).for_each(|_| assert!(condvar.notify_one()));
        let alone = queued(&condvar, repeat_n(&mutex, 1));
        assert_eq!(awake(&alone), [true]);
        condvar.notify_one();
    }
}
