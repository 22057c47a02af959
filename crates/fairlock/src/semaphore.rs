//! Permits that threads and tasks take and give, in the order in which they ask.
//!
//! One word says how many permits are free, whether anybody waits, and which [slot](crate::lock::Slot) has the queue, as the word of a
//! lock does. While nobody waits, one read-modify-write takes or gives permits. The rules of slots hold: R2 to R5 in `lock::slot` and
//! `lock`. The slot goes back when the last waiter has left the queue.
//!
//! # A waiter that is next
//!
//! The first one in the queue is *next*; while it waits, only it takes permits. So many small requests cannot keep a large one waiting.
//! Permits are *offered* to it, and never granted: it takes them itself, when it runs or is polled (`comes`). An offer wakes it, and
//! notes the time (`offer`). If it has not come a millisecond later, the one behind it is next, and it keeps its place, by the rule of
//! `lock::late`. If all that wait are late, anybody may take permits.
//!
//! # Why no wake-up is lost
//!
//! All that happens to the queue is under the queue lock, and each such step ends with: if the waiter that is next could have its permits,
//! it was woken since it looked last. A thread that gives permits sees in the same step whether somebody waits. If so, it takes the
//! queue lock, and makes the offer. If not, the step in which somebody begins to wait comes later, and that one looks at the permits
//! after it.
//!
//! A thread that has given permits touches the semaphore only under the queue lock, while somebody is queued there (R4): the thread that
//! got the permits may have dropped it.

#[cfg(feature = "async")]
mod future;
mod line;
mod word;

use core::fmt;

use crate::lock::Raw;
use crate::platform::Native;
use crate::wait::{Wait, WaitError};

#[cfg(feature = "async")]
pub use future::AcquireFuture;
use word::Permits;

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
/// Nobody waits for a waiter that does not run. A thread that could have its permits, was woken, and does not run for 1 ms, as it is
/// stopped or has no CPU, is passed by the waiter behind it. It keeps its place for the time when it runs. If all that wait are such
/// threads, permits are free for all. The same holds for a task that is not polled.
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
    raw: Raw<Permits>,
}

impl Semaphore {
    /// A semaphore with `permits` free permits.
    #[cfg(not(fairlock_loom))]
    pub const fn new(permits: u32) -> Self {
        Self { raw: Raw(Permits::new(permits)) }
    }

    #[cfg(fairlock_loom)]
    #[doc(hidden)]
    pub fn new(permits: u32) -> Self {
        Self { raw: Raw(Permits::new(permits)) }
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

    /// Takes a permit if one is free and no waiter is in time; otherwise `None`. Never blocks.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if that many are free and no waiter is in time; otherwise `None`. Never blocks.
    #[inline]
    pub fn try_acquire_many(&self, count: u32) -> Option<SemaphorePermit<'_>> {
        self.take(count).then(|| SemaphorePermit { semaphore: self, count })
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
        line::wait(&self.raw, count, &wait.begin())?;
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
        // From here on the semaphore may be gone.
        let semaphore = core::ptr::from_ref(&self.raw);
        let Some(before) = self.raw.0.give(count) else { return false };
        if before.has_waiters() {
            line::given(semaphore, before);
        }
        true
    }

    /// How many permits are free at this instant.
    pub fn available_permits(&self) -> u32 {
        self.raw.0.state().permits()
    }

    /// Whether a thread or a task waits at this instant.
    pub fn has_waiters(&self) -> bool {
        self.raw.here(self.raw.load()).has_waiters()
    }

    /// Takes the permits if they are there, and no waiter is in time.
    #[inline]
    fn take(&self, count: u32) -> bool {
        let raw = &self.raw;
        raw.0.take(count) || raw.0.state().queue().has_waiters() && line::take_past_late(raw, count)
    }
}

impl Drop for Semaphore {
    #[inline]
    fn drop(&mut self) {
        // Only futures that were leaked are queued, or threads of the parent of a fork.
        if self.raw.load().name() != 0 {
            self.raw.give_slot_back();
        }
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
mod tests;
