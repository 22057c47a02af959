//! For concurrency testers: a condition variable, seen between two steps of its threads.

use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering;
use std::vec::Vec;

use super::notified::{NOTIFIED, Notified, WAITING};
use super::waiters::{Waiter, WordCondvar};
use crate::lock::PooledPlatform;
use crate::platform::{Atomic, Platform};
use crate::thread::Thread;

/// A thread whose wait has not returned.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct WaiterSnapshot {
    /// `W` waits, `N` notified and not told, `K` told, `S` told, with a seat.
    pub state: char,
    /// Who notified it and maybe others, if so.
    pub notifier: Option<NotifierSnapshot>,
}

/// A thread that notified others.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct NotifierSnapshot {
    /// Its hint, and where its list begins.
    pub hint: usize,
    pub list_at: usize,
    /// The hints of those that it has left to others to wake; none while somebody changes that.
    pub list: Option<Vec<usize>>,
}

impl NotifierSnapshot {
    fn of<P: Platform>(notified: &Notified<P>) -> Self {
        let mut list = Vec::new();
        let whole = notified.for_each_listed(|thread| list.push(thread.hint()));
        Self {
            hint: ptr::from_ref(notified).addr() - offset_of!(Thread<P>, notified),
            list_at: notified.list_at(),
            list: whole.then_some(list),
        }
    }
}

impl<P: PooledPlatform> WordCondvar<P> {
    /// Calls `f` with hint and address of each waiter in the queue, in order; false while somebody changes it.
    ///
    /// # Safety
    /// No thread runs in a method of this condition variable meanwhile; any may be stopped in one.
    #[doc(hidden)]
    pub unsafe fn for_each_queued(&self, mut f: impl FnMut(usize, usize)) -> bool {
        if self.lock.is_locked() {
            return false;
        }
        let mut next = self.first.load(Ordering::Relaxed) as *const Waiter<P>;
        // SAFETY: nobody changes the queue, and a waiter in it is in its frame.
        while let Some(waiter) = unsafe { next.as_ref() } {
            f(waiter.notice.thread.hint(), next.addr());
            next = waiter.next.get();
        }
        true
    }

    /// The waiter at this address.
    ///
    /// # Safety
    /// As above; and the address was that of a waiter in the queue, whose wait has not returned.
    #[doc(hidden)]
    pub unsafe fn waiter(&self, address: usize) -> WaiterSnapshot {
        // SAFETY: the caller's promise.
        let waiter = unsafe { &*(address as *const Waiter<P>) };
        let state = match waiter.notice.state.load(Ordering::Relaxed) {
            WAITING => 'W',
            NOTIFIED => 'N',
            _ if waiter.seat.get().is_some() => 'S',
            _ => 'K',
        };
        WaiterSnapshot { state, notifier: waiter.notice.notifier().map(NotifierSnapshot::of) }
    }

    /// Whether that is where the queue begins.
    #[doc(hidden)]
    pub fn has_queue_at(&self, address: usize) -> bool {
        ptr::from_ref(&self.first).addr() == address
    }
}
