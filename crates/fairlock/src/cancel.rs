//! A token that ends waits from outside.
//!
//! The threads that wait under a token are in a list, linked by their records. The list is changed
//! under a lock. [`cancel`](CancelToken::cancel) must not take that lock, as it may run in a signal
//! handler on the very thread that holds it. Instead:
//!
//! * `cancel` sets the state to `CANCELLED` and wakes the threads in the list, which others may
//!   change meanwhile. It stops at the end of the list, or when it finds `TOLD`.
//! * A thread that has changed the list looks at the state before it lets go of the lock. If it
//!   finds `CANCELLED`, it sets `TOLD` and wakes the threads in the list.
//!
//! *No cancel is lost.* The look at the end of a change and the setting of `CANCELLED` have one
//! order. A change whose look comes first is seen by `cancel`. As long as no other look comes after
//! the setting, at most one change is under way, and `cancel` finds everybody all the same: a
//! thread that is being listed has its link to the others before it is the first, and one that is
//! being taken out keeps its link. After its change that thread may be listed elsewhere, so that
//! `cancel` strays; but the look at the end of the change has found `CANCELLED`, and then the
//! thread wakes everybody, with the lock held. A thread that is listed later looks at
//! [`is_cancelled`](CancelToken::is_cancelled) before it sleeps.
//!
//! *Tasks.* A task that waits under a token is in no list of it. The token notes the bell by which the timer of tasks is told,
//! and `cancel` rings that. A task that notes the bell takes a step in the state's order after that, so it finds
//! `CANCELLED`, or `cancel` finds the bell.
//!
//! *In a signal handler* `cancel` works as on another thread: nobody waits for `cancel`, and
//! `cancel` waits for nobody. It may wake a thread that no longer waits, waits for another lock, or
//! has ended: records are never freed, and a superfluous wake-up does no harm (rule 12).

use core::fmt;
use core::sync::atomic::Ordering;

use crate::platform::{Atomic, ConstZero, Platform};
use crate::ticket::BatchedTicketLock;
use crate::wait::{Cancels, Sleeper, Wait};

/// Not cancelled. From here the state goes on to the next two, and never back: each has the bits of
/// the one before.
const LIVE: u32 = 0b00;
/// No wait under the token goes on.
const CANCELLED: u32 = 0b01;
/// The same; and all threads that were listed when the token was cancelled have been woken, or are
/// just being woken by a thread that keeps the list as it is.
const TOLD: u32 = 0b11;

/// Ends waits from outside. After [`cancel`](CancelToken::cancel) every wait that is given this
/// token returns [`Cancelled`](crate::wait::WaitError::Cancelled), whether it began before or after
/// that.
///
/// Any number of threads, waits and locks may share a token. A wait that is granted the lock at the
/// instant of its cancellation keeps the lock. A free lock is taken without a look at the token; so
/// code that must stop after a cancellation also has to check
/// [`is_cancelled`](CancelToken::is_cancelled).
///
/// A cancelled token stays cancelled: make a new one.
///
/// ```
/// use std::thread;
///
/// use fairlock::{CancelToken, RwLock, RwLockExt, WaitError};
///
/// static SHUTDOWN: CancelToken = CancelToken::new_const();
/// static JOBS: RwLock<Vec<u32>> = RwLock::new(Vec::new());
///
/// let in_the_way = JOBS.write();
/// let worker = thread::spawn(|| match JOBS.read_cancellable(&SHUTDOWN) {
///     Ok(jobs) => jobs.len(),
///     Err(WaitError::Cancelled) => 0, // as here: nobody else ends this wait
///     Err(error) => panic!("{error}"),
/// });
/// SHUTDOWN.cancel();
/// assert_eq!(worker.join().unwrap(), 0);
/// drop(in_the_way);
/// ```
#[repr(C)] // zero bytes are a new token, for those who have C's memory
pub struct CancelToken<P: Platform> {
    state: P::AtomicU32,
    /// The thread that was listed last, as the address of its record; zero if none is.
    first: P::AtomicUsize,
    /// The bell of the timer, as an address, if a task waits under the token, or has; otherwise zero.
    #[cfg(feature = "async")]
    bell: P::AtomicUsize,
    /// Held by the thread that changes the list.
    lock: BatchedTicketLock<P>,
}

impl<P: Platform> CancelToken<P> {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self {
            state: P::AtomicU32::new(0),
            first: P::AtomicUsize::new(0),
            #[cfg(feature = "async")]
            bell: P::AtomicUsize::new(0),
            lock: BatchedTicketLock::new(),
        }
    }

    /// A token that is not cancelled, for a `static`.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
        P::AtomicUsize: ConstZero,
    {
        Self {
            state: ConstZero::ZERO,
            first: ConstZero::ZERO,
            #[cfg(feature = "async")]
            bell: ConstZero::ZERO,
            lock: BatchedTicketLock::new_const(),
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        // Acquire: what the canceller did before is seen by the cancelled.
        self.state.load(Ordering::Acquire) != LIVE
    }

    /// Ends every wait under this token. A token cannot be reset.
    ///
    /// Takes no lock, and never blocks. On Linux a signal handler may call it, whatever its thread
    /// was doing. Elsewhere a handler may call it only if it may call the platform's
    /// [`wake_one`](crate::platform::System::wake_one). (On the standard library's platform that
    /// takes a mutex.)
    pub fn cancel(&self) {
        // Release: see `is_cancelled`. Acquire: the list as the changes before left it.
        let before = self.state.fetch_or(CANCELLED, Ordering::AcqRel);
        #[cfg(feature = "async")]
        self.ring();
        if before != TOLD && self.wake_listed_while(CANCELLED) {
            // Release: this thread is done with the list.
            self.state.fetch_or(TOLD, Ordering::Release);
        }
    }

    /// The timer wakes the tasks that wait under the token.
    #[cfg(feature = "async")]
    fn ring(&self) {
        // Acquire: the bell; and the alarms that were set before it was noted.
        let bell = self.bell.load(Ordering::Acquire) as *const crate::wait::Bell<P>;
        // SAFETY: null or a bell, which is never freed.
        if let Some(bell) = unsafe { bell.as_ref() } {
            bell.ring(core::ptr::from_ref(self).addr());
        }
    }

    /// Wakes the listed threads, one by one as long as the state is `state`. Returns whether it
    /// came to the end of the list.
    fn wake_listed_while(&self, state: u32) -> bool {
        // Acquire, here and below: the links of a record that was just listed.
        let mut listed = self.first.load(Ordering::Acquire);
        while let Some(thread) = Self::thread(listed) {
            // Relaxed: only decides whether to stop early.
            if self.state.load(Ordering::Relaxed) != state {
                return false;
            }
            thread.parker.unpark();
            listed = thread.cancel.next.load(Ordering::Acquire);
        }
        true
    }

    /// Runs `change` on the list.
    pub(crate) fn change(&self, change: impl FnOnce()) {
        self.lock.lock();
        change();
        // A step in the state's order, not a load: otherwise this and a `cancel` could miss each
        // other. Release: a `cancel` that comes after it finds the list as it is. Acquire: a
        // `cancel` that has set `TOLD` is done with the list.
        let look = self.state.compare_exchange(LIVE, LIVE, Ordering::Release, Ordering::Acquire);
        if look == Err(CANCELLED) {
            // This comes first, for a `cancel` that has strayed. Relaxed: all it does is to stop
            // others.
            self.state.fetch_or(TOLD, Ordering::Relaxed);
            self.wake_listed_while(TOLD);
        }
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
    }

    /// In a change: puts a thread that is in no list first.
    pub(crate) fn link(&self, thread: &'static Sleeper<P>) {
        // Relaxed, here and below: the lock orders what is done under it.
        let next = self.first.load(Ordering::Relaxed);
        thread.cancel.previous.store(0, Ordering::Relaxed);
        thread.cancel.next.store(next, Ordering::Relaxed);
        if let Some(next) = Self::thread(next) {
            next.cancel.previous.store(thread.hint(), Ordering::Relaxed);
        }
        // Release: a `cancel` that finds the thread here finds those behind it.
        self.first.store(thread.hint(), Ordering::Release);
    }

    /// In a change: takes a thread out of the list.
    pub(crate) fn unlink(&self, thread: &'static Sleeper<P>) {
        let next = thread.cancel.next.load(Ordering::Relaxed);
        let previous = thread.cancel.previous.load(Ordering::Relaxed);
        let link = match Self::thread(previous) {
            Some(previous) => &previous.cancel.next,
            None => &self.first,
        };
        // Release: as in `link`, for threads whose links this one did not store.
        link.store(next, Ordering::Release);
        if let Some(next) = Self::thread(next) {
            next.cancel.previous.store(previous, Ordering::Relaxed);
        }
    }

    fn thread(address: usize) -> Option<&'static Sleeper<P>> {
        // SAFETY: links hold zero and the addresses of records, which are never freed.
        unsafe { (address as *const Sleeper<P>).as_ref() }
    }
}

impl<P: Platform> Cancels<P> for CancelToken<P> {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }

    fn list(&self, thread: &'static Sleeper<P>) {
        self.change(|| self.link(thread));
    }

    fn unlist(&self, thread: &'static Sleeper<P>) {
        self.change(|| self.unlink(thread));
    }

    #[cfg(feature = "async")]
    fn tells(&self, bell: &'static crate::wait::Bell<P>) -> bool {
        // Relaxed: the step below publishes it.
        self.bell.store(core::ptr::from_ref(bell) as usize, Ordering::Relaxed);
        // A step in the state's order, not a load: see above. Release: a `cancel` after it sees the bell, and the task's
        // alarm. Acquire: what the canceller did before.
        self.state.compare_exchange(LIVE, LIVE, Ordering::Release, Ordering::Acquire).is_err()
    }
}

impl<'a, P: Platform> Wait<'a, P> {
    /// The same wait, but it also ends, with [`Cancelled`](crate::wait::WaitError::Cancelled), when
    /// `token` is cancelled; immediately if it already is. A wait has one token: a second one replaces
    /// the first.
    pub const fn cancellable(mut self, token: &'a CancelToken<P>) -> Self {
        self.cancel = Some(token);
        self
    }
}

impl<P: Platform> Default for CancelToken<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> fmt::Debug for CancelToken<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use core::mem::MaybeUninit;

    use fairlock_testing::{join, scope, until};

    use super::*;
    use crate::platform::{Native, System, Thread, WaitOutcome};

    type Token = CancelToken<Native>;

    /// Waits under the token, in a thread of its own, while `f` runs once it is listed.
    fn beside_a_wait(token: &Token, f: impl FnOnce()) {
        scope(|s| {
            let waiter = s.spawn(|| {
                let me = Native::thread();
                Wait::FOREVER.cancellable(token).begin().listed(me, || {
                    while !token.is_cancelled() {
                        me.parker.park(None, false);
                    }
                });
            });
            until(|| token.first.load(Ordering::Relaxed) != 0);
            f();
            join(waiter);
        });
        assert_eq!(token.first.load(Ordering::Relaxed), 0);
    }

    /// As from a handler that interrupts a thread in the middle of a change.
    #[test]
    fn a_cancel_in_the_middle_of_a_change_wakes_who_waits() {
        let me = Native::thread();
        let token = Token::new();
        beside_a_wait(&token, || token.change(|| token.cancel()));
        let token = Token::new();
        beside_a_wait(&token, || {
            token.change(|| {
                token.cancel();
                token.link(me);
                token.cancel();
            });
            token.change(|| token.unlink(me));
        });
        let token = Token::new();
        beside_a_wait(&token, || {
            token.change(|| token.link(me));
            token.change(|| {
                token.unlink(me);
                token.cancel();
            });
        });
    }

    /// The threads of the list, from one end; the links back are those on.
    fn listed(token: &Token) -> Vec<usize> {
        let (mut seen, mut next) = (vec![], token.first.load(Ordering::Relaxed));
        while let Some(thread) = Token::thread(next) {
            let previous = thread.cancel.previous.load(Ordering::Relaxed);
            assert_eq!(previous, seen.last().copied().unwrap_or(0));
            seen.push(next);
            next = thread.cancel.next.load(Ordering::Relaxed);
        }
        seen
    }

    #[test]
    fn threads_are_listed_and_leave_from_anywhere_and_come_again() {
        let threads = [(); 4].map(|()| &*Box::leak(Box::new(Thread::<Native>::new())));
        let token = Token::new();
        for leaves in 0..4 {
            let mut expected = vec![];
            for thread in threads {
                token.list(thread);
                expected.insert(0, thread.hint());
                assert_eq!(listed(&token), expected);
            }
            for left in (0..4).map(|n| (n + leaves) % 4) {
                token.unlist(threads[left]);
                expected.retain(|&thread| thread != threads[left].hint());
                assert_eq!(listed(&token), expected);
            }
        }
        token.change(|| assert!(token.lock.is_locked()));
    }

    /// The change of another thread overtakes a `cancel`, which may have lost its way in the list.
    #[test]
    fn a_change_wakes_who_is_listed_for_a_cancel_that_it_overtakes() {
        let (me, token) = (Native::thread(), Token::new());
        me.parker.forget_notification();
        token.change(|| {
            token.link(me);
            // The first half of a `cancel`.
            token.state.fetch_or(CANCELLED, Ordering::AcqRel);
        });
        assert_eq!(token.state.load(Ordering::Relaxed), TOLD);
        assert_eq!(me.parker.park(Some(0), false), WaitOutcome::Woken);
        token.change(|| token.unlink(me));
    }

    #[test]
    fn a_cancelled_token_stays_so_and_its_list_works_on() {
        let token = Token::new();
        assert!(!token.is_cancelled());
        beside_a_wait(&token, || token.cancel());
        for _ in 0..3 {
            token.cancel();
            assert!(token.is_cancelled());
            Wait::FOREVER
                .cancellable(&token)
                .begin()
                .listed(Native::thread(), || assert!(token.is_cancelled()));
        }
        assert_eq!(token.state.load(Ordering::Relaxed), TOLD);
    }

    #[test]
    fn zero_bytes_are_a_new_token() {
        // SAFETY: a new token is zeros, as this test shows: atomics, and cells of pointers.
        let token = unsafe { MaybeUninit::<Token>::zeroed().assume_init() };
        assert!(!token.is_cancelled());
        beside_a_wait(&token, || token.cancel());
    }

    /// Otherwise each change of the list would wake all the others once more.
    #[test]
    fn a_cancel_that_has_told_everybody_says_so() {
        let token = Token::new();
        token.cancel();
        assert_eq!(token.state.load(Ordering::Relaxed), TOLD);
    }
}
