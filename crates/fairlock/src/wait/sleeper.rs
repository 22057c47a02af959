//! A thread as those know it that wake it.

use core::sync::atomic::Ordering;

#[cfg(any(feature = "std", fairlock_loom))]
use crate::system::fork;
use crate::system::{Atomic, System, WaitOutcome};

/// Where a thread sleeps, and what others see of it: the first part of its [record](crate::platform::Thread).
pub struct Sleeper<P: System> {
    pub(crate) parker: Parker<P>,
    /// Where the thread sleeps for a ticket lock. This is not `parker`: the queue lock of a
    /// sleeping lock must not use up a notification meant for the waiter.
    pub(crate) ticket_parker: Parker<P>,
    /// Its place in the list of a token, while it waits under one.
    pub(crate) cancel: CancelLinks<P>,
    /// The number of its process.
    #[cfg(any(feature = "std", fairlock_loom))]
    process: Hint,
}

impl<P: System> Sleeper<P> {
    pub(crate) fn new() -> Self {
        Self {
            parker: Parker::new(),
            ticket_parker: Parker::new(),
            cancel: CancelLinks::new(),
            #[cfg(any(feature = "std", fairlock_loom))]
            process: Hint::new(fork::number()),
        }
    }

    /// Whether the thread sleeps at its parker, or is about to. In the child of a fork, those of its
    /// parent have records as they were, and seem to sleep for ever.
    #[cfg(any(feature = "std", fairlock_loom))]
    pub(crate) fn is_asleep(&self) -> bool {
        // Relaxed: nobody else is there when it changes.
        self.parker.is_parked() && self.process.load(Ordering::Relaxed) == fork::number()
    }

    /// The thread, whose record this is, has forked, and is in the child.
    #[cfg(feature = "std")]
    pub(crate) fn enter_child(&self) {
        // Relaxed: as above.
        self.process.store(fork::number(), Ordering::Relaxed);
    }

    /// For locks written against [`Platform`](crate::platform::Platform) elsewhere: the calling thread, whose record this is,
    /// sleeps until [`unpark`](Self::unpark). An `unpark` before the call ends it at once. May
    /// return early for no reason: the caller looks again.
    pub fn park(&self) {
        self.ticket_parker.park(None, false);
    }

    /// As [`park`](Self::park), until `deadline` (nanoseconds of [`System::now`]) at most.
    pub fn park_until(&self, deadline: u64) {
        self.ticket_parker.park(Some(deadline), false);
    }

    /// Ends the thread's current [`park`](Self::park), or its next one. What happened
    /// before is seen after it.
    pub fn unpark(&self) {
        self.ticket_parker.unpark();
    }

    /// The name of this thread in owner words: its address. The alignment
    /// leaves the low bits free for flags.
    pub(crate) fn hint(&'static self) -> usize {
        core::ptr::from_ref(self) as usize
    }
}

/// A word that influences who runs, and never who may have a lock. Not one of the platform's
/// atomics: a model checker would try every order of its accesses.
pub(crate) type Hint = core::sync::atomic::AtomicUsize;

/// Where a thread sleeps: a binary semaphore.
pub(crate) struct Parker<P: System> {
    word: P::AtomicU32,
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

impl<P: System> Parker<P> {
    fn new() -> Self {
        Self { word: P::AtomicU32::new(EMPTY) }
    }

    /// Drops a notification, most likely left over from an earlier wait. It would do no harm, but cost
    /// one turn of the caller's loop.
    pub(crate) fn forget_notification(&self) {
        // Acquire, as in `park`: the notification may belong to a wait that still goes on (a thread may
        // wait for a condition variable's queue lock meanwhile), and that wait reads what was published
        // with it.
        if self.word.load(Ordering::Acquire) == NOTIFIED {
            self.word.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Whether the thread sleeps, or is about to.
    #[cfg(any(feature = "std", fairlock_loom))]
    fn is_parked(&self) -> bool {
        // Relaxed: nothing is read on the strength of it.
        self.word.load(Ordering::Relaxed) == PARKED
    }

    /// Sleeps until [`unpark`](Self::unpark), the deadline or a signal. A
    /// notification sent before the call ends it at once. May return early.
    pub(crate) fn park(&self, deadline: Option<u64>, interruptible: bool) -> WaitOutcome {
        // Acquire: what the notifier published is read after this returns.
        let before =
            self.word.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire);
        if before.is_ok() {
            let outcome = P::wait(&self.word, PARKED, deadline, interruptible);
            let notified = self.word.swap(EMPTY, Ordering::Acquire) == NOTIFIED;
            // A signal counts even if a notification came while its handler ran: it is not reported
            // again. (The waiter looks, as it leaves, whether it was granted the lock.)
            if !notified || outcome == WaitOutcome::Interrupted {
                return outcome;
            }
        } else {
            // Acquire again: a second notifier may have stored over the first.
            self.word.swap(EMPTY, Ordering::Acquire);
        }
        WaitOutcome::Woken
    }

    /// Ends the thread's current [`park`](Self::park), or its next one.
    pub(crate) fn unpark(&self) {
        // Release: pairs with the Acquire in `park`.
        if self.word.swap(NOTIFIED, Ordering::Release) == PARKED {
            P::wake_one(&self.word);
        }
    }
}

/// A thread's place in the list of a token. Both are addresses of records, or zero.
pub(crate) struct CancelLinks<P: System> {
    pub(crate) next: P::AtomicUsize,
    /// Used only by a thread that changes the list.
    pub(crate) previous: P::AtomicUsize,
}

impl<P: System> CancelLinks<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), previous: P::AtomicUsize::new(0) }
    }
}
