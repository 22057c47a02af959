//! Permits that threads take and give, in the order in which they ask.
//!
//! A thread that cannot have its permits immediately queues in a ticket lock without batches. The
//! holder of that lock is the *first*, and the only one that looks at the permits while anybody
//! waits. So many small requests cannot keep a large one waiting.
//!
//! The first thread stores its name and the number it wants. Then one exchange looks at the permits
//! for the last time and says that it sleeps. A thread that gives permits reads what the first
//! stored before its own exchange, which fails if that was about another sleep. After the exchange
//! the giver touches nothing but the record of the sleeping thread, as the thread that got the
//! permits may drop the semaphore. All changes of the word are read-modify-writes, so a thread that
//! takes permits with Acquire sees what all threads did that gave them with Release.

mod word;

use core::fmt;
use core::sync::atomic::Ordering;

#[cfg(fairlock_loom)]
use crate::platform::Atomic;
use crate::platform::{Native, System};
use crate::ticket::BatchedTicketLock;
use crate::wait::{Thread, Wait, WaitContext, WaitError};

use word::AtomicState;

type AtomicU32 = <Native as System>::AtomicU32;
type AtomicUsize = <Native as System>::AtomicUsize;

/// A number of permits, which threads take and give back. A thread waits if there are too few.
///
/// # Fairness
///
/// First come, first served, however many permits each thread wants: a thread that waits for many
/// is not passed by threads that want few. While a thread waits, nobody passes it, and
/// `try_acquire` fails even if there are permits. (One exception: a thread may pass the first
/// waiter if it asks at the instant at which that waiter begins to wait.) A waiter gets its permits
/// as soon as there are enough and all waiters before it have theirs. Free permits reach the first
/// waiter within a wake-up, 10 to 100 µs.
///
/// So each release that a thread waits for costs a wake-up. Use permits for things that take some
/// time: connections, requests, large buffers. For sections of a microsecond use a
/// [`Mutex`](crate::Mutex), whose waiters may pass each other.
///
/// # When it blocks
///
/// `acquire` and `acquire_many` block until the permits are there. `acquire_many_with` may end
/// earlier, as its [`Wait`] says (to close a semaphore, cancel a token); then it takes no permit,
/// and waiters behind it move up. `try_` methods and `release` never block.
///
/// # Fork
///
/// As for an [`RwLock`](crate::RwLock).
///
/// ```
/// use fairlock::Semaphore;
///
/// static CONNECTIONS: Semaphore = Semaphore::new(2);
///
/// let one = CONNECTIONS.acquire();
/// let other = CONNECTIONS.acquire();
/// assert!(CONNECTIONS.try_acquire().is_none());
/// drop(one);
/// assert!(CONNECTIONS.try_acquire().is_some());
/// ```
pub struct Semaphore {
    word: AtomicState,
    /// Which thread sleeps, and how many permits it wants: valid while the word says that one does.
    first: AtomicUsize,
    wanted: AtomicU32,
    /// Held by the first of those that wait.
    queue: BatchedTicketLock<Native, 1>,
}

impl Semaphore {
    /// A semaphore with `permits` free permits.
    #[cfg(not(fairlock_loom))]
    pub const fn new(permits: u32) -> Self {
        use crate::platform::ConstZero;
        Self {
            word: AtomicState::new(permits),
            first: ConstZero::ZERO,
            wanted: ConstZero::ZERO,
            queue: BatchedTicketLock::new_const(),
        }
    }

    #[cfg(fairlock_loom)]
    #[doc(hidden)]
    pub fn new(permits: u32) -> Self {
        Self {
            word: AtomicState::new(permits),
            first: Atomic::new(0),
            wanted: Atomic::new(0),
            queue: BatchedTicketLock::new(),
        }
    }

    /// Takes a permit; blocks until it has it.
    #[inline]
    pub fn acquire(&self) -> SemaphorePermit<'_> {
        self.acquire_many(1)
    }

    /// Takes `count` permits together; blocks until it has them, for ever if there never are that
    /// many.
    #[inline]
    pub fn acquire_many(&self, count: u32) -> SemaphorePermit<'_> {
        match self.acquire_many_with(count, Wait::FOREVER) {
            Ok(permit) => permit,
            Err(_) => unreachable!("the wait has no end"),
        }
    }

    /// Takes a permit if one is free and nobody waits; otherwise `None`. Never blocks.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if that many are free and nobody waits; otherwise `None`. Never blocks.
    #[inline]
    pub fn try_acquire_many(&self, count: u32) -> Option<SemaphorePermit<'_>> {
        let takes = !self.is_queued() && self.take(count);
        takes.then(|| SemaphorePermit { semaphore: self, count })
    }

    /// Takes `count` permits; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says.
    #[inline]
    pub fn acquire_many_with(
        &self,
        count: u32,
        wait: Wait<'_, Native>,
    ) -> Result<SemaphorePermit<'_>, WaitError> {
        if let Some(permit) = self.try_acquire_many(count) {
            return Ok(permit);
        }
        self.wait(count, &wait.begin())?;
        Ok(SemaphorePermit { semaphore: self, count })
    }

    /// Adds `count` free permits: new ones, or taken ones whose [`SemaphorePermit`] was forgotten.
    /// Never blocks. Once another thread can take the permits, the call no longer touches the
    /// semaphore.
    ///
    /// # Panics
    /// If more than `u32::MAX` permits would be free.
    pub fn release(&self, count: u32) {
        assert!(self.try_release(count), "a semaphore has more permits than can be counted");
    }

    /// As [`release`](Self::release), but adds nothing and returns `false` if there would be more
    /// than `u32::MAX` free permits.
    #[must_use]
    pub fn try_release(&self, count: u32) -> bool {
        // Acquire, here and below: with "asleep" comes who sleeps.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let Some(mut next) = word.with_more(count) else { return false };
            // Relaxed: these are of this sleep, if the exchange succeeds.
            let wanted = self.wanted.load(Ordering::Relaxed);
            let first = self.first.load(Ordering::Relaxed);
            let wakes = word.is_asleep() && next.has(wanted);
            if wakes {
                next = next.awake();
            }
            match self.word.exchange(word, next) {
                Ok(()) if wakes => {
                    // SAFETY: the address of a thread's record, which is never freed.
                    let first = unsafe { &*(first as *const Thread<Native>) };
                    first.parker.unpark();
                    return true;
                }
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// How many permits are free at this instant.
    pub fn available_permits(&self) -> u32 {
        self.word.load(Ordering::Relaxed).permits()
    }

    /// Whether a thread waits at this instant, or has given up a moment ago.
    pub fn has_waiters(&self) -> bool {
        self.is_queued()
    }

    #[inline]
    fn is_queued(&self) -> bool {
        self.queue.is_locked() || self.queue.is_contended()
    }

    #[cold]
    fn wait(&self, count: u32, until: &WaitContext<'_, Native>) -> Result<(), WaitError> {
        self.queue.lock_with(until.into())?;
        let me = Native::thread();
        let result = until.listed(me, || self.wait_first(count, me, until));
        // SAFETY: taken above.
        unsafe { self.queue.unlock() };
        result
    }

    /// The wait of the thread that is first.
    fn wait_first(
        &self,
        count: u32,
        me: &'static Thread<Native>,
        until: &WaitContext<'_, Native>,
    ) -> Result<(), WaitError> {
        let mut ended = until.expired(Native::now);
        loop {
            // After the end of the wait: its last act is a try.
            if self.take(count) {
                return Ok(());
            }
            if let Some(why) = ended {
                return Err(why);
            }
            // Relaxed: published by the exchange below.
            self.first.store(core::ptr::from_ref(me) as usize, Ordering::Relaxed);
            self.wanted.store(count, Ordering::Relaxed);
            let word = self.word.load(Ordering::Relaxed);
            if word.has(count) || self.word.exchange(word, word.asleep()).is_err() {
                continue;
            }
            ended = until.sleep(&me.parker, None);
            // Others may take permits, until the next look finds too few. Acquire: a thread that
            // gave some before this has read `first` and `wanted` before they are written again.
            self.word.wake(Ordering::Acquire);
        }
    }

    /// Takes the permits if they are there, and nobody sleeps for them.
    #[inline]
    fn take(&self, count: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !word.is_asleep() && word.has(count) {
            match self.word.exchange(word, word.with_fewer(count)) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .field("waiters", &self.has_waiters())
            .finish()
    }
}

/// Permits of a [`Semaphore`]: gives them back when dropped, on any thread. If it is
/// [forgotten](core::mem::forget), its permits stay taken until [`Semaphore::release`] adds as
/// many.
#[must_use = "gives its permits back immediately if it is not kept"]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    count: u32,
}

impl SemaphorePermit<'_> {
    /// How many permits these are.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

#[cfg(all(test, fairlock_loom))]
#[path = "semaphore_loom.rs"]
mod semaphore_loom;

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use fairlock_testing::{join, scope, until};

    use super::*;

    #[test]
    fn nobody_takes_permits_that_a_thread_sleeps_for() {
        let semaphore = Semaphore::new(1);
        let word = semaphore.word.load(Ordering::Relaxed);
        assert!(semaphore.word.exchange(word, word.asleep()).is_ok());
        assert!(!semaphore.take(1));
        semaphore.word.wake(Ordering::Relaxed);
        assert!(semaphore.take(1));
    }

    /// A thread that gives too few leaves the waiter asleep, and that known, for the one that gives the rest.
    #[test]
    fn permits_that_come_one_by_one_wake_a_thread_that_wants_several() {
        let semaphore = &Semaphore::new(0);
        scope(|s| {
            let waiter = s.spawn(|| semaphore.acquire_many(3).count());
            for _ in 0..3 {
                until(|| semaphore.word.load(Ordering::Relaxed).is_asleep());
                semaphore.release(1);
            }
            assert_eq!(join(waiter), 3);
        });
    }
}
