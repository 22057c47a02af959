//! Tasks that the [timer](super::offers) wakes at a time, as their waits end then, or when a token is cancelled.
//!
//! An alarm lies in its future, which is pinned, and takes it out. All is changed under one lock of the platform. An alarm
//! that is first in time wakes the timer, unless that wakes by itself before: so waits under one timeout that come and go
//! wake it once in that time.
//!
//! *No cancel is lost.* An alarm is in the list before its task looks at the token for the last time (`tells`), which is the
//! step after which `cancel` finds the bell.

use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::task::Waker;

use super::queue_lock::QueueLock;
use crate::system::{Cell, System, fork};
use crate::wait::{Bell, Cancels, Linked, Links, List, WaitContext, bit_of, survive};

/// A task that is to be woken.
pub(super) struct Alarm {
    /// When, at the latest.
    at: Cell<u64>,
    /// The address of the token that ends the wait; zero if there is none. Nobody follows it.
    token: Cell<usize>,
    /// None: it was called, and the task was not polled since.
    waker: Cell<Option<Waker>>,
    /// The number of the process in whose list it is, and one; zero: it is in none.
    process: Cell<usize>,
    links: Links<Alarm>,
}

impl Linked for Alarm {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self {
            at: Cell::new(u64::MAX),
            token: Cell::new(0),
            waker: Cell::new(None),
            process: Cell::new(0),
            links: Links::new(),
        }
    }

    fn is_listed(&self) -> bool {
        self.process.get() == fork::number() + 1
    }
}

/// All alarms of a platform.
pub(super) struct Alarms<P: System> {
    lock: QueueLock<P>,
    lists: UnsafeCell<Lists>,
    pub(super) bell: Bell<P>,
}

// SAFETY: the lists are used under the lock.
unsafe impl<P: System> Sync for Alarms<P> {}
// SAFETY: as above. Wakers may be sent.
unsafe impl<P: System> Send for Alarms<P> {}

struct Lists {
    /// By time.
    timed: List<Alarm>,
    /// Without a time.
    untimed: List<Alarm>,
    /// When the timer looks at the lists again by itself.
    until: u64,
}

impl Lists {
    const fn new() -> Self {
        Self { timed: List::new(), untimed: List::new(), until: u64::MAX }
    }

    fn list_of(&mut self, alarm: &Alarm) -> &mut List<Alarm> {
        if alarm.at.get() == u64::MAX { &mut self.untimed } else { &mut self.timed }
    }

    /// # Safety
    /// The alarm stays where it is until it is out again.
    unsafe fn enlist(&mut self, alarm: &Alarm) {
        alarm.process.set(fork::number() + 1);
        // SAFETY: it was in no list; and the caller's promise.
        unsafe { self.list_of(alarm).insert(alarm, |other| other.at.get() <= alarm.at.get()) };
    }

    /// Takes out an alarm that is listed.
    fn delist(&mut self, alarm: &Alarm) {
        alarm.process.set(0);
        // SAFETY: it is in this list.
        unsafe { self.list_of(alarm).remove(alarm) };
    }
}

/// Where the token is.
fn address<P: System>(token: &dyn Cancels<P>) -> usize {
    core::ptr::from_ref(token).addr()
}

impl<P: System> Alarms<P> {
    pub(super) const fn new(lock: QueueLock<P>) -> Self {
        Self { lock, lists: UnsafeCell::new(Lists::new()), bell: Bell::new() }
    }

    /// # Safety
    /// As for [`Slots::enter_child`](super::Slots::enter_child).
    pub(super) unsafe fn enter_child(&self) {
        self.lock.enter_child();
        // SAFETY: the calling thread is alone. The alarms of the parent's tasks see that they are in no list.
        unsafe { *self.lists.get() = Lists::new() };
        self.bell.enter_child();
    }

    fn with_lists<R>(&self, f: impl FnOnce(&mut Lists) -> R) -> R {
        self.lock.lock();
        // SAFETY: under the lock.
        let result = f(unsafe { &mut *self.lists.get() });
        self.lock.unlock();
        result
    }

    /// The task, which is polled, is woken when `wait` ends, which is the same wait each time.
    /// Returns whether its token was cancelled before.
    ///
    /// # Safety
    /// The alarm stays where it is until it was [disarmed](Self::disarm).
    pub(super) unsafe fn arm(
        &'static self,
        alarm: &Alarm,
        wait: &WaitContext<'_, P>,
        waker: Waker,
    ) -> bool {
        let (at, token) = (wait.deadline.unwrap_or(u64::MAX), wait.cancel.map_or(0, address));
        let (old, is_first) = self.with_lists(|lists| {
            if !alarm.is_listed() {
                alarm.at.set(at);
                alarm.token.set(token);
                // SAFETY: the caller's promise.
                unsafe { lists.enlist(alarm) };
            }
            (alarm.waker.replace(Some(waker)), at < lists.until)
        });
        survive(|| drop(old));
        if is_first {
            self.bell.wake_timer();
        }
        wait.cancel.is_some_and(|token| token.tells(&self.bell))
    }

    /// The task is not woken any more.
    pub(super) fn disarm(&self, alarm: &Alarm) {
        let old = self.with_lists(|lists| {
            if alarm.is_listed() {
                lists.delist(alarm);
            }
            alarm.waker.take()
        });
        survive(|| drop(old));
    }

    /// Wakes the tasks whose time has come, and those whose tokens were rung. The timer looks again at `until`, or before:
    /// returns when. It keeps `wakers`, which are none.
    pub(super) fn sound(
        &self,
        now: u64,
        until: Option<u64>,
        wakers: &mut Vec<Waker>,
    ) -> Option<u64> {
        let rung = self.bell.take_rung();
        let until = self.with_lists(|lists| {
            let first = loop {
                // SAFETY: what is in the list is there until it is taken out, under the lock.
                match unsafe { lists.timed.head().as_ref::<'static>() } {
                    Some(due) if due.at.get() <= now => {
                        lists.delist(due);
                        wakers.extend(due.waker.take());
                    }
                    first => break first.map(|first| first.at.get()),
                }
            };
            if rung != 0 {
                let all = lists.timed.iter().chain(lists.untimed.iter());
                let told = all.filter(|alarm| rung & bit_of(alarm.token.get()) != 0);
                wakers.extend(told.filter_map(|alarm| alarm.waker.take()));
            }
            let until = first.into_iter().chain(until).min();
            lists.until = until.unwrap_or(u64::MAX);
            until
        });
        wakers.drain(..).for_each(|waker| survive(|| waker.wake()));
        until
    }
}
