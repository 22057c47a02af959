//! Threads that were notified and are to be woken.
//!
//! Woken all at once, they would be in each other's way at the mutex. So the notifying thread wakes
//! only the first [`AT_ONCE`], and puts the others on its list. Each woken thread takes one more
//! off the list and wakes it; the first [`MORE`] that come take two. So a thread that does not run
//! delays no other, as long as one of the woken threads runs. If none does, the *lookout* wakes the next ones each millisecond:
//! the last thread on the list, which the notifying thread wakes for that. It sleeps with a timer until it is taken off the
//! list. Each later wait of the notifying thread wakes one more, too, and its next notification of several threads wakes all.
//!
//! The list is in the record of the thread that notified. Records are never freed, so a woken thread
//! may look there when the condition variable is gone already.

use core::ptr;
use core::sync::atomic::Ordering;

use crate::system::{Atomic, Cell, System};
use crate::wait::{Hint, Sleeper};

pub(super) const WAITING: u32 = 0;
pub(super) const NOTIFIED: u32 = 1;
pub(super) const WOKEN: u32 = 2;
/// Of a task that was notified alone.
#[cfg(feature = "async")]
pub(super) const OWES: u32 = 3;

/// How many threads the notifying thread wakes. With fewer, a single thread could delay all; with
/// more, or all at once, they are up to four times as slow on two CPUs. Model checks and testers
/// have too few waiters for two.
pub(super) const AT_ONCE: usize = if cfg!(any(fairlock_loom, fairlock_faults)) { 1 } else { 2 };
/// How many woken threads wake two others each: with fewer, CPUs idle; with more, threads are in
/// each other's way.
pub(super) const MORE: usize = 2;

/// What a waiting thread is told. It is in the frame of the wait.
pub(super) struct Notice<P: System> {
    pub(super) thread: &'static Sleeper<P>,
    /// The next one that was notified at the same time.
    pub(super) next: Cell<*const Notice<P>>,
    /// The list of the thread that notified it together with others: an address, or zero.
    notifier: P::AtomicUsize,
    pub(super) state: P::AtomicU32,
}

impl<P: System> Notice<P> {
    /// Of `thread`, the calling one.
    pub(super) fn new(thread: &'static Sleeper<P>) -> Self {
        Self {
            thread,
            next: Cell::new(ptr::null()),
            notifier: P::AtomicUsize::new(0),
            state: P::AtomicU32::new(WAITING),
        }
    }

    /// Acquire: what came before the notification is seen, and who notified.
    pub(super) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// # Safety
    /// The waiter was notified, and nobody else wakes it. Its frame may be gone afterwards.
    pub(super) unsafe fn wake(&self) {
        let thread = self.thread;
        // Release: pairs with `state`.
        self.state.store(WOKEN, Ordering::Release);
        thread.parker.unpark();
    }

    /// Who notified it together with others.
    pub(super) fn notifier(&self) -> Option<&'static Notified<P>> {
        // Acquire: as of the state. SAFETY: null, or in a thread record, which is never freed.
        unsafe { (self.notifier.load(Ordering::Acquire) as *const Notified<P>).as_ref() }
    }

    /// For a waiter that was woken: whether others were notified with it.
    pub(super) fn has_next(&self) -> bool {
        self.notifier().is_some()
    }

    /// For a waiter that was woken: wakes those that are next.
    pub(super) fn wake_next(&self) {
        let Some(notifier) = self.notifier() else { return };
        notifier.wake_next();
    }

    /// For a waiter that was notified, and does not wait any longer to be woken: wakes those before it and itself, as
    /// far as they are on the list.
    pub(super) fn wake_up_to_this(&self) {
        let Some(notifier) = self.notifier() else { return };
        while self.state() == NOTIFIED && notifier.wake_first() {}
    }
}

/// Wakes a list of waiters.
///
/// # Safety
/// As for [`Notice::wake`], for each.
unsafe fn wake_all<P: System>(mut next: *const Notice<P>) {
    // SAFETY: a waiter is in its frame until it is woken, here.
    while let Some(notice) = unsafe { next.as_ref() } {
        next = notice.next.get();
        // SAFETY: the caller's promise.
        unsafe { notice.wake() };
    }
}

/// Those that a thread has notified and not woken. In the record of the thread.
pub(crate) struct Notified<P: System> {
    /// Held by the thread that changes the list, for some instructions. No ticket lock: those need records.
    lock: P::AtomicU32,
    /// The first one, as an address; zero if there is none.
    first: P::AtomicUsize,
    /// Whether there may be some. Of the record's own thread, whose every wait looks here.
    some: Cell<bool>,
    /// How many are yet to wake two.
    more: Hint,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep for it.
const AWAITED: u32 = 2;

// SAFETY: all but `some` are atomics, and that is used by the record's own thread only; the notices on the list
// are touched under its lock, or by the thread that took them off.
unsafe impl<P: System> Sync for Notified<P> {}

impl<P: System> Notified<P> {
    pub(crate) fn new() -> Self {
        Self {
            lock: P::AtomicU32::new(FREE),
            first: P::AtomicUsize::new(0),
            some: Cell::new(false),
            more: Hint::new(0),
        }
    }

    /// Forgets the list, which another thread may have been about to change: the child of a fork has
    /// none of those that its parent has notified.
    #[cfg(feature = "std")]
    pub(crate) fn enter_child(&self) {
        // Relaxed: the process has no other thread.
        self.lock.store(FREE, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
    }

    /// For concurrency testers, between two steps: calls `f` with those on the list; false while somebody changes it.
    #[cfg(feature = "std")]
    pub(super) fn for_each_listed(&self, mut f: impl FnMut(&'static Sleeper<P>)) -> bool {
        if self.lock.load(Ordering::Relaxed) != FREE {
            return false;
        }
        let mut next = self.first.load(Ordering::Relaxed) as *const Notice<P>;
        // SAFETY: a waiter on the list is not woken, so it is in its frame; nobody changes the list.
        while let Some(notice) = unsafe { next.as_ref() } {
            f(notice.thread);
            next = notice.next.get();
        }
        true
    }

    #[cfg(feature = "std")]
    pub(super) fn list_at(&self) -> usize {
        ptr::from_ref(&self.first).addr()
    }

    /// For the record's own thread, when it waits: wakes the next of those that it has notified.
    pub(super) fn wake_next_of_own(&self) {
        if self.some.get() {
            self.some.set(self.wake_next());
        }
    }

    /// Wakes the next one, or the next two. Returns whether there was one.
    fn wake_next(&self) -> bool {
        // Relaxed: the thread that was woken sees what was left on the list before.
        if self.first.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Relaxed: if two do so at once, there is one more.
        let more = self.more.load(Ordering::Relaxed);
        if more > 0 {
            self.more.store(more - 1, Ordering::Relaxed);
            self.wake_first();
        }
        self.wake_first()
    }

    /// Takes the first one off the list, and wakes it. Returns whether there was one.
    pub(super) fn wake_first(&self) -> bool {
        // SAFETY: a waiter on the list is not woken, so it is in its frame.
        let first = self.change(|first| unsafe { first.as_ref() }.map_or(first, |n| n.next.get()));
        // SAFETY: as above.
        let first = unsafe { first.as_ref() };
        if let Some(first) = first {
            // SAFETY: the thread that takes it off the list wakes it.
            unsafe { first.wake() };
        }
        first.is_some()
    }

    /// Sets another first one; returns the one before.
    pub(super) fn change(
        &self,
        next: impl FnOnce(*const Notice<P>) -> *const Notice<P>,
    ) -> *const Notice<P> {
        self.lock();
        // Relaxed: under the lock.
        let before = self.first.load(Ordering::Relaxed) as *const Notice<P>;
        self.first.store(next(before) as usize, Ordering::Relaxed);
        // Release: pairs with `lock`.
        if self.lock.swap(FREE, Ordering::Release) == AWAITED {
            P::wake_one(&self.lock);
        }
        before
    }

    fn lock(&self) {
        // Acquire: what was done under the lock before.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if self.lock.compare_exchange(FREE, HELD, acquire, relaxed).is_ok() {
            return;
        }
        while self.lock.swap(AWAITED, acquire) != FREE {
            P::wait(&self.lock, AWAITED, None, false);
        }
    }
}

/// Waiters that the calling thread notifies at the same time, in their order.
pub(super) struct Batch<P: System> {
    notifier: &'static Notified<P>,
    first: *const Notice<P>,
    last: *const Notice<P>,
    /// The last of those that the calling thread wakes.
    last_at_once: *const Notice<P>,
    len: usize,
}

impl<P: System> Batch<P> {
    /// `notifier`: the calling thread's list.
    pub(super) fn new(notifier: &'static Notified<P>) -> Self {
        let [first, last, last_at_once] = [ptr::null(); 3];
        Self { notifier, first, last, last_at_once, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds one that is out of the condition variable's queue.
    pub(super) fn push(&mut self, notice: &Notice<P>) {
        // Release: pairs with `Notice::notifier`.
        notice.notifier.store(ptr::from_ref(self.notifier).addr(), Ordering::Release);
        // SAFETY: pushed before, and not woken yet.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(notice),
            None => self.first = notice,
        }
        self.last = notice;
        if self.len < AT_ONCE {
            self.last_at_once = notice;
        }
        self.len += 1;
    }

    /// Wakes the first ones, and leaves the others to them.
    ///
    /// # Safety
    /// All were notified, and nobody else wakes them.
    pub(super) unsafe fn wake(self) {
        let mut lookout = None;
        // SAFETY: not woken yet.
        if let Some(last) = unsafe { self.last_at_once.as_ref() } {
            let others = last.next.replace(ptr::null());
            if !others.is_null() {
                self.notifier.some.set(true);
                // SAFETY: as above.
                lookout = unsafe { self.last.as_ref() }.map(|last| last.thread);
                // Relaxed: no matter who sees it when.
                self.notifier.more.store(MORE, Ordering::Relaxed);
                // Before the first ones are woken, as they look at the list.
                let before = self.notifier.change(|_| others);
                // SAFETY: taken off the list.
                unsafe { wake_all(before) };
            }
        }
        // SAFETY: the caller's promise; they are not on the list.
        unsafe { wake_all(self.first) };
        // Its record outlives the wait, which may be over. (Loom's clock stands still: there nobody looks out.)
        if let Some(thread) = lookout.filter(|_| !cfg!(fairlock_loom)) {
            thread.parker.unpark();
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use fairlock_testing::{join, scope, until, within};

    use super::*;
    use crate::platform::Native;

    /// Two that wake the next one at the same time take different ones off the list: the second sleeps until
    /// the first is done, and is woken then.
    #[test]
    fn one_thread_at_a_time_changes_the_list() {
        let list = &Notified::<Native>::new();
        for _ in 0..10 {
            let (inside, entered) = (AtomicBool::new(true), AtomicBool::new(false));
            scope(|s| {
                let mut second = None;
                list.change(|first| {
                    let thread = s.spawn(|| {
                        list.change(|first| {
                            entered.store(inside.load(Ordering::Relaxed), Ordering::Relaxed);
                            first
                        });
                    });
                    until(|| list.lock.load(Ordering::Relaxed) == AWAITED || thread.is_finished());
                    // It is about to sleep. If it does not by then, it need not be woken.
                    within(Duration::from_millis(2), || false);
                    inside.store(false, Ordering::Relaxed);
                    second = Some(thread);
                    first
                });
                second.map(join);
            });
            assert!(!entered.load(Ordering::Relaxed));
            assert_eq!(list.lock.load(Ordering::Relaxed), FREE);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_child_of_a_fork_has_an_empty_list_that_is_free() {
        let list = &Notified::<Native>::new();
        let notice = Notice::new(Native::thread());
        list.change(|_| &raw const notice);
        list.change(|first| {
            fairlock_testing::in_child(|| {
                list.enter_child();
                assert!(!list.wake_next());
                assert!(list.change(|first| first).is_null());
            });
            first
        });
        assert_eq!(list.change(|_| ptr::null()), &raw const notice);
    }
}
